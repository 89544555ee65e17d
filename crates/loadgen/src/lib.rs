//! A load generator that verifies every reply.
//!
//! This crate never trusts a server: a reply counts only once it has been checked, and every other outcome lands in
//! exactly one error class.

#![forbid(unsafe_code)]

pub mod result;
