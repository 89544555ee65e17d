//! kvcache that burns CPU time on each request.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    kvcache::main::<burning::BurningDriver>()
}
