//! Flags of the web server beside those that all servers share.

use std::sync::Arc;

use anyhow::Context;
use bytesize::ByteSize;
use clap::Args;
use service::DescriptorDemand;
use web::{Hosts, TreeArgs};

use crate::{CacheLimits, Site, SiteOptions};

/// Flags that say what is served, and how it is cached.
#[derive(Clone, Debug, Args)]
pub struct HttpArgs {
    #[command(flatten)]
    pub tree: TreeArgs,

    /// Files up to this size are kept in memory as ready responses, larger ones as open descriptors
    #[arg(long, value_name = "SIZE", default_value = "8KiB", value_parser = service::size)]
    pub cache_file_max: ByteSize,

    /// Memory for cached files; 0 turns the cache off
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = service::size)]
    pub cache_bytes: ByteSize,

    /// Number of cached files; 0 turns the cache off
    #[arg(long, value_name = "N", default_value = "8192", value_parser = service::count::<usize>)]
    pub cache_entries: usize,

    /// Number of files that the cache keeps open; with 0, large files are opened for each request
    /// [default: 256, or what the limit of open files leaves beside connections]
    #[arg(long, value_name = "N", value_parser = service::count::<u64>)]
    pub cache_descriptors: Option<u64>,
}

impl HttpArgs {
    /// Opens the sites of all hosts; each has an equal share of the cache, of so many descriptors.
    ///
    /// # Errors
    /// Those of [`web::ContentArgs::open_root`] and [`web::Settings::new`].
    pub fn open_hosts(&self, descriptors: u64) -> anyhow::Result<Hosts<Site>> {
        Hosts::open(&self.tree.content, &self.tree.hosts.0, |_, content, settings, count| {
            let root = content.open_root();
            let root = root.with_context(|| format!("cannot serve {}", content.root().display()))?;
            web::warn_of_missing(&root, settings);
            anyhow::Ok(Site::new(root, self.site_options(descriptors, count)).with_settings(Arc::clone(settings)))
        })
    }

    /// Descriptors that the caches would keep.
    pub fn descriptors(&self) -> DescriptorDemand {
        let cache_default = SiteOptions::default().cache.descriptors as u64;
        DescriptorDemand { cache: self.cache_descriptors, cache_default, pipes: 0 }
    }

    fn site_options(&self, descriptors: u64, hosts: usize) -> SiteOptions {
        let bytes = usize::try_from(self.cache_bytes.as_u64()).unwrap_or(usize::MAX);
        SiteOptions {
            revalidate: self.tree.revalidate,
            cache: CacheLimits {
                entries: self.cache_entries.div_ceil(hosts),
                bytes: bytes.div_ceil(hosts),
                descriptors: usize::try_from(descriptors).unwrap_or(usize::MAX) / hosts,
            },
            cache_file_max: self.cache_file_max.as_u64(),
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
        http: HttpArgs,
        #[arg(long)]
        listen: Option<String>,
    }

    #[test]
    fn flags_and_library_have_the_same_defaults() {
        let flags = Flags::try_parse_from(["http-server"]).unwrap();
        let by_flags = flags.http.site_options(flags.http.descriptors().cache_default, 1);
        let by_default = SiteOptions::default();
        assert_eq!(format!("{by_flags:?}"), format!("{by_default:?}"));
        assert_eq!(flags.listen, None);
    }
}
