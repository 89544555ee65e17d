//! The flags of the web server beside those that all servers share.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytesize::ByteSize;
use clap::Args;

use crate::{CacheLimits, Site, SiteOptions};

/// What is served, and how it is kept.
#[derive(Args, Clone, Debug)]
pub struct HttpArgs {
    /// The directory to serve
    #[arg(short = 'd', long, value_name = "DIR", default_value = ".")]
    pub root: PathBuf,

    /// Short for --listen 127.0.0.1:PORT
    #[arg(short = 'p', long, value_name = "PORT", conflicts_with = "listen")]
    pub port: Option<u16>,

    /// How long a cached file is served without a look whether it has changed
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    pub revalidate: Duration,

    /// Files up to this size are kept in memory as ready responses, larger ones as open descriptors
    #[arg(long, value_name = "SIZE", default_value = "8KiB")]
    pub cache_file_max: ByteSize,

    /// Memory for cached files; 0 turns the cache off
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub cache_bytes: ByteSize,

    /// Cached files; 0 turns the cache off
    #[arg(long, value_name = "N", default_value = "8192")]
    pub cache_entries: usize,

    /// Files that the cache keeps open
    #[arg(long, value_name = "N", default_value = "256")]
    pub cache_descriptors: usize,
}

impl HttpArgs {
    /// # Errors
    /// Those of [`Site::open`].
    pub fn open_site(&self) -> io::Result<Site> {
        Site::open(&self.root, self.site_options())
    }

    fn site_options(&self) -> SiteOptions {
        SiteOptions {
            revalidate: self.revalidate,
            cache: CacheLimits {
                entries: self.cache_entries,
                bytes: usize::try_from(self.cache_bytes.as_u64()).unwrap_or(usize::MAX),
                descriptors: self.cache_descriptors,
            },
            cache_file_max: self.cache_file_max.as_u64(),
        }
    }

    /// A path that there is something at, for the person who started the server to try: `/` where there is an index,
    /// else the first file with a name that needs no quoting.
    pub fn path_to_try(&self) -> String {
        let is_plain = |name: &str| {
            !name.starts_with('.') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        if self.root.join("index.html").is_file() {
            return "/".to_owned();
        }
        let names = names(&self.root).into_iter().filter(|name| is_plain(name) && self.root.join(name).is_file());
        format!("/{}", names.min().unwrap_or_default())
    }
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
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
    fn the_flags_default_to_what_the_library_does() {
        let flags = Flags::try_parse_from(["http-server"]).unwrap();
        let (by_flags, by_default) = (flags.http.site_options(), SiteOptions::default());
        assert_eq!(format!("{by_flags:?}"), format!("{by_default:?}"));
        assert_eq!((flags.http.root, flags.listen), (PathBuf::from("."), None));
    }

    #[test]
    fn a_port_is_not_given_twice() {
        assert!(Flags::try_parse_from(["http-server", "-p", "1", "--listen", "127.0.0.1:2"]).is_err());
        assert!(Flags::try_parse_from(["http-server", "-p", "65536"]).is_err());
    }

    #[test]
    fn there_is_something_at_the_path_to_try() {
        let directory = tempfile::tempdir().unwrap();
        let args = Flags::try_parse_from(["http-server", "-d", directory.path().to_str().unwrap()]).unwrap().http;
        assert_eq!(args.path_to_try(), "/");
        std::fs::create_dir(directory.path().join("a")).unwrap();
        for name in [".hidden", "a b.txt", "c.txt", "b.txt"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(args.path_to_try(), "/b.txt");
        std::fs::write(directory.path().join("index.html"), "").unwrap();
        assert_eq!(args.path_to_try(), "/");
    }
}
