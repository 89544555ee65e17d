//! Flags of the web server beside those that all servers share.

use std::{io, sync::Arc};

use bytesize::ByteSize;
use clap::Args;
use web::{Settings, TreeArgs};

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
    #[arg(long, value_name = "N", default_value = "8192")]
    pub cache_entries: usize,

    /// Number of files that the cache keeps open; with 0, large files are opened for each request
    #[arg(long, value_name = "N", default_value = "256")]
    pub cache_descriptors: usize,
}

impl HttpArgs {
    /// Opens what the flags name.
    ///
    /// # Errors
    /// Those of [`web::ContentArgs::open_root`].
    pub fn open_site(&self, settings: Arc<Settings>) -> io::Result<Site> {
        let root = self.tree.open_root()?;
        web::warn_of_missing(&root, &settings.content);
        Ok(Site::new(root, self.site_options()).with_settings(settings))
    }

    fn site_options(&self) -> SiteOptions {
        SiteOptions {
            revalidate: self.tree.revalidate,
            cache: CacheLimits {
                entries: self.cache_entries,
                bytes: usize::try_from(self.cache_bytes.as_u64()).unwrap_or(usize::MAX),
                descriptors: self.cache_descriptors,
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
        let (by_flags, by_default) = (flags.http.site_options(), SiteOptions::default());
        assert_eq!(format!("{by_flags:?}"), format!("{by_default:?}"));
        assert_eq!(flags.listen, None);
    }
}
