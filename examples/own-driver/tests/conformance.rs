//! The laws of all drivers, checked on this one.

testkit::conformance!(drivers::Only<own_driver::PollDriver>, env!("CARGO_BIN_EXE_poll-testkit-server"));
