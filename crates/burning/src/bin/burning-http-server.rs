//! http-server that burns CPU time on each request.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    http_server::main::<burning::BurningDriver>()
}
