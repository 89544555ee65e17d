//! Safe wrappers of the Linux calls the drivers need

#![forbid(unsafe_code)]

pub mod beneath;
