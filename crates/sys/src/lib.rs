//! Safe wrappers of the Linux calls that the drivers and servers need.
//!
//! A leaf: knows no protocol, keeps no policy. `rustix` and `nix` do most of it; the little `unsafe` there is lives in
//! [`child`], [`ktls`], [`launcher`], [`map`], [`memory`], [`mqueue`], [`registered`], [`ring`], [`seccomp`], [`socket`] and [`transfer`], one call and one reason
//! each.

pub mod affinity;
pub mod beneath;
pub mod child;
pub mod clock;
pub mod confinement;
pub mod contents;
pub mod eventfd;
pub mod fifo;
pub mod ktls;
pub mod launcher;
pub mod limits;
pub mod listen;
pub mod map;
pub mod memfd;
pub mod memory;
pub mod mqueue;
pub mod notify;
pub mod program;
pub mod registered;
pub mod ring;
pub mod seccomp;
pub mod signals;
pub mod socket;
pub mod successor;
#[cfg(test)]
mod swapper;
pub mod transfer;
pub mod user;
