//! A connection of the trace: its requests, and how they are torn. All of it follows from the seed and its number.

use std::ops::Range;

/// Requests of one connection.
const REQUESTS: Range<usize> = 1..400;
/// Connections of which one breaks off.
const BROKEN_OFF: u64 = 8;
/// Length of the longest piece that requests are sent in: some are one byte, some several requests.
const PIECE_MAX: usize = 4_000;
/// Files that are asked for, and their lengths.
pub(crate) const FILES: [(&str, usize); 6] = [
    ("EMPTY000", 0),
    ("SMALL000", 128),
    ("MEDIUM00", 4_000),
    ("MEDIUM01", 26_510),
    ("LARGE000", 70_000),
    ("LARGE001", 300_000),
];

/// Kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    Kv,
    File,
}

/// Requests of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    kind: Kind,
    pub(crate) requests: Vec<Vec<u8>>,
    /// Seed of the pieces.
    pieces: u64,
    /// The connection is made twice: once to its end, and once reset in the middle.
    pub(crate) is_broken_off: bool,
}

/// Returns the number of connections that make so many requests.
pub(crate) fn connections(kind: Kind, seed: u64, requests: u64) -> u64 {
    let (mut connections, mut made) = (0, 0);
    while made < requests {
        made += Script::new(kind, seed, connections).requests.len() as u64;
        connections += 1;
    }
    connections
}

impl Script {
    pub(crate) fn new(kind: Kind, seed: u64, number: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let mut requests: Vec<_> =
            (0..random.usize(REQUESTS)).map(|at| request(kind, &mut random, number, at)).collect();
        // It ends the connection, so nothing may follow.
        if random.u8(..) < 32 {
            requests.push(malformed(kind).to_vec());
        }
        Self { kind, requests, pieces: random.u64(..), is_broken_off: number.is_multiple_of(BROKEN_OFF) }
    }

    /// The same with other keys, so that what it writes is not what the whole one has written.
    pub(crate) fn renamed(&self) -> Self {
        let mut renamed = self.clone();
        if self.kind == Kind::Kv {
            for request in &mut renamed.requests {
                *request = replace(request, b"key:a", b"key:b");
            }
        }
        renamed
    }

    /// The first requests only.
    pub(crate) fn first(&self, count: usize) -> Self {
        Self { requests: self.requests[..count].to_vec(), ..self.clone() }
    }

    /// Returns the pieces that the requests are sent in, the same each time.
    pub(crate) fn pieces(&self) -> Vec<Vec<u8>> {
        let (all, mut pieces) = (self.requests.concat(), Vec::new());
        let (mut rest, mut random) = (&all[..], fastrand::Rng::with_seed(self.pieces));
        while !rest.is_empty() {
            let longest = if random.u8(..) < 64 { 12 } else { PIECE_MAX };
            let (piece, more) = rest.split_at(random.usize(1..=longest).min(rest.len()));
            pieces.push(piece.to_vec());
            rest = more;
        }
        pieces
    }
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = bytes.to_vec();
    for at in 0..bytes.len().saturating_sub(from.len() - 1) {
        if bytes[at..].starts_with(from) {
            replaced[at..at + to.len()].copy_from_slice(to);
        }
    }
    replaced
}

fn request(kind: Kind, random: &mut fastrand::Rng, number: u64, at: usize) -> Vec<u8> {
    match kind {
        Kind::Http => http(random),
        Kind::Kv => kv(random, number, at),
        Kind::File => framed(random),
    }
}

/// Large files are rare.
fn file(random: &mut fastrand::Rng) -> (&'static str, usize) {
    let at = if random.u8(..) < 8 { random.usize(..FILES.len()) } else { random.usize(..3) };
    FILES[at]
}

fn http(random: &mut fastrand::Rng) -> Vec<u8> {
    let (name, len) = file(random);
    let (method, target, fields) = match random.u8(..16) {
        0 => ("HEAD", format!("/{name}"), String::new()),
        1 => ("GET", "/missing".to_owned(), String::new()),
        // Another thread lists a directory.
        2 => ("GET", "/directory/".to_owned(), String::new()),
        3 => ("GET", "/directory".to_owned(), String::new()),
        4 => ("GET", format!("/{name}"), format!("Range: bytes={}-{}\r\n", random.usize(..=len), len)),
        5 => ("GET", format!("/{name}"), "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n".to_owned()),
        6 => ("DELETE", format!("/{name}"), String::new()),
        7 => ("GET", format!("/{name}"), format!("X-Long: {}\r\n", "x".repeat(random.usize(..2_000)))),
        _ => ("GET", format!("/{name}"), String::new()),
    };
    format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").into_bytes()
}

fn framed(random: &mut fastrand::Rng) -> Vec<u8> {
    let name = match random.u8(..16) {
        0 => "MISSING0",
        1 => "../x",
        _ => file(random).0,
    };
    let mut request = (name.len() as u16).to_be_bytes().to_vec();
    request.extend_from_slice(name.as_bytes());
    request
}

/// Keys are the connection's own: what others do at the same time must not show.
fn kv(random: &mut fastrand::Rng, number: u64, at: usize) -> Vec<u8> {
    let mut key = || format!("key:a{number:06}:{}", random.u8(..8));
    let (first, second) = (key(), key());
    let value = || "v".repeat(at % 40 * 50);
    let words: Vec<String> = match at % 17 {
        0 => vec!["SET".into(), first, value()],
        1 => vec!["APPEND".into(), first, "more".into()],
        2 => vec!["MGET".into(), first, second, "missing".into()],
        3 => vec!["INCR".into(), format!("{first}:number")],
        4 => vec!["DEL".into(), first, second],
        5 => vec!["HSET".into(), format!("{first}:hash"), "field".into(), value()],
        6 => vec!["HGETALL".into(), format!("{first}:hash")],
        7 => vec!["MULTI".into()],
        8 => vec!["STRLEN".into(), first],
        9 => vec!["EXEC".into()],
        10 => vec!["NOCOMMAND".into(), "x".into()],
        11 => vec!["ECHO".into(), format!("request {at}")],
        12 => vec!["EVAL".into(), "return redis.call('GET', KEYS[1]) or 'nothing'".into(), "1".into(), first],
        13 => vec!["SADD".into(), format!("{first}:set"), at.to_string()],
        14 => vec!["SCARD".into(), format!("{first}:set")],
        15 => vec!["INCR".into(), format!("{first}:hash")],
        _ => vec!["GET".into(), first],
    };
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    request
}

fn malformed(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Http => b"GET / HTTP/1.1\r\nHost : h\r\n\r\n",
        Kind::Kv => b"*1\r\n!\r\n",
        Kind::File => &[0, 0],
    }
}
