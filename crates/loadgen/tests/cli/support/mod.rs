//! Servers of a few lines.

pub(crate) mod queue_server;
pub(crate) mod socket_server;
