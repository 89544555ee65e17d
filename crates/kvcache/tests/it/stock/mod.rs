//! Stock clients, run as processes.

mod benchmark;
mod cli;
mod python;
mod table;
mod tls;
