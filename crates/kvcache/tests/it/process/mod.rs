//! Processes: ours, and those of others.

mod clients;
mod cluster;
mod events;
mod memcached;
mod memcached_binary;
mod memcached_text;
mod python;
mod restart;
mod scaling;
mod smoke;
mod snapshot;
mod upgrade;
mod usage;
