//! Laws of sets and sorted sets that no comparison of single replies shows.

use std::{collections::BTreeSet, thread, time::Duration};

use anyhow::{bail, ensure};
use testkit::{Client, eventually};
use wire::resp::client::{Reply, ReplyDecoder};

use crate::common::{ask, field, on_every_driver, send, start, text};

/// Adds members, from which on a set or a sorted set is an object.
fn fill(client: &mut Client, command: &str, key: &str, members: usize) -> anyhow::Result<()> {
    for first in (0..members).step_by(500) {
        let numbers = first..members.min(first + 500);
        let score = |number: usize| if command == "ZADD" { format!(" {number}") } else { String::new() };
        let added: String = numbers.clone().map(|number| format!("{} member{number}", score(number))).collect();
        ask(client, &format!("{command} {key}{added}"), &format!(":{}\r\n", numbers.len()))?;
    }
    Ok(())
}

fn memory(client: &mut Client) -> anyhow::Result<u64> {
    Ok(field(&text(client, "INFO memory")?, "used_memory")?.parse()?)
}

#[test]
fn sets_and_sorted_sets_are_the_same_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "2"])?;
        let mut client = server.connect()?;
        ask(&mut client, "SADD tag:a 3 1 2", ":3\r\n")?;
        ask(&mut client, "SADD tag:b 2 x", ":2\r\n")?;
        ask(&mut client, "SINTER tag:a tag:b", "*1\r\n$1\r\n2\r\n")?;
        ask(&mut client, "SUNIONSTORE both tag:a tag:b none", ":4\r\n")?;
        ask(&mut client, "SMISMEMBER both 1 x y", "*3\r\n:1\r\n:1\r\n:0\r\n")?;
        fill(&mut client, "SADD", "both", 1000)?;
        ask(&mut client, "SCARD both", ":1004\r\n")?;
        ask(&mut client, "RENAME both other", "+OK\r\n")?;
        ask(&mut client, "SISMEMBER other member999", ":1\r\n")?;
        // A window that slides over times, as rate limiters have it.
        fill(&mut client, "ZADD", "window", 1000)?;
        ask(&mut client, "ZREMRANGEBYSCORE window -inf (900", ":900\r\n")?;
        ask(&mut client, "ZCARD window", ":100\r\n")?;
        ask(&mut client, "ZRANK window member950", ":50\r\n")?;
        ask(&mut client, "ZRANGE window 0 0 WITHSCORES", "*2\r\n$9\r\nmember900\r\n$3\r\n900\r\n")?;
        ask(&mut client, "ZINCRBY window 0.5 member999", "$5\r\n999.5\r\n")?;
        ask(&mut client, "ZINTERSTORE common 2 window other", ":100\r\n")?;
        ask(&mut client, "ZSCORE common member999", "$6\r\n1000.5\r\n")?;
        ask(&mut client, "SADD window x", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")
    });
}

#[test]
fn sets_come_back_from_a_snapshot() -> anyhow::Result<()> {
    for store in ["packed", "hashbrown"] {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("keys");
        let flags = ["--snapshot", &path.display().to_string(), "--store", store, "--threads", "1"];
        let mut server = start(&flags)?;
        let mut client = server.connect()?;
        ask(&mut client, "SADD integers 5 -70000 9223372036854775807", ":3\r\n")?;
        for (command, kind) in [("SADD", "set"), ("ZADD", "zset")] {
            fill(&mut client, command, &format!("{kind}:small"), 10)?;
            fill(&mut client, command, &format!("{kind}:large"), 3000)?;
        }
        ask(&mut client, "ZADD zset:large -inf first", ":1\r\n")?;
        ask(&mut client, "EXPIREAT set:large 99999999999", ":1\r\n")?;
        drop(client);
        ensure!(server.stop()?.success());
        let server = start(&flags)?;
        let mut client = server.connect()?;
        ask(&mut client, "SMEMBERS integers", "*3\r\n$6\r\n-70000\r\n$1\r\n5\r\n$19\r\n9223372036854775807\r\n")?;
        ask(&mut client, "SCARD set:small", ":10\r\n")?;
        ask(&mut client, "SCARD set:large", ":3000\r\n")?;
        ask(&mut client, "SMISMEMBER set:large member0 member2999 no", "*3\r\n:1\r\n:1\r\n:0\r\n")?;
        ask(&mut client, "EXPIRETIME set:large", ":99999999999\r\n")?;
        ask(&mut client, "ZRANGE zset:small 8 -1", "*2\r\n$7\r\nmember8\r\n$7\r\nmember9\r\n")?;
        ask(
            &mut client,
            "ZRANGE zset:large 0 1 WITHSCORES",
            "*4\r\n$5\r\nfirst\r\n$4\r\n-inf\r\n$7\r\nmember0\r\n$1\r\n0\r\n",
        )?;
        ask(&mut client, "ZRANK zset:large member2999", ":3000\r\n")?;
        for (key, encoding) in [("integers", "intset"), ("zset:small", "listpack"), ("zset:large", "skiplist")] {
            ask(&mut client, &format!("OBJECT ENCODING {key}"), &format!("${}\r\n{encoding}\r\n", encoding.len()))?;
        }
    }
    Ok(())
}

#[test]
fn the_memory_of_large_sets_comes_back() -> anyhow::Result<()> {
    let server = start(&["--threads", "1"])?;
    let mut client = server.connect()?;
    let before = memory(&mut client)?;
    for command in ["SADD", "ZADD"] {
        let remove = if command == "SADD" { "SPOP k 20000" } else { "ZREMRANGEBYRANK k 0 -1" };
        for request in ["DEL k", "SET k x", remove, "PEXPIRE k 1"] {
            fill(&mut client, command, "k", 15_000)?;
            ensure!(memory(&mut client)? > before + 400_000, "{command} {request}");
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            read_reply(&mut client, &words)?;
            eventually("the memory comes back", || Ok(memory(&mut client)? < before + 200_000))?;
            ask(&mut client, "FLUSHALL", "+OK\r\n")?;
        }
    }
    Ok(())
}

#[test]
fn large_sets_are_evicted_within_the_limit() -> anyhow::Result<()> {
    let server = start(&["--threads", "1", "--maxmemory", "8mb", "--eviction", "allkeys-lru"])?;
    let mut client = server.connect()?;
    for number in 0..60 {
        let command = if number % 2 == 0 { "SADD" } else { "ZADD" };
        fill(&mut client, command, &format!("k{number}"), 5000)?;
        ensure!(memory(&mut client)? <= 8 << 20);
        if number == 58 {
            // Uses are known by the second: the last one is used later than all others.
            thread::sleep(Duration::from_millis(1100));
        }
    }
    ensure!(field(&text(&mut client, "INFO stats")?, "evicted_keys")?.parse::<u64>()? > 10);
    ask(&mut client, "ZCARD k59", ":5000\r\n")
}

#[test]
fn without_memory_no_member_is_added_and_any_is_removed() -> anyhow::Result<()> {
    let server = start(&["--threads", "1", "--eviction", "noeviction"])?;
    let mut client = server.connect()?;
    fill(&mut client, "SADD", "set", 5000)?;
    fill(&mut client, "ZADD", "zset", 5000)?;
    ask(&mut client, "CONFIG SET maxmemory 100kb", "+OK\r\n")?;
    let refused = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    for request in ["SADD set new", "ZADD zset 1 new", "SUNIONSTORE other set", "ZRANGESTORE other zset 0 -1"] {
        ask(&mut client, request, refused)?;
    }
    ask(&mut client, "EXISTS other", ":0\r\n")?;
    ask(&mut client, "SISMEMBER set new", ":0\r\n")?;
    ask(&mut client, "SREM set member0", ":1\r\n")?;
    ask(&mut client, "ZPOPMAX zset", "*2\r\n$10\r\nmember4999\r\n$4\r\n4999\r\n")
}

#[test]
fn a_watched_sorted_set_aborts_a_transaction_and_a_script_sees_one() -> anyhow::Result<()> {
    let server = start(&["--threads", "2", "--shards", "4"])?;
    let (mut client, mut other) = (server.connect()?, server.connect()?);
    for members in [5, 2000] {
        fill(&mut client, "ZADD", "z", members)?;
        ask(&mut client, "WATCH z", "+OK\r\n")?;
        ask(&mut other, "ZADD z 7.5 member0", ":0\r\n")?;
        ask(&mut client, "MULTI", "+OK\r\n")?;
        ask(&mut client, "ZREM z member1", "+QUEUED\r\n")?;
        ask(&mut client, "EXEC", "*-1\r\n")?;
        // The number of keys of ZUNIONSTORE and ZMPOP is an argument.
        ask(
            &mut client,
            "EVAL redis.call('ZUNIONSTORE',KEYS[2],2,KEYS[1],KEYS[3]);return(redis.call('ZMPOP',2,KEYS[3],KEYS[2],'MAX')[2][1][2]) 3 z u n",
            &format!("${}\r\n{}\r\n", if members == 5 { 3 } else { 4 }, if members == 5 { "7.5" } else { "1999" }),
        )?;
        ask(&mut client, "ZCARD u", &format!(":{}\r\n", members - 1))?;
        ask(&mut client, "DEL z u", ":2\r\n")?;
    }
    Ok(())
}

/// Sends a command and returns its reply's parts as texts; a number is none.
fn read_reply(client: &mut Client, request: &[&[u8]]) -> anyhow::Result<Vec<Vec<u8>>> {
    send(client, request)?;
    let (mut got, mut decoder) = (Vec::new(), ReplyDecoder::default());
    loop {
        let mut chunk = [0; 4096];
        let n = client.read(&mut chunk)?;
        ensure!(n > 0, "the connection has ended");
        got.extend_from_slice(&chunk[..n]);
        if let Some((reply, _)) = decoder.decode(&got)? {
            let mut texts = Vec::new();
            collect(&reply, &mut texts);
            return Ok(texts);
        }
    }
}

fn collect(reply: &Reply<'_>, texts: &mut Vec<Vec<u8>>) {
    if let Reply::Bulk(text) = reply {
        texts.push(text.to_vec());
    } else if let Reply::Array(parts) = reply {
        parts.iter().for_each(|part| collect(part, texts));
    }
}

#[test]
fn random_members_are_members_and_all_come_up() -> anyhow::Result<()> {
    let server = start(&["--threads", "1"])?;
    let mut client = server.connect()?;
    for members in [20, 300] {
        fill(&mut client, "SADD", "s", members)?;
        let mut seen = BTreeSet::new();
        // The chance that a member of 300 is in none of 100 × 150 samples is below 10^-20.
        for _ in 0..100 {
            let found = read_reply(&mut client, &[b"SRANDMEMBER", b"s", b"150"])?;
            let distinct: BTreeSet<_> = found.iter().cloned().collect();
            ensure!(found.len() == members.min(150) && distinct.len() == found.len());
            seen.extend(distinct);
        }
        ensure!(seen.len() == members, "{} of {members}", seen.len());
        ensure!(read_reply(&mut client, &[b"SRANDMEMBER", b"s", b"-1000"])?.iter().all(|member| seen.contains(member)));
        let mut popped = read_reply(&mut client, &[b"SPOP", b"s", b"7"])?;
        popped.extend(read_reply(&mut client, &[b"SPOP", b"s"])?);
        ensure!(popped.iter().collect::<BTreeSet<_>>().len() == 8);
        ask(&mut client, "SCARD s", &format!(":{}\r\n", members - 8))?;
        ask(&mut client, "DEL s", ":1\r\n")?;
    }
    Ok(())
}

#[test]
fn a_scan_shows_every_member_that_stays() -> anyhow::Result<()> {
    let server = start(&["--threads", "1"])?;
    let (mut client, mut other) = (server.connect()?, server.connect()?);
    for (add, scan, remove, step) in [("SADD", "SSCAN", "SREM", 1), ("ZADD", "ZSCAN", "ZREM", 2)] {
        fill(&mut client, add, "k", 2000)?;
        let (mut seen, mut cursor, mut pages) = (BTreeSet::new(), b"0".to_vec(), 0);
        loop {
            let mut page = read_reply(&mut client, &[scan.as_bytes(), b"k", &cursor, b"COUNT", b"20"])?;
            ensure!(!page.is_empty());
            cursor = page.remove(0);
            seen.extend(page.chunks(step).map(|member| member[0].clone()));
            if cursor == b"0" {
                break;
            }
            // Every other member of the second half leaves meanwhile.
            if pages < 500 {
                ask(&mut other, &format!("{remove} k member{}", 1000 + 2 * pages), ":1\r\n")?;
            }
            pages += 1;
        }
        ensure!(pages > 50, "{pages}");
        for number in (0..1000).chain((1001..2000).step_by(2)) {
            let member = format!("member{number}");
            if !seen.contains(member.as_bytes()) {
                bail!("{scan}: {member} is missing");
            }
        }
        ask(&mut client, "DEL k", ":1\r\n")?;
    }
    Ok(())
}
