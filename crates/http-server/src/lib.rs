//! A static web server on every I/O driver

#![forbid(unsafe_code)]
