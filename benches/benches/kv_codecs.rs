//! kvcache's codecs: 100 pipelined requests with random 16-byte keys and 12-byte values, as redis-benchmark sends them.

#![forbid(unsafe_code)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wire::{
    memcached,
    resp::{self, Args, FastRequest, Parsed, RequestLimits, RequestParser},
    us,
};

const DEPTH: u64 = 100;

fn keys() -> impl Iterator<Item = String> {
    (0..DEPTH).map(|at| format!("key:{:012}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000_000))
}

fn commands(verb: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for key in keys() {
        let mut args = vec![verb, key.as_bytes()];
        args.extend(value);
        resp::client::command(&mut out, &args);
    }
    out
}

/// Parses all of `input` by the short cut, and adds up a part of every request, so that no work is optimised away.
fn read_fast(mut input: &[u8]) -> usize {
    let mut sum = 0;
    while let Some((request, consumed)) = resp::parse_fast(input) {
        sum += match request {
            FastRequest::Get { key } => usize::from(key[0]),
            FastRequest::Set { key, value } => usize::from(key[0]) + value.len(),
        };
        input = &input[consumed..];
    }
    sum
}

fn read_any(parser: &mut RequestParser, mut input: &[u8]) -> usize {
    let (limits, mut args, mut sum) = (RequestLimits::default(), Args::new(), 0);
    while let Ok(Parsed::Complete { consumed }) = parser.parse(input, &limits, &mut args) {
        sum += args.len();
        input = &input[consumed..];
    }
    sum
}

fn resp_requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("resp/request");
    group.throughput(Throughput::Elements(DEPTH));
    let inputs = [
        ("GET", commands(b"GET", None)),
        ("SET", commands(b"SET", Some(b"xxxxxxxxxxxx"))),
        ("SET 1 KiB", commands(b"SET", Some(&[b'x'; 1024]))),
    ];
    for (name, input) in &inputs {
        group.bench_function(format!("{name}, fast"), |bencher| bencher.iter(|| read_fast(black_box(input))));
        let mut parser = RequestParser::default();
        group
            .bench_function(format!("{name}, any"), |bencher| bencher.iter(|| read_any(&mut parser, black_box(input))));
    }
}

fn resp_replies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("resp/reply");
    group.throughput(Throughput::Elements(DEPTH));
    let mut out = Vec::with_capacity(1 << 16);
    group.bench_function("bulk, 12 bytes", |bencher| {
        bencher.iter(|| {
            out.clear();
            for _ in 0..DEPTH {
                resp::reply::bulk(&mut out, black_box(b"xxxxxxxxxxxx"));
            }
            out.len()
        });
    });
    group.bench_function("integer", |bencher| {
        bencher.iter(|| {
            out.clear();
            for value in 0..DEPTH {
                resp::reply::integer(&mut out, black_box(value as i64));
            }
            out.len()
        });
    });
    let replies = b"$12\r\nxxxxxxxxxxxx\r\n".repeat(DEPTH as usize);
    group.bench_function("length", |bencher| {
        let mut decoder = resp::client::ReplyDecoder::default();
        bencher.iter(|| {
            let mut rest = black_box(&replies[..]);
            while let Ok(Some(length)) = decoder.length(rest) {
                rest = &rest[length..];
            }
            rest.len()
        });
    });
}

fn us_requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("us/request");
    group.throughput(Throughput::Elements(DEPTH));
    let (mut gets, mut sets) = (Vec::new(), Vec::new());
    for key in keys() {
        us::client::get(&mut gets, key.as_bytes());
        us::client::set(&mut sets, key.as_bytes(), b"xxxxxxxxxxxx");
    }
    for (name, input) in [("GET", &gets), ("SET", &sets)] {
        group.bench_function(name, |bencher| {
            let (mut parser, limits) = (us::RequestParser::default(), us::RequestLimits::default());
            bencher.iter(|| {
                let mut rest = black_box(&input[..]);
                while let Ok(us::Parsed::Complete { request, consumed }) = parser.parse(rest, &limits) {
                    black_box(request);
                    rest = &rest[consumed..];
                }
                rest.len()
            });
        });
    }
}

fn memcached_requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("memcached/request");
    group.throughput(Throughput::Elements(DEPTH));
    let mut inputs = [("get", Vec::new()), ("set", Vec::new()), ("mg", Vec::new()), ("ms", Vec::new())];
    for key in keys() {
        let key = key.as_bytes();
        memcached::client::get(&mut inputs[0].1, &[key]);
        memcached::client::set(&mut inputs[1].1, key, 0, 0, b"xxxxxxxxxxxx");
        memcached::client::meta_get(&mut inputs[2].1, key, b"v");
        memcached::client::meta_set(&mut inputs[3].1, key, b"", b"xxxxxxxxxxxx");
    }
    for (name, input) in &inputs {
        group.bench_function(*name, |bencher| {
            let (mut parser, limits) = (memcached::RequestParser::default(), memcached::Limits::default());
            bencher.iter(|| {
                let mut rest = black_box(&input[..]);
                while let Ok(memcached::Parsed::Complete { request, consumed }) = parser.parse(rest, &limits) {
                    black_box(request);
                    rest = &rest[consumed..];
                }
                rest.len()
            });
        });
    }
}

criterion_group!(benches, resp_requests, resp_replies, us_requests, memcached_requests);
criterion_main!(benches);
