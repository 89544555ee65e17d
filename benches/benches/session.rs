//! The cost of a session and its outbox per request, without a socket.

use std::{
    hint::black_box,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use proto::{Limits, NextWrite, Now, Outbox, Peer, Protocol, Session, Step, Taken};

/// A protocol whose requests are single bytes; the reply is a head and a body.
struct Fixed {
    body: Bytes,
}

const HEAD: &[u8] = &[b'h'; 200];

impl Protocol for Fixed {
    type Conn = ();

    fn open(&self, _: Peer<'_>, _: Now) {}

    fn on_input(&self, (): &mut (), input: &[u8], _: Now, out: &mut Outbox) -> Step {
        let mut consumed = 0;
        while consumed < input.len() && !out.is_full() {
            out.inline().extend_from_slice(HEAD);
            out.push_shared(&self.body);
            consumed += 1;
        }
        Step::open(consumed)
    }
}

fn now() -> Now {
    Now { instant: Instant::now(), unix: Duration::ZERO }
}

fn flush_borrowed(out: &mut Outbox) {
    while let Some(NextWrite::Memory(pieces, count)) = out.front() {
        let n = pieces[..count].iter().map(|piece| piece.len()).sum();
        out.advance(n);
    }
}

fn flush_taken(out: &mut Outbox) {
    while let Taken::Segment(segment) = out.take() {
        out.recycle(black_box(segment));
    }
}

fn session(c: &mut Criterion) {
    let (stdin, now) = (std::io::stdin(), now());
    let mut group = c.benchmark_group("session");
    for (name, body) in [("128B", 128), ("26KB", 26_510)] {
        let protocol = Fixed { body: Bytes::from(vec![b'x'; body]) };
        for (depth, requests) in [("one", &b"r"[..]), ("pipelined-16", &[b'r'; 16])] {
            group.throughput(Throughput::Elements(requests.len() as u64));
            for (view, flush) in [("borrowed", flush_borrowed as fn(&mut Outbox)), ("taken", flush_taken)] {
                let mut session = Session::new(&protocol, Peer::unknown(stdin.as_fd(), 0), Limits::default(), now);
                group.bench_function(format!("{name}/{depth}/{view}"), |b| {
                    b.iter(|| {
                        session.feed(&protocol, black_box(requests), now);
                        flush(session.outbox());
                    });
                });
            }
        }
    }
    group.finish();
}

fn outbox(c: &mut Criterion) {
    c.bench_function("outbox/deferred-8-in-order", |b| {
        let mut out = Outbox::default();
        b.iter(|| {
            let promises: Vec<_> = (0..8).map(|_| out.defer()).collect();
            for promise in promises {
                let mut answer = Outbox::default();
                answer.inline().extend_from_slice(b"answer");
                promise.fulfil(answer);
            }
            flush_borrowed(&mut out);
        });
    });
}

/// Measures a request behind a torn one, whose input is copied into the session's own buffer first.
fn inbox(c: &mut Criterion) {
    c.bench_function("session/by-its-inbox", |b| {
        let (stdin, now) = (std::io::stdin(), now());
        let protocol = Fixed { body: Bytes::from_static(b"x") };
        let mut session = Session::new(&protocol, Peer::unknown(stdin.as_fd(), 0), Limits::default(), now);
        b.iter(|| {
            session.recv_space()[0] = b'r';
            session.received(1, now);
            session.resume(&protocol, now);
            flush_borrowed(session.outbox());
        });
    });
}

criterion_group!(benches, session, inbox, outbox);
criterion_main!(benches);
