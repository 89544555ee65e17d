//! Scripts, sent to Redis and to kvcache: the replies must be the same, byte for byte.
//!
//! `corpus.txt` has one script in each line; in a line that begins with `!` a `\n` is a line feed. Every script is run
//! by connections of both versions of RESP, with two keys and three arguments.

use anyhow::{Context, ensure};
use testkit::{Client, DriverKind};

use crate::{
    common::{send, start},
    differential::{
        reply::Replies,
        servers::{Redis, kvcache},
    },
};

mod programs;

const CORPUS: &[u8] = include_bytes!("corpus.txt");

/// Arguments of kvcache, one set after the other.
const SETUPS: [&[&str]; 3] = [
    &["--threads", "1"],
    &["--threads", "2", "--shards", "7"],
    &["--threads", "2", "--shards", "3", "--store", "partitioned"],
];

/// The same connection to both servers.
struct Both {
    redis: Replies,
    kvcache: Replies,
}

impl Both {
    fn connect(redis: &Redis, kvcache: &testkit::Server, version: &str) -> anyhow::Result<Self> {
        let mut both = Self {
            redis: Replies::new(Client::connect(redis.address())?),
            kvcache: Replies::new(Client::connect(kvcache.address())?),
        };
        for replies in [&mut both.redis, &mut both.kvcache] {
            send(&mut replies.client, &[b"HELLO", version.as_bytes()])?;
            replies.next()?;
        }
        Ok(both)
    }

    fn compare(&mut self, request: &[&[u8]]) -> anyhow::Result<()> {
        send(&mut self.redis.client, request)?;
        send(&mut self.kvcache.client, request)?;
        let shown = request.iter().map(|arg| arg.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
        let (wanted, got) = (self.redis.next().context(shown.clone())?, self.kvcache.next().context(shown.clone())?);
        let (wanted, got) = (wanted.escape_ascii(), got.escape_ascii());
        ensure!(wanted.to_string() == got.to_string(), "{shown}\n  Redis   {wanted}\n  kvcache {got}");
        Ok(())
    }

    /// Runs a script with two keys and three arguments.
    fn compare_script(&mut self, script: &[u8]) -> anyhow::Result<()> {
        self.compare(&[b"EVAL", script, b"2", b"k1", b"k2", b"a1", b"2", b"3.7"])
    }
}

#[test]
fn scripts_of_the_corpus_are_answered_as_by_redis() -> anyhow::Result<()> {
    let Some(exe) = testkit::installed_program("redis-server")? else { return Ok(()) };
    for setup in SETUPS {
        let (redis, kvcache) = (Redis::start(&exe)?, kvcache(DriverKind::Epoll, setup)?);
        for version in ["2", "3"] {
            let mut both = Both::connect(&redis, &kvcache, version)?;
            for line in CORPUS.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                let script = match line.strip_prefix(b"!") {
                    Some(lines) => String::from_utf8_lossy(lines).replace("\\n", "\n").into_bytes(),
                    None => line.to_vec(),
                };
                both.compare_script(&script).with_context(|| format!("{setup:?}, RESP{version}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn requests_about_scripts_are_answered_as_by_redis() -> anyhow::Result<()> {
    let Some(exe) = testkit::installed_program("redis-server")? else { return Ok(()) };
    let (redis, kvcache) = (Redis::start(&exe)?, start(&["--threads", "1"])?);
    let mut both = Both::connect(&redis, &kvcache, "2")?;
    let one = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let upper = one.to_uppercase();
    let long = "0".repeat(41);
    let requests: [&[&str]; 45] = [
        &["EVAL"],
        &["EVAL", "return 1"],
        &["EVAL", "return 1", "a"],
        &["EVAL", "return 1", "-1"],
        &["EVAL", "return 1", "1"],
        &["EVAL", "return 1", "99999999999999999999"],
        &["EVALSHA", "abc", "0"],
        &["EVALSHA", &long, "0"],
        &["EVALSHA", &long[1..], "0"],
        &["EVALSHA", one, "x"],
        &["SCRIPT", "EXISTS", one],
        &["SCRIPT", "LOAD", "return 1"],
        &["SCRIPT", "LOAD", "if"],
        &["SCRIPT", "LOAD"],
        &["SCRIPT", "LOAD", "a", "b"],
        &["SCRIPT", "EXISTS", one, &upper, "x"],
        &["EVALSHA", one, "0"],
        &["EVALSHA", &upper, "0"],
        &["EVALSHA_RO", one, "0"],
        &["EVALSHA", one, "1"],
        &["EVAL_RO", "return redis.call('get','x')", "0"],
        &["EVAL_RO", "return redis.call('set','x',1)", "0"],
        &["EVAL_RO", "return redis.pcall('set','x',1)", "0"],
        &["SCRIPT", "FLUSH", "NOW"],
        &["SCRIPT", "FLUSH", "SYNC", "x"],
        &["SCRIPT", "FLUSH", "ASYNC"],
        &["EVALSHA", one, "0"],
        &["SCRIPT", "EXISTS", one],
        &["SCRIPT", "KILL"],
        &["SCRIPT", "NOPE"],
        &["SCRIPT", "DEBUG", "NO"],
        &["SCRIPT", "DEBUG", "MAYBE"],
        &["COMMAND", "GETKEYS", "EVAL", "x", "2", "a", "b", "c"],
        &["COMMAND", "GETKEYSANDFLAGS", "EVALSHA_RO", "x", "1", "a"],
        &["MULTI"],
        &["EVAL", "return redis.call('incr',KEYS[1])", "1", "counter"],
        &["SET", "other", "1"],
        &["EVAL", "return {redis.call('incr',KEYS[1]),redis.call('get','other')}", "1", "counter"],
        &["EVALSHA", one, "0"],
        &["SELECT", "3"],
        &["EXEC"],
        &["GET", "counter"],
        &["SELECT", "0"],
        &["GET", "counter"],
        &["EVAL", "redis.call('select',5) return redis.call('set','in5',1)", "0"],
    ];
    for request in requests {
        both.compare(&request.iter().map(|arg| arg.as_bytes()).collect::<Vec<_>>())?;
    }
    both.compare(&[b"EXISTS", b"in5"])?;
    for request in
        [&["WATCH", "counter"][..], &["SET", "counter", "7"], &["MULTI"], &["EVAL", "return 1", "0"], &["EXEC"]]
    {
        both.compare(&request.iter().map(|arg| arg.as_bytes()).collect::<Vec<_>>())?;
    }
    Ok(())
}
