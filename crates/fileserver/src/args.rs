//! Flags of the file server beside those that all servers share.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use layouts::LayoutKind;
use service::{DescriptorDemand, Dimension, Invalid, Timeouts, choice_name};
use sys::affinity;

use crate::{
    Combination, FileOptions, ProtocolKind,
    backend::{AnyBackend, BackendError, BackendKind, BackendOptions, SqliteOptions},
    cache::{CacheLimits, CacheMapKind, EvictionKind},
    requests::RequestMapKind,
};

/// Files that the cache keeps open where nobody asks for another number.
const CACHE_DESCRIPTORS: u64 = 256;

/// Flags that say what is served, and which parts the server is made of.
#[derive(Clone, Debug, Args)]
pub struct FileArgs {
    /// Directory to serve, or the database with --backend sqlite [default: a generated sample]. A PORT in front of it is
    /// short for --listen 127.0.0.1:PORT
    #[arg(value_name = "[PORT] DIR", num_args = 0..=2)]
    pub operands: Vec<PathBuf>,

    /// Protocol of the clients
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    pub protocol: ProtocolKind,

    /// Map for incomplete requests
    #[arg(short = 'r', long, value_name = "NAME", value_enum, default_value_t)]
    pub request_map: RequestMapKind,

    /// Map for cached documents
    #[arg(short = 'm', long, value_name = "NAME", value_enum, default_value_t)]
    pub cache_map: CacheMapKind,

    /// Eviction policy of a full cache [default: none without a cache map, else lockfree]
    #[arg(short = 'c', long, value_name = "NAME", value_enum)]
    pub eviction: Option<EvictionKind>,

    /// Where documents come from
    #[arg(short = 'f', long, value_name = "NAME", value_enum, default_value_t)]
    pub backend: BackendKind,

    /// Which file of the directory an id means
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    pub layout: LayoutKind,

    /// Number of cached documents; 0 turns the cache off
    #[arg(short = 'n', long, value_name = "N", default_value = "8192", value_parser = service::count::<usize>)]
    pub cache_entries: usize,

    /// Memory for cached documents; 0 turns the cache off
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = service::size)]
    pub cache_bytes: ByteSize,

    /// Number of files that the cache keeps open; with 0, large documents are opened for each request
    /// [default: 256, or what the limit of open files leaves beside connections]
    #[arg(long, value_name = "N", value_parser = service::count::<u64>)]
    pub cache_descriptors: Option<u64>,

    /// Documents up to this size are cached in memory, larger ones as open files
    /// [default: 8KiB of a directory; 2MiB of a database, whose larger ones are copied to temporary files]
    #[arg(long, value_name = "SIZE", value_parser = service::size)]
    pub cache_file_max: Option<ByteSize>,

    /// Time for which a cached document or manifest is used without a check whether it has changed; 0 checks each time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = service::duration)]
    pub revalidate: Duration,

    /// Threads that load documents, so that no event loop waits for them
    /// [default: 0 for a directory, which event loops read themselves; twice the processors for a database]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=1024))]
    pub readers: Option<u16>,
}

impl FileArgs {
    /// Returns the port in front of the content, if there are two operands.
    fn port_operand(&self) -> Option<&Path> {
        match &self.operands[..] {
            [port, _] => Some(port),
            _ => None,
        }
    }

    /// Parses the port in front of the content.
    ///
    /// # Errors
    /// The first of two operands is no port.
    pub fn port(&self) -> Result<Option<u16>, String> {
        let port = |text: &Path| {
            let port = text.to_str().and_then(|text| text.parse().ok());
            port.ok_or_else(|| {
                format!("{} is not a port: one of two arguments must be a PORT, in front of DIR", text.display())
            })
        };
        self.port_operand().map(port).transpose()
    }

    /// Returns the content to serve; `None` for a sample.
    pub fn content(&self) -> Option<&Path> {
        self.operands.last().map(PathBuf::as_path)
    }

    /// Checks that the flags go together.
    ///
    /// # Errors
    /// The reason why they do not, and what would do.
    pub fn check(&self) -> Result<(), String> {
        self.port()?;
        if let Some(why) = self.combination().problem() {
            let (map, eviction) = (choice_name(&self.cache_map), choice_name(&self.combination().eviction));
            let maps: Vec<_> =
                CacheMapKind::value_variants().iter().map(choice_name).filter(|name| *name != "none").collect();
            return Err(format!(
                "--cache-map {map} and --eviction {eviction} do not go together: {why}; leave --eviction out, or use --cache-map {}",
                maps.join(", ")
            ));
        }
        if let Some(why) = layout_problem(self.backend, self.layout) {
            return Err(format!("--backend {} and --layout {} do not go together: {why}", self.backend, self.layout));
        }
        if self.backend.blocks() && self.readers == Some(0) {
            return Err(format!("--backend {} needs --readers of at least 1: its loads block", self.backend));
        }
        Ok(())
    }

    pub fn combination(&self) -> Combination {
        let default = if self.cache_map == CacheMapKind::None { EvictionKind::None } else { EvictionKind::default() };
        Combination {
            protocol: self.protocol,
            requests: self.request_map,
            cache_map: self.cache_map,
            eviction: self.eviction.unwrap_or(default),
        }
    }

    pub fn options(&self, timeouts: Timeouts, cache_descriptors: u64) -> FileOptions {
        FileOptions {
            request_timeout: timeouts.request,
            idle_timeout: timeouts.idle,
            revalidate: self.revalidate,
            cache: self.cache_limits(cache_descriptors),
            readers: self.readers(),
        }
    }

    /// Opens `content` by the back end that was chosen.
    ///
    /// # Errors
    /// `content` cannot be served from the back end that was chosen.
    pub fn open(&self, content: &Path) -> Result<AnyBackend, BackendError> {
        let (layout, memory_max, revalidate) = (self.layout, self.memory_max(), self.revalidate);
        let options = BackendOptions { layout, memory_max, revalidate };
        AnyBackend::open(self.backend, content, &options)
    }

    /// Descriptors that the cache would keep.
    pub fn descriptors(&self) -> DescriptorDemand {
        let cache_default = if self.is_cached() { CACHE_DESCRIPTORS } else { 0 };
        DescriptorDemand { cache: self.cache_descriptors, cache_default, pipes: 0 }
    }

    fn is_cached(&self) -> bool {
        self.cache_map != CacheMapKind::None && self.cache_entries > 0 && self.cache_bytes.as_u64() > 0
    }

    fn cache_limits(&self, descriptors: u64) -> CacheLimits {
        CacheLimits {
            entries: self.cache_entries,
            bytes: usize::try_from(self.cache_bytes.as_u64()).unwrap_or(usize::MAX),
            descriptors: usize::try_from(descriptors).unwrap_or(usize::MAX),
        }
    }

    /// Returns the size of the largest document that is read into memory.
    fn memory_max(&self) -> u64 {
        let default = match self.backend {
            // A document that is not kept is better sent from its file. Measured for http-server: sendfile costs about as much as
            // a copy at 6 KiB.
            BackendKind::Filesystem if !self.is_cached() => return 0,
            BackendKind::Filesystem => 8 << 10,
            BackendKind::Sqlite => SqliteOptions::default().memory_max,
        };
        self.cache_file_max.map_or(default, |size| size.as_u64())
    }

    fn readers(&self) -> usize {
        let default = || if self.backend.blocks() { 2 * affinity::available() } else { 0 };
        self.readers.map_or_else(default, usize::from)
    }

    /// Returns the choices for `--list-backends`.
    pub fn dimensions() -> Vec<Dimension> {
        vec![
            Dimension::of("protocol", "--protocol", &ProtocolKind::default()),
            Dimension::of("request-map", "--request-map", &RequestMapKind::default()),
            Dimension::of("cache-map", "--cache-map", &CacheMapKind::default()),
            Dimension::of("eviction", "--eviction", &EvictionKind::default()),
            Dimension::of("backend", "--backend", &BackendKind::default()),
            Dimension::of("layout", "--layout", &LayoutKind::default()),
        ]
    }

    /// Returns the choices that do not go together.
    pub fn invalid() -> Vec<Invalid> {
        let evictions = EvictionKind::value_variants().iter().filter_map(|&eviction| {
            let (cache_map, protocol, requests) = (CacheMapKind::None, Default::default(), Default::default());
            let reason = Combination { protocol, requests, cache_map, eviction }.problem()?;
            Some(invalid([("cache-map", choice_name(&cache_map)), ("eviction", choice_name(&eviction))], reason))
        });
        let backends = BackendKind::value_variants().iter().flat_map(|&backend| {
            let layouts = LayoutKind::value_variants().iter();
            layouts.filter_map(move |&layout| {
                let reason = layout_problem(backend, layout)?;
                Some(invalid([("backend", choice_name(&backend)), ("layout", choice_name(&layout))], reason))
            })
        });
        evictions.chain(backends).collect()
    }
}

fn invalid(combination: [(&'static str, String); 2], reason: &str) -> Invalid {
    Invalid { combination: combination.into(), reason: reason.to_owned() }
}

/// Returns the reason why a back end and a layout do not go together. The default layout stands for none where there is no
/// directory.
fn layout_problem(backend: BackendKind, layout: LayoutKind) -> Option<&'static str> {
    let has_layout = backend == BackendKind::Filesystem;
    (!has_layout && layout != LayoutKind::Zotero)
        .then_some("a database finds documents by id and has no layout; use --layout with `fileserver import`")
}
