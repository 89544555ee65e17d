//! Replies do not depend on how requests and bodies are torn, nor on how replies trickle away.

use proptest::prelude::*;
use testkit::in_memory::{Chunking, exchange};

use crate::site::{now, server};

const REQUESTS: &[&str] = &[
    "GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /large.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=10-8000\r\n\r\n",
    "GET /large.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=-4000,0-0,17-17\r\n\r\n",
    "GET /small.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=300-\r\n\r\n",
    "\r\nHEAD /own/a HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /own/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /own/b HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nContent-Length: 0\r\n\r\n",
    "PUT /own/b HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nContent-Length: 39\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\nHTTP/1.1\r\n",
    "PUT /own/c HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n\r",
    "PUT /own/c HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "PUT /own/c HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n3;a=b\r\n0\r\n\r\n01c\r\nHTTP/1.1\r\nGET / HTTP/1.1\r\n\r\n\r\n0\r\nA: b\r\n\r\n",
    "GET /small.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 27\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /large.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\n0\r\n\r\n\r\n0\r\nA: b\r\n\r\n",
    "HEAD /own/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "DELETE /own/a HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n\r\n",
    "PUT /own/conflict HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nContent-Length: 2\r\n\r\n\r\n",
];

const LAST: &[&str] = &[
    "",
    "GET /small.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "PUT /own/d HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nContent-Length: 9\r\n\r\nonly",
    "PUT /own/d HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nContent-Length: 5001\r\n\r\nabc",
    "PUT /own/d HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n",
    "PUT /own/d HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "PUT /own/d HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "PUT /own/d HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
    "GET /small.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "GET /small.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET",
    "GET /small.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 70000\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET",
    "OPTIONS * HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\nzz\r\n",
    "PUT /own/d HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabcGET",
];

#[test]
fn requests_are_as_long_as_they_say() {
    for request in REQUESTS {
        let transcript = exchange(
            &server(),
            format!("{request}GET /own/last HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes(),
            Chunking::UNLIMITED,
            now(),
        );
        assert!(transcript.bytes.ends_with(b"\r\n\r\nown") && !transcript.is_closed, "{request}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn replies_do_not_depend_on_fragmentation(
        picks in proptest::collection::vec(0..REQUESTS.len(), 0..90),
        last in 0..LAST.len(),
        input_bytes in 1..200_usize,
        output_bytes in 1..20_000_usize,
    ) {
        let (server, now) = (server(), now());
        let mut input: String = picks.iter().map(|&pick| REQUESTS[pick]).collect();
        input += LAST[last];
        let whole = exchange(&server, input.as_bytes(), Chunking::UNLIMITED, now);
        let torn = exchange(&server, input.as_bytes(), Chunking { input_bytes, output_bytes }, now);
        // The input that has arrived by then decides between close and linger, but never the replies.
        prop_assert!(whole.bytes == torn.bytes && whole.is_closed == torn.is_closed);
        prop_assert_eq!(whole.is_closed, !matches!(last, 0 | 2 | 4 | 7));
    }

    #[test]
    fn no_input_panics(input in "(PUT|GET) /(own/a|small.txt) HTTP/1.1\r\n(Host: h\r\n|X-Token: t\r\n|Content-Length: [0-9]{1,2}\r\n|Transfer-Encoding: chunked\r\n|Range: bytes=[0-9,-]{1,9}\r\n){0,5}\r\n([a-z]{0,40}|([0-9a]\r\n[a-z]{0,9}\r\n){0,4})", input_bytes in 1..50_usize) {
        let (server, now) = (server(), now());
        let whole = exchange(&server, input.as_bytes(), Chunking::UNLIMITED, now);
        let torn = exchange(&server, input.as_bytes(), Chunking { input_bytes, output_bytes: 7 }, now);
        prop_assert!(whole.bytes == torn.bytes && whole.is_closed == torn.is_closed);
    }
}
