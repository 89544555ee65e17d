//! http-server on poll(2).

use std::process::ExitCode;

fn main() -> ExitCode {
    http_server::main::<drivers::Only<own_driver::PollDriver>>()
}
