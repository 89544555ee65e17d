//! Properties of the server that are known from its start.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::{Duration, Instant, SystemTime},
};

use sys::listen::Address;

use super::slot_map::SlotMap;

/// Function that stops the server from inside, as SIGTERM does from outside.
#[derive(Clone)]
pub struct StopServer(pub Arc<dyn Fn() + Send + Sync>);

/// Properties of the server that do not change while it runs.
#[derive(Debug)]
pub struct ServerInfo {
    pub driver: String,
    pub store: String,
    pub threads: usize,
    /// Number of connections above which new ones are refused.
    pub connections_max: usize,
    /// Limit of one request, in bytes.
    pub request_bytes_max: usize,
    /// Limit of the output that is held for one peer, in bytes.
    pub output_bytes_max: usize,
    pub backlog: i32,
    /// Set by `--cluster yes`, and with a map of slots.
    pub is_cluster: bool,
    /// Map of the cluster that this server is a node of; without one it has all slots.
    pub slot_map: Option<SlotMap>,
    /// Function behind SHUTDOWN, if the server can be stopped from inside.
    pub stop: Option<StopServer>,
    /// Figures that the threads of the driver count.
    pub connections: service::Statistics,
    /// Identifier of this run of the server: 40 hexadecimal digits.
    pub run_id: String,
    pub started: Instant,
    pub started_unix: Duration,
    /// Addresses, set when the server begins to listen.
    pub addresses: OnceLock<Vec<Address>>,
}

impl Default for ServerInfo {
    fn default() -> Self {
        Self {
            driver: String::new(),
            store: String::new(),
            threads: 1,
            connections_max: usize::MAX,
            request_bytes_max: 512 << 20,
            output_bytes_max: 64 << 20,
            backlog: 0,
            is_cluster: false,
            slot_map: None,
            stop: None,
            connections: service::Statistics::default(),
            run_id: (0..40).map(|_| fastrand::digit(16)).collect(),
            started: Instant::now(),
            started_unix: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
            addresses: OnceLock::new(),
        }
    }
}

impl ServerInfo {
    /// Returns the addresses, none before the server listens.
    fn addresses(&self) -> &[Address] {
        self.addresses.get().map_or(&[], Vec::as_slice)
    }

    /// Returns the hosts of TCP addresses, separated by blanks.
    pub(crate) fn bind(&self) -> String {
        let host = |address: &Address| match address {
            Address::Tcp(address) => Some(address.ip().to_string()),
            Address::Unix(_) => None,
        };
        self.addresses().iter().filter_map(host).collect::<Vec<_>>().join(" ")
    }

    /// Returns the path of the first unix socket, or nothing.
    pub(crate) fn unix_socket(&self) -> String {
        let path = |address: &Address| match address {
            Address::Unix(path) => Some(path.display().to_string()),
            Address::Tcp(_) => None,
        };
        self.addresses().iter().find_map(path).unwrap_or_default()
    }

    /// Returns the first port, or 0.
    pub fn port(&self) -> u16 {
        let port = |address: &Address| match address {
            Address::Tcp(address) => Some(address.port()),
            Address::Unix(_) => None,
        };
        self.addresses().iter().find_map(port).unwrap_or(0)
    }
}

impl fmt::Debug for StopServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopServer")
    }
}
