//! State of the server: keys, clients, settings and figures, shared by all threads.

pub(crate) mod clients;
pub(crate) mod memcached;
pub(crate) mod pause;
pub(crate) mod settings;
pub(crate) mod slow_log;
pub(crate) mod snapshot;
pub(crate) mod space;
pub(crate) mod statistics;
pub(crate) mod timer;
