//! Planning a run: from arguments and descriptors to a setup and an order of visits. Nothing here starts a server, except to ask
//! it for its back ends.

pub(crate) mod args;
pub(crate) mod backends;
pub(crate) mod builds;
pub(crate) mod cells;
pub(crate) mod cpus;
pub(crate) mod filter;
pub(crate) mod minutes;
pub(crate) mod order;
pub(crate) mod pace;
pub(crate) mod peers;
pub(crate) mod presets;
pub(crate) mod preview;
mod remote;
pub(crate) mod setup;
pub(crate) mod spec;
pub(crate) mod subjects;
pub(crate) mod sweep;
pub(crate) mod variants;
pub(crate) mod warm_up;
pub(crate) mod workload_names;
