//! Slots of a cluster's keys, and the file that says which node serves which.

use std::{fmt, io, ops::RangeInclusive, path::Path};

use script::Digest;

/// Number of slots.
pub(crate) const SLOTS: u16 = 16384;
/// Nodes of one map.
const NODES_MAX: usize = 1000;

/// Assignment of every slot to one of several servers that know nothing of each other. All of them read the same file.
#[derive(Debug)]
pub struct SlotMap {
    nodes: Vec<ClusterNode>,
    /// Position of this server among the nodes.
    own: usize,
    /// Position of the node of each slot.
    owners: Vec<u16>,
}

/// One server of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterNode {
    /// Forty hexadecimal digits that follow from the address, so that all nodes know the same.
    pub(crate) id: String,
    /// Address that clients are told.
    pub(crate) address: NodeAddress,
    pub(crate) slots: Vec<RangeInclusive<u16>>,
}

/// Reason that a map cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SlotMapError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("line {line}: {why}")]
    Line { line: usize, why: String },
    #[error("slot {0} has no node")]
    Unassigned(u16),
    #[error("slot {0} has two nodes, {1} and {2}")]
    Twice(u16, NodeAddress, NodeAddress),
    #[error("there is no node in it")]
    Empty,
    #[error("more than {NODES_MAX} nodes")]
    TooManyNodes,
    #[error("some nodes have slots, and {0} has none; without any, they are divided evenly")]
    WithoutSlots(NodeAddress),
    #[error("{0} is none of its nodes; --cluster-announce says which of them this server is")]
    NotListed(String),
}

/// Name and port of a node, as in a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    pub host: String,
    pub port: u16,
}

impl std::str::FromStr for NodeAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not HOST:PORT");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        // The brackets of an IPv6 address are no part of it, and clients are told it without them.
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host =
            !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte));
        let port = port.parse().ok().filter(|&port| port > 0);
        let port = port.filter(|_| is_host).ok_or_else(wrong)?;
        Ok(Self { host: bare.to_owned(), port })
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl SlotMap {
    /// Reads a map from a file, for the server that has one of these addresses.
    ///
    /// # Errors
    /// The file cannot be read; it is no map; none of the addresses is in it.
    pub fn read(file: &Path, own: &[NodeAddress]) -> Result<Self, SlotMapError> {
        Self::parse(&std::fs::read_to_string(file)?, own)
    }

    /// Parses a map: on each line a node and its slots, or none on all lines.
    fn parse(text: &str, own: &[NodeAddress]) -> Result<Self, SlotMapError> {
        let mut nodes: Vec<ClusterNode> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_ascii_whitespace();
            let Some(address) = words.next() else { continue };
            let wrong = |why| SlotMapError::Line { line: number + 1, why };
            let node = ClusterNode::parse(address, words).map_err(wrong)?;
            if nodes.iter().any(|other| other.address == node.address) {
                return Err(wrong(format!("{address} has been named before")));
            }
            nodes.push(node);
        }
        match nodes.len() {
            0 => return Err(SlotMapError::Empty),
            1..=NODES_MAX => {}
            _ => return Err(SlotMapError::TooManyNodes),
        }
        if nodes.iter().all(|node| node.slots.is_empty()) {
            divide_evenly(&mut nodes);
        }
        let owners = owners(&nodes)?;
        let own_node = nodes.iter().position(|node| own.contains(&node.address));
        let own = own_node.ok_or_else(|| {
            let own: Vec<_> = own.iter().map(ToString::to_string).collect();
            SlotMapError::NotListed(own.join(" or "))
        })?;
        Ok(Self { nodes, own, owners })
    }

    pub(crate) fn nodes(&self) -> &[ClusterNode] {
        &self.nodes
    }

    /// Returns the node that this server is.
    pub(crate) fn own(&self) -> &ClusterNode {
        &self.nodes[self.own]
    }

    /// Returns the node of a slot.
    pub(crate) fn node_of(&self, slot: u16) -> &ClusterNode {
        &self.nodes[usize::from(self.owners[usize::from(slot)])]
    }

    /// True if this server has the slot of a key.
    #[inline]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        usize::from(self.owners[usize::from(slot(key))]) == self.own
    }
}

impl ClusterNode {
    /// Parses an address and the ranges of slots that follow it, such as `0-5460` or `16383`.
    fn parse<'t>(address: &str, ranges: impl Iterator<Item = &'t str>) -> Result<Self, String> {
        let address: NodeAddress = address.parse()?;
        let id = Digest::of(address.to_string().as_bytes()).hex();
        let slots: Result<Vec<_>, String> = ranges
            .flat_map(|word| word.split(','))
            .filter(|range| !range.is_empty())
            .map(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let slot = |text: &str| text.parse().ok().filter(|&slot| slot < SLOTS);
                let ends = slot(first).zip(slot(last)).filter(|(first, last)| first <= last);
                ends.map(|(first, last)| first..=last)
                    .ok_or_else(|| format!("{range:?} is not a range of slots, such as 0-{}", SLOTS - 1))
            })
            .collect();
        Ok(Self { id, address, slots: slots? })
    }
}

/// Divides the slots as `redis-cli --cluster create` does.
fn divide_evenly(nodes: &mut [ClusterNode]) {
    let (slots, count) = (usize::from(SLOTS), nodes.len());
    let mut first = 0;
    for (at, node) in nodes.iter_mut().enumerate() {
        let end = (2 * (at + 1) * slots + count) / (2 * count);
        node.slots.push(first..=(end - 1) as u16);
        first = end as u16;
    }
}

/// Returns the position of each slot's node.
fn owners(nodes: &[ClusterNode]) -> Result<Vec<u16>, SlotMapError> {
    let mut owners: Vec<Option<u16>> = vec![None; usize::from(SLOTS)];
    for (at, node) in nodes.iter().enumerate() {
        if node.slots.is_empty() {
            return Err(SlotMapError::WithoutSlots(node.address.clone()));
        }
        for slot in node.slots.iter().cloned().flatten() {
            if let Some(other) = owners[usize::from(slot)].replace(at as u16) {
                let other = &nodes[usize::from(other)];
                return Err(SlotMapError::Twice(slot, other.address.clone(), node.address.clone()));
            }
        }
    }
    (0..).zip(owners).map(|(slot, owner)| owner.ok_or(SlotMapError::Unassigned(slot))).collect()
}

/// Returns the slot of a key: that of the text between its first braces, if there is any, or of the whole key
/// (redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec).
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let len = rest.iter().position(|&byte| byte == b'}')?;
        (len > 0).then(|| &rest[..len])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// Computes CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| crc << 8 ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)])
}

/// Checksums of single bytes.
static CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> NodeAddress {
        text.parse().unwrap()
    }

    fn error(text: &str) -> String {
        SlotMap::parse(text, &[address("a:1")]).unwrap_err().to_string()
    }

    #[test]
    fn slots_are_the_same_as_in_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3, "the checksum's own test vector");
        // As Redis 7.0.15 says.
        for (key, wanted) in [("foo{bar}", 5061), ("bar", 5061), ("a", 15495)] {
            assert_eq!(slot(key.as_bytes()), wanted, "{key}");
        }
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"), "an empty tag is none");
    }

    #[test]
    fn a_node_has_the_slots_behind_its_address() {
        let text = "# cluster\na:1 0-99,200 10000-16383\n\n[::1]:2 100-199  201-9999 # the rest\n";
        let map = SlotMap::parse(text, &[address("nobody:1"), address("[::1]:2")]).unwrap();
        assert_eq!(map.own().address, address("[::1]:2"));
        for (slot, host) in [(0, "a"), (99, "a"), (100, "::1"), (200, "a"), (201, "::1"), (16383, "a")] {
            assert_eq!(map.node_of(slot).address.host, host, "{slot}");
        }
        assert!(map.has_key(b"bar") && !map.has_key(b"a"), "slots 5061 and 15495");
        assert_eq!(map.nodes()[0].slots, [0..=99, 200..=200, 10000..=16383]);
    }

    #[test]
    fn slots_are_divided_evenly_where_none_are_named() {
        let map = SlotMap::parse("a:1\nb:1\nc:1\n", &[address("b:1")]).unwrap();
        let slots: Vec<_> = map.nodes().iter().map(|node| node.slots[0].clone()).collect();
        assert_eq!(slots, [0..=5460, 5461..=10922, 10923..=16383], "as redis-cli --cluster create does");
        let alone = SlotMap::parse("a:1", &[address("a:1")]).unwrap();
        assert_eq!(alone.own().slots, [0..=16383]);
    }

    #[test]
    fn a_map_that_is_wrong_is_refused_with_its_place() {
        for (text, why) in [
            ("# nobody\n", "there is no node in it"),
            ("\na 0-1\n", "line 2: \"a\" is not HOST:PORT"),
            ("a:0\n", "line 1: \"a:0\" is not HOST:PORT"),
            ("a:1 5-4\n", "line 1: \"5-4\" is not a range of slots, such as 0-16383"),
            ("a:1 16384\n", "line 1: \"16384\" is not a range of slots, such as 0-16383"),
            ("a:1\na:1\n", "line 2: a:1 has been named before"),
            ("a:1 0-16382\n", "slot 16383 has no node"),
            ("a:1 0-16383\nb:1\n", "some nodes have slots, and b:1 has none; without any, they are divided evenly"),
            ("a:1 0-100\nb:1 100-16383\n", "slot 100 has two nodes, a:1 and b:1"),
            ("b:1\n", "a:1 is none of its nodes; --cluster-announce says which of them this server is"),
        ] {
            assert_eq!(error(text), why, "{text}");
        }
        let many: String = (0..=NODES_MAX).map(|n| format!("a:{}\n", n + 1)).collect();
        assert_eq!(error(&many), "more than 1000 nodes");
    }
}
