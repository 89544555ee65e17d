//! The conformance suite on the drivers of this workspace.

mod forbidden;

/// The server on whose drivers the laws are checked.
const EXE: &str = env!("CARGO_BIN_EXE_testkit-server");

testkit::conformance!(drivers::DriverKind, EXE);
