//! Files by message queue and FIFO.

#![forbid(unsafe_code)]

pub mod copy;
