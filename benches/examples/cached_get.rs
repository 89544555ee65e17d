//! Answers one cached GET many times, for counting instructions: `valgrind --tool=callgrind
//! target/release/examples/cached_get 100000`, twice with different counts.

#![forbid(unsafe_code)]

use std::{
    hint::black_box,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use http_server::{HttpOptions, HttpServer, Site, SiteOptions};
use proto::{Limits, NextWrite, Now, Peer, Session};

const REQUEST: &[u8] = b"GET /small HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: loadgen\r\nAccept: */*\r\n\r\n";

fn main() -> std::io::Result<()> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_u64);
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("small"), [b'x'; 128])?;
    let site = Site::open(directory.path(), SiteOptions::default())?;
    let server = HttpServer::new(site, HttpOptions::default());
    // The clock stands still, so that no file is ever revalidated.
    let now = Now { instant: Instant::now(), unix: Duration::from_secs(2_000_000_000) };
    let stdin = std::io::stdin();
    let mut session = Session::new(&server, Peer::unknown(stdin.as_fd(), 0), Limits::default(), now);
    for _ in 0..count {
        session.feed(&server, black_box(REQUEST), now);
        if let Some(NextWrite::Memory(pieces, count)) = session.outbox().front() {
            let n = black_box(&pieces)[..count].iter().map(|piece| piece.len()).sum();
            session.outbox().advance(n);
        }
    }
    assert_eq!(server.statistics().cache_hits, count.saturating_sub(1));
    Ok(())
}
