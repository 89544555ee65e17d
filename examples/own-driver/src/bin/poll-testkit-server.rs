//! The server of the conformance suite on poll(2).

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::test_server::main::<drivers::Only<own_driver::PollDriver>>()
}
