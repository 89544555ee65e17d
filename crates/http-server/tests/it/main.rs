//! The server through its sessions: everything but the sockets.

#[cfg(test)]
mod allocations;
#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod change;
#[cfg(test)]
mod common;
#[cfg(test)]
mod fragmentation;
