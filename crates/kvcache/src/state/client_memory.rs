//! Memory of clients' buffers and its limit, which is none of the keys'.

use std::{
    cmp::Reverse,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use super::clients::{Clients, Profile};

/// Unit that the buffers of a connection are counted in, so that those of small requests cost no count.
const UNIT: usize = 16 * 1024;

/// Memory of all clients' buffers: requests that are not whole yet, commands of open transactions, replies that have not been
/// sent.
#[derive(Debug, Default)]
pub(crate) struct ClientMemory {
    bytes: AtomicUsize,
    /// 0: no limit.
    max: AtomicUsize,
    evicted: AtomicU64,
}

impl ClientMemory {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Returns the limit; 0: there is none.
    pub(crate) fn max(&self) -> usize {
        self.max.load(Relaxed)
    }

    /// Number of connections closed because of the limit.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    fn is_exceeded(&self) -> bool {
        let max = self.max();
        max > 0 && self.bytes() > max
    }
}

/// Bytes that one connection has in [`ClientMemory`].
#[derive(Debug, Default)]
pub(crate) struct BufferAccount(usize);

impl BufferAccount {
    /// Counts the bytes of a connection's buffers.
    #[inline]
    pub(crate) fn set(&mut self, bytes: usize, clients: &Clients, profile: &Profile) {
        let bytes = bytes / UNIT * UNIT;
        if bytes != self.0 {
            self.change(bytes, clients, profile);
        }
    }

    #[cold]
    fn change(&mut self, bytes: usize, clients: &Clients, profile: &Profile) {
        // The sum wraps while connections that shrink are ahead of those that grow, and is right again afterwards.
        clients.memory.bytes.fetch_add(bytes.wrapping_sub(self.0), Relaxed);
        profile.buffer_bytes.store(bytes, Relaxed);
        let has_grown = bytes > self.0;
        self.0 = bytes;
        if has_grown && clients.memory.is_exceeded() {
            clients.evict_largest();
        }
    }
}

impl Clients {
    /// Sets the limit of the memory of buffers; 0: no limit.
    pub(crate) fn set_memory_max(&self, bytes: usize) {
        self.memory.max.store(bytes, Relaxed);
        if self.memory.is_exceeded() {
            self.evict_largest();
        }
    }

    /// Closes the connections with the largest buffers until the others are within the limit. Those that CLIENT NO-EVICT has
    /// exempted stay.
    #[cold]
    fn evict_largest(&self) {
        let clients = self.list();
        let bytes = |client: &Arc<Profile>| client.buffer_bytes.load(Relaxed);
        let total: usize = clients.iter().map(bytes).sum();
        let mut excess = total.saturating_sub(self.memory.max());
        let is_candidate = |client: &&Arc<Profile>| bytes(client) > 0 && !client.is_no_evict.load(Relaxed);
        let mut candidates: Vec<_> = clients.iter().filter(is_candidate).collect();
        candidates.sort_by_key(|client| Reverse(bytes(client)));
        for client in candidates {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(bytes(client));
            client.kill();
            self.memory.evicted.fetch_add(1, Relaxed);
            tracing::warn!("{} closed: buffers of clients are over --maxmemory-clients", client.peer_text());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io, os::fd::AsFd};

    use proto::Peer;

    use super::*;
    use crate::{state::Registration, testing};

    fn connect(clients: &Arc<Clients>) -> Registration {
        clients.register(Peer::unknown(io::stdin().as_fd(), 0), testing::now())
    }

    #[test]
    fn the_largest_connections_are_closed_until_the_rest_fits() {
        let clients = Arc::new(Clients::default());
        clients.set_memory_max(10 * UNIT);
        let mut connections: Vec<_> = (0..4).map(|_| connect(&clients)).collect();
        for (connection, units) in connections.iter_mut().zip([2, 4, 3, 0]) {
            connection.set_buffer_bytes(units * UNIT + 5);
        }
        assert_eq!((clients.memory.bytes(), clients.memory.evicted()), (9 * UNIT, 0));
        connections[3].set_buffer_bytes(2 * UNIT);
        let killed = |connections: &[Registration]| connections.iter().map(|one| one.is_killed()).collect::<Vec<_>>();
        assert_eq!((killed(&connections), clients.memory.evicted()), (vec![false, true, false, false], 1));
        // What has been closed and still has its buffers is not counted twice.
        connections[3].set_buffer_bytes(3 * UNIT);
        assert_eq!(clients.memory.evicted(), 1);
        connections.remove(1);
        assert_eq!(clients.memory.bytes(), 8 * UNIT);
        connections[0].profile().is_no_evict.store(true, Relaxed);
        clients.set_memory_max(UNIT);
        assert_eq!(killed(&connections), [false, true, true]);
        connections.clear();
        assert_eq!(clients.memory.bytes(), 0);
    }
}
