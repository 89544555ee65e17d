//! Stock clients, run as processes.

mod benchmark;
mod cli;
mod libraries;
mod python;
mod table;
mod tls;
