//! Stock clients, as the processes that people use.

mod benchmark;
mod cli;
mod python;
mod table;
