//! Laws of hashes that no comparison of single replies shows.

use std::{thread, time::Duration};

use anyhow::ensure;
use testkit::{Client, eventually};

use crate::common::{Kv, ask, exchange, field, on_every_driver, send, start, text};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

/// Sets so many fields, from which on a hash is an object.
fn fill(client: &mut Client, key: &str, fields: usize) -> anyhow::Result<()> {
    for first in (0..fields).step_by(500) {
        let numbers = first..fields.min(first + 500);
        let pairs: String = numbers.clone().map(|number| format!(" field{number} value{number}")).collect();
        ask(client, &format!("HSET {key}{pairs}"), &format!(":{}\r\n", numbers.len()))?;
    }
    Ok(())
}

fn memory(client: &mut Client) -> anyhow::Result<u64> {
    Ok(field(&text(client, "INFO memory")?, "used_memory")?.parse()?)
}

#[test]
fn a_hash_is_a_hash_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "2"])?;
        let mut client = server.connect()?;
        ask(&mut client, "HSET h a 1 b 2", ":2\r\n")?;
        // In one go with strings, which take another way.
        exchange(
            &mut client,
            b"*3\r\n$3\r\nSET\r\n$1\r\ns\r\n$1\r\nx\r\n*2\r\n$3\r\nGET\r\n$1\r\nh\r\n*2\r\n$3\r\nGET\r\n$1\r\ns\r\n*3\r\n$4\r\nHGET\r\n$1\r\nh\r\n$1\r\nb\r\n",
            format!("+OK\r\n{WRONG_TYPE}$1\r\nx\r\n$1\r\n2\r\n").as_bytes(),
        )?;
        ask(&mut client, "HGET s a", WRONG_TYPE)?;
        ask(&mut client, "TYPE h", "+hash\r\n")?;
        fill(&mut client, "h", 1000)?;
        ask(&mut client, "HLEN h", ":1002\r\n")?;
        ask(&mut client, "OBJECT ENCODING h", "$9\r\nhashtable\r\n")?;
        ask(&mut client, "RENAME h i", "+OK\r\n")?;
        ask(&mut client, "HGET i field999", "$8\r\nvalue999\r\n")?;
        ask(&mut client, "SET i x", "+OK\r\n")?;
        ask(&mut client, "GET i", "$1\r\nx\r\n")
    });
}

#[test]
fn hashes_come_back_from_a_snapshot() -> anyhow::Result<()> {
    for store in ["packed", "hashbrown"] {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("keys");
        let flags = ["--snapshot", &path.display().to_string(), "--store", store, "--threads", "1"];
        let mut server = start(&flags)?;
        let mut client = server.connect()?;
        fill(&mut client, "small", 10)?;
        fill(&mut client, "large", 3000)?;
        ask(&mut client, "HPEXPIREAT small 200000000000000 FIELDS 1 field3", "*1\r\n:1\r\n")?;
        ask(&mut client, "HPEXPIREAT large 200000000000000 FIELDS 1 field3", "*1\r\n:1\r\n")?;
        drop(client);
        ensure!(server.stop()?.success());
        let server = start(&flags)?;
        let mut client = server.connect()?;
        for (key, len, encoding) in [("small", 10, "listpackex"), ("large", 3000, "hashtable")] {
            ask(&mut client, &format!("HLEN {key}"), &format!(":{len}\r\n"))?;
            ask(&mut client, &format!("HGET {key} field9"), "$6\r\nvalue9\r\n")?;
            ask(
                &mut client,
                &format!("HPEXPIRETIME {key} FIELDS 3 field3 field4 none"),
                "*3\r\n:200000000000000\r\n:-1\r\n:-2\r\n",
            )?;
            ask(&mut client, &format!("OBJECT ENCODING {key}"), &format!("${}\r\n{encoding}\r\n", encoding.len()))?;
        }
    }
    Ok(())
}

#[test]
fn the_memory_of_large_hashes_comes_back() -> anyhow::Result<()> {
    let server = start(&["--threads", "1"])?;
    let mut client = server.connect()?;
    let before = memory(&mut client)?;
    for request in ["DEL h", "SET h x", "FLUSHALL", "PEXPIRE h 1"] {
        fill(&mut client, "h", 5000)?;
        ensure!(memory(&mut client)? > before + 400_000, "{request}");
        let reply = if request.contains("h x") || request == "FLUSHALL" { "+OK\r\n" } else { ":1\r\n" };
        ask(&mut client, request, reply)?;
        eventually("the memory comes back", || Ok(memory(&mut client)? < before + 200_000))?;
        ask(&mut client, "FLUSHALL", "+OK\r\n")?;
    }
    Ok(())
}

#[test]
fn large_hashes_are_evicted_within_the_limit() -> anyhow::Result<()> {
    let server = start(&["--threads", "1", "--maxmemory", "8mb", "--eviction", "allkeys-lru"])?;
    let mut client = server.connect()?;
    for number in 0..60 {
        fill(&mut client, &format!("h{number}"), 5000)?;
        ensure!(memory(&mut client)? <= 8 << 20);
        if number == 58 {
            // Uses are known by the second: the last hash is used later than all others.
            thread::sleep(Duration::from_millis(1100));
        }
    }
    ensure!(field(&text(&mut client, "INFO stats")?, "evicted_keys")?.parse::<u64>()? > 10);
    ask(&mut client, "HLEN h59", ":5000\r\n")
}

#[test]
fn without_memory_no_field_is_added_and_any_is_removed() -> anyhow::Result<()> {
    let server = start(&["--threads", "1", "--eviction", "noeviction"])?;
    let mut client = server.connect()?;
    fill(&mut client, "large", 5000)?;
    fill(&mut client, "small", 10)?;
    ask(&mut client, "CONFIG SET maxmemory 100kb", "+OK\r\n")?;
    for key in ["large", "small", "new"] {
        let refused = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        ask(&mut client, &format!("HSET {key} field0 changed added 1"), refused)?;
        ask(&mut client, &format!("HEXISTS {key} added"), ":0\r\n")?;
    }
    ask(&mut client, "HGET large field0", "$6\r\nvalue0\r\n")?;
    ask(&mut client, "HDEL large field0", ":1\r\n")?;
    ask(&mut client, "HDEL small field0", ":1\r\n")
}

#[test]
fn a_watched_hash_aborts_a_transaction_and_a_script_sees_one() -> anyhow::Result<()> {
    let server = start(&["--threads", "2", "--shards", "4"])?;
    let (mut client, mut other) = (server.connect()?, server.connect()?);
    for fields in [5, 2000] {
        fill(&mut client, "h", fields)?;
        ask(&mut client, "WATCH h", "+OK\r\n")?;
        ask(&mut other, "HSET h field0 other", ":0\r\n")?;
        ask(&mut client, "MULTI", "+OK\r\n")?;
        ask(&mut client, "HSET h field0 mine", "+QUEUED\r\n")?;
        ask(&mut client, "EXEC", "*-1\r\n")?;
        ask(
            &mut client,
            "EVAL redis.call('HSET',KEYS[1],'field0','s');return{redis.call('HGET',KEYS[1],'field0'),redis.call('HLEN',KEYS[1])} 1 h",
            &format!("*2\r\n$1\r\ns\r\n:{fields}\r\n"),
        )?;
        // It asks for another key only after it has changed the hash, and begins again.
        ask(
            &mut client,
            "EVAL redis.call('HINCRBY',KEYS[1],'n',1);redis.call('SET','other'..ARGV[1],1);return(redis.call('HGET',KEYS[1],'n')) 1 h x",
            "$1\r\n1\r\n",
        )?;
        ask(&mut client, "DEL h", ":1\r\n")?;
    }
    Ok(())
}

#[test]
fn other_protocols_see_no_value_in_a_hash() -> anyhow::Result<()> {
    let kv = Kv::start(["--shards", "1"])?;
    let (mut resp, mut memcached) = (Client::connect(kv.resp())?, Client::connect(kv.memcached())?);
    let mut us = Client::connect(kv.us())?;
    for fields in [3, 1000] {
        fill(&mut resp, "h", fields)?;
        for (request, reply) in [
            ("get h\r\n", "END\r\n"),
            ("gets h\r\n", "END\r\n"),
            ("gat 0 h\r\n", "END\r\n"),
            ("mg h v c t\r\n", "EN\r\n"),
            ("touch h 0\r\n", "TOUCHED\r\n"),
            ("append h 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
            ("incr h 1\r\n", "NOT_FOUND\r\n"),
            ("add h 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
            ("md h I q\r\nmn\r\n", "MN\r\n"),
        ] {
            exchange(&mut memcached, request.as_bytes(), reply.as_bytes())?;
        }
        exchange(&mut us, b"GET h\x1f", b"(nil)\x1f")?;
        ask(&mut resp, "HLEN h", &format!(":{fields}\r\n"))?;
        exchange(&mut memcached, b"set h 0 0 1\r\nx\r\n", b"STORED\r\n")?;
        ask(&mut resp, "GET h", "$1\r\nx\r\n")?;
        ask(&mut resp, "DEL h", ":1\r\n")?;
    }
    kv.stop()
}

#[test]
fn fields_expire_and_the_key_goes_with_the_last() -> anyhow::Result<()> {
    let server = start(&["--threads", "1"])?;
    let mut client = server.connect()?;
    for fields in [2, 1000] {
        fill(&mut client, "h", fields)?;
        ask(&mut client, "HEXPIRE h 1000 FIELDS 2 field0 none", "*2\r\n:1\r\n:-2\r\n")?;
        ask(&mut client, "HEXPIRE h 500 GT FIELDS 2 field0 field1", "*2\r\n:0\r\n:0\r\n")?;
        ask(&mut client, "HEXPIRE h 500 LT FIELDS 1 field0", "*1\r\n:1\r\n")?;
        ask(&mut client, "HEXPIRE h 500 NX FIELDS 1 field0", "*1\r\n:0\r\n")?;
        ask(&mut client, "HTTL h FIELDS 2 field0 field1", "*2\r\n:500\r\n:-1\r\n")?;
        ask(&mut client, "HINCRBY h counter 1", ":1\r\n")?;
        ask(&mut client, "HPERSIST h FIELDS 2 field0 field1", "*2\r\n:1\r\n:-1\r\n")?;
        ask(&mut client, "HEXPIRE h 1000 FIELDS 1 field0", "*1\r\n:1\r\n")?;
        ask(&mut client, "HSET h field0 new", ":0\r\n")?;
        ask(&mut client, "HTTL h FIELDS 1 field0", "*1\r\n:-1\r\n")?;
        ask(&mut client, "HEXPIREAT h 1 FIELDS 1 field0", "*1\r\n:2\r\n")?;
        ask(&mut client, "HLEN h", &format!(":{fields}\r\n"))?;
        ask(&mut client, "DEL h", ":1\r\n")?;
    }
    ask(&mut client, "HSET h a 1 b 2", ":2\r\n")?;
    ask(&mut client, "HPEXPIRE h 1 FIELDS 2 a b", "*2\r\n:1\r\n:1\r\n")?;
    // Nobody asks for its fields.
    eventually("the key goes", || Ok(field(&text(&mut client, "INFO keyspace")?, "db0").is_err()))?;
    for (request, refusal) in [
        ("HEXPIRE h -1 FIELDS 1 a", "ERR invalid expire time, must be >= 0"),
        ("HEXPIRE h 9223372036854775807 FIELDS 1 a", "ERR invalid expire time in 'hexpire' command"),
        ("HEXPIRE h 1 FIELDS 2 a", "ERR The `numfields` parameter must match the number of arguments"),
        ("HEXPIRE h 1 FIELDS 0 a", "ERR Parameter `numFields` should be greater than 0"),
        ("HEXPIRE h 1 NX FELD 1 a", "ERR Mandatory argument FIELDS is missing or not at the right position"),
    ] {
        ask(&mut client, request, &format!("-{refusal}\r\n"))?;
    }
    ask(&mut client, "HTTL h FIELDS 2 a b", "*2\r\n:-2\r\n:-2\r\n")
}

#[test]
fn values_of_fields_are_taken_and_set_with_their_expiry() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "2"])?;
        let mut client = server.connect()?;
        let late = "PXAT 200000000000000";
        ask(&mut client, &format!("HSETEX h {late} FIELDS 2 a 1 b two"), ":1\r\n")?;
        ask(&mut client, "HPEXPIRETIME h FIELDS 2 a b", "*2\r\n:200000000000000\r\n:200000000000000\r\n")?;
        ask(&mut client, "HSETEX h FNX FIELDS 2 b 2 c 3", ":0\r\n")?;
        ask(&mut client, "HSETEX h FXX FIELDS 2 b 2 c 3", ":0\r\n")?;
        ask(&mut client, "HSETEX none FXX FIELDS 1 b 2", ":0\r\n")?;
        ask(&mut client, "HSETEX h KEEPTTL fxx FIELDS 1 b 2", ":1\r\n")?;
        ask(&mut client, "HSETEX h FIELDS 1 a 3", ":1\r\n")?;
        ask(&mut client, "HPEXPIRETIME h FIELDS 2 a b", "*2\r\n:-1\r\n:200000000000000\r\n")?;
        ask(&mut client, "HGETEX h PERSIST FIELDS 2 b none", "*2\r\n$1\r\n2\r\n$-1\r\n")?;
        ask(&mut client, &format!("HGETEX h {late} FIELDS 1 a"), "*1\r\n$1\r\n3\r\n")?;
        ask(&mut client, "HPEXPIRETIME h FIELDS 2 a b", "*2\r\n:200000000000000\r\n:-1\r\n")?;
        ask(&mut client, "HGETEX h FIELDS 1 a", "*1\r\n$1\r\n3\r\n")?;
        // What is in the past goes at once, with its last value.
        ask(&mut client, "HGETEX h EX 0 FIELDS 1 a", "*1\r\n$1\r\n3\r\n")?;
        ask(&mut client, "HSETEX h PXAT 1 FIELDS 1 b x", ":1\r\n")?;
        ask(&mut client, "EXISTS h", ":0\r\n")?;
        ask(&mut client, "HSET h a 1 b 2", ":2\r\n")?;
        ask(&mut client, "HGETDEL h FIELDS 3 a a none", "*3\r\n$1\r\n1\r\n$-1\r\n$-1\r\n")?;
        ask(&mut client, "HGETDEL h FIELDS 1 b", "*1\r\n$1\r\n2\r\n")?;
        ask(&mut client, "EXISTS h", ":0\r\n")?;
        ask(&mut client, "HSETEX h PX 1 FIELDS 1 short x", ":1\r\n")?;
        eventually("the key goes with its field", || {
            send(&mut client, &[b"EXISTS", b"h"])?;
            Ok(client.take(4)? == b":0\r\n")
        })?;
        for (request, reply) in [
            ("HGETDEL h FIELD 1 a", "Mandatory argument FIELDS is missing or not at the right position"),
            ("HGETDEL h FIELDS 0 a", "Number of fields must be a positive integer"),
            ("HGETEX h EX 5 FIELDS 2 a", "The `numfields` parameter must match the number of arguments"),
            ("HGETEX h EX -5 FIELDS 1 a", "invalid expire time, must be >= 0"),
            (
                "HSETEX h EX 5 KEEPTTL FIELDS 1 a 1",
                "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
            ),
            ("HSETEX h FNX FXX FIELDS 1 a 1", "Only one of FXX or FNX arguments can be specified"),
            ("HSETEX h FIELDS 2 a 1 b", "wrong number of arguments for 'hsetex' command"),
            ("HSETEX h NX FIELDS 1 a 1", "unknown argument: NX"),
        ] {
            ask(&mut client, request, &format!("-ERR {reply}\r\n"))?;
        }
        ask(&mut client, "SET s x", "+OK\r\n")?;
        for request in ["HGETDEL s FIELDS 1 a", "HGETEX s FIELDS 1 a", "HSETEX s FIELDS 1 a 1"] {
            ask(&mut client, request, WRONG_TYPE)?;
        }
        Ok(())
    });
}

#[test]
fn limits_of_small_collections_are_shown_and_cannot_be_changed() -> anyhow::Result<()> {
    let server = start(&["--threads", "1"])?;
    let mut client = server.connect()?;
    for (name, value) in
        [("hash-max-listpack-entries", 128), ("set-max-intset-entries", 512), ("zset-max-listpack-value", 64)]
    {
        ask(&mut client, &format!("CONFIG SET {name} {value}"), "+OK\r\n")?;
        let refusal =
            format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config\r\n");
        ask(&mut client, &format!("CONFIG SET {name} 1"), &refusal)?;
    }
    Ok(())
}
