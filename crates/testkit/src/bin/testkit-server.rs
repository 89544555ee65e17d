//! The server of test protocols on the drivers of this workspace.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::test_server::main::<drivers::DriverKind>()
}
