//! The server as users start it: a process, asked through real sockets, on every driver.

mod bench;
mod change;
mod import;
mod lifecycle;
mod requests;
mod transfers;
mod usage;
