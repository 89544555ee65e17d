use bytesize::ByteSize;
use clap::Args;
use store::{KeyHasher, Options, PolicyKind};

use crate::{Codec, Sharing, SpaceOptions, StoreKind};

/// What kvcache takes beside the flags that all servers share.
#[derive(Args, Clone, Debug)]
pub struct KvArgs {
    /// Where entries are kept; --list-backends describes the stores
    #[arg(long, value_name = "NAME", default_value = "packed")]
    pub store: StoreKind,

    /// Parts of the key space, each behind a lock of its own or, with --store partitioned, owned by a thread
    /// [default: 1 with one thread, else 16 per thread; partitioned: 1 per thread]
    #[arg(long, value_name = "N", env = "NUM_SHARDS")]
    pub shards: Option<usize>,

    /// What gives way when --maxmemory is reached
    #[arg(long, value_name = "POLICY", default_value = "allkeys-s3fifo")]
    pub eviction: PolicyKind,

    /// Memory for entries, like 100mb or 1GiB; 0: no limit
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub maxmemory: ByteSize,

    /// What AUTH asks for
    #[arg(long, value_name = "PASSWORD")]
    pub requirepass: Option<String>,
}

impl KvArgs {
    /// For a server with so many threads.
    pub fn space(&self, threads: usize, sharing: Sharing) -> SpaceOptions {
        let seed = fastrand::u64(..);
        SpaceOptions {
            shards: self.shards.unwrap_or(match sharing {
                Sharing::Locked if threads == 1 => 1,
                Sharing::Locked => 16 * threads,
                Sharing::Owned => threads,
            }),
            policy: self.eviction,
            memory_max: usize::try_from(self.maxmemory.as_u64()).ok().filter(|&bytes| bytes > 0),
            codec: Codec::default(),
            store: Options {
                hasher: KeyHasher::with_seed(seed),
                advise: sys::memory::advise_huge,
                release: sys::memory::release,
            },
            seed: fastrand::u64(..),
        }
    }
}
