//! Random commands, sent to Redis and to kvcache: the replies must be the same, byte for byte.
//!
//! Some replies cannot be the same, and are compared by [`Check`]: times left, which differ by the time between the two
//! servers' readings of the clock; the order of KEYS and SCAN; RANDOMKEY; the idle time and the memory of a key. Commands
//! on types that Redis knows and kvcache does not are never sent, nor are OBJECT ENCODING and
//! REFCOUNT of a value that has not just been SET (see `commands/objects.rs`).
//!
//! `KVCACHE_DIFFERENTIAL` is the number of commands, `KVCACHE_SEED` their seed.

mod events;
mod generate;
pub(crate) mod reply;
pub(crate) mod servers;

use std::{collections::VecDeque, env};

use anyhow::{Context, bail, ensure};
use fastrand::Rng;
use generate::{Generator, Request};
use reply::{Node, Replies};
use servers::{Redis, kvcache};
use testkit::{Client, DriverKind};

/// Number of commands by default.
const COMMANDS: usize = 20_000;
/// Connections to either server; those with odd numbers speak RESP3.
const CONNECTIONS: usize = 4;
/// Limit of the commands sent in one go.
const PIPELINE_MAX: usize = 60;
/// Limit of the requests kept, to be shown with a difference.
const HISTORY_MAX: usize = 100_000;

/// Comparison of two replies to the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Exact,
    /// Arrays or maps, their parts in any order.
    Unordered,
    /// A cursor, and an array in any order.
    Scan,
    /// Integers with at most this distance, unless one of them is negative.
    Near(u64),
    /// Replies of one type.
    Kind,
    /// Arrays of one length, or other replies that are the same.
    Length,
}

/// Arguments of kvcache, one set after the other; each runs on another driver.
const SETUPS: [&[&str]; 5] = [
    &["--threads", "1", "--shards", "1"],
    &["--threads", "2", "--shards", "7"],
    &["--threads", "2", "--shards", "3", "--store", "hashbrown"],
    &["--threads", "1", "--shards", "2", "--store", "std"],
    &["--threads", "2", "--shards", "5", "--store", "partitioned"],
];

#[test]
fn random_commands_are_answered_as_by_redis() -> anyhow::Result<()> {
    let Some(exe) = testkit::installed_program("redis-server")? else { return Ok(()) };
    let number = |name: &str, default: u64| match env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text}")),
        Err(_) => Ok(default),
    };
    let commands = number("KVCACHE_DIFFERENTIAL", COMMANDS as u64)? as usize / SETUPS.len();
    let seed = number("KVCACHE_SEED", 7)?;
    for ((round, setup), driver) in SETUPS.iter().enumerate().zip(DriverKind::ALL.iter().cycle()) {
        let redis = Redis::start(&exe)?;
        let kvcache = kvcache(*driver, setup)?;
        let seed = seed.wrapping_add(round as u64);
        let mut both = Both::connect(redis.address(), kvcache.address(), seed)?;
        both.run(commands).with_context(|| format!("{setup:?} on {driver}, KVCACHE_SEED={seed}"))?;
    }
    Ok(())
}

/// Both servers, in the same state as far as a client can see.
struct Both {
    pairs: Vec<Pair>,
    generator: Generator,
    rng: Rng,
    /// Latest requests, with the numbers of their connections.
    history: VecDeque<(usize, Request)>,
}

/// One connection to each server.
struct Pair {
    redis: Replies,
    kvcache: Replies,
    /// Commands whose replies EXEC will return.
    queued: Vec<Request>,
}

impl Both {
    fn connect(redis: &sys::listen::Address, kvcache: &sys::listen::Address, seed: u64) -> anyhow::Result<Self> {
        let mut pairs = Vec::new();
        for number in 0..CONNECTIONS {
            let mut pair = Pair {
                redis: Replies::new(Client::connect(redis)?),
                kvcache: Replies::new(Client::connect(kvcache)?),
                queued: Vec::new(),
            };
            if number % 2 == 1 {
                for replies in [&mut pair.redis, &mut pair.kvcache] {
                    replies.client.send(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n")?;
                    ensure!(replies.next()?.starts_with(b"%7\r\n"), "the answer to HELLO 3");
                }
            }
            pairs.push(pair);
        }
        Ok(Self { pairs, generator: Generator::new(seed), rng: Rng::with_seed(seed), history: VecDeque::new() })
    }

    fn run(&mut self, commands: usize) -> anyhow::Result<()> {
        let mut done = 0;
        while done < commands {
            let connection = self.rng.usize(..self.pairs.len());
            let mut requests = Vec::new();
            let wanted = 1 + self.rng.usize(..PIPELINE_MAX).min(self.rng.usize(..PIPELINE_MAX));
            while requests.len() < wanted {
                self.generator.add_to(&mut requests);
            }
            done += requests.len();
            self.send(connection, &requests)?;
            for request in requests {
                self.compare(connection, request)?;
            }
        }
        Ok(())
    }

    /// Sends everything to both, each time torn in other places.
    fn send(&mut self, connection: usize, requests: &[Request]) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| request.write(&mut bytes));
        let Pair { redis, kvcache, .. } = &mut self.pairs[connection];
        for replies in [redis, kvcache] {
            let mut rest = &bytes[..];
            let piece_max = [7, 100, 1 << 20][self.rng.usize(..3)].max(bytes.len() / 50);
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(self.rng.usize(1..=piece_max).min(rest.len()));
                replies.client.send(piece)?;
                rest = after;
            }
        }
        Ok(())
    }

    fn compare(&mut self, connection: usize, request: Request) -> anyhow::Result<()> {
        let pair = &mut self.pairs[connection];
        let wanted = pair.redis.next().with_context(|| format!("Redis, {request:?}"))?;
        let got = pair.kvcache.next().with_context(|| format!("kvcache, {request:?}"))?;
        let outcome = pair.check(&request, &wanted, &got);
        self.history.push_back((connection, request));
        if self.history.len() > HISTORY_MAX {
            self.history.pop_front();
        }
        outcome.map_err(|why| {
            let (_, request) = &self.history[self.history.len() - 1];
            let (wanted, got) = (wanted.escape_ascii(), got.escape_ascii());
            let history = self.related();
            why.context(format!("{request:?} on {connection}\n  Redis   {wanted}\n  kvcache {got}\n{history}"))
        })
    }

    /// Lists the latest requests that share a key with the last one, or are about transactions and databases.
    fn related(&self) -> String {
        let Some((_, last)) = self.history.back() else { return String::new() };
        let is_related = |request: &&(usize, Request)| {
            let words = ["MULTI", "EXEC", "SELECT", "DISCARD", "FLUSHALL", "FLUSHDB"];
            words.iter().any(|word| request.1.args[0].eq_ignore_ascii_case(word.as_bytes()))
                || request.1.args[1..].iter().any(|arg| arg.starts_with(b"k") && last.args[1..].contains(arg))
        };
        let mut lines: Vec<String> =
            self.history.iter().rev().filter(is_related).take(40).map(|r| format!("{r:?}")).collect();
        lines.reverse();
        lines.join("\n")
    }
}

impl Pair {
    fn check(&mut self, request: &Request, wanted: &[u8], got: &[u8]) -> anyhow::Result<()> {
        let (wanted, got, check) = (Node::parse(wanted)?, Node::parse(got)?, request.check);
        if wanted.raw == b"+QUEUED\r\n" && got.raw == wanted.raw {
            self.queued.push(request.clone());
            return Ok(());
        }
        let is_end = ["EXEC", "DISCARD"].iter().any(|word| request.args[0].eq_ignore_ascii_case(word.as_bytes()));
        if !is_end {
            return compare(check, &wanted, &got);
        }
        let queued = std::mem::take(&mut self.queued);
        if wanted.children.is_empty() {
            // The transaction was discarded, or there was none.
            return compare(check, &wanted, &got);
        }
        ensure!(wanted.head() == got.head(), "another number of answers");
        for ((request, wanted), got) in queued.iter().zip(&wanted.children).zip(&got.children) {
            compare(request.check, wanted, got).with_context(|| {
                let (wanted, got) = (wanted.raw.escape_ascii(), got.raw.escape_ascii());
                format!("queued: {request:?}\n  Redis   {wanted}\n  kvcache {got}")
            })?;
        }
        Ok(())
    }
}

fn compare(check: Check, wanted: &Node<'_>, got: &Node<'_>) -> anyhow::Result<()> {
    if wanted.raw == got.raw {
        return Ok(());
    }
    let same = match check {
        Check::Exact => false,
        Check::Unordered => wanted.sorted() == got.sorted() && wanted.head() == got.head(),
        Check::Scan => match (&*wanted.children, &*got.children) {
            ([cursor, keys], [other_cursor, others]) => {
                cursor.raw == other_cursor.raw && keys.head() == others.head() && keys.sorted() == others.sorted()
            }
            _ => false,
        },
        Check::Near(distance) => match (wanted.integer(), got.integer()) {
            (Some(a @ 0..), Some(b @ 0..)) => a.abs_diff(b) <= distance,
            _ => false,
        },
        Check::Length => wanted.head() == got.head(),
        Check::Kind => wanted.raw[0] == got.raw[0] && wanted.raw[0] != b'-',
    };
    if !same {
        bail!("the replies differ ({check:?})");
    }
    Ok(())
}
