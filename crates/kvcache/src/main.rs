#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    kvcache::main::<service::DriverKind>()
}
