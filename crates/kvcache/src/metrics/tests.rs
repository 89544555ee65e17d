use prometheus_client::{encoding::text::encode, registry::Registry};
use store::{Attributes, HashbrownStore, Moment};

use super::*;
use crate::{
    connection::{Conn, FrontEnd},
    testing,
    testing::Server,
};

fn text(server: &Server) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics::new(Arc::clone(server))));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

fn expect(server: &Server, lines: &[&str]) {
    let text = text(server);
    for &line in lines {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

/// Sends each of these requests alone and expects its reply.
fn ask(server: &Server, conn: &mut Conn<HashbrownStore>, requests: &[(&str, &str)]) {
    for &(request, answer) in requests {
        assert_eq!(testing::ask(server, conn, request.as_bytes()), answer, "{request:?}");
    }
}

/// A script that takes long has all shards: a scrape does not wait for it.
#[test]
fn the_keyspace_is_not_read_while_a_script_runs() {
    let (server, mut conn) = testing::server();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics::new(Arc::clone(&server))));
    let keys = || {
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text.lines().find_map(|line| line.strip_prefix("keys ")?.parse::<u64>().ok()).unwrap()
    };
    let pause = &server.state.clients.pause;
    ask(&server, &mut conn, &[("SET a 1\r\n", "+OK\r\n")]);
    assert_eq!(keys(), 1);
    pause.begin_script();
    let space = &server.state.space;
    let hash = space.hash(b"0b");
    space.lock(space.shard_of(hash)).set(hash, b"0b", b"1", Attributes::default(), Moment { unix_ms: 1 }).unwrap();
    assert_eq!(keys(), 1, "the last reading");
    pause.end_script();
    assert_eq!(keys(), 2);
}

#[test]
fn every_counter_is_exported_and_counts() {
    let (server, mut conn) = testing::server();
    for request in ["SET a 1\r\n", "GET a\r\n", "GET b\r\n", "GET\r\n", "SELECT x\r\n"] {
        testing::ask(&server, &mut conn, request.as_bytes());
    }
    expect(
        &server,
        &[
            "commands_total{protocol=\"resp\",command=\"get\"} 2",
            "commands_rejected_total{protocol=\"resp\",command=\"get\"} 1",
            "command_errors_total{protocol=\"resp\",command=\"select\"} 1",
            "command_duration_seconds_count{protocol=\"resp\",command=\"set\"} 1",
            "command_duration_seconds_bucket{le=\"+Inf\",protocol=\"resp\",command=\"get\"} 2",
            "keyspace_hits_total 1",
            "keyspace_misses_total 1",
            "evicted_keys_total 0",
            "expired_keys_total 0",
            "undecodable_values_total{reason=\"content\"} 0",
            "keys 1",
            "expiring_keys 0",
            "memory_limit_bytes 0",
            "memory_withheld_bytes 0",
        ],
    );
}

/// Requests of memcached clients and their replies.
const MEMCACHED: &[(&str, &str)] = &[
    ("set a 5 0 1\r\n1\r\n", "STORED\r\n"),
    ("set b 0 0 1 noreply\r\nx\r\n", ""),
    ("get a\r\n", "VALUE a 5 1\r\n1\r\nEND\r\n"),
    ("get c\r\n", "END\r\n"),
    ("get a c b\r\n", "VALUE a 5 1\r\n1\r\nVALUE b 0 1\r\nx\r\nEND\r\n"),
    ("mg a v\r\n", "VA 1\r\n1\r\n"),
    ("mg a u s\r\n", "HD s1\r\n"),
    ("mg c v u\r\n", "EN\r\n"),
    ("mg c v q\r\n", ""),
    ("ms d 1\r\n2\r\n", "HD\r\n"),
    ("incr b 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    ("incr b 1 noreply\r\n", ""),
    ("incr a 1\r\n", "2\r\n"),
    ("incr a x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
    ("touch a x noreply\r\n", ""),
    ("gat 0 a c\r\n", "VALUE a 5 1\r\n2\r\nEND\r\n"),
    ("delete a\r\n", "DELETED\r\n"),
    ("nonsense\r\n", "ERROR\r\n"),
    ("mn\r\n", "MN\r\n"),
];

const MEMCACHED_COUNTS: &[&str] = &[
    "commands_total{protocol=\"memcached\",command=\"set\"} 2",
    "commands_total{protocol=\"memcached\",command=\"get\"} 3",
    "commands_total{protocol=\"memcached\",command=\"gat\"} 1",
    "commands_total{protocol=\"memcached\",command=\"mg\"} 4",
    "commands_total{protocol=\"memcached\",command=\"ms\"} 1",
    "commands_total{protocol=\"memcached\",command=\"mn\"} 1",
    "commands_total{protocol=\"memcached\",command=\"incr\"} 3",
    "command_errors_total{protocol=\"memcached\",command=\"incr\"} 2",
    "command_errors_total{protocol=\"memcached\",command=\"get\"} 0",
    "commands_rejected_total{protocol=\"memcached\",command=\"incr\"} 1",
    "commands_rejected_total{protocol=\"memcached\",command=\"touch\"} 1",
    "commands_total{protocol=\"memcached\",command=\"delete\"} 1",
    "command_duration_seconds_count{protocol=\"memcached\",command=\"get\"} 3",
    "command_duration_seconds_bucket{le=\"+Inf\",protocol=\"memcached\",command=\"mg\"} 4",
    // By key: a, a b of three, a of mg twice, a of gat; c each time.
    "keyspace_hits_total 6",
    "keyspace_misses_total 5",
];

/// Returns what `stats` shows under this name.
fn stat(server: &Server, name: &str) -> Option<String> {
    let mut conn = testing::connect(server, FrontEnd::Memcached);
    let start = format!("STAT {name} ");
    ["stats\r\n", "stats commands\r\n"].iter().find_map(|request| {
        let answer = testing::ask(server, &mut conn, request.as_bytes());
        answer.split("\r\n").find_map(|line| line.strip_prefix(&start).map(str::to_owned))
    })
}

#[test]
fn memcached_commands_are_counted_alone_and_in_a_pipeline() {
    let whole = |of: fn(&(&'static str, &'static str)) -> &'static str| MEMCACHED.iter().map(of).collect::<String>();
    let (requests, answers) = (whole(|(request, _)| request), whole(|(_, answer)| answer));
    for pipelined in [false, true] {
        let (server, _) = testing::server();
        let mut conn = testing::connect(&server, FrontEnd::Memcached);
        match pipelined {
            false => ask(&server, &mut conn, MEMCACHED),
            true => ask(&server, &mut conn, &[(&requests, &answers)]),
        }
        expect(&server, MEMCACHED_COUNTS);
        for (name, value) in [
            ("get_hits", "6"),
            ("get_misses", "5"),
            ("cmd_get", "11"),
            ("cmd_set", "3"),
            ("commands:get:calls", "3"),
            ("commands:incr:calls", "3"),
            ("commands:incr:errors", "2"),
            ("commands:incr:rejected", "1"),
        ] {
            assert_eq!(stat(&server, name).as_deref(), Some(value), "{name}, pipelined: {pipelined}");
        }
    }
}

#[test]
fn stats_reset_clears_memcached_and_resetstat_everything() {
    let (server, mut conn) = testing::server();
    let mut memcached = testing::connect(&server, FrontEnd::Memcached);
    ask(&server, &mut conn, &[("GET a\r\n", "$-1\r\n")]);
    ask(&server, &mut memcached, &[("get a\r\n", "END\r\n"), ("stats reset\r\n", "RESET\r\n")]);
    let commands = |command: &str| text(&server).contains(&format!("commands_total{{{command}}}"));
    assert!(commands("protocol=\"resp\",command=\"get\""));
    assert!(!commands("protocol=\"memcached\",command=\"get\""));
    expect(&server, &["keyspace_misses_total 0"]);

    ask(&server, &mut memcached, &[("get a\r\n", "END\r\n")]);
    assert_eq!(stat(&server, "get_misses").as_deref(), Some("1"));
    ask(&server, &mut conn, &[("CONFIG RESETSTAT\r\n", "+OK\r\n")]);
    assert!(!commands("protocol=\"resp\",command=\"get\""));
    assert!(!commands("protocol=\"memcached\",command=\"get\""));
    assert_eq!(stat(&server, "get_misses").as_deref(), Some("0"));
}

#[test]
fn commands_of_the_0x1f_protocol_are_counted_apart() {
    let (server, _) = testing::server();
    let mut conn = testing::connect(&server, FrontEnd::Us);
    let requests = [
        ("SET a 1\x1f", "OK\x1f"),
        ("GET a\x1f", "1\x1f"),
        ("DEL b\x1f", "ERROR: Key does not exist\x1f"),
        ("MULTI\x1f", "OK\x1f"),
        ("GET a\x1f", "QUEUED\x1f"),
        ("EXEC\x1f", "1\x1f"),
        ("EXEC\x1f", "ERROR: EXEC without MULTI\x1f"),
    ];
    ask(&server, &mut conn, &requests);
    expect(
        &server,
        &[
            "commands_total{protocol=\"us\",command=\"get\"} 2",
            "commands_total{protocol=\"us\",command=\"set\"} 1",
            "command_errors_total{protocol=\"us\",command=\"del\"} 0",
            "commands_total{protocol=\"us\",command=\"exec\"} 2",
            "command_errors_total{protocol=\"us\",command=\"exec\"} 1",
        ],
    );
}

/// Stores values that no codec has made: one for each reason.
fn store_undecodable_values(server: &Server) {
    let space = &server.state.space;
    // An unknown algorithm, a truncated length, and a length without content.
    for (key, encoding, kept) in
        [(&b"algorithm"[..], 7, &b"\x01\0\0\0x"[..]), (b"length", 2, b"\x01\0"), (b"content", 2, b"\x09\0\0\0\xff")]
    {
        let attributes = Attributes { encoding, ..Attributes::default() };
        let now = Moment { unix_ms: 1 };
        space.lock(0).set(space.hash(key), key, kept, attributes, now).unwrap();
    }
}

#[test]
fn undecodable_values_are_misses_and_counted_by_reason() {
    let resp: &[(&str, &str)] = &[
        ("*2\r\n$3\r\nGET\r\n$9\r\nalgorithm\r\n", "$-1\r\n"),
        ("GET length\r\n", "$-1\r\n"),
        ("MGET content length\r\n", "*2\r\n$-1\r\n$-1\r\n"),
        ("CLIENT NO-TOUCH ON\r\n", "+OK\r\n"),
        ("GET content\r\n", "$-1\r\n"),
        // The key exists nevertheless, which is a hit.
        ("EXISTS content\r\n", ":1\r\n"),
    ];
    let us: &[(&str, &str)] = &[("GET length\x1f", "(nil)\x1f"), ("GET content\x1f", "(nil)\x1f")];
    let memcached: &[(&str, &str)] = &[
        ("get algorithm\r\n", "END\r\n"),
        ("gets content length\r\n", "END\r\n"),
        ("mg content v\r\n", "EN\r\n"),
        ("mg content v u\r\n", "EN\r\n"),
        ("mg content s q\r\n", ""),
    ];
    for (front_end, requests, hits, reads, by_reason) in [
        (FrontEnd::Detect, resp, 1, 5, [1, 2, 2]),
        (FrontEnd::Us, us, 0, 2, [0, 1, 1]),
        (FrontEnd::Memcached, memcached, 0, 6, [1, 1, 4]),
    ] {
        let (server, _) = testing::server();
        store_undecodable_values(&server);
        let mut conn = testing::connect(&server, front_end);
        ask(&server, &mut conn, requests);
        let reasons = ["algorithm", "length", "content"].into_iter().zip(by_reason);
        let reasons = reasons.map(|(reason, count)| format!("undecodable_values_total{{reason=\"{reason}\"}} {count}"));
        let (hits, misses) = (format!("keyspace_hits_total {hits}"), format!("keyspace_misses_total {reads}"));
        expect(&server, &[&hits, &misses]);
        expect(&server, &reasons.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
        if front_end == FrontEnd::Memcached {
            let told = ["get_hits", "get_misses", "cmd_get"].map(|name| stat(&server, name));
            assert_eq!(told.map(|value| value.unwrap()), ["0", "6", "6"]);
        }
    }
}
