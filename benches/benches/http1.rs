//! The web server's hot path: reading a request head, and answering from the cache through a session.

#![forbid(unsafe_code)]

use std::{
    hint::black_box,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use http_server::{HttpOptions, HttpServer, Site, SiteOptions};
use proto::{Limits, Now, Peer, Session};
use wire::http1::{HeadLimits, HeadParser};

const WRK: &str = "GET /small HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
const BROWSER: &str = "GET /small HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: keep-alive\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nReferer: http://127.0.0.1:8080/index.html\r\n\
    Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\nPriority: u=0, i\r\n\r\n";

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("http1/parse");
    let limits = HeadLimits::default();
    for (name, head) in [("wrk", WRK), ("browser", BROWSER)] {
        group.throughput(Throughput::Bytes(head.len() as u64));
        group.bench_function(name, |bencher| {
            let mut parser = HeadParser::default();
            bencher.iter(|| black_box(parser.parse(black_box(head.as_bytes()), &limits)));
        });
        group.bench_function(BenchmarkId::new(name, "torn into bytes"), |bencher| {
            let mut parser = HeadParser::default();
            bencher.iter(|| {
                for end in 1..=head.len() {
                    let _ = black_box(parser.parse(black_box(&head.as_bytes()[..end]), &limits));
                }
            });
        });
    }
}

fn cached_get(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (name, size) in [("small", 128), ("middle", 8 << 10), ("large", 26_510)] {
        std::fs::write(directory.path().join(name), vec![b'x'; size]).expect("a file");
    }
    let site = Site::open(directory.path(), SiteOptions::default()).expect("a site");
    let server = HttpServer::new(site, HttpOptions::default());
    // The clock stands still, so that no file is ever revalidated.
    let now = Now { instant: Instant::now(), unix: Duration::from_secs(2_000_000_000) };
    let stdin = std::io::stdin();
    let mut group = criterion.benchmark_group("http1/cached-get");
    for (name, head, depth) in [
        ("128 B", WRK.to_owned(), 1),
        ("128 B, browser", BROWSER.to_owned(), 1),
        ("128 B, 16 deep", WRK.to_owned(), 16),
        ("8 KiB", WRK.replace("small", "middle"), 1),
        ("26510 B, file region", WRK.replace("small", "large"), 1),
    ] {
        let input = head.repeat(depth);
        group.throughput(Throughput::Elements(depth as u64));
        group.bench_function(name, |bencher| {
            let mut session = Session::new(&server, Peer::unknown(stdin.as_fd(), 0), Limits::default(), now);
            bencher.iter(|| {
                session.feed(&server, black_box(input.as_bytes()), now);
                while let Some(front) = session.outbox().front() {
                    let n = match black_box(front) {
                        proto::NextWrite::Memory(pieces, count) => {
                            pieces[..count].iter().map(|piece| piece.len()).sum()
                        }
                        proto::NextWrite::File(region) => usize::try_from(region.len).unwrap_or(usize::MAX),
                        proto::NextWrite::Pipe(_) | proto::NextWrite::KernelTls(_) | proto::NextWrite::Waiting => break,
                    };
                    session.outbox().advance(n);
                }
            });
        });
    }
}

criterion_group!(benches, parse, cached_get);
criterion_main!(benches);
