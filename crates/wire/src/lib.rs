//! Wire formats, both directions: pure codecs shared by servers and the load generator

#![forbid(unsafe_code)]

pub mod http1;
