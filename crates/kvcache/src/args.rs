use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use service::Dimension;
use store::{KeyHasher, PolicyKind, StoreOptions};
use sys::listen::Address;

use crate::{Codec, Compression, FrontEnd, Sharing, SpaceOptions, StoreKind, UnknownCompression, memory_size};

/// What kvcache takes beside the flags that all servers share.
#[derive(Args, Clone, Debug)]
pub struct KvArgs {
    /// Where entries are kept; --list-backends describes the stores
    #[arg(long, value_name = "NAME", default_value = "packed")]
    pub store: StoreKind,

    /// Parts of the key space, each behind a lock of its own or, with --store partitioned, owned by a thread
    /// [default: 1 with one thread, else 4 per thread; partitioned: 1 per thread]
    #[arg(long, value_name = "N", env = "NUM_SHARDS")]
    pub shards: Option<usize>,

    /// What gives way when --maxmemory is reached
    #[arg(long, value_name = "POLICY", default_value = "allkeys-s3fifo")]
    pub eviction: PolicyKind,

    /// Memory for entries, like 100mb or 1GiB, both powers of 1024; 0: no limit
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = memory)]
    pub maxmemory: ByteSize,

    /// Where memcached's text and meta protocols are spoken; repeatable
    #[arg(long, value_name = "ADDR")]
    pub memcached_listen: Vec<Address>,

    /// Where only the 0x1F text protocol is spoken, which --listen detects unless the first request holds a line
    /// feed; repeatable
    #[arg(long, value_name = "ADDR")]
    pub us_listen: Vec<Address>,

    /// How large values are compressed; --list-backends describes the choices
    #[arg(long, value_name = "NAME", default_value = "none", value_parser = compression)]
    pub compression: Compression,

    /// Values of at least so many bytes are compressed
    #[arg(long, value_name = "BYTES", default_value_t = 30)]
    pub compression_threshold: usize,

    /// What the keys are loaded from at the start, if it is there, and saved to by SAVE, BGSAVE and at the end
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,

    /// What AUTH asks for
    #[arg(long, value_name = "PASSWORD")]
    pub requirepass: Option<String>,

    /// Answer CLUSTER like a cluster of this one node, for clients that know clusters only
    #[arg(long, value_name = "WHETHER", default_value = "no")]
    pub cluster: Whether,
}

/// As Redis's configuration says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Whether {
    Yes,
    No,
}

impl KvArgs {
    /// Bytes; `None`: no limit.
    pub fn memory_max(&self) -> Option<usize> {
        usize::try_from(self.maxmemory.as_u64()).ok().filter(|&bytes| bytes > 0)
    }

    /// The addresses behind those of `--listen`, and what is spoken there.
    pub fn front_ends(&self) -> impl Iterator<Item = (&Address, FrontEnd)> {
        let memcached = self.memcached_listen.iter().map(|address| (address, FrontEnd::Memcached));
        memcached.chain(self.us_listen.iter().map(|address| (address, FrontEnd::Us)))
    }

    /// For a server with so many threads.
    pub fn space(&self, threads: usize, sharing: Sharing) -> SpaceOptions {
        let seed = fastrand::u64(..);
        SpaceOptions {
            shards: self.shards.unwrap_or(match sharing {
                Sharing::Locked if threads == 1 => 1,
                Sharing::Locked => 4 * threads,
                Sharing::Owned => threads,
            }),
            policy: self.eviction,
            memory_max: self.memory_max(),
            codec: Codec::new(self.compression, self.compression_threshold),
            store: StoreOptions {
                hasher: KeyHasher::with_seed(seed),
                advise: sys::memory::advise_huge,
                release: sys::memory::release,
            },
            seed: fastrand::u64(..),
        }
    }
}

fn memory(text: &str) -> Result<ByteSize, String> {
    memory_size::parse(text).map(ByteSize).ok_or_else(|| "not an amount of memory, like 100mb or 1GiB".to_owned())
}

/// What `--list-backends` says of eviction.
pub fn eviction_dimension() -> Dimension {
    Dimension::of("eviction", "--eviction", &PolicyKind::AllKeysS3Fifo)
}

/// Besides the names, what the original's ENABLE_COMPRESSION takes.
fn compression(text: &str) -> Result<Compression, UnknownCompression> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(Compression::Gzip),
        "" | "0" | "false" | "no" | "off" => Ok(Compression::None),
        name => name.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_s_switch_means_gzip() {
        for (text, choice) in [("true", Compression::Gzip), ("1", Compression::Gzip), ("0", Compression::None)] {
            assert_eq!(compression(text), Ok(choice), "{text}");
        }
        assert_eq!(compression("zstd"), Ok(Compression::Zstd));
        assert!(compression("maybe").is_err());
    }
}
