#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    http_server::main::<service::DriverKind>()
}
