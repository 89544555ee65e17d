//! Requests whose framing two readers might understand differently, each with another one in its body or behind it.

use std::collections::BTreeSet;

/// Request that must not be answered where it is part of another one's body.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n";
/// Request behind it all.
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n";
/// Seed of the mutations by chance, and their number.
const SEED: u64 = 9112;
const BY_CHANCE: usize = 2600;

/// Bytes that some readers skip, and others do not.
const ODD: [&str; 24] = [
    "\0", "\u{1}", "\u{8}", "\t", "\n", "\u{b}", "\u{c}", "\r", " ", "\u{1f}", "\u{7f}", "\u{85}", "\u{a0}",
    "\u{feff}", ":", ",", ";", "\"", "+", "-", "0", "_", "x", "\r\n",
];

/// Ends of lines, folded ones among them.
const LINE_ENDS: [&str; 18] = [
    "\n",
    "\r",
    "\n\r",
    "\r\r\n",
    "\r\n\n",
    "\n\n",
    "\r\n ",
    "\r\n\t",
    "\n ",
    " \r\n",
    "\t\r\n",
    "\u{b}\r\n",
    "\0\r\n",
    "\\r\\n",
    "\u{85}",
    "\u{2028}",
    "",
    "\r\n\r",
];

/// Spellings of a length; `N` is it, `H` the same with base 16.
const LENGTHS: [&str; 41] = [
    "+N",
    "-N",
    "0N",
    "00000000000000000000N",
    "N.0",
    "N.",
    "Ne0",
    "0xH",
    "0XH",
    "0oN",
    "\"N\"",
    "'N'",
    "(N)",
    "N,N",
    "N, N",
    "N;N",
    "N N",
    "N;",
    "N,",
    ",N",
    "N\t",
    "\tN",
    " N",
    "N ",
    "N\u{b}",
    "\u{b}N",
    "N\0",
    "\0N",
    "N_0",
    "N_",
    "Nx",
    "18446744073709551616",
    "4294967296",
    "-1",
    "",
    "0, N",
    "N, 0",
    "0",
    "1",
    "\u{ff11}\u{ff10}",
    "NaN",
];

/// Spellings of a coding.
const CODINGS: [&str; 45] = [
    "chunked",
    "Chunked",
    "CHUNKED",
    " chunked ",
    "\tchunked",
    "chunked\t",
    "\u{b}chunked",
    "chunked\u{b}",
    "\u{c}chunked",
    "\0chunked",
    "chunked\0",
    "\u{a0}chunked",
    "xchunked",
    "chunkedx",
    "chunked-",
    "x-chunked",
    "chunked,",
    ",chunked",
    ", chunked",
    "chunked, chunked",
    "chunked,chunked",
    "chunked, identity",
    "identity, chunked",
    "identity",
    "gzip, chunked",
    "chunked, gzip",
    "gzip",
    "x, chunked",
    "chunked;q=1",
    "chunked; a=b",
    "\"chunked\"",
    "'chunked'",
    "[chunked]",
    "chunked:",
    ": chunked",
    "chun ked",
    "chun\tked",
    "chun\u{212a}ed",
    "chunke",
    "cow",
    "chunked chunked",
    "chunked\u{2028}",
    "\u{feff}chunked",
    "",
    "none",
];

/// Spellings of a field's name.
const NAMES: [(&str, &[&str]); 2] = [
    (
        "Content-Length",
        &["content-length", "CONTENT-LENGTH", "Content_Length", "Content Length", "ContentLength", "Content-Length "],
    ),
    (
        "Transfer-Encoding",
        &["transfer-encoding", "TRANSFER-ENCODING", "Transfer_Encoding", "Transfer Encoding", "Transfer-Encoding\t"],
    ),
];

/// Sizes of a chunk of as many bytes as `H` says.
const SIZES: [&str; 26] = [
    "+H",
    "-H",
    "0xH",
    "0H",
    "00H",
    "000000000000000000H",
    "H ",
    " H",
    "H\t",
    "H;",
    "H;a",
    "H;a=b",
    "H ;a=\"b\"",
    "H;\0",
    "H;\n",
    "H\n",
    "H\r",
    "H,",
    "H.0",
    "Hg",
    "H H",
    "\"H\"",
    "10000000000000000H",
    "f000000000000000H",
    "",
    "H;a\u{b}",
];

/// Ends of a body in chunks.
const LAST_CHUNKS: [&str; 24] = [
    "0\r\n\r\n",
    "00\r\n\r\n",
    "0;\r\n\r\n",
    "0;a=b\r\n\r\n",
    "0 \r\n\r\n",
    "0\n\n",
    "0\r\n\n",
    "0\n\r\n",
    "0\r\r",
    "0\r\n\r",
    "0\r\n",
    "0",
    "\r\n\r\n",
    "0\r\nA: b\r\n\r\n",
    "0\r\n A: b\r\n\r\n",
    "0\r\nA: b\n\n",
    "0\r\nA: b\r\n c\r\n\r\n",
    "0\r\nContent-Length: 5\r\n\r\n",
    "0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "0\r\nA\r\n\r\n",
    "0\r\n: b\r\n\r\n",
    "0\r\nA b: c\r\n\r\n",
    "-0\r\n\r\n",
    "0x0\r\n\r\n",
];

/// Returns all of them, each once, in an order that is always the same.
pub(super) fn all() -> Vec<Vec<u8>> {
    let mut all = BTreeSet::new();
    for method in ["POST", "GET"] {
        let line = format!("{method} /first HTTP/1.1\r\n");
        let mut add = |head: &str, body: &str| {
            all.insert(format!("{line}Host: h\r\n{head}\r\n{body}{NEXT}").into_bytes());
        };
        lengths(&mut add);
        codings(&mut add);
        chunks(&mut add);
        for (head, body) in heads() {
            let whole = format!("{line}Host: h\r\n{head}\r\n{body}{NEXT}");
            for other in torn_lines(&whole, line.len(), line.len() + "Host: h\r\n".len() + head.len() + 2) {
                all.insert(other.into_bytes());
            }
            for other in request_lines(method) {
                all.insert(whole.replacen(&line, &other, 1).into_bytes());
            }
        }
    }
    let models: Vec<_> = all.iter().cloned().collect();
    let mut chance = Chance(SEED);
    let wanted = all.len() + BY_CHANCE;
    while all.len() < wanted {
        let model = chance.below(models.len());
        all.insert(chance.mutate(&models[model]));
    }
    all.into_iter().collect()
}

fn chunk(contents: &str) -> String {
    format!("{:x}\r\n{contents}\r\n0\r\n\r\n", contents.len())
}

fn content_length(length: impl std::fmt::Display) -> String {
    format!("Content-Length: {length}\r\n")
}

/// Returns heads and bodies that are read alike by all, or that no one should read.
fn heads() -> Vec<(String, String)> {
    let coding = "Transfer-Encoding: chunked\r\n";
    let in_chunk = chunk(HIDDEN);
    let behind_end = format!("0\r\n\r\n{HIDDEN}");
    vec![
        (content_length(HIDDEN.len()), HIDDEN.to_owned()),
        (content_length(0), HIDDEN.to_owned()),
        (coding.to_owned(), in_chunk.clone()),
        (coding.to_owned(), behind_end.clone()),
        (content_length(behind_end.len()) + coding, behind_end.clone()),
        (coding.to_owned() + &content_length(4), in_chunk),
        (content_length(0) + &content_length(HIDDEN.len()), HIDDEN.to_owned()),
    ]
}

fn lengths(add: &mut impl FnMut(&str, &str)) {
    let length = HIDDEN.len();
    let spelled = |spelling: &str| spelling.replace('N', &length.to_string()).replace('H', &format!("{length:x}"));
    for spelling in LENGTHS {
        let value = spelled(spelling);
        add(&content_length(&value), HIDDEN);
        for other in [content_length(length), content_length(0), "Transfer-Encoding: chunked\r\n".to_owned()] {
            add(&(content_length(&value) + &other), HIDDEN);
            add(&(other + &content_length(&value)), HIDDEN);
        }
    }
    for other in [length - 1, length + 1, length + NEXT.len(), 4] {
        add(&content_length(other), HIDDEN);
    }
    for name in NAMES[0].1 {
        add(&format!("{name}: {length}\r\n"), HIDDEN);
        add(&format!("{name}: 0\r\n{}", content_length(length)), HIDDEN);
    }
}

fn codings(add: &mut impl FnMut(&str, &str)) {
    let bodies = [chunk(HIDDEN), format!("0\r\n\r\n{HIDDEN}")];
    for body in &bodies {
        for spelling in CODINGS {
            let field = format!("Transfer-Encoding: {spelling}\r\n");
            add(&field, body);
            for other in [content_length(body.len()), content_length(5), "Transfer-Encoding: chunked\r\n".to_owned()] {
                add(&(field.clone() + &other), body);
                add(&(other + &field), body);
            }
        }
        for name in NAMES[1].1 {
            add(&format!("{name}: chunked\r\n"), body);
            add(&format!("{name}: chunked\r\n{}", content_length(body.len())), body);
        }
    }
}

fn chunks(add: &mut impl FnMut(&str, &str)) {
    let coding = "Transfer-Encoding: chunked\r\n";
    for spelling in SIZES {
        let size = spelling.replace('H', &format!("{:x}", HIDDEN.len()));
        add(coding, &format!("{size}\r\n{HIDDEN}\r\n0\r\n\r\n"));
        add(coding, &format!("1\r\na\r\n{size}\r\n{HIDDEN}\r\n0\r\n\r\n"));
    }
    for end in LINE_ENDS {
        add(coding, &format!("{:x}{end}{HIDDEN}\r\n0\r\n\r\n", HIDDEN.len()));
        add(coding, &format!("{:x}\r\n{HIDDEN}{end}0\r\n\r\n", HIDDEN.len()));
    }
    for last in LAST_CHUNKS {
        add(coding, &format!("1\r\na\r\n{last}{HIDDEN}"));
        add(coding, &format!("{last}{HIDDEN}"));
    }
    // A request as a trailer, and in the extension of a chunk.
    add(coding, &format!("0\r\n{HIDDEN}"));
    add(coding, &format!("1;{HIDDEN}a\r\n0\r\n\r\n"));
}

/// Returns a text with each end of a line in the head replaced, and odd bytes at all edges of its names and values.
fn torn_lines(whole: &str, start: usize, end: usize) -> Vec<String> {
    let mut torn = Vec::new();
    for (at, byte) in whole.bytes().enumerate().take(end) {
        if whole[at..].starts_with("\r\n") {
            torn.extend(LINE_ENDS.map(|line_end| format!("{}{line_end}{}", &whole[..at], &whole[at + 2..])));
        }
        let is_edge = at >= start && matches!(byte, b':' | b' ' | b'\r' | b'\n' | b'-');
        for edge in [at, at + 1].into_iter().filter(|_| is_edge) {
            torn.extend(ODD.map(|odd| format!("{}{odd}{}", &whole[..edge], &whole[edge..])));
        }
    }
    torn
}

fn request_lines(method: &str) -> Vec<String> {
    let others = [
        "M /first HTTP/1.0\r\n",
        "M /first HTTP/1.2\r\n",
        "M /first HTTP/0.9\r\n",
        "M /first HTTP/1.10\r\n",
        "M /first http/1.1\r\n",
        "M  /first HTTP/1.1\r\n",
        "M /first  HTTP/1.1\r\n",
        "M\t/first HTTP/1.1\r\n",
        "M /first HTTP/1.1 \r\n",
        " M /first HTTP/1.1\r\n",
        "\nM /first HTTP/1.1\r\n",
        "\r\nM /first HTTP/1.1\r\n",
        "\rM /first HTTP/1.1\r\n",
        "\0M /first HTTP/1.1\r\n",
        "M /first\r\n",
        "M http://h/first HTTP/1.1\r\n",
        "M /first /hidden HTTP/1.1\r\n",
        "M /first HTTP/1.1\r\n \r\n",
        "M /first HTTP/1.1\r\n X: y\r\n",
        "M /first HTTP/1.1\r\nConnection: close, x\r\n",
        "M /first HTTP/1.1\r\nConnection: content-length, transfer-encoding\r\n",
        "M /first HTTP/1.1\r\nX\r\n",
        "M /first HTTP/1.1\r\n: x\r\n",
        "M /first HTTP/1.1\r\nUpgrade: h2c\r\nConnection: upgrade\r\n",
        "M /first\0 HTTP/1.1\r\n",
    ];
    others.iter().map(|line| line.replacen('M', method, 1)).collect()
}

/// Output of SplitMix64 (Steele, Lea, Flood 2014).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ z >> 31) % bound.max(1) as u64).unwrap_or_default()
    }

    /// Returns a stream with one to three bytes inserted, taken out or replaced, or lines said twice or exchanged.
    fn mutate(&mut self, stream: &[u8]) -> Vec<u8> {
        let mut stream = stream.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(stream.len());
            let odd = ODD[self.below(ODD.len())].bytes();
            match self.below(6) {
                0 => drop(stream.splice(at..at, odd)),
                1 => drop(stream.splice(at..=at, odd)),
                2 => drop(stream.remove(at)),
                3 => stream[at] ^= 1 << self.below(8),
                choice => {
                    let mut lines: Vec<_> = stream.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
                    let (from, to) = (self.below(lines.len()), self.below(lines.len()));
                    let line = if choice == 4 { lines[from].clone() } else { lines.remove(from) };
                    lines.insert(to.min(lines.len()), line);
                    stream = lines.concat();
                }
            }
        }
        stream
    }
}
