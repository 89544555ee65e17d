//! The work of the load generator for each reply.

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group};
use hdrhistogram::Histogram;
use loadgen::{
    engine::LATENCY_NANOS_MAX,
    http::{Expectation, HttpClient, HttpConn, HttpVerify, RequestSpec},
    protocol::{ClientProtocol as _, Progress, Single},
};

use crate::{TURNS, at_most};

fn reply() -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nServer: null\r\nDate: Sat, 01 Jan 2028 00:00:00 GMT\r\nContent-Length: 128\r\n\r\n";
    [head.as_bytes(), &[b'x'; 128]].concat()
}

/// Makes a client that has seen one reply already, with which it compares the others.
fn client() -> (HttpClient, HttpConn, Vec<u8>) {
    let question = RequestSpec { request: b"GET".to_vec(), expectation: Expectation::Nothing };
    let mut client = HttpClient::new(&[question], HttpVerify::Content, 0);
    let (mut conn, reply) = (client.open(), reply());
    check(&mut client, &mut conn, &reply);
    (client, conn, reply)
}

fn check(client: &mut HttpClient, conn: &mut HttpConn, mut input: &[u8]) {
    loop {
        let decoded = client.decode(conn, Single(0), input);
        input = &input[decoded.consumed..];
        match decoded.progress {
            Progress::Done { outcome, .. } => return outcome.expect("a right reply"),
            Progress::NeedMore => assert!(!input.is_empty(), "the reply is whole"),
            Progress::Broken(class) => panic!("{class:?}"),
        }
    }
}

#[library_benchmark]
#[bench::template(args = (client()), config = at_most(29_850))]
fn http_reply((mut client, mut conn, reply): (HttpClient, HttpConn, Vec<u8>)) -> (HttpClient, HttpConn, Vec<u8>) {
    for _ in 0..TURNS {
        check(&mut client, &mut conn, black_box(&reply));
    }
    (client, conn, reply)
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, 3).expect("valid bounds")
}

#[library_benchmark]
#[bench::record(args = (histogram()), config = at_most(5_530))]
fn latency(mut histogram: Histogram<u64>) -> Histogram<u64> {
    for turn in 0..TURNS as u64 {
        histogram.saturating_record(black_box(20_000 + turn * 977));
    }
    histogram
}

library_benchmark_group!(name = check_replies, benchmarks = [http_reply, latency]);
