//! Documents by id: a [`proto::Protocol`] whose every part can be exchanged, so that the parts can be compared.

#![forbid(unsafe_code)]

pub mod backend;
