//! The server as users start it: a process, asked through real sockets, on every driver.

mod access_log;
mod cgi;
mod change;
mod clients;
mod codings;
mod configuration;
mod configuration_errors;
mod confined;
mod crowds;
mod https;
mod https_clients;
#[path = "../../../../web/tests/laws/mod.rs"]
mod laws;
mod lifecycle;
mod listing;
mod nginx;
mod setup;
mod sockets;
mod transfers;
mod upkeep;
mod usage;
