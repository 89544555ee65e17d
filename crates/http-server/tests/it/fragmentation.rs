//! Replies do not depend on how requests are torn.

use http_server::SiteOptions;
use proptest::prelude::*;
use testkit::in_memory::Chunking;

use crate::common::World;

const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "\r\nHEAD /large.bin HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /large.bin HTTP/1.1\r\nHost: h\r\nUser-Agent: a long name of a program/1.0 (with remarks)\r\n\r\n",
    "GET /middle%2Ebin HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /missing HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n",
    "GET /large.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=100-20099\r\n\r\n",
    "GET /large.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=-1,0-9999\r\n\r\n",
    "GET /middle.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=5-4000,4001-4002\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=3-4, 0-1\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=10-\r\n\r\n",
    "BREW / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /../x HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /large.bin HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4;x\r\nGET \r\n00\r\nA: b\r\n\r\n",
    "POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\nGET / H",
];

const LAST: &[&str] = &[
    "",
    "GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /a.txt HTTP/1.1\nHost: h\n\n",
    "POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nab",
    "GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "GET /a.t",
];

fn world() -> World {
    let world = World::new(SiteOptions::default());
    world.write("index.html", "<p>home");
    world.write("a.txt", "0123456789");
    world.write("middle.bin", vec![b'm'; 7_000]);
    world.write("large.bin", vec![b'l'; 60_000]);
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn replies_do_not_depend_on_fragmentation(
        picks in proptest::collection::vec(0..REQUESTS.len(), 0..90),
        last in 0..LAST.len(),
        input_bytes in 1..300_usize,
        output_bytes in 1..40_000_usize,
    ) {
        let world = world();
        let mut input: String = picks.iter().map(|&pick| REQUESTS[pick]).collect();
        input += LAST[last];
        let whole = world.exchange(input.as_bytes(), input.len().max(1));
        let torn = world.exchange_in_chunks(input.as_bytes(), Chunking { input_bytes, output_bytes });
        prop_assert!(whole.bytes == torn.bytes && whole.is_closed == torn.is_closed);
        let methods: Vec<&str> = picks.iter().map(|&pick| REQUESTS[pick].trim_start().split(' ').next().unwrap()).collect();
        let extra = usize::from(!matches!(LAST[last], "" | "GET /a.t"));
        prop_assert_eq!(whole.responses(&methods).len(), picks.len() + extra);
        prop_assert_eq!(whole.is_closed, extra > 0);
    }

    #[test]
    fn no_input_panics(input in proptest::collection::vec(any::<u8>(), 0..400), chunk in 1..50_usize) {
        let world = World::new(SiteOptions::default());
        let whole = world.exchange(&input, input.len().max(1));
        prop_assert!(whole.bytes == world.exchange(&input, chunk).bytes);
    }
}
