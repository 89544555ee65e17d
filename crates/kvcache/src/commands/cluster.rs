//! CLUSTER: with `--cluster yes` this node serves all slots, for clients that know clusters only; with `--cluster-map` it
//! serves those that the map gives to it, and tells clients which node has the others.

use std::ops::RangeInclusive;

use store::{EntryView, Store};
use sys::listen::Address;

use super::call::Call;
use crate::{
    reply::{Outcome, Refusal, Reply},
    state::{ClusterNode, SLOTS, SlotMap, slot, split_stored_key},
};

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

    /// Returns the nodes of the cluster; without a map it is this one alone, under the address that the client has
    /// connected to.
    fn nodes(&self) -> Vec<Node> {
        let Some(map) = &self.state.info.slot_map else {
            let (host, port) = self.endpoint();
            let slots = vec![0..=SLOTS - 1];
            return vec![Node { id: self.state.info.run_id.clone(), host, port, slots, is_own: true }];
        };
        let node = |node: &ClusterNode| Node {
            id: node.id.clone(),
            host: node.address.host.clone(),
            port: node.address.port,
            slots: node.slots.clone(),
            is_own: node == map.own(),
        };
        map.nodes().iter().map(node).collect()
    }
}

/// One node of the cluster, as clients are told of it.
struct Node {
    id: String,
    host: String,
    port: u16,
    slots: Vec<RangeInclusive<u16>>,
    is_own: bool,
}

/// Refuses keys that lie in several slots, or in one that another node has.
pub(super) fn check_keys<'k>(map: &SlotMap, keys: impl Iterator<Item = &'k [u8]>) -> Outcome {
    let mut slots = keys.map(slot);
    let Some(first) = slots.next() else { return Ok(()) };
    if slots.any(|slot| slot != first) {
        return Err(Refusal::new("CROSSSLOT Keys in request don't hash to the same slot"));
    }
    let node = map.node_of(first);
    if node == map.own() { Ok(()) } else { Err(Refusal::new(format!("MOVED {first} {}", node.address))) }
}

/// READONLY, READWRITE and ASKING, which change nothing where there are no replicas and no slot migrates.
pub(super) fn accept<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    call.reply.ok();
    Ok(())
}

pub(super) fn info<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    let mut text = format!("cluster_state:ok\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\r\n");
    let nodes = call.nodes().len();
    for line in [
        "cluster_slots_pfail:0",
        "cluster_slots_fail:0",
        &*format!("cluster_known_nodes:{nodes}"),
        &*format!("cluster_size:{nodes}"),
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
    let own = call.state.info.slot_map.as_ref().map_or(&call.state.info.run_id, |map| &map.own().id);
    call.reply.bulk(own.as_bytes());
    Ok(())
}

pub(super) fn nodes<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    let mut text = String::new();
    for Node { id, host, port, slots, is_own } in call.nodes() {
        // The second port is that of the cluster bus.
        let (bus, flags) = (u32::from(port) + 10_000, if is_own { "myself,master" } else { "master" });
        text += &format!("{id} {host}:{port}@{bus} {flags} - 0 0 0 connected");
        for range in slots {
            text += &match (*range.start(), *range.end()) {
                (first, last) if first == last => format!(" {first}"),
                (first, last) => format!(" {first}-{last}"),
            };
        }
        text.push('\n');
    }
    call.reply.verbatim(&text);
    Ok(())
}

/// Lists the ranges of slots, each with its node.
pub(super) fn slots<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    let nodes = call.nodes();
    let mut ranges: Vec<_> = nodes.iter().flat_map(|node| node.slots.iter().map(move |range| (range, node))).collect();
    ranges.sort_unstable_by_key(|(range, _)| *range.start());
    let reply = &mut call.reply;
    reply.array(ranges.len());
    for (range, Node { id, host, port, .. }) in ranges {
        reply.array(3);
        reply.integer(i64::from(*range.start()));
        reply.integer(i64::from(*range.end()));
        reply.array(4);
        reply.bulk(host.as_bytes());
        reply.integer(i64::from(*port));
        reply.bulk(id.as_bytes());
        reply.array(0);
    }
    Ok(())
}

pub(super) fn shards<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_cluster()?;
    let nodes = call.nodes();
    call.reply.array(nodes.len());
    nodes.iter().for_each(|node| shard(node, &mut call.reply));
    Ok(())
}

/// Writes a shard, which is one node.
fn shard(Node { id, host, port, slots, .. }: &Node, reply: &mut Reply<'_>) {
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2 * slots.len());
    for end in slots.iter().flat_map(|range| [range.start(), range.end()]) {
        reply.integer(i64::from(*end));
    }
    reply.bulk(b"nodes");
    reply.array(1);
    reply.map(7);
    reply.bulk(b"id");
    reply.bulk(id.as_bytes());
    reply.bulk(b"port");
    reply.integer(i64::from(*port));
    for (name, value) in [("ip", &**host), ("endpoint", &**host), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"replication-offset");
    reply.integer(0);
    reply.bulk(b"health");
    reply.bulk(b"online");
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
