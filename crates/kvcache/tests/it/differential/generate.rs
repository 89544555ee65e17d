//! Random commands, most of them valid.

mod sets;

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use fastrand::Rng;

use super::Check;

/// Seconds by which two answers about time may differ on a busy machine.
const LATE_S: u64 = 60;
const KEYS: usize = 30;

/// Patterns of commands. A word in `<>` stands for a random value, `a|b` for one of both; a word with `?` may be missing,
/// one with `*` occurs up to three times. All lines are equally likely.
const PATTERNS: &[(&str, Check)] = &[
    ("GET <key>", Check::Exact),
    ("GET <key>", Check::Exact),
    ("SET <key> <value>", Check::Exact),
    ("SET <key> <value>", Check::Exact),
    ("SET <key> <value> <set>*", Check::Exact),
    ("SET <key> <value> <set>* <time>?", Check::Exact),
    ("SET <key> <value> <time> <set>*", Check::Exact),
    ("SET <key> <value> PXAT|EXAT 1", Check::Exact),
    ("SETNX <key> <value>", Check::Exact),
    ("SETEX <key> <ttl> <value>", Check::Exact),
    ("PSETEX <key> <pttl> <value>", Check::Exact),
    ("GETEX <key>", Check::Exact),
    ("GETEX <key> <time>|PERSIST", Check::Exact),
    ("GETEX <key> <time> <time>|PERSIST?", Check::Exact),
    ("GETEX <key> PXAT|EXAT 1", Check::Exact),
    ("GETDEL <key>", Check::Exact),
    ("GETSET <key> <value>", Check::Exact),
    ("MGET <key> <key>*", Check::Exact),
    ("MSET <key> <value> <key> <value>", Check::Exact),
    ("MSET <key> <value> <key> <value> <key>?", Check::Exact),
    ("MSETNX <key> <value> <key> <value>", Check::Exact),
    ("STRLEN <key>", Check::Exact),
    ("GETRANGE|SUBSTR <key> <at> <at>", Check::Exact),
    ("SETRANGE <key> <at> <value>", Check::Exact),
    ("APPEND <key> <value>", Check::Exact),
    ("INCR|DECR <key>", Check::Exact),
    ("INCRBY|DECRBY <key> <integer>", Check::Exact),
    ("INCRBYFLOAT <key> <float>", Check::Exact),
    ("INCRBYFLOAT <key> <float>", Check::Exact),
    ("LCS <key> <key> <lcs>*", Check::Exact),
    ("LCS <key> <key> IDX <lcs>*", Check::Exact),
    ("GETBIT <key> <at>", Check::Exact),
    ("SETBIT <key> <at> 0|1", Check::Exact),
    ("BITCOUNT <key>", Check::Exact),
    ("BITCOUNT <key> <at> <at> BIT|BYTE?", Check::Exact),
    ("BITPOS <key> 0|1", Check::Exact),
    ("BITPOS <key> 0|1 <at>", Check::Exact),
    ("BITPOS <key> 0|1 <at> <at> BIT|BYTE?", Check::Exact),
    ("BITOP AND|OR|XOR <key> <key> <key>*", Check::Exact),
    ("BITOP NOT <key> <key> <key>?", Check::Exact),
    ("BITFIELD <key> <field>* <field>", Check::Exact),
    ("BITFIELD_RO <key> GET <kind> <at> <field>?", Check::Exact),
    ("DEL|UNLINK|EXISTS|TOUCH <key> <key>*", Check::Exact),
    ("TYPE <key>", Check::Exact),
    ("RENAME|RENAMENX <key> <key>", Check::Exact),
    ("COPY <key> <key> <copy>*", Check::Exact),
    ("MOVE <key> <db>", Check::Exact),
    ("RANDOMKEY", Check::Kind),
    ("KEYS <pattern>", Check::Unordered),
    ("SCAN 0 COUNT 1000 <scan>*", Check::Scan),
    ("EXPIRE <key> <ttl>|-1|0|9223372036854775807 <when>*", Check::Exact),
    ("PEXPIRE <key> <pttl>|-1|0|9223372036854775807 <when>*", Check::Exact),
    ("EXPIREAT <key> <at_s>|-1|0|9223372036854775807 <when>*", Check::Exact),
    ("PEXPIREAT <key> <at_ms>|-1|0|9223372036854775807 <when>*", Check::Exact),
    ("TTL|EXPIRETIME|OBJECT~IDLETIME <key>", Check::Near(LATE_S)),
    ("PTTL|PEXPIRETIME <key>", Check::Near(LATE_S * 1000)),
    ("PERSIST <key>", Check::Exact),
    ("OBJECT FREQ <key>", Check::Exact),
    ("OBJECT HELP", Check::Exact),
    ("OBJECT <value>", Check::Exact),
    ("SELECT <db>", Check::Exact),
    ("MULTI", Check::Exact),
    ("MULTI", Check::Exact),
    ("EXEC", Check::Exact),
    ("EXEC", Check::Exact),
    ("EXEC", Check::Exact),
    ("DISCARD", Check::Exact),
    ("WATCH <key> <key>*", Check::Exact),
    ("UNWATCH", Check::Exact),
    ("PING", Check::Exact),
    ("ECHO <value>", Check::Exact),
    ("NONESUCH <word>*", Check::Exact),
    ("HSET|HMSET <hash> <name> <value>", Check::Exact),
    ("HSET|HMSET <hash> <name> <small>", Check::Exact),
    ("HSET|HMSET <hash> <name> <small> <name> <small> <name> <small>", Check::Exact),
    ("HSET <key> <name> <small> <name> <small> <name>?", Check::Exact),
    ("HSETNX <hash> <name> <small>", Check::Exact),
    ("HGET|HEXISTS|HSTRLEN <hash> <name>", Check::Exact),
    ("HGET <key> <name>", Check::Exact),
    ("HMGET <hash> <name> <name>*", Check::Exact),
    ("HGETALL|HKEYS|HVALS <hash>", Check::Unordered),
    ("HLEN <hash>", Check::Exact),
    ("HDEL <hash> <name> <name>*", Check::Exact),
    ("HINCRBY <hash> <name> <integer>", Check::Exact),
    ("HINCRBYFLOAT <hash> <name> <float>", Check::Exact),
    ("HRANDFIELD <hash>", Check::Kind),
    ("HRANDFIELD <hash> 1000 WITHVALUES?", Check::Unordered),
    ("HRANDFIELD <hash> 0|1|-3|-9223372036854775808|9223372036854775807 WITHVALUES?", Check::Length),
    ("HSCAN <hash> 0 COUNT 1000", Check::Scan),
    ("HSCAN <hash> 0 COUNT 1000 MATCH f*|f1*|*2", Check::Scan),
    ("OBJECT~ENCODING <hash>", Check::Exact),
    ("OBJECT~REFCOUNT <hash>", Check::Kind),
    ("TYPE|TTL <hash>", Check::Exact),
    ("DEL|EXISTS|PERSIST <hash>", Check::Exact),
    ("RENAME|RENAMENX|COPY <hash> <hash>", Check::Exact),
    ("COPY <hash> <hash> REPLACE", Check::Exact),
    ("GETDEL|GETSET|INCR|STRLEN|GETBIT|LCS <hash> <small>?", Check::Exact),
    ("SET <hash> <small> GET|NX|XX", Check::Exact),
];

/// Patterns that are used rarely.
const RARE: &[(&str, Check)] = &[
    ("FLUSHALL|FLUSHDB SYNC|ASYNC?", Check::Exact),
    ("FLUSHDB", Check::Exact),
    ("SETRANGE <key> <far> <value>", Check::Exact),
    ("SETBIT <key> <far> 1", Check::Exact),
    ("INCRBYFLOAT <key> 1e4000|-1e4000|1.18e4932|inf|1e-4960|nan", Check::Exact),
    ("SCAN <value>", Check::Kind),
];

/// Arguments that are invalid almost everywhere.
const JUNK: &[&str] = &[
    "foo",
    "",
    "-1",
    "0",
    "9223372036854775807",
    "-9223372036854775808",
    "1e3",
    "NX",
    "99999999999999999999",
    "a\r\nb",
];

/// One command, and the comparison of its replies.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) args: Vec<Vec<u8>>,
    pub(super) check: Check,
}

impl Request {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        wire::resp::client::command(out, &args);
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<String> = self.args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
        f.write_str(&args.join(" "))
    }
}

pub(super) struct Generator {
    rng: Rng,
    now_s: u64,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        Self { rng: Rng::with_seed(seed), now_s }
    }

    /// Adds one request, or two that belong together.
    pub(super) fn add_to(&mut self, requests: &mut Vec<Request>) {
        match self.rng.u32(..400) {
            0..4 => {
                // Both servers may still hold expired keys until these are read.
                let args = std::iter::once(b"EXISTS".to_vec()).chain((0..KEYS).map(name));
                let args = args.chain(JUNK.iter().map(|&junk| junk.into())).collect();
                requests.push(Request { args, check: Check::Exact });
                requests.push(self.fill("DBSIZE", Check::Exact));
            }
            4..12 => {
                let key = self.key();
                requests.push(Request { args: vec![b"SET".to_vec(), key.clone(), self.value()], check: Check::Exact });
                // In a transaction Redis also counts the transaction's own reference.
                let (what, check) = [("ENCODING", Check::Exact), ("REFCOUNT", Check::Kind)][self.rng.usize(..2)];
                requests.push(Request { args: vec![b"object".to_vec(), what.into(), key], check });
            }
            12..20 => {
                // Redis also reports the size of an expired key, until it is read.
                let key = self.key();
                let mut usage = self.fill("MEMORY USAGE", Check::Kind);
                usage.args.push(key.clone());
                self.words("SAMPLES? <at>?", &mut usage.args);
                requests.push(Request { args: vec![b"EXISTS".to_vec(), key], check: Check::Exact });
                requests.push(usage);
            }
            26..150 => self.add_set_command(requests),
            20..26 => {
                let (pattern, check) = RARE[self.rng.usize(..RARE.len())];
                requests.push(self.fill(pattern, check));
            }
            _ => {
                let (pattern, check) = PATTERNS[self.rng.usize(..PATTERNS.len())];
                let mut request = self.fill(pattern, check);
                if self.rng.u32(..20) == 0 {
                    self.corrupt(&mut request);
                }
                requests.push(request);
            }
        }
    }

    /// Removes, adds or replaces an argument. That makes no short time.
    fn corrupt(&mut self, request: &mut Request) {
        // What is left behind would be another member in either server.
        if request.args[0].eq_ignore_ascii_case(b"SPOP") {
            return;
        }
        let junk = self.pick(JUNK);
        let len = request.args.len();
        match self.rng.u32(..3) {
            0 if len > 1 => drop(request.args.pop()),
            1 if len > 1 => request.args[self.rng.usize(1..len)] = junk.into(),
            _ => request.args.push(junk.into()),
        }
        // Cursors other than 0 differ between the servers.
        if request.check == Check::Scan && request.args.get(1).is_some_and(|cursor| cursor != b"0") {
            request.check = Check::Kind;
        }
        // With another count, or none, they choose by chance.
        if [&b"HRANDFIELD"[..], b"SRANDMEMBER", b"ZRANDMEMBER"]
            .iter()
            .any(|name| request.args[0].eq_ignore_ascii_case(name))
        {
            request.check = Check::Kind;
        }
    }

    fn fill(&mut self, pattern: &str, check: Check) -> Request {
        let mut args = Vec::new();
        for word in pattern.split(' ') {
            let (word, times) = match (word.strip_suffix('*'), word.strip_suffix('?')) {
                (Some(word), _) => (word, self.rng.usize(..4)),
                (_, Some(word)) => (word, self.rng.usize(..2)),
                (None, None) => (word, 1),
            };
            for _ in 0..times {
                let choices: Vec<&str> = word.split('|').collect();
                let choice = choices[self.rng.usize(..choices.len())];
                self.word(choice, &mut args);
            }
        }
        Request { args, check }
    }

    fn word(&mut self, word: &str, args: &mut Vec<Vec<u8>>) {
        let text = match word {
            "<key>" => return args.push(self.key()),
            "<value>" => return args.push(self.value()),
            // Few keys with many fields, so that some grow large.
            "<hash>" => format!("hash{}", self.rng.usize(..4)),
            "<name>" => match self.rng.u32(..200) {
                0 => return args.push(self.value()),
                1..20 => self.rng.i64(-5..200).to_string(),
                _ => format!("f{}", self.rng.usize(..200).min(self.rng.usize(..200))),
            },
            "<small>" => match self.rng.u32(..4) {
                0 => return args.push(self.integer()),
                _ => (0..self.rng.usize(..12)).map(|_| char::from(self.rng.u8(b'a'..b'e'))).collect(),
            },
            "<word>" => {
                return args.push(self.pick(&["a", "b c", "x\ny", "0123456789012345678901234567890123456789"]).into());
            }
            "<set>" => self.pick(&["NX", "XX", "GET", "KEEPTTL", "nx", "Get"]).to_owned(),
            "<when>" => self.pick(&["NX", "XX", "GT", "LT", "gt"]).to_owned(),
            "<time>" => {
                let option = self.pick(&["EX", "PX", "EXAT", "PXAT", "ex", "Px"]);
                let time = match &*option.to_ascii_uppercase() {
                    "EX" => "<ttl>",
                    "PX" => "<pttl>",
                    "EXAT" => "<at_s>",
                    _ => "<at_ms>",
                };
                args.push(option.into());
                return self.word(time, args);
            }
            // These are so far apart that the moment at which a server reads its clock does not matter.
            "<ttl>" => self.rng.u64(100_000..2_000_000_000).to_string(),
            "<pttl>" => self.rng.u64(100_000_000..2_000_000_000_000).to_string(),
            "<at_s>" => (self.now_s + self.rng.u64(100_000..2_000_000_000)).to_string(),
            "<at_ms>" => (self.now_s * 1000 + self.rng.u64(100_000_000..2_000_000_000_000)).to_string(),
            "<db>" => self.pick(&["0", "0", "0", "1", "2", "15", "16", "-1"]).to_owned(),
            "<at>" => self
                .pick(&["0", "1", "2", "3", "5", "8", "10", "13", "40", "100", "-1", "-2", "-3", "-7", "-100"])
                .to_owned(),
            "<far>" => self.pick(&["1048574", "1048575", "1048576", "100000", "8388607", "8388608", "-5"]).to_owned(),
            "<integer>" => return args.push(self.integer()),
            "<float>" => return args.push(self.float()),
            "<kind>" => self.pick(&["u8", "i8", "u1", "i64", "u63", "i5", "u13", "u64", "i0", "x8"]).to_owned(),
            "<pattern>" => self
                .pick(&[
                    "*", "k*", "k?", "k[1-5]", "k[^1-5]", "k1*", "[", "\\*", "k\\1", "*[0-9]", "none", "**", "?", "",
                ])
                .to_owned(),
            "<field>" => return self.field(args),
            "<lcs>" => match self.rng.u32(..5) {
                0 => return self.words("MINMATCHLEN <at>", args),
                1 => "LEN".to_owned(),
                2 => "idx".to_owned(),
                _ => "WITHMATCHLEN".to_owned(),
            },
            "<copy>" => match self.rng.u32(..2) {
                0 => "REPLACE".to_owned(),
                _ => return self.words("DB <db>", args),
            },
            "<scan>" => match self.rng.u32(..3) {
                0 => return self.words("MATCH <pattern>", args),
                1 => return self.words("TYPE string|STRING|hash|list", args),
                _ => return self.words("COUNT 1000|2000", args),
            },
            "<skey>" | "<zkey>" | "<sset>" | "<zset>" | "<lkey>" | "<member>" | "<score>" | "<bound>" | "<lex>"
            | "<add>" | "<range>" | "<combine>" | "<part>" => return self.set_word(word, args),
            word => {
                args.extend(self.random_case(word).split('~').map(Into::into));
                return;
            }
        };
        args.push(text.into_bytes());
    }

    fn words(&mut self, words: &str, args: &mut Vec<Vec<u8>>) {
        args.extend(self.fill(words, Check::Exact).args);
    }

    fn field(&mut self, args: &mut Vec<Vec<u8>>) {
        match self.rng.u32(..8) {
            0 | 1 => self.words("GET <kind> <at>", args),
            2 | 3 => self.words("SET <kind> <at> <integer>", args),
            4 | 5 => self.words("INCRBY <kind> <at> <integer>", args),
            6 => self.words("OVERFLOW WRAP|SAT|FAIL|NONE", args),
            _ => self.words("GET u8|i7 #0|#1|#5|#x|#-1", args),
        }
    }

    fn random_case(&mut self, word: &str) -> String {
        match self.rng.u32(..4) {
            0 => word.to_ascii_lowercase(),
            _ => word.to_owned(),
        }
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.rng.usize(..choices.len())]
    }

    fn key(&mut self) -> Vec<u8> {
        // Some keys are used more than others.
        name(self.rng.usize(..KEYS).min(self.rng.usize(..KEYS)))
    }

    fn value(&mut self) -> Vec<u8> {
        match self.rng.u32(..8) {
            0..3 => self.integer(),
            3 => self.float(),
            4 => self.pick(&["", " 1", "1 ", "abc", "-0", "+1", "01", "hello world", "nan", "1e", "a\r\nb"]).into(),
            5 => (0..self.rng.usize(..20)).map(|_| b'a' + self.rng.u8(..4)).collect(),
            6 => (0..self.rng.usize(..100)).map(|_| self.rng.u8(..)).collect(),
            _ => {
                let byte = self.rng.u8(b'a'..=b'z');
                vec![byte; self.rng.usize(30..3000)]
            }
        }
    }

    fn integer(&mut self) -> Vec<u8> {
        let number = match self.rng.u32(..8) {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => self.rng.i64(..),
            3 => self.rng.i64(-100_000..100_000),
            _ => self.rng.i64(-20..100),
        };
        number.to_string().into_bytes()
    }

    fn float(&mut self) -> Vec<u8> {
        let (whole, part, exponent) = (self.rng.i64(-1000..1000), self.rng.u32(..), self.rng.i32(-25..25));
        let text = match self.rng.u32(..8) {
            0 => format!("{whole}.{}", part % 10),
            1 => format!("{whole}.{}", part % 1000),
            2 => format!("{whole}.{part}e{exponent}"),
            3 => format!("{whole}e{}", exponent / 3),
            4 => format!("{}.{part:017}", self.rng.i64(..)),
            5 => format!("{whole:+}.",),
            6 => format!("0x{:x}.{:x}p{exponent}", whole.unsigned_abs(), part),
            _ => format!("{}.{}", self.rng.u32(..10), part % 100),
        };
        text.into_bytes()
    }
}

fn name(number: usize) -> Vec<u8> {
    match number {
        27 => b"\xff\x01k".to_vec(),
        28 => Vec::new(),
        29 => b"k*[1]\\ \r\n".to_vec(),
        number => format!("k{number}").into_bytes(),
    }
}
