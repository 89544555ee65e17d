//! The codecs of file servers: the two protocols of fileserver, and the messages of mq-server. 100 requests each.

#![forbid(unsafe_code)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wire::{
    file::{
        Dialect, FileId, Framed, Original, Request, Status,
        client::{Event, FramedReplies, write_framed_request, write_original_request},
    },
    mserve,
};

const DEPTH: u64 = 100;

fn ids() -> impl Iterator<Item = FileId> {
    (0..DEPTH).filter_map(|at| FileId::new(format!("DOC{at:05}").as_bytes()))
}

/// Parses all requests and returns their number.
fn read<D: Dialect>(mut input: &[u8]) -> u64 {
    let mut count = 0;
    while let Request::Get { id, consumed } = D::request(input) {
        black_box(id);
        count += 1;
        input = &input[consumed..];
    }
    count
}

fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("file/request");
    group.throughput(Throughput::Elements(DEPTH));
    let (mut original, mut framed) = (Vec::new(), Vec::new());
    for id in ids() {
        write_original_request(&mut original, &id);
        write_framed_request(&mut framed, &id);
    }
    assert_eq!((read::<Original>(&original), read::<Framed>(&framed)), (DEPTH, DEPTH));
    group.bench_function("original", |bencher| bencher.iter(|| read::<Original>(black_box(&original))));
    group.bench_function("framed", |bencher| bencher.iter(|| read::<Framed>(black_box(&framed))));
}

/// Decodes all replies, and returns their number and the bytes of their bodies.
fn read_replies(decoder: &mut FramedReplies, mut input: &[u8]) -> (u64, usize) {
    let (mut count, mut bytes) = (0, 0);
    loop {
        match decoder.next(&mut input) {
            Ok(Event::Head { .. }) => {}
            Ok(Event::Body(body)) => bytes += body.len(),
            Ok(Event::End) => count += 1,
            Ok(Event::NeedMore) | Err(_) => return (count, bytes),
        }
    }
}

fn replies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("file/reply");
    group.throughput(Throughput::Elements(DEPTH));
    let head = [&[Status::Found.byte()], &1024_u64.to_be_bytes()[..]].concat();
    let stream = [head, vec![b'x'; 1024]].concat().repeat(DEPTH as usize);
    let mut decoder = FramedReplies::default();
    assert_eq!(read_replies(&mut decoder, &stream), (DEPTH, 1024 * DEPTH as usize));
    group.bench_function("framed, 1 KiB", |bencher| bencher.iter(|| read_replies(&mut decoder, black_box(&stream))));
}

fn messages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mserve/request");
    group.throughput(Throughput::Elements(DEPTH));
    let paths: Vec<_> = (0..DEPTH).map(|at| format!("documents/{at:05}.pdf;client-{at:05}")).collect();
    assert!(paths.iter().all(|path| mserve::Request::parse(path.as_bytes()).is_ok()));
    group.bench_function("bare", |bencher| {
        bencher.iter(|| {
            let parsed = paths.iter().filter(|path| mserve::Request::parse(black_box(path.as_bytes())).is_ok());
            parsed.count()
        });
    });
}

criterion_group!(benches, requests, replies, messages);
criterion_main!(benches);
