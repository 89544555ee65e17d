//! Parts of files: from memory, from shared memory and from a descriptor.

use std::ops::Range;

use http_server::SiteOptions;
use proptest::prelude::*;
use testkit::http::Response;

use crate::common::World;

/// One file for each place that its bytes can be in, and an empty one.
const FILES: [(&str, usize); 4] =
    [("/inline.txt", 100), ("/shared.txt", 7_000), ("/open.txt", 30_000), ("/empty.txt", 0)];

fn contents(len: usize) -> Vec<u8> {
    (0..len).map(|at| b'a' + (at * at / 7 % 26) as u8).collect()
}

fn world() -> World {
    let world = World::new(SiteOptions::default());
    for (path, len) in FILES {
        world.write(&path[1..], contents(len));
    }
    world
}

fn ranged(world: &World, path: &str, range: &str) -> Response {
    world.get_with(path, &format!("Range: {range}\r\n"))
}

/// The parts of a multipart body (RFC 2046, section 5.1.1): the range that each claims to be, and its bytes.
fn parts(response: &Response) -> Vec<(String, Vec<u8>)> {
    let boundary = response.field("content-type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    let (mut rest, mut parts) = (&response.body[..], Vec::new());
    let mut delimiter = format!("--{boundary}");
    loop {
        rest = rest.strip_prefix(delimiter.as_bytes()).expect("a delimiter");
        if rest == b"--\r\n" {
            return parts;
        }
        let head_len = rest.windows(4).position(|four| four == b"\r\n\r\n").expect("the head of a part") + 4;
        let head = std::str::from_utf8(&rest[..head_len]).unwrap();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap();
        assert_eq!(field("Content-Type"), "text/plain; charset=utf-8");
        let range = field("Content-Range").to_owned();
        delimiter = format!("\r\n--{boundary}");
        let body = &rest[head_len..];
        let len = body.windows(delimiter.len()).position(|at| at == delimiter.as_bytes()).expect("an end");
        parts.push((range, body[..len].to_vec()));
        rest = &body[len..];
    }
}

fn content_range(part: &Range<usize>, size: usize) -> String {
    format!("bytes {}-{}/{size}", part.start, part.end - 1)
}

#[test]
fn a_part_has_its_range_and_the_validators_of_the_whole() {
    let world = world();
    for _ in ["opened", "cached"] {
        for (path, size) in FILES.into_iter().filter(|(_, size)| *size > 0) {
            let whole = world.get(path);
            assert_eq!(whole.field("accept-ranges"), Some("bytes"));
            for (range, part) in
                [("bytes=0-4", 0..5), ("bytes=-5", size - 5..size), ("bytes=0-", 0..size), ("bytes=7-7, 999999-", 7..8)]
            {
                let got = ranged(&world, path, range);
                assert_eq!((got.status, &got.body[..]), (206, &whole.body[part.clone()]), "{path} {range}");
                assert_eq!(got.field("content-range"), Some(&*content_range(&part, size)));
                for same in ["content-type", "etag", "last-modified"] {
                    assert_eq!(got.field(same), whole.field(same), "{path} {range}");
                }
            }
        }
    }
}

#[test]
fn an_unsatisfiable_range_is_416_with_the_size() {
    let world = world();
    for (path, size) in FILES {
        let got = ranged(&world, path, &format!("bytes={size}-"));
        assert_eq!((got.status, got.field("content-range")), (416, Some(&*format!("bytes */{size}"))));
    }
    let got = ranged(&world, "/empty.txt", "bytes=-1");
    assert_eq!((got.status, got.body), (200, vec![]), "the last byte of nothing is all of it");
}

/// Preconditions come first, then If-Range; HEAD and nonsense know no ranges.
#[test]
fn a_range_is_an_offer_that_may_be_ignored() {
    let mut world = world();
    world.pass(std::time::Duration::from_secs(2));
    for (path, size) in FILES.into_iter().filter(|(_, size)| *size > 0) {
        let whole = world.get(path);
        let (etag, modified) = (whole.field("etag").unwrap(), whole.field("last-modified").unwrap());
        let part = "Range: bytes=1-2\r\n";
        for (fields, status) in [
            (format!("{part}If-Range: {etag}\r\n"), 206),
            (format!("{part}If-Range: {modified}\r\n"), 206),
            (format!("{part}If-Range: \"other\"\r\n"), 200),
            (format!("{part}If-Range: W/{etag}\r\n"), 200),
            (format!("{part}If-Range: Thu, 01 Jan 1970 00:00:00 GMT\r\n"), 200),
            (format!("{part}If-None-Match: {etag}\r\n"), 304),
            (format!("{part}If-Match: \"other\"\r\n"), 412),
            (format!("{part}If-Match: {etag}\r\n"), 206),
            (format!("{part}{part}"), 200),
            ("Range: lines=1-2\r\n".into(), 200),
            ("Range: bytes=0-5,5-6\r\n".into(), 200),
            (format!("Range: bytes={}\r\n", "-1,".repeat(17)), 200),
        ] {
            let got = world.get_with(path, &fields);
            assert_eq!(got.status, status, "{path} {fields:?}");
            if status == 200 {
                assert_eq!((got.body.len(), got.field("content-range")), (size, None));
            }
        }
        let head = world.ask(&format!("HEAD {path} HTTP/1.1\r\nHost: h\r\n{part}\r\n"));
        assert_eq!(head, Response { body: vec![], ..whole }, "ranges are defined for GET");
    }
}

#[test]
fn old_clients_keep_their_connection_over_a_part() {
    let world = world();
    let got = world.ask("GET /shared.txt HTTP/1.0\r\nConnection: keep-alive\r\nRange: bytes=0-0,-1\r\n\r\n");
    assert_eq!((got.status, got.field("connection"), parts(&got).len()), (206, Some("keep-alive"), 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any ranges that do not overlap come back as they were asked for, in their order.
    #[test]
    fn several_parts_come_in_one_body(
        cuts in proptest::collection::btree_set(0..7_000_usize, 4..20),
        is_reversed in any::<bool>(),
    ) {
        let world = world();
        for (path, size) in FILES {
            let cuts: Vec<usize> = cuts.iter().copied().filter(|&at| at <= size).collect();
            let mut wanted: Vec<Range<usize>> = cuts.chunks_exact(2).map(|two| two[0]..two[1]).collect();
            if is_reversed {
                wanted.reverse();
            }
            if wanted.len() < 2 {
                continue;
            }
            let list: Vec<String> = wanted.iter().map(|part| format!("{}-{}", part.start, part.end - 1)).collect();
            let got = ranged(&world, path, &format!("bytes={}", list.join(",")));
            prop_assert_eq!((got.status, got.field("content-range")), (206, None));
            let bytes = contents(size);
            let want: Vec<_> =
                wanted.iter().map(|part| (content_range(part, size), bytes[part.clone()].to_vec())).collect();
            prop_assert_eq!(parts(&got), want);
        }
    }
}
