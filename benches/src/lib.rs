//! Criterion benchmarks of the hot paths

#![forbid(unsafe_code)]
