//! The server as a process, with every strategy on every driver, and its cache without a socket.

#[cfg(test)]
mod administration;
#[cfg(test)]
mod allocations;
#[cfg(test)]
mod bodies;
#[cfg(test)]
mod cache;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod codings;
#[cfg(test)]
mod confined;
#[cfg(test)]
mod content;
#[cfg(test)]
#[path = "../../../web/tests/laws/mod.rs"]
mod laws;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod proxies;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod statistics;
#[cfg(test)]
mod storm;
#[cfg(test)]
mod system_calls;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod transfers;
#[cfg(test)]
mod usage;
