//! Protocols that clients speak: from a request to its reply.

pub(crate) mod memcached;
pub(crate) mod resp;
pub(crate) mod us;
