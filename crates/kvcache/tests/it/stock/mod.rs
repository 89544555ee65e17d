//! Stock clients, run as processes.

mod benchmark;
mod cli;
pub(crate) mod libraries;
mod python;
mod table;
mod tls;
