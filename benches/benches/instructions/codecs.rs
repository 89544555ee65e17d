//! The parsers of requests.

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group};
use wire::{
    http1::{HeadLimits, HeadParser},
    memcached,
    resp::{self, Args, Parsed, RequestLimits, RequestParser},
    us,
};

use crate::{TURNS, at_most};

pub(crate) const WRK: &str = "GET /small HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
const BROWSER: &str = "GET /small HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: keep-alive\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nReferer: http://127.0.0.1:8080/index.html\r\n\r\n";

fn keys() -> impl Iterator<Item = String> {
    (0..TURNS).map(|at| format!("key:{:012}", at * 7919))
}

/// Returns [`TURNS`] commands behind each other.
pub(crate) fn resp_commands(verb: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for key in keys() {
        let mut args = vec![verb, key.as_bytes()];
        args.extend(value);
        resp::client::command(&mut out, &args);
    }
    out
}

#[library_benchmark]
#[bench::wrk(args = (WRK), config = at_most(54_500))]
#[bench::browser(args = (BROWSER), config = at_most(247_300))]
fn http1_request(head: &str) -> usize {
    let (limits, mut parser, mut sum) = (HeadLimits::default(), HeadParser::default(), 0);
    for _ in 0..TURNS {
        sum += usize::from(black_box(parser.parse(black_box(head.as_bytes()), &limits)).is_ok());
    }
    sum
}

#[library_benchmark]
#[bench::get(args = (resp_commands(b"GET", None)), config = at_most(6_630))]
#[bench::set(args = (resp_commands(b"SET", Some(b"xxxxxxxxxxxx"))), config = at_most(11_100))]
fn resp_request_fast(input: Vec<u8>) -> (usize, Vec<u8>) {
    let (mut rest, mut count) = (&input[..], 0);
    while let Some((request, consumed)) = resp::parse_fast(rest) {
        black_box(request);
        count += 1;
        rest = &rest[consumed..];
    }
    (count, input)
}

#[library_benchmark]
#[bench::get(args = (resp_commands(b"GET", None)), config = at_most(26_400))]
fn resp_request_any(input: Vec<u8>) -> (usize, Vec<u8>) {
    (read_any(&input), input)
}

fn read_any(mut rest: &[u8]) -> usize {
    let (limits, mut parser, mut args) = (RequestLimits::default(), RequestParser::default(), Args::new());
    let mut count = 0;
    while let Ok(Parsed::Complete { consumed }) = parser.parse(rest, &limits, &mut args) {
        count += args.len();
        rest = &rest[consumed..];
    }
    count
}

fn us_gets() -> Vec<u8> {
    let mut out = Vec::new();
    keys().for_each(|key| us::client::get(&mut out, key.as_bytes()));
    out
}

#[library_benchmark]
#[bench::get(args = (us_gets()), config = at_most(21_100))]
fn us_request(input: Vec<u8>) -> (usize, Vec<u8>) {
    let (limits, mut parser, mut count) = (us::RequestLimits::default(), us::RequestParser::default(), 0);
    let mut rest = &input[..];
    while let Ok(us::Parsed::Complete { request, consumed }) = parser.parse(rest, &limits) {
        black_box(request);
        count += 1;
        rest = &rest[consumed..];
    }
    (count, input)
}

fn memcached_gets() -> Vec<u8> {
    let mut out = Vec::new();
    keys().for_each(|key| memcached::client::get(&mut out, &[key.as_bytes()]));
    out
}

fn memcached_meta_gets() -> Vec<u8> {
    let mut out = Vec::new();
    keys().for_each(|key| memcached::client::meta_get(&mut out, key.as_bytes(), b"v"));
    out
}

#[library_benchmark]
#[bench::get(args = (memcached_gets()), config = at_most(51_700))]
#[bench::mg(args = (memcached_meta_gets()), config = at_most(78_200))]
fn memcached_request(input: Vec<u8>) -> (usize, Vec<u8>) {
    let (limits, mut parser, mut count) = (memcached::Limits::default(), memcached::RequestParser::default(), 0);
    let mut rest = &input[..];
    while let Ok(memcached::Parsed::Complete { request, consumed }) = parser.parse(rest, &limits) {
        black_box(request);
        count += 1;
        rest = &rest[consumed..];
    }
    (count, input)
}

library_benchmark_group!(
    name = decode,
    benchmarks = [http1_request, resp_request_fast, resp_request_any, us_request, memcached_request]
);
