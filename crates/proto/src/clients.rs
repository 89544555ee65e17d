//! Clients by their addresses, and how many connections each has.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

/// Parts of the table that are locked apart.
const SHARDS: usize = 16;

/// Client as limits count it: an IPv4 address, or a network of IPv6 (/64), since one client has all addresses of that.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientKey(u64, bool);

impl From<IpAddr> for ClientKey {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u64::from(address.to_bits()), false),
            IpAddr::V6(address) => Self((address.to_bits() >> 64) as u64, true),
        }
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self(bits, true) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(bits) << 64)),
            Self(bits, false) => Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or_default()).fmt(f),
        }
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Open connections of each client, and their limit. It knows no client that has none, so that it is no larger than the
/// number of connections.
#[derive(Debug)]
pub struct ClientConnections {
    max: usize,
    shards: [Mutex<HashMap<ClientKey, Open>>; SHARDS],
    hasher: RandomState,
    refused: AtomicU64,
}

/// Connections of one client.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    count: usize,
    /// One has been refused since it had none.
    is_over: bool,
}

/// Refusal of a connection: its client has as many as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany {
    pub client: ClientKey,
    pub max: usize,
    /// It is the first since the client had none: the one to be reported.
    pub is_first: bool,
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has {} open; see --max-connections-per-client", self.client, self.max)
    }
}

/// Permit of one connection of a client, which counts it until it is dropped.
#[derive(Debug)]
pub struct ClientPermit {
    clients: &'static ClientConnections,
    key: ClientKey,
}

impl ClientConnections {
    pub fn new(max: usize) -> Self {
        Self { max, shards: Default::default(), hasher: RandomState::new(), refused: AtomicU64::new(0) }
    }

    /// Counts one more connection.
    ///
    /// # Errors
    /// The client has too many.
    pub fn admit(&'static self, key: ClientKey) -> Result<ClientPermit, TooMany> {
        let mut shard = self.shard(key).lock();
        let open = shard.entry(key).or_default();
        if open.count < self.max {
            open.count += 1;
            return Ok(ClientPermit { clients: self, key });
        }
        let is_first = !std::mem::replace(&mut open.is_over, true);
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(TooMany { client: key, max: self.max, is_first })
    }

    /// Number of connections that have been refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn shard(&self, key: ClientKey) -> &Mutex<HashMap<ClientKey, Open>> {
        &self.shards[usize::try_from(self.hasher.hash_one(key)).unwrap_or_default() % SHARDS]
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut shard = self.clients.shard(self.key).lock();
        if let Entry::Occupied(mut open) = shard.entry(self.key) {
            open.get_mut().count -= 1;
            if open.get().count == 0 {
                open.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    fn key(text: &str) -> ClientKey {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_an_ipv6_network() {
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1:2:3"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_ne!(key("0.0.0.0"), key("::"));
        let shown = [key("192.0.2.1"), key("2001:db8::1")].map(|key| key.to_string());
        assert_eq!(shown, ["192.0.2.1", "2001:db8::/64"]);
    }

    #[test]
    fn the_limit_is_for_each_client_and_the_table_forgets_who_has_gone() {
        static CLIENTS: LazyLock<ClientConnections> = LazyLock::new(|| ClientConnections::new(2));
        let clients = &*CLIENTS;
        let (ada, bob) = (key("192.0.2.1"), key("192.0.2.2"));
        let permits = [clients.admit(ada), clients.admit(ada), clients.admit(bob)].map(Result::unwrap);
        assert_eq!(clients.admit(ada).unwrap_err(), TooMany { client: ada, max: 2, is_first: true });
        assert!(!clients.admit(ada).unwrap_err().is_first, "the same episode");
        let [first, others @ ..] = permits;
        drop(first);
        drop(clients.admit(ada).unwrap());
        drop(others);
        assert!(clients.shards.iter().all(|shard| shard.lock().is_empty()));
        assert_eq!(clients.refused(), 2);
        let _two = [clients.admit(ada), clients.admit(ada)];
        assert!(clients.admit(ada).unwrap_err().is_first, "another episode");
    }
}
