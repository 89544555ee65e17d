//! Flags of the server beside those that all servers share.

use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use service::{DescriptorDemand, Limit, Need, ScratchPipes};
use web::TreeArgs;

use crate::{CacheOptions, Limits, StrategyChoice};

/// Capacity of the smallest pipe, which holds a head and a page of a file, in bytes.
const PIPE_SIZE_MIN: u64 = 8 << 10;

/// Unit of the kernel's limits of pipes, in bytes.
const PAGE_BYTES: u64 = 4 << 10;

/// Flags that say what is served, and how it is cached and sent.
#[derive(Clone, Debug, Args)]
pub struct ZerocopyArgs {
    #[command(flatten)]
    pub tree: TreeArgs,

    /// How bodies are sent; `auto` picks a way by the size of the file, --list-backends describes them
    #[arg(long, value_name = "NAME", value_enum, default_value = "auto")]
    pub strategy: StrategyChoice,

    /// Limit of the capacity of all cached pipes; the kernel gives an unprivileged user 64 MiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = pipe_budget)]
    pub pipe_budget: ByteSize,

    /// Size of the largest pipe; a larger file takes several
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = pipe_size)]
    pub pipe_size: ByteSize,

    /// A file leaves the cache this long after its last request
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = service::positive_duration)]
    pub idle_evict: Duration,

    /// Number of cached paths; 0 turns the cache off
    #[arg(long, value_name = "N", default_value = "8192", value_parser = service::count::<usize>)]
    pub cache_entries: usize,

    /// Number of files and pipe ends that the cache keeps open; 0 turns the cache off
    /// [default: 4096, or what the limit of open files leaves beside connections]
    #[arg(long, value_name = "N", value_parser = service::count::<u64>)]
    pub cache_descriptors: Option<u64>,

    /// Limit of the total size of mapped files
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = service::positive_size)]
    pub mapped_bytes: ByteSize,

    /// Memory for the copies of --strategy uring, locked into RAM where the driver registers it
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = registered_bytes)]
    pub registered_bytes: ByteSize,

    /// Limit of the total size of resources added by POST /cache/add/; with 0, none can be added
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = service::size)]
    pub overlay_bytes: ByteSize,

    /// Limit of the total size of files that the cache has compressed; with 0, none are
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = service::size)]
    pub compressed_bytes: ByteSize,

    /// The body of a POST to /cache/add/ must arrive within this time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = service::positive_duration)]
    pub upload_timeout: Duration,

    /// Token required for /cache/, unless the server listens on loopback alone
    #[arg(long, value_name = "TOKEN", hide_env_values = true, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub admin_token: Option<String>,
}

fn pipe_budget(text: &str) -> Result<ByteSize, String> {
    let size = service::size(text)?;
    if size.as_u64() < PIPE_SIZE_MIN {
        return Err("must be at least 8KiB, the smallest pipe; --strategy sendfile uses none".to_owned());
    }
    Ok(size)
}

fn registered_bytes(text: &str) -> Result<ByteSize, String> {
    let size = service::size(text)?;
    match size.as_u64() {
        1..=0x4000_0000 => Ok(size),
        _ => Err("must be between 1 byte and 1GiB, the kernel's limit for one buffer".to_owned()),
    }
}

fn pipe_size(text: &str) -> Result<ByteSize, String> {
    let size = service::size(text)?;
    match size.as_u64() {
        PIPE_SIZE_MIN..=0x4000_0000 => Ok(size),
        _ => Err("must be between 8KiB and 1GiB".to_owned()),
    }
}

impl ZerocopyArgs {
    /// Descriptors that the cache would keep, and those of scratch pipes that slow readers may hold.
    pub fn descriptors(&self) -> DescriptorDemand {
        DescriptorDemand {
            cache: self.cache_descriptors,
            cache_default: CacheOptions::default().limits.descriptors,
            pipes: ScratchPipes::COUNT_MAX as u64,
        }
    }

    /// Limits of the machine that matter to pipes: those of the cache, and as many again that responses are sent through.
    pub fn needs(&self) -> Vec<Need> {
        let pages = 2 * self.pipe_budget.as_u64() / PAGE_BYTES;
        let why = "pages of cached pipes (--pipe-budget), and as many again of scratch pipes";
        vec![
            Need::new(Limit::Sysctl("fs.pipe-max-size"), self.pipe_size.as_u64(), "bytes of a pipe (--pipe-size)"),
            Need::new(Limit::Sysctl("fs.pipe-user-pages-soft"), pages, why),
        ]
    }

    /// Returns the options of a cache of so many descriptors.
    pub fn cache_options(&self, descriptors: u64) -> CacheOptions {
        CacheOptions {
            strategy: self.strategy,
            revalidate: self.tree.revalidate,
            idle_evict: self.idle_evict,
            entries: self.cache_entries,
            limits: Limits {
                pipe_bytes: self.pipe_budget.as_u64(),
                pipe_size: self.pipe_size.as_u64(),
                descriptors,
                mapped_bytes: self.mapped_bytes.as_u64(),
            },
            overlay_bytes: self.overlay_bytes.as_u64(),
            compressed_bytes: self.compressed_bytes.as_u64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        zerocopy: ZerocopyArgs,
        #[arg(long)]
        listen: Option<String>,
    }

    fn parse(arguments: &[&str]) -> Result<ZerocopyArgs, clap::Error> {
        let flags = Flags::try_parse_from([&["zerocopy"], arguments].concat())?;
        assert_eq!(flags.listen, None);
        Ok(flags.zerocopy)
    }

    #[test]
    fn flags_and_library_have_the_same_defaults() {
        assert_eq!(parse(&[]).unwrap().upload_timeout, web::HttpOptions::default().upload_timeout);
        let flags = parse(&[]).unwrap();
        let options = flags.cache_options(flags.descriptors().cache_default);
        assert_eq!(format!("{options:?}"), format!("{:?}", CacheOptions::default()));
    }

    #[test]
    fn invalid_values_are_refused() {
        for bad in [
            ["--pipe-size", "4KiB"],
            ["--pipe-budget", "0"],
            ["--mapped-bytes", "0"],
            ["--registered-bytes", "0"],
            ["--registered-bytes", "2GiB"],
            ["--strategy", "splice"],
            ["--admin-token", ""],
            ["--idle-evict", "0s"],
            ["--upload-timeout", "soon"],
        ] {
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
    }
}
