//! Resources of the server's own that need no body.

use std::sync::atomic::Ordering;

use crate::site::{ask, front, statuses};

#[test]
fn the_site_is_asked_before_a_file_is_looked_for() {
    let front = front();
    for (request, status, says) in [
        ("GET /own/a", "200", true),
        ("HEAD /own/a", "200", false),
        ("PUT /own/a", "401", true),
        ("DELETE /own/a", "405", true),
        ("OPTIONS /own/a", "204", false),
        ("GET /small.txt", "200", true),
        ("GET /other", "404", true),
    ] {
        let (said, heard) = ask(&front, &format!("{request} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!((statuses(&said), heard.closed), (vec![status], false), "{request}");
        assert_eq!(!said.ends_with("\r\n\r\n"), says, "{request}: {said}");
        assert_eq!(said.contains("WWW-Authenticate: Bearer\r\n"), status == "401");
    }
}

/// Its end would have to be found before the next request.
#[test]
fn a_body_that_nobody_wants_costs_the_connection() {
    let front = front();
    for request in ["GET /own/a", "POST /own/a", "DELETE /own/a"] {
        let head = format!("{request} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
        let (said, heard) = ask(&front, &format!("{head}abcGET /own/a HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!((statuses(&said).len(), heard.lingers), (1, true), "{said}");
        assert!(said.contains("Connection: close\r\n") && !said.contains("100 Continue"), "{said}");
    }
}

#[test]
fn responses_and_bytes_are_counted_interim_ones_too() {
    let front = front();
    let input = "GET /own/a HTTP/1.1\r\nHost: h\r\n\r\n\
        PUT /own/a HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc\
        GET /large.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1,5-5000\r\n\r\n\
        GET /large.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=9000-\r\n\r\n";
    let (said, _) = ask(&front, input);
    assert_eq!(statuses(&said), ["200", "100", "201", "206", "416"]);
    let statistics = front.statistics();
    assert_eq!((statistics.responses, statistics.bytes), ([1, 3, 0, 1, 0], said.len() as u64));
    assert_eq!(front.site().answered.load(Ordering::Relaxed), 4, "a 100 is no answer");
}
