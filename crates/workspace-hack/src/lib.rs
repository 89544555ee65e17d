//! No code: a list of features, see its Cargo.toml. Nothing may be added here.

#![forbid(unsafe_code)]
