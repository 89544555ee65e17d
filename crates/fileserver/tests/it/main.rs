//! The server through its sessions, which is everything but the sockets, and as a process on every driver.

#[cfg(test)]
mod allocations;
#[cfg(test)]
mod change;
#[cfg(test)]
mod combinations;
#[cfg(test)]
mod common;
#[cfg(test)]
mod confinement;
#[cfg(test)]
mod conversation;
#[cfg(test)]
mod damaged_databases;
#[cfg(test)]
mod loads;
#[cfg(test)]
mod process;
