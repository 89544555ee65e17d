//! The conformance suite on the drivers of this workspace.

testkit::conformance!(drivers::DriverKind, env!("CARGO_BIN_EXE_testkit-server"));
