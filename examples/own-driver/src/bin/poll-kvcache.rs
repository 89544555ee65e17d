//! kvcache on poll(2).

use std::process::ExitCode;

fn main() -> ExitCode {
    kvcache::main::<drivers::Only<own_driver::PollDriver>>()
}
