//! The contract between protocols and drivers: pure state, no system call, no clock

#![forbid(unsafe_code)]
