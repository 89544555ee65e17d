//! Flags of the server beside those that all servers share.

use std::{path::PathBuf, time::Duration};

use bytesize::ByteSize;
use clap::Args;
use web::TreeArgs;

use crate::{CacheOptions, Limits, StrategyChoice};

/// Capacity of the smallest pipe that holds a head and a page of a file, in bytes.
const PIPE_SIZE_MIN: u64 = 8 << 10;

/// Flags that say what is served, and how it is cached and sent.
#[derive(Clone, Debug, Args)]
pub struct ZerocopyArgs {
    /// The directory to serve
    #[arg(value_name = "DIR", conflicts_with = "root")]
    pub directory: Option<PathBuf>,

    #[command(flatten)]
    pub tree: TreeArgs,

    /// Way of bodies to their sockets; `auto` picks one by the size of a file
    #[arg(long, value_name = "NAME", value_enum, default_value = "auto")]
    pub strategy: StrategyChoice,

    /// Capacity of all cached pipes; an unprivileged user gets 64 MiB of pipes from the kernel
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub pipe_budget: ByteSize,

    /// The largest pipe, cached or scratch; larger files lie in several
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = pipe_size)]
    pub pipe_size: ByteSize,

    /// Time after its last request at which a file leaves the cache
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    pub idle_evict: Duration,

    /// Cached paths; 0 turns the cache off
    #[arg(long, value_name = "N", default_value = "8192")]
    pub cache_entries: usize,

    /// Files and pipes that the cache keeps open
    #[arg(long, value_name = "N", default_value = "4096")]
    pub cache_descriptors: u64,

    /// Files that the cache keeps mapped, bytes of them
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub mapped_bytes: ByteSize,

    /// Memory for the copies of --strategy uring, locked into RAM where the driver registers it
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub registered_bytes: ByteSize,

    /// Resources added by POST /cache/add/, bytes of them
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    pub overlay_bytes: ByteSize,

    /// The body of a POST to /cache/add/ must have arrived whole after this, from the end of its head
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub upload_timeout: Duration,

    /// Token for /cache/; needed unless the server listens on loopback alone
    #[arg(long, value_name = "TOKEN", hide_env_values = true, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub admin_token: Option<String>,
}

fn pipe_size(text: &str) -> Result<ByteSize, String> {
    let size = text.parse::<ByteSize>()?;
    match size.as_u64() {
        PIPE_SIZE_MIN..=0x4000_0000 => Ok(size),
        _ => Err("must be between 8 KiB and 1 GiB".to_owned()),
    }
}

impl ZerocopyArgs {
    /// Returns the tree, wherever it was named.
    pub fn tree(&self) -> TreeArgs {
        let root = self.directory.as_ref().unwrap_or(&self.tree.root).clone();
        TreeArgs { root, ..self.tree.clone() }
    }

    pub fn cache_options(&self) -> CacheOptions {
        CacheOptions {
            strategy: self.strategy,
            revalidate: self.tree.revalidate,
            idle_evict: self.idle_evict,
            entries: self.cache_entries,
            limits: Limits {
                pipe_bytes: self.pipe_budget.as_u64(),
                pipe_size: self.pipe_size.as_u64(),
                descriptors: self.cache_descriptors,
                mapped_bytes: self.mapped_bytes.as_u64(),
            },
            overlay_bytes: self.overlay_bytes.as_u64(),
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
        let options = parse(&[]).unwrap().cache_options();
        assert_eq!(format!("{options:?}"), format!("{:?}", CacheOptions::default()));
    }

    #[test]
    fn a_directory_is_named_once_with_or_without_a_flag() {
        for arguments in [&["site"][..], &["-d", "site"], &["--root", "site"]] {
            assert_eq!(parse(arguments).unwrap().tree().root, PathBuf::from("site"));
        }
        assert_eq!(parse(&[]).unwrap().tree().root, PathBuf::from("."));
        assert!(parse(&["site", "-d", "other"]).is_err());
    }

    #[test]
    fn invalid_values_are_refused() {
        for bad in [
            ["--pipe-size", "4KiB"],
            ["--strategy", "splice"],
            ["--admin-token", ""],
            ["--idle-evict", "5"],
            ["--upload-timeout", "1"],
        ] {
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
    }
}
