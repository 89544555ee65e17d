//! A server, a tree and a client without a socket between them.

use std::{
    fs::File,
    os::{fd::AsFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use http_server::{HttpOptions, HttpServer, Site, SiteOptions};
use proto::{Front, Limits, Now, Peer, Session};

use testkit::http::Response;

pub(crate) struct World {
    _outer: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) server: HttpServer,
    pub(crate) now: Now,
}

impl World {
    /// A server for an empty tree, `root`, in a directory of its own.
    pub(crate) fn new(options: SiteOptions) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let server = HttpServer::new(Site::open(&root, options).unwrap(), HttpOptions::default());
        // Files made from here on have settled: their timestamps are a minute old.
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + Duration::from_secs(60);
        Self { _outer: outer, root, server, now: Now { instant: Instant::now(), unix } }
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
        let stdin = std::io::stdin();
        Session::new(&self.server, Peer::new(stdin.as_fd(), 0), Limits::default(), self.now)
    }

    /// All that comes back for `input`, offered in chunks.
    pub(crate) fn exchange(&self, input: &[u8], chunk: usize) -> Answer {
        let mut session = self.session();
        let mut bytes = Vec::new();
        for piece in input.chunks(chunk) {
            session.feed(&self.server, piece, self.now);
            flush(&mut session, &mut bytes);
        }
        while session.has_input() {
            let before = bytes.len();
            session.resume(&self.server, self.now);
            flush(&mut session, &mut bytes);
            if bytes.len() == before {
                break;
            }
        }
        let lingers = session.starts_lingering(self.now);
        Answer { bytes, closed: lingers || session.is_done(), lingers }
    }

    /// The response to one request, which must be whole.
    pub(crate) fn ask(&self, request: &str) -> Response {
        let answer = self.exchange(request.as_bytes(), request.len());
        let mut responses = answer.responses(&[request.split(' ').next().unwrap()]);
        assert_eq!(responses.len(), 1, "{request:?}");
        let response = responses.remove(0);
        let said = response.field("connection") == Some("close");
        assert_eq!(said, answer.closed, "what is said and what is done differ: {request:?}");
        response
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"))
    }

    pub(crate) fn get_with(&self, target: &str, fields: &str) -> Response {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
    }
}

/// Writes a file, and the directories it is in.
pub(crate) fn write(root: &Path, name: &str, contents: impl AsRef<[u8]>) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, contents).unwrap();
}

pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) closed: bool,
    pub(crate) lingers: bool,
}

impl Answer {
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

/// Writes all there is, files included, a little at a time.
pub(crate) fn flush(session: &mut Session<HttpServer>, sink: &mut Vec<u8>) {
    const PIECE: usize = 10_000;
    loop {
        let n = match session.outbox().front() {
            None => return,
            Some(Front::Memory(pieces, count)) => {
                let all: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.iter().copied()).collect();
                sink.extend_from_slice(&all[..all.len().min(PIECE)]);
                all.len().min(PIECE)
            }
            Some(Front::File(region)) => {
                let file = File::from(region.file.try_clone().unwrap());
                let mut piece = vec![0; PIECE.min(usize::try_from(region.len).unwrap())];
                file.read_exact_at(&mut piece, region.offset).expect("the file is as long as was said");
                sink.extend_from_slice(&piece);
                piece.len()
            }
            Some(Front::Pipe(_) | Front::Waiting) => panic!("never made by this server"),
        };
        session.outbox().advance(n);
    }
}
