//! Command-line arguments of kvcache.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use service::{Dimension, LineTarget, TlsArgs};
use store::{KeyHasher, PackedStore, PolicyKind, StdStore, Store as _, StoreOptions};
use sys::listen::Address;

use crate::{
    codec::{Codec, Compression},
    connection::FrontEnd,
    state::{NodeAddress, SlotMap, SlotMapError, Space, SpaceOptions},
    store_kind::{Sharing, StoreKind},
};

/// Least memory of clients' buffers, unless a flag says less: one may be as long as the longest value.
const CLIENT_MEMORY_MIN: u64 = 1 << 30;

/// Arguments of kvcache beside those that all servers share.
#[derive(Args, Clone, Debug)]
pub struct KvArgs {
    /// Store of the entries; see --list-backends
    #[arg(long, value_name = "NAME", value_enum, hide_possible_values = true, default_value = "packed")]
    pub store: StoreKind,

    /// Number of shards of the key space, each with its own lock or, with --store partitioned, its own thread
    /// [default: 1 with one thread, else 4 per thread; partitioned: 1 per thread; and 1 for each 8 GiB of --maxmemory at least]
    #[arg(long, value_name = "N", env = "NUM_SHARDS", value_parser = shards)]
    pub shards: Option<usize>,

    /// Eviction policy when --maxmemory is reached; see --list-backends
    #[arg(long, value_name = "POLICY", value_enum, hide_possible_values = true, default_value = "allkeys-s3fifo")]
    pub eviction: PolicyKind,

    /// Limit of the memory for entries, such as 100mb or 1.5GiB; 0: no limit
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = service::size)]
    pub maxmemory: ByteSize,

    /// Limit of the memory of clients' buffers: requests that are not whole, open transactions, replies that wait. Above it the
    /// clients with the most are closed; 0: no limit [default: a quarter of the machine's memory, 1GiB at least]
    #[arg(long, value_name = "SIZE", value_parser = service::size)]
    pub maxmemory_clients: Option<ByteSize>,

    /// Address for memcached's text, meta and binary protocols; repeatable
    #[arg(long, value_name = "ADDR")]
    pub memcached_listen: Vec<Address>,

    /// Largest item of memcached's clients, counted as memcached counts it (key, value and 59 bytes), 1KiB at least; it
    /// cannot exceed --max-request-size
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = item_size)]
    pub max_item_size: ByteSize,

    /// Address for the 0x1F text protocol alone; repeatable. --listen detects it, too, unless the first request contains a
    /// line feed
    #[arg(long, value_name = "ADDR")]
    pub us_listen: Vec<Address>,

    #[command(flatten)]
    pub tls: TlsArgs,

    /// Compression of values; see --list-backends
    #[arg(
        long,
        value_name = "NAME",
        value_enum,
        ignore_case = true,
        hide_possible_values = true,
        default_value = "none"
    )]
    pub compression: Compression,

    /// Length from which values are compressed
    #[arg(long, value_name = "SIZE", default_value = "30", value_parser = service::size)]
    pub compression_threshold: ByteSize,

    /// Snapshot file: loaded at the start if it exists, saved by SAVE, BGSAVE and at the end; its directory must exist
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,

    /// Password that clients must send
    #[arg(long, value_name = "PASSWORD", value_parser = password)]
    pub requirepass: Option<String>,

    /// Time after which a script that still runs makes commands of others fail instead of wait; Redis's
    /// busy-reply-threshold
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub script_time_limit: humantime::Duration,

    /// Limit of the memory of each thread's Lua, 1MiB at least
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = script_memory)]
    pub script_memory: ByteSize,

    /// Limit of the messages that are held for a subscriber that does not read: beyond it the connection is closed
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = service::size)]
    pub max_pushed: ByteSize,

    /// Write a JSON object for each request of sampled connections to this file, or - for standard error; SIGUSR1 has the
    /// file opened anew
    #[arg(long, value_name = "FILE")]
    pub events: Option<LineTarget>,

    /// Share of the connections that are sampled for --events
    #[arg(long, value_name = "SHARE", default_value = "0.01", requires = "events", value_parser = share)]
    pub event_rate: f64,

    /// Answer CLUSTER commands as a cluster of one node, for clients that require a cluster
    #[arg(long, value_name = "YES|NO", default_value = "no")]
    pub cluster: YesNo,

    /// File with a line HOST:PORT SLOTS for each of several servers, the same for all: a command on keys of another one is
    /// answered with MOVED, and any cluster client finds all of them. Without slots, they are divided evenly
    #[arg(long, value_name = "FILE")]
    pub cluster_map: Option<PathBuf>,

    /// Line of --cluster-map that is this server's [default: that of the first address that it listens on]
    #[arg(long, value_name = "HOST:PORT", requires = "cluster_map")]
    pub cluster_announce: Option<NodeAddress>,
}

/// Truth value as Redis's configuration has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum YesNo {
    Yes,
    No,
}

impl KvArgs {
    /// Returns the bytes for entries, or `None` if there is no limit.
    pub fn memory_max(&self) -> Option<usize> {
        usize::try_from(self.maxmemory.as_u64()).ok().filter(|&bytes| bytes > 0)
    }

    /// Returns the limit of the memory of clients' buffers; 0: no limit.
    pub fn client_memory_max(&self) -> usize {
        let bytes = match self.maxmemory_clients {
            Some(size) => size.as_u64(),
            None => (sys::memory::total() / 4).max(CLIENT_MEMORY_MIN),
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Reads the map of the cluster for a server that listens on these addresses, if it is a node of one.
    ///
    /// # Errors
    /// See [`SlotMap::read`].
    pub fn slot_map(&self, addresses: &[Address]) -> Result<Option<SlotMap>, SlotMapError> {
        let Some(file) = &self.cluster_map else { return Ok(None) };
        let own: Vec<_> = match &self.cluster_announce {
            Some(announced) => vec![announced.clone()],
            None => addresses.iter().filter_map(node_address).collect(),
        };
        SlotMap::read(file, &own).map(Some)
    }

    /// Returns the addresses that follow those of `--listen`, and their protocols.
    pub fn front_ends(&self) -> impl Iterator<Item = (&Address, FrontEnd)> {
        let memcached = self.memcached_listen.iter().map(|address| (address, FrontEnd::Memcached));
        memcached.chain(self.us_listen.iter().map(|address| (address, FrontEnd::Us)))
    }

    /// Returns the options of the space for a server with so many threads.
    pub fn space(&self, threads: usize, sharing: Sharing) -> SpaceOptions {
        let seed = fastrand::u64(..);
        let shards = match sharing {
            Sharing::Locked if threads == 1 => 1,
            Sharing::Locked => 4 * threads,
            Sharing::Owned => threads,
        };
        // A shard can address no more.
        let shards_min = self.memory_max().unwrap_or(0).div_ceil(PackedStore::BYTES_MAX);
        SpaceOptions {
            shards: self.shards.unwrap_or_else(|| shards.max(shards_min)),
            policy: self.eviction,
            memory_max: self.memory_max(),
            codec: Codec::new(
                self.compression,
                usize::try_from(self.compression_threshold.as_u64()).unwrap_or(usize::MAX),
            ),
            store: StoreOptions {
                hasher: KeyHasher::with_seed(seed),
                advise: sys::memory::advise_huge_later,
                release: sys::memory::release,
            },
            seed: fastrand::u64(..),
            // memcached's clients may ask how long an entry has been idle.
            is_use_tracked: !self.memcached_listen.is_empty(),
        }
    }
}

fn node_address(address: &Address) -> Option<NodeAddress> {
    match address {
        Address::Tcp(address) => Some(NodeAddress { host: address.ip().to_string(), port: address.port() }),
        Address::Unix(_) => None,
    }
}

/// Parses a size with room for the libraries and a script.
fn script_memory(text: &str) -> Result<ByteSize, String> {
    service::size(text).and_then(|size| match size.as_u64() {
        0..0x10_0000 => Err("less than 1MiB".to_owned()),
        _ => Ok(size),
    })
}

/// Parses the limit of an item, which memcached does not let be less than 1 KiB, either.
fn item_size(text: &str) -> Result<ByteSize, String> {
    service::size(text).and_then(|size| match size.as_u64() {
        0..1024 => Err("less than 1KiB".to_owned()),
        _ => Ok(size),
    })
}

fn shards(text: &str) -> Result<usize, String> {
    let shards = text.parse().ok().filter(|shards| (1..=Space::<StdStore>::SHARDS_MAX).contains(shards));
    shards.ok_or_else(|| format!("not a number from 1 to {}", Space::<StdStore>::SHARDS_MAX))
}

/// Parses a share, which leaves something to be sampled.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|&share| share > 0.0 && share <= 1.0);
    share.ok_or_else(|| "not a share above 0 and up to 1, such as 0.01".to_owned())
}

/// Refuses the empty password, which would let everybody in: it comes from a variable that is not set.
fn password(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("empty; without a password, leave the flag out".to_owned()) } else { Ok(text.to_owned()) }
}

/// Returns what `--list-backends` says of eviction.
pub fn eviction_dimension() -> Dimension {
    Dimension::of("eviction", "--eviction", &PolicyKind::AllKeysS3Fifo)
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn shards_are_enough_for_the_memory_that_is_asked_for() {
        let shards = |args: &[&str], threads, sharing| {
            let command = KvArgs::augment_args(clap::Command::new("kvcache"));
            let matches = command.get_matches_from(std::iter::once(&"kvcache").chain(args));
            KvArgs::from_arg_matches(&matches).unwrap().space(threads, sharing).shards
        };
        assert_eq!(shards(&[], 1, Sharing::Locked), 1);
        assert_eq!(shards(&["--maxmemory", "8GiB"], 1, Sharing::Locked), 1);
        assert_eq!(shards(&["--maxmemory", "40GiB"], 1, Sharing::Locked), 5);
        assert_eq!(shards(&["--maxmemory", "40GiB"], 2, Sharing::Locked), 8);
        assert_eq!(shards(&["--maxmemory", "40GiB"], 2, Sharing::Owned), 5);
        assert_eq!(shards(&["--maxmemory", "40GiB", "--shards", "2"], 1, Sharing::Locked), 2);
    }

    #[test]
    fn the_switch_of_the_original_chooses_gzip() {
        for (text, choice) in
            [("True", Compression::Gzip), ("1", Compression::Gzip), ("0", Compression::None), ("", Compression::None)]
        {
            assert_eq!(Compression::from_str(text, true), Ok(choice), "{text}");
        }
        assert_eq!(Compression::from_str("zstd", true), Ok(Compression::Zstd));
        assert!(Compression::from_str("maybe", true).is_err());
    }
}
