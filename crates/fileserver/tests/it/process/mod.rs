//! The server as users start it: a process, asked through real sockets, on every driver.

mod change;
mod import;
mod lifecycle;
mod proxies;
mod requests;
mod setup;
mod transfers;
mod usage;
