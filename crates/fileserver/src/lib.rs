//! Documents by id: a [`proto::Protocol`] whose every part can be exchanged, so that the parts can be compared.

#![forbid(unsafe_code)]

pub mod backend;
pub mod cache;
pub mod flights;
pub mod requests;
pub mod sync;
