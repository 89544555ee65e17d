//! Processes: ours, and those of others.

mod memcached;
mod python;
mod scaling;
mod smoke;
mod snapshot;
mod usage;
