//! Whole requests through a session, without a socket: the work of a server without that of the kernel.

use std::{
    convert::Infallible,
    ops::Range,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use bytes::Bytes;
use gungraun::{library_benchmark, library_benchmark_group};
use http_server::{HttpServer, SiteOptions};
use kvcache::{Codec, FrontEnd, KvOptions, KvServer, ScriptOptions, ServerInfo, Space, SpaceOptions};
use proto::{Limits, NextWrite, Now, Outbox, Peer, Protocol, Session, Step};
use service::{LineTarget, LineWriter};
use store::{KeyHasher, PackedStore, PolicyKind, StoreOptions};
use sys::beneath::Metadata;
use web::{AccessLogFormat, Encoding, Found, Heads, HttpOptions, Lookup, NotFound, Observer, Response, Site};
use wire::{
    http1::{Connection, Part},
    resp::RequestLimits,
};

use crate::{
    TURNS, at_most,
    codecs::{WRK, resp_commands},
};

/// A server, a connection to it, and the input that it gets.
pub(crate) struct Setup<P: Protocol> {
    server: P,
    session: Session<P>,
    pub(crate) input: Vec<u8>,
    now: Now,
}

/// A clock that stands still, so that no file is ever revalidated.
fn now() -> Now {
    Now { instant: Instant::now(), unix: Duration::from_secs(2_000_000_000) }
}

impl<P: Protocol> Setup<P> {
    /// Puts a new connection in the place of the one before.
    pub(crate) fn reconnect(&mut self) {
        self.session = session_of(&self.server, self.now);
    }
}

fn session_of<P: Protocol>(server: &P, now: Now) -> Session<P> {
    Session::new(server, Peer::unknown(std::io::stdin().as_fd(), 0), Limits::default(), now)
}

fn setup<P: Protocol>(server: P, input: Vec<u8>) -> Setup<P> {
    let now = now();
    let session = session_of(&server, now);
    let mut setup = Setup { server, session, input, now };
    // The first requests fill caches and grow buffers.
    serve(&mut setup);
    setup
}

pub(crate) fn serve<P: Protocol>(setup: &mut Setup<P>) -> usize {
    let mut bytes = 0;
    setup.session.feed(&setup.server, &setup.input, setup.now);
    while let Some(front) = setup.session.outbox().front() {
        let n = match front {
            NextWrite::Memory(pieces, count) => pieces[..count].iter().map(|piece| piece.len()).sum(),
            NextWrite::File(region) => usize::try_from(region.len).unwrap_or(usize::MAX),
            NextWrite::Pipe(_) | NextWrite::KernelTls(_) | NextWrite::Waiting => break,
        };
        setup.session.outbox().advance(n);
        setup.session.report_sent(&setup.server, now);
        bytes += n;
    }
    bytes
}

/// A protocol whose requests are single bytes; the reply is a head and a body.
struct Fixed(Bytes);

impl Protocol for Fixed {
    type Conn = ();

    fn open(&self, _: Peer<'_>, _: Now) {}

    fn on_input(&self, (): &mut (), input: &[u8], _: Now, out: &mut Outbox) -> Step {
        let mut consumed = 0;
        while consumed < input.len() && !out.is_full() {
            out.inline().extend_from_slice(&[b'h'; 200]);
            out.push_shared(&self.0);
            consumed += 1;
        }
        Step::open(consumed)
    }
}

fn fixed(body: usize) -> Setup<Fixed> {
    setup(Fixed(Bytes::from(vec![b'x'; body])), vec![b'r'])
}

#[library_benchmark]
#[bench::small_body(args = (fixed(128)), config = at_most(53_700))]
#[bench::shared_body(args = (fixed(26_510)), config = at_most(86_400))]
fn session(mut setup: Setup<Fixed>) -> Setup<Fixed> {
    for _ in 0..TURNS {
        serve(&mut setup);
    }
    setup
}

/// A site of one page in memory: the work of the front end without that of a cache.
struct Page(Heads);

impl Site for Page {
    type File = Heads;
    type Upload = Infallible;

    fn with_file<R>(
        &self,
        path: &[u8],
        _: bool,
        _: Now,
        mut send: impl FnMut(Found<'_, Heads>) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        if path == b"/small" { Ok((send(Found::sole(&self.0)), Lookup::Hit)) } else { Err(NotFound::MISSING) }
    }

    fn heads(file: &Heads) -> &Heads {
        file
    }

    fn push_ok(&self, file: &Heads, connection: Connection, now: Now, out: &mut Outbox) -> u64 {
        file.ok.push(Part::Whole, connection, now.unix, out.inline()) as u64
    }

    fn push_range(&self, file: &Heads, range: Range<u64>, out: &mut Outbox) {
        out.inline().extend_from_slice(&file.ok.body()[range.start as usize..range.end as usize]);
    }

    fn on_upload(&self, upload: Infallible, _: Vec<u8>, _: Now) -> Response<'_> {
        match upload {}
    }
}

fn site(observer: Observer) -> Setup<web::WebServer<Page>> {
    let metadata = Metadata { device: 1, inode: 1, size: 128, modified_ns: 1, changed_ns: 1 };
    let heads = Heads::new(&metadata, &"text/plain".into(), Encoding::Sole, &[b'x'; 128], now().unix);
    setup(web::WebServer::new(Page(heads), HttpOptions::default()).with_observer(observer), WRK.as_bytes().to_vec())
}

/// Makes the recorder of durations and of an access log that goes nowhere.
fn observer(format: AccessLogFormat) -> Observer {
    let writer = LineWriter::start("access_log", LineTarget::File("/dev/null".into())).expect("it can be opened");
    Observer::default().with_durations().with_access_log(writer, format)
}

#[library_benchmark]
#[bench::small(args = (site(Observer::default())), config = at_most(164_400))]
#[bench::timed(args = (site(Observer::default().with_durations())), config = at_most(285_600))]
#[bench::logged_combined(args = (site(observer(AccessLogFormat::Combined))), config = at_most(634_000))]
#[bench::logged_json(args = (site(observer(AccessLogFormat::Json))), config = at_most(1_080_000))]
fn http_get(mut setup: Setup<web::WebServer<Page>>) -> Setup<web::WebServer<Page>> {
    for _ in 0..TURNS {
        serve(&mut setup);
    }
    setup
}

/// Makes an http-server that has the requested file in its cache: the check of its path, the lookup in the cache and the
/// response are those of a real hit.
pub(crate) fn http_server() -> Setup<HttpServer> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("small"), [b'x'; 128]).expect("a file in it");
    let site = http_server::Site::open(directory.path(), SiteOptions::default()).expect("the directory can be served");
    let setup = setup(HttpServer::new(site, HttpOptions::default()), WRK.as_bytes().to_vec());
    assert_eq!(setup.server.statistics().responses, [0, 1, 0, 0, 0], "the file is served, and now in the cache");
    setup
}

#[library_benchmark]
#[bench::small(args = (http_server()), config = at_most(182_600))]
fn http_cache_hit(mut setup: Setup<HttpServer>) -> Setup<HttpServer> {
    for _ in 0..TURNS {
        serve(&mut setup);
    }
    setup
}

/// Makes a server that has all keys of [`resp_commands`].
fn kvcache(input: Vec<u8>) -> Setup<KvServer<PackedStore>> {
    let space = Space::new(SpaceOptions {
        shards: 1,
        policy: PolicyKind::NoEviction,
        memory_max: None,
        codec: Codec::default(),
        store: StoreOptions { hasher: KeyHasher::with_seed(1), advise: |_| (), release: |_| () },
        seed: 2,
        is_use_tracked: false,
    });
    let server = KvServer::new(
        space,
        KvOptions {
            request_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(3600),
            limits: RequestLimits::default(),
            password: None,
            memory_max: None,
            info: ServerInfo::default(),
            snapshot: None,
            clock: kvcache::exact_time,
            scripts: ScriptOptions { memory_max: 64 << 20, time_limit: Duration::from_secs(5) },
            pushed_bytes_max: 32 << 20,
            client_memory_max: 1 << 30,
            item_bytes_max: 1 << 20,
            front_ends: vec![FrontEnd::Detect],
        },
    );
    let mut setup = setup(server, resp_commands(b"SET", Some(b"xxxxxxxxxxxx")));
    setup.input = input;
    serve(&mut setup);
    setup
}

#[library_benchmark]
#[bench::get_100(args = (kvcache(resp_commands(b"GET", None))), config = at_most(58_500))]
#[bench::set_100(args = (kvcache(resp_commands(b"SET", Some(b"xxxxxxxxxxxx")))), config = at_most(73_700))]
fn kvcache_pipeline(mut setup: Setup<KvServer<PackedStore>>) -> Setup<KvServer<PackedStore>> {
    serve(&mut setup);
    setup
}

library_benchmark_group!(name = serve_requests, benchmarks = [session, http_get, http_cache_hit, kvcache_pipeline]);
