//! Running it: one visit after the other, on this machine or another.

mod fill;
pub(crate) mod host;
pub(crate) mod instructions;
pub(crate) mod interrupt;
pub(crate) mod load;
pub(crate) mod machine;
pub(crate) mod pair;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod progress;
pub(crate) mod quiet;
pub(crate) mod session;
pub(crate) mod site;
pub(crate) mod syscalls;
pub(crate) mod visit;

#[cfg(test)]
mod delivery_tests;
#[cfg(test)]
mod remote_tests;
