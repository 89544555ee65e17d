//! Documents by id.

#![forbid(unsafe_code)]

pub mod cache;
mod choices;
pub mod flights;
pub mod requests;
pub mod sync;

pub use choices::UnknownChoice;
