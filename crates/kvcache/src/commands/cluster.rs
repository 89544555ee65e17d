//! CLUSTER: with `--cluster yes` this node serves all slots, for clients that know clusters only.

use store::{EntryView, Store};
use sys::listen::Address;

use super::call::Call;
use crate::{
    reply::{Outcome, Refusal},
    state::split_stored_key,
};

const SLOTS: u16 = 16384;

impl<S: Store> Call<'_, '_, S> {
    /// Refuses the command unless `--cluster yes` was given.
    fn check_cluster(&self) -> Outcome {
        match self.state.info.is_cluster {
            true => Ok(()),
            false => Err(Refusal::new("ERR This instance has cluster support disabled")),
        }
    }

    /// Returns the host and the port that the client has connected to; without a host, clients use the one that they know.
    fn endpoint(&self) -> (String, u16) {
        match &self.client.registration.profile().local {
            Some(Address::Tcp(address)) => (address.ip().to_canonical().to_string(), address.port()),
            Some(Address::Unix(_)) | None => (String::new(), self.state.info.port()),
        }
    }
}

/// READONLY, READWRITE and ASKING, which change nothing for a single node.
pub(super) fn accept<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    call.reply.ok();
    Ok(())
}

pub(super) fn info<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    let mut text = format!("cluster_state:ok\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\r\n");
    for line in [
        "cluster_slots_pfail:0",
        "cluster_slots_fail:0",
        "cluster_known_nodes:1",
        "cluster_size:1",
        "cluster_current_epoch:0",
        "cluster_my_epoch:0",
        "cluster_stats_messages_sent:0",
        "cluster_stats_messages_received:0",
        "total_cluster_links_buffer_limit_exceeded:0",
    ] {
        text += line;
        text += "\r\n";
    }
    call.reply.verbatim(&text);
    Ok(())
}

pub(super) fn myid<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    call.reply.bulk(call.state.info.run_id.as_bytes());
    Ok(())
}

pub(super) fn nodes<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    let (id, (host, port)) = (&call.state.info.run_id, call.endpoint());
    // The second port is that of the cluster bus.
    let bus = u32::from(port) + 10_000;
    let line = format!("{id} {host}:{port}@{bus} myself,master - 0 0 0 connected 0-{}\n", SLOTS - 1);
    call.reply.verbatim(&line);
    Ok(())
}

/// Lists the slots under the address that the client has connected to.
pub(super) fn slots<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    let (host, port) = call.endpoint();
    let reply = &mut call.reply;
    reply.array(1);
    reply.array(3);
    reply.integer(0);
    reply.integer(i64::from(SLOTS) - 1);
    reply.array(4);
    reply.bulk(host.as_bytes());
    reply.integer(i64::from(port));
    reply.bulk(call.state.info.run_id.as_bytes());
    reply.array(0);
    Ok(())
}

pub(super) fn shards<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    let ((host, port), id) = (call.endpoint(), &call.state.info.run_id);
    let reply = &mut call.reply;
    reply.array(1);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(i64::from(SLOTS) - 1);
    reply.bulk(b"nodes");
    reply.array(1);
    reply.map(7);
    reply.bulk(b"id");
    reply.bulk(id.as_bytes());
    reply.bulk(b"port");
    reply.integer(i64::from(port));
    for (name, value) in [("ip", &*host), ("endpoint", &*host), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"replication-offset");
    reply.integer(0);
    reply.bulk(b"health");
    reply.bulk(b"online");
    Ok(())
}

pub(super) fn links<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    call.reply.array(0);
    Ok(())
}

pub(super) fn keyslot<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    call.reply.integer(i64::from(slot(call.args[2])));
    Ok(())
}

pub(super) fn count_keys_in_slot<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    let slot = u16::try_from(call.integer(2)?).ok().filter(|&slot| slot < SLOTS);
    let slot = slot.ok_or_else(|| Refusal::new("ERR Invalid slot"))?;
    let mut count = 0;
    call.for_each_in_slot(slot, usize::MAX, |_| count += 1);
    call.reply.count(count);
    Ok(())
}

pub(super) fn get_keys_in_slot<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    let (slot, max) = (call.integer(2)?, call.integer(3)?);
    let slot = u16::try_from(slot).ok().filter(|&slot| slot < SLOTS).zip(usize::try_from(max).ok());
    let (slot, max) = slot.ok_or_else(|| Refusal::new("ERR Invalid slot or number of keys"))?;
    let mut keys = Vec::new();
    call.for_each_in_slot(slot, max, |key| keys.push(key.to_vec()));
    keys.sort_unstable();
    keys.dedup(); // A scan may show a key twice.
    call.reply.array(keys.len());
    keys.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

impl<S: Store> Call<'_, '_, S> {
    /// Visits up to `max` keys of a slot. There is no index of slots, so every key is visited.
    fn for_each_in_slot(&mut self, wanted: u16, max: usize, mut visit_key: impl FnMut(&[u8])) {
        let (now, mut left) = (self.keys.now.unix_ms, max);
        self.keys.for_each_shard(|cache| {
            let mut visit = |view: EntryView<'_>| {
                let (database, key) = split_stored_key(view.key);
                let is_alive = view.attributes.expires_at == 0 || view.attributes.expires_at > now;
                if left > 0 && database == 0 && is_alive && slot(key) == wanted {
                    left -= 1;
                    visit_key(key);
                }
            };
            let mut cursor = 0;
            loop {
                cursor = cache.store().scan(cursor, &mut visit);
                if cursor == 0 {
                    break;
                }
            }
        });
    }
}

/// Returns the slot of a key: that of the text between its first braces, if there is any, or of the whole key
/// (redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec).
fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let len = rest.iter().position(|&byte| byte == b'}')?;
        (len > 0).then(|| &rest[..len])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// Computes CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| {
        let shift = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        (0..8).fold(crc ^ u16::from(byte) << 8, shift)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_the_same_as_in_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3, "the checksum's own test vector");
        // As Redis 7.0.15 says.
        for (key, wanted) in [("foo{bar}", 5061), ("bar", 5061), ("a", 15495)] {
            assert_eq!(slot(key.as_bytes()), wanted, "{key}");
        }
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"), "an empty tag is none");
    }
}
