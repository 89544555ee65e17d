//! Helpers that run a server, a tree and a client without a socket between them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use http_server::{HttpOptions, HttpServer, Site, SiteOptions};
use proto::{Now, Session};
use testkit::{
    http::Response,
    in_memory::{self, Chunking, Transcript},
};
use web::{Hosted, Hosts, Settings};

pub(crate) struct World {
    _outer: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) server: HttpServer,
    pub(crate) now: Now,
    options: SiteOptions,
    settings: Arc<Settings>,
}

impl World {
    /// A server for an empty tree, `root`, in a directory of its own.
    pub(crate) fn new(options: SiteOptions) -> Self {
        Self::with_settings(options, Settings::default())
    }

    pub(crate) fn with_settings(options: SiteOptions, settings: Settings) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let settings = Arc::new(settings);
        let server = start(&root, options, &settings);
        // Files made from here on have settled: their timestamps are a minute old.
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + Duration::from_secs(60);
        Self { _outer: outer, root, server, now: Now { instant: Instant::now(), unix }, options, settings }
    }

    /// Replaces the server by one that knows nothing yet.
    pub(crate) fn restart(&mut self) {
        self.server = start(&self.root, self.options, &self.settings);
    }

    /// Memory of all cached files.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.server.hosts().default_host().site.cached_bytes()
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        write(&self.root, name, contents);
    }

    pub(crate) fn outside(&self) -> &Path {
        self.root.parent().unwrap()
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.unix += time;
    }

    pub(crate) fn session(&self) -> Session<HttpServer> {
        in_memory::session(&self.server, self.now)
    }

    /// Returns all output for `input`, which arrives in chunks.
    pub(crate) fn exchange(&self, input: &[u8], chunk: usize) -> Output {
        self.exchange_in_chunks(input, Chunking { input_bytes: chunk, ..Chunking::UNLIMITED })
    }

    pub(crate) fn exchange_in_chunks(&self, input: &[u8], chunking: Chunking) -> Output {
        let Transcript { bytes, is_closed, is_lingering } =
            in_memory::exchange(&self.server, input, chunking, self.now);
        Output { bytes, is_closed, is_lingering }
    }

    /// Returns the response to one request, which must be complete.
    pub(crate) fn ask(&self, request: &str) -> Response {
        let output = self.exchange(request.as_bytes(), request.len());
        let mut responses = output.responses(&[request.split(' ').next().unwrap()]);
        assert_eq!(responses.len(), 1, "{request:?}");
        let response = responses.remove(0);
        let said = response.field("connection") == Some("close");
        assert_eq!(said, output.is_closed, "what is said and what is done differ: {request:?}");
        response
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"))
    }

    pub(crate) fn get_with(&self, target: &str, fields: &str) -> Response {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
    }
}

fn start(root: &Path, options: SiteOptions, settings: &Arc<Settings>) -> HttpServer {
    let site = Site::open(root, options).unwrap().with_settings(Arc::clone(settings));
    let hosts = Hosts::new(Arc::new(Hosted::new(site, Arc::clone(settings))));
    HttpServer::with_hosts(hosts, HttpOptions::default())
}

/// Writes a file, and the directories it is in.
pub(crate) fn write(root: &Path, name: &str, contents: impl AsRef<[u8]>) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, contents).unwrap();
}

pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_closed: bool,
    pub(crate) is_lingering: bool,
}

impl Output {
    /// Splits the stream; a request's method says whether a body follows.
    pub(crate) fn responses(&self, methods: &[&str]) -> Vec<Response> {
        let (mut rest, mut responses) = (&self.bytes[..], Vec::new());
        while !rest.is_empty() {
            let method = methods.get(responses.len()).copied().unwrap_or("GET");
            let (response, behind) = Response::split(rest, method).expect("a whole response");
            responses.push(response);
            rest = behind;
        }
        responses
    }
}
