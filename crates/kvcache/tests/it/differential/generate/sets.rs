//! Random commands on sets and sorted sets.
//!
//! A command that removes random members would leave the two servers in different states: it takes all members, or the
//! key is deleted at once. Ranges by text are of sorted sets whose scores are all equal: of others they are undefined.

use super::{Check, Generator, Request};

/// Patterns of commands, as in [`super::PATTERNS`].
const PATTERNS: &[(&str, Check)] = &[
    ("SADD <skey> <member> <member>*", Check::Exact),
    ("SADD <skey> <member> <member>*", Check::Exact),
    ("SADD <skey> <member> <member>*", Check::Exact),
    ("SREM <skey> <member> <member>*", Check::Exact),
    ("SMEMBERS <skey>", Check::Unordered),
    ("SISMEMBER <skey> <member>", Check::Exact),
    ("SMISMEMBER <skey> <member> <member>*", Check::Exact),
    ("SCARD <skey>", Check::Exact),
    ("SPOP <skey> 100000|0", Check::Unordered),
    ("SRANDMEMBER <skey> 100000", Check::Unordered),
    ("SRANDMEMBER <skey> <at>?", Check::Kind),
    ("SMOVE <skey> <skey> <member>", Check::Exact),
    ("SINTER|SUNION|SDIFF <skey> <skey>*", Check::Unordered),
    ("SINTERSTORE|SUNIONSTORE|SDIFFSTORE <skey> <skey> <skey>*", Check::Exact),
    ("SINTERCARD 1|2|3 <skey> <skey> LIMIT? <at>?", Check::Exact),
    ("SINTERCARD 2 <skey> <skey> LIMIT <at>", Check::Exact),
    ("SSCAN <skey> 0 COUNT 100000 <part>*", Check::Scan),
    ("OBJECT ENCODING <sset>|<zset>", Check::Exact),
    ("TYPE <skey>|<zkey>", Check::Exact),
    ("DEL|EXISTS|PERSIST <skey>|<zkey>|<lkey>", Check::Exact),
    ("EXPIRE <skey>|<zkey> <ttl>", Check::Exact),
    ("TTL <skey>|<zkey>", Check::Near(super::LATE_S)),
    ("GET|STRLEN|INCR <skey>|<zkey>", Check::Exact),
    ("GETSET <skey> <member>", Check::Exact),
    ("COPY <sset> <sset> REPLACE?", Check::Exact),
    ("COPY <zset> <zset> REPLACE?", Check::Exact),
    ("RENAME <sset> <sset>", Check::Exact),
    ("RENAME <zset> <zset>", Check::Exact),
    ("SCAN 0 COUNT 1000 TYPE set|zset|ZSET", Check::Scan),
    ("WATCH <skey> <zkey>", Check::Exact),
    ("ZADD <zkey> <score> <member> <score>? <member>?", Check::Exact),
    ("ZADD <zkey> <score> <member>", Check::Exact),
    ("ZADD <zkey> <add>* <score> <member>", Check::Exact),
    ("ZADD <zkey> <add>* <score> <member> <score> <member>", Check::Exact),
    ("ZINCRBY <zkey> <score> <member>", Check::Exact),
    ("ZREM <zkey> <member> <member>*", Check::Exact),
    ("ZCARD <zkey>", Check::Exact),
    ("ZSCORE|ZRANK|ZREVRANK <zkey> <member>", Check::Exact),
    ("ZMSCORE <zkey> <member> <member>*", Check::Exact),
    ("ZCOUNT <zkey> <bound> <bound>", Check::Exact),
    ("ZLEXCOUNT <lkey> <lex> <lex>", Check::Exact),
    ("ZRANGE|ZREVRANGE <zkey> <at> <at> WITHSCORES?", Check::Exact),
    ("ZRANGE <zkey> 0 -1 WITHSCORES", Check::Exact),
    ("ZRANGE <zkey> <at> <at> <range>*", Check::Exact),
    ("ZRANGE <zkey> <bound> <bound> BYSCORE <range>*", Check::Exact),
    ("ZRANGE <lkey> <lex> <lex> BYLEX <range>*", Check::Exact),
    ("ZRANGEBYSCORE|ZREVRANGEBYSCORE <zkey> <bound> <bound> <range>*", Check::Exact),
    ("ZRANGEBYLEX|ZREVRANGEBYLEX <lkey> <lex> <lex> <range>*", Check::Exact),
    ("ZRANGESTORE <zkey> <zkey> <at> <at> REV?", Check::Exact),
    ("ZRANGESTORE <zkey> <zkey> <bound> <bound> BYSCORE <range>*", Check::Exact),
    ("ZREMRANGEBYRANK <zkey> <at> <at>", Check::Exact),
    ("ZREMRANGEBYSCORE <zkey> <bound> <bound>", Check::Exact),
    ("ZREMRANGEBYLEX <lkey> <lex> <lex>", Check::Exact),
    ("ZPOPMIN|ZPOPMAX <zkey> <at>?", Check::Exact),
    ("ZMPOP 1|2 <zkey> <zkey> MIN|MAX", Check::Exact),
    ("ZMPOP 2 <zkey> <zkey> MIN|MAX COUNT <at>", Check::Exact),
    ("ZRANDMEMBER <zkey> 100000 WITHSCORES?", Check::Unordered),
    ("ZRANDMEMBER <zkey> <at>? WITHSCORES?", Check::Kind),
    ("ZSCAN <zkey> 0 COUNT 100000 <part>*", Check::Scan),
    ("ZUNION|ZINTER 2 <zkey> <zkey>|<skey> <combine>* WITHSCORES?", Check::Exact),
    ("ZUNION|ZINTER 3 <zkey> <zkey> <skey> WITHSCORES", Check::Exact),
    ("ZDIFF 1|2|3 <zkey> <zkey> <skey>|<zkey> WITHSCORES?", Check::Exact),
    ("ZUNIONSTORE|ZINTERSTORE <zkey> 2 <zkey> <zkey>|<skey> <combine>*", Check::Exact),
    ("ZDIFFSTORE <zkey> 2 <zkey> <zkey>|<skey>", Check::Exact),
    ("ZINTERCARD 2 <zkey> <zkey>|<skey> LIMIT? <at>?", Check::Exact),
];

/// Members that are added at once, to make a large collection.
const MANY: usize = 90;

impl Generator {
    /// Adds one request about sets or sorted sets, or two that belong together.
    pub(super) fn add_set_command(&mut self, requests: &mut Vec<Request>) {
        match self.rng.u32(..60) {
            0 | 1 => {
                let mut pop = self.fill("SPOP <skey> <at>?", Check::Kind);
                pop.args.truncate(3);
                let key = pop.args[1].clone();
                requests.push(pop);
                requests.push(Request { args: vec![b"DEL".to_vec(), key], check: Check::Exact });
            }
            2 | 3 => {
                let (start, mut request) = (self.rng.usize(..300), self.fill("SADD <skey>", Check::Exact));
                let prefix = self.pick(&["", "", "m"]).to_owned();
                request.args.extend((start..start + MANY).map(|number| format!("{prefix}{number}").into_bytes()));
                requests.push(request);
            }
            4 | 5 => {
                let (start, mut request) = (self.rng.usize(..300), self.fill("ZADD <zkey>", Check::Exact));
                for number in start..start + MANY {
                    let score = self.rng.i32(-50..50).to_string();
                    request.args.extend([score.into_bytes(), format!("m{number}").into_bytes()]);
                }
                requests.push(request);
            }
            6..10 => {
                let mut request = self.fill("ZADD <lkey>", Check::Exact);
                for _ in 0..1 + self.rng.usize(..10) {
                    request.args.push(b"0".to_vec());
                    self.word("<member>", &mut request.args);
                }
                requests.push(request);
            }
            _ => {
                let (pattern, check) = PATTERNS[self.rng.usize(..PATTERNS.len())];
                let mut request = self.fill(pattern, check);
                // Without its count, SPOP would take a random member.
                if self.rng.u32(..20) == 0 && !request.args[0].eq_ignore_ascii_case(b"SPOP") {
                    self.corrupt(&mut request);
                }
                requests.push(request);
            }
        }
    }

    /// Adds the value of a word that only commands on sets have.
    pub(super) fn set_word(&mut self, word: &str, args: &mut Vec<Vec<u8>>) {
        let text = match word {
            // Now and then another type.
            "<skey>" | "<zkey>" if self.rng.u32(..40) == 0 => return args.push(self.key()),
            "<skey>" | "<sset>" => format!("ks{}", self.rng.u32(..5)),
            "<zkey>" | "<zset>" => format!("kz{}", self.rng.u32(..5)),
            "<lkey>" => format!("kl{}", self.rng.u32(..2)),
            "<member>" => return args.push(self.member()),
            "<score>" => return args.push(self.score()),
            "<bound>" => {
                let bound = String::from_utf8_lossy(&self.score()).into_owned();
                match self.rng.u32(..10) {
                    0..3 => format!("({bound}"),
                    3..5 => "-inf".to_owned(),
                    5..7 => "+inf".to_owned(),
                    7 => self.pick(&["", "(", " 1", "nan", "(inf", "((1", "1 ", "0x1p3"]).to_owned(),
                    _ => bound,
                }
            }
            "<lex>" => match self.rng.u32(..8) {
                0 | 1 => "-".to_owned(),
                2 | 3 => "+".to_owned(),
                4 => self.pick(&["a", "", "(", "[", "+a", "-1"]).to_owned(),
                other => {
                    let mut bound = if other == 5 { b"(".to_vec() } else { b"[".to_vec() };
                    bound.extend(self.member());
                    return args.push(bound);
                }
            },
            "<add>" => self.pick(&["NX", "XX", "GT", "LT", "CH", "CH", "INCR", "gt"]).to_owned(),
            "<range>" => match self.rng.u32(..6) {
                0..3 => return self.words("LIMIT <at> <at>", args),
                3 => "REV".to_owned(),
                4 => self.pick(&["BYSCORE", "BYLEX", "byscore"]).to_owned(),
                _ => "WITHSCORES".to_owned(),
            },
            "<combine>" => match self.rng.u32(..2) {
                0 => return self.words("WEIGHTS <score> <score>", args),
                _ => return self.words("AGGREGATE SUM|MIN|MAX|max|NONE", args),
            },
            // MATCH.
            _ => return self.words("MATCH *|m*|*1|-*|[0-5]|?", args),
        };
        args.push(text.into_bytes());
    }

    fn member(&mut self) -> Vec<u8> {
        match self.rng.u32(..12) {
            0..5 => self.rng.i32(-10..30).to_string().into_bytes(),
            5..9 => format!("m{}", self.rng.u32(..40)).into_bytes(),
            9 => self.pick(&["", "a", "b", "01", "-0", "+1", "a\r\nb", "\x01", "9223372036854775808"]).into(),
            10 => self.integer(),
            _ if self.rng.u32(..8) == 0 => vec![b'x'; self.rng.usize(62..67)],
            _ => vec![self.rng.u8(b'a'..b'e'); self.rng.usize(1..4)],
        }
    }

    fn score(&mut self) -> Vec<u8> {
        match self.rng.u32(..16) {
            0..7 => self.rng.i32(-5..10).to_string().into_bytes(),
            7..10 => format!("{}.5", self.rng.i32(-5..10)).into_bytes(),
            10 => self
                .pick(&["inf", "-inf", "+INF", "-Infinity", "0", "-0", "1e400", "1e-400", "nan", "0x10", " 1"])
                .into(),
            11 | 12 => self.float(),
            13 => self.integer(),
            14 => format!("{}", self.rng.f64() * 1e3).into_bytes(),
            _ => format!("{:e}", (self.rng.f64() - 0.5) * 10_f64.powi(self.rng.i32(-300..300))).into_bytes(),
        }
    }
}
