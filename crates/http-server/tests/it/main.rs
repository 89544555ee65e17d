//! The server through its sessions, which is everything but the sockets, and as a process on every driver.

#[cfg(test)]
mod allocations;
#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod change;
#[cfg(test)]
mod codings;
#[cfg(test)]
mod common;
#[cfg(test)]
mod fragmentation;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod probes;
#[cfg(test)]
mod process;
#[cfg(test)]
mod ranges;
