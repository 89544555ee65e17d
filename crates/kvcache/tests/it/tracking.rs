//! Client-side caching and keyspace notifications.

use std::collections::HashSet;

use anyhow::{Context, ensure};
use testkit::{Client, Server, eventually, sample_of};

use crate::common::{Kv, ask, exchange, field, on_every_driver, send, start, text};

/// Connects a client that speaks RESP3.
fn resp3(server: &Server) -> anyhow::Result<Client> {
    let mut client = server.connect()?;
    begin_resp3(&mut client)?;
    Ok(client)
}

fn begin_resp3(client: &mut Client) -> anyhow::Result<()> {
    send(client, &[b"HELLO", b"3"])?;
    let end = b"$7\r\nmodules\r\n*0\r\n";
    let mut got = Vec::new();
    while !got.ends_with(end) {
        got.extend(client.take(1)?);
    }
    Ok(())
}

/// Answers the push that tells that a key has changed.
fn invalid(key: &str) -> String {
    format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len())
}

const ALL_INVALID: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

/// Expects that nothing has been pushed before this.
fn is_quiet(client: &mut Client) -> anyhow::Result<()> {
    ask(client, "ECHO quiet", "$5\r\nquiet\r\n")
}

#[test]
fn a_reader_is_told_of_every_change_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "2"])?;
        let (mut reader, mut writer) = (resp3(&server)?, server.connect()?);
        ask(&mut reader, "CLIENT TRACKING ON", "+OK\r\n")?;
        for (change, reply) in [
            ("SET k 1", "+OK\r\n"),
            ("INCR k", ":2\r\n"),
            ("EXPIRE k 100", ":1\r\n"),
            ("DEL k", ":1\r\n"),
            ("MSET k 1 l 2", "+OK\r\n"),
        ] {
            send(&mut reader, &[b"EXISTS", b"k"])?;
            reader.take(4)?;
            ask(&mut writer, change, reply)?;
            reader.expect(invalid("k").as_bytes()).context(change)?;
            // Once told, it has to read the key again.
            ask(&mut writer, "SET k 1", "+OK\r\n")?;
            is_quiet(&mut reader)?;
        }
        ask(&mut reader, "GET l", "$1\r\n2\r\n")?;
        ask(&mut writer, "FLUSHALL", "+OK\r\n")?;
        reader.expect(ALL_INVALID.as_bytes())?;
        ask(&mut reader, "CLIENT TRACKING OFF", "+OK\r\n")?;
        ask(&mut reader, "GET k", "_\r\n")?;
        ask(&mut writer, "SET k 2", "+OK\r\n")?;
        is_quiet(&mut reader)
    });
}

/// This is how rueidis and valkey-go begin: what follows CLIENT CACHING YES is remembered, and nothing else.
#[test]
fn opt_in_remembers_what_is_asked_for_on_every_driver() {
    on_every_driver(|driver| {
        for store in sample_of(driver, &["packed", "partitioned"]) {
            let server = start(&["--driver", driver.name(), "--threads", "2", "--store", store])?;
            let (mut reader, mut writer) = (resp3(&server)?, server.connect()?);
            ask(&mut writer, "MSET a 1 b 2 c 3", "+OK\r\n")?;
            ask(&mut reader, "CLIENT TRACKING ON OPTIN", "+OK\r\n")?;
            ask(&mut reader, "GET a", "$1\r\n1\r\n")?;
            ask(&mut reader, "CLIENT CACHING YES", "+OK\r\n")?;
            ask(&mut reader, "GET b", "$1\r\n2\r\n")?;
            ask(&mut reader, "GET a", "$1\r\n1\r\n")?;
            for request in ["CLIENT CACHING YES", "MULTI"] {
                ask(&mut reader, request, "+OK\r\n")?;
            }
            for request in ["PTTL c", "GET c"] {
                ask(&mut reader, request, "+QUEUED\r\n")?;
            }
            ask(&mut reader, "EXEC", "*2\r\n:-1\r\n$1\r\n3\r\n")?;
            for (key, is_told) in [("a", false), ("b", true), ("c", true)] {
                ask(&mut writer, &format!("SET {key} x"), "+OK\r\n")?;
                if is_told {
                    reader.expect(invalid(key).as_bytes()).with_context(|| format!("{store}: {key}"))?;
                }
                is_quiet(&mut reader)?;
            }
            let why = "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.\r\n";
            ask(&mut reader, "CLIENT CACHING NO", why)?;
        }
        Ok(())
    });
}

#[test]
fn opt_out_and_no_loop_leave_keys_out_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "1"])?;
        let (mut reader, mut writer) = (resp3(&server)?, server.connect()?);
        ask(&mut reader, "CLIENT TRACKING ON OPTOUT NOLOOP", "+OK\r\n")?;
        ask(&mut reader, "CLIENT CACHING NO", "+OK\r\n")?;
        ask(&mut reader, "GET a", "_\r\n")?;
        ask(&mut reader, "MGET b c", "*2\r\n_\r\n_\r\n")?;
        ask(&mut writer, "MSET a 1 c 1", "+OK\r\n")?;
        reader.expect(invalid("c").as_bytes())?;
        ask(&mut reader, "SET b 1", "+OK\r\n")?;
        is_quiet(&mut reader)?;
        ask(&mut writer, "SET b 2", "+OK\r\n")?;
        is_quiet(&mut reader)?;
        ask(&mut reader, "GET b", "$1\r\n2\r\n")?;
        ask(&mut writer, "DEL b", ":1\r\n")?;
        reader.expect(invalid("b").as_bytes())
    });
}

#[test]
fn broadcasts_follow_prefixes_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "2"])?;
        let (mut reader, mut writer) = (resp3(&server)?, server.connect()?);
        ask(&mut reader, "CLIENT TRACKING ON BCAST PREFIX user: PREFIX page:", "+OK\r\n")?;
        for key in ["user:1", "other", "page:2", "user:"] {
            ask(&mut writer, &format!("SET {key} x"), "+OK\r\n")?;
            if key != "other" {
                reader.expect(invalid(key).as_bytes())?;
            }
        }
        is_quiet(&mut reader)?;
        let why = "-ERR Prefix 'user' overlaps with an existing prefix 'user:'. Prefixes for a single client must not \
                   overlap.\r\n";
        ask(&mut reader, "CLIENT TRACKING ON BCAST PREFIX user", why)
    });
}

#[test]
fn a_client_of_resp2_has_another_connection_told_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "2"])?;
        let (mut listener, mut reader, mut writer) = (server.connect()?, server.connect()?, server.connect()?);
        send(&mut listener, &[b"CLIENT", b"ID"])?;
        let id = listener.read_line()?.trim_start_matches(':').trim_end().to_owned();
        // It may subscribe later: until then it is told nothing.
        ask(&mut reader, &format!("CLIENT TRACKING ON REDIRECT {id}"), "+OK\r\n")?;
        ask(&mut reader, "CLIENT GETREDIR", &format!(":{id}\r\n"))?;
        ask(&mut reader, "GET early", "$-1\r\n")?;
        ask(&mut writer, "SET early v", "+OK\r\n")?;
        let refusal = "-ERR The client ID you want redirect to does not exist\r\n";
        ask(&mut reader, "CLIENT TRACKING ON REDIRECT 4711", refusal)?;
        ask(
            &mut listener,
            "SUBSCRIBE __redis__:invalidate",
            "*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n",
        )?;
        ask(&mut reader, "GET k", "$-1\r\n")?;
        ask(&mut writer, "SET k v", "+OK\r\n")?;
        let message = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n";
        listener.expect(format!("{message}*1\r\n$1\r\nk\r\n").as_bytes())?;
        ask(&mut writer, "FLUSHDB", "+OK\r\n")?;
        listener.expect(format!("{message}$-1\r\n").as_bytes())?;
        let list = text(&mut writer, "CLIENT LIST")?;
        ensure!(list.contains(" flags=t ") && list.contains(&format!(" redir={id} ")), "{list}");
        is_quiet(&mut reader)
    });
}

/// The table is bounded: a key that it forgets is told as a change.
#[test]
fn a_full_table_forgets_keys_and_says_so_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "1"])?;
        let (mut reader, mut other) = (resp3(&server)?, server.connect()?);
        ask(&mut other, "CONFIG SET tracking-table-max-keys 2", "+OK\r\n")?;
        ask(&mut reader, "CLIENT TRACKING ON", "+OK\r\n")?;
        for key in ["a", "b"] {
            ask(&mut reader, &format!("GET {key}"), "_\r\n")?;
        }
        send(&mut reader, &[b"GET", b"c"])?;
        let got = String::from_utf8(reader.take("_\r\n".len() + invalid("a").len())?)?;
        ensure!(["a", "b", "c"].iter().any(|key| got.contains(&invalid(key))), "{got:?}");
        let stats = text(&mut other, "INFO stats")?;
        assert_eq!(field(&stats, "tracking_total_keys")?, "2");
        drop(reader);
        eventually("nobody tracks", || Ok(field(&text(&mut other, "INFO clients")?, "tracking_clients")? == "0"))
    });
}

/// Nobody waits for a client that lets what it is told lie.
#[test]
fn a_tracking_client_that_does_not_read_is_closed_on_every_driver() {
    on_every_driver(|driver| {
        let args = ["--driver", driver.name(), "--threads", "2", "--max-pushed", "256KiB", "--stall-timeout", "10min"];
        let server = start(&args)?;
        let (mut idle, mut writer) = (Client::connect_with_buffer(server.address(), 16 << 10)?, server.connect()?);
        begin_resp3(&mut idle)?;
        ask(&mut idle, "CLIENT TRACKING ON BCAST", "+OK\r\n")?;
        let key = "k".repeat(100_000);
        eventually("it is closed", || {
            ask(&mut writer, &format!("SET {key} v"), "+OK\r\n")?;
            Ok(field(&text(&mut writer, "INFO clients")?, "tracking_clients")? == "0")
        })?;
        eventually("it is told so", || Ok(idle.is_cut_off()?))
    });
}

/// Clients of the other protocols change keys, too; so does time.
#[test]
fn changes_of_any_kind_are_told() -> anyhow::Result<()> {
    let kv = Kv::start(["--maxmemory", "0"])?;
    let mut reader = resp3(&kv.server)?;
    ask(&mut reader, "CLIENT TRACKING ON", "+OK\r\n")?;
    let mut memcached = Client::connect(kv.memcached())?;
    ask(&mut reader, "GET k", "_\r\n")?;
    exchange(&mut memcached, b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    reader.expect(invalid("k").as_bytes())?;
    ask(&mut reader, "GET k", "$1\r\nv\r\n")?;
    exchange(&mut memcached, b"flush_all\r\n", b"OK\r\n")?;
    reader.expect(ALL_INVALID.as_bytes())?;
    let mut writer = kv.server.connect()?;
    ask(&mut writer, "SET short v PX 50", "+OK\r\n")?;
    send(&mut reader, &[b"EXISTS", b"short"])?;
    // It may have expired before it was read, on a machine that is busy: then there is nothing to be told.
    if reader.take(4)? == b":1\r\n" {
        reader.expect(invalid("short").as_bytes())?;
    }
    kv.stop()
}

/// Answers the message of a notification.
fn notified(channel: &str, text: &str) -> String {
    let pattern = "__key*__:*";
    let (p, c, t) = (pattern.len(), channel.len(), text.len());
    format!("*4\r\n$8\r\npmessage\r\n${p}\r\n{pattern}\r\n${c}\r\n{channel}\r\n${t}\r\n{text}\r\n")
}

#[test]
fn keyspace_events_are_published() -> anyhow::Result<()> {
    for store in ["packed", "partitioned"] {
        let server = start(&["--threads", "2", "--store", store])?;
        let (mut listener, mut client) = (server.connect()?, server.connect()?);
        ask(&mut listener, "PSUBSCRIBE __key*__:*", "*3\r\n$10\r\npsubscribe\r\n$10\r\n__key*__:*\r\n:1\r\n")?;
        ask(&mut client, "SET silent 1", "+OK\r\n")?;
        ask(&mut client, "CONFIG SET notify-keyspace-events KEA", "+OK\r\n")?;
        ask(&mut client, "CONFIG GET notify-keyspace-events", "*2\r\n$22\r\nnotify-keyspace-events\r\n$3\r\nAKE\r\n")?;
        for (request, reply, events) in [
            ("SET a 1", "+OK\r\n", &[("set", "a")][..]),
            ("SET a 1 EX 100", "+OK\r\n", &[("set", "a"), ("expire", "a")]),
            ("INCRBY a 5", ":6\r\n", &[("incrby", "a")]),
            ("APPEND a x", ":2\r\n", &[("append", "a")]),
            ("PERSIST a", ":1\r\n", &[("persist", "a")]),
            ("RENAME a b", "+OK\r\n", &[("rename_from", "a"), ("rename_to", "b")]),
            ("MSET c 1 d 2", "+OK\r\n", &[("set", "c"), ("set", "d")]),
            ("EVAL return(redis.call('set',KEYS[1],'1')) 1 e", "+OK\r\n", &[("set", "e")]),
            ("GETDEL c", "$1\r\n1\r\n", &[("del", "c")]),
            ("DEL d nonesuch", ":1\r\n", &[("del", "d")]),
            ("EXPIRE b -1", ":1\r\n", &[("del", "b")]),
            ("SET t 1 PX 20", "+OK\r\n", &[("set", "t"), ("expire", "t"), ("expired", "t")]),
        ] {
            ask(&mut client, request, reply).context(store)?;
            for (event, key) in events {
                listener.expect(notified(&format!("__keyspace@0__:{key}"), event).as_bytes()).context(request)?;
                listener.expect(notified(&format!("__keyevent@0__:{event}"), key).as_bytes()).context(request)?;
            }
        }
        ask(&mut client, "CONFIG SET notify-keyspace-events Kx", "+OK\r\n")?;
        ask(&mut client, "SET silent 2", "+OK\r\n")?;
        ask(&mut client, "CONFIG SET notify-keyspace-events E$", "+OK\r\n")?;
        ask(&mut client, "SET said 3", "+OK\r\n")?;
        listener.expect(notified("__keyevent@0__:set", "said").as_bytes())?;
        let refusal = "-ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event \
                       class character. Use 'Ag$lshzxeKEtmdn'.\r\n";
        ask(&mut client, "CONFIG SET notify-keyspace-events Kq", refusal)?;
    }
    Ok(())
}

/// Listens to all notifications of these classes.
fn listener(server: &Server, classes: &str) -> anyhow::Result<Client> {
    let mut listener = server.connect()?;
    ask(&mut listener, &format!("CONFIG SET notify-keyspace-events {classes}"), "+OK\r\n")?;
    ask(&mut listener, "PSUBSCRIBE __key*__:*", "*3\r\n$10\r\npsubscribe\r\n$10\r\n__key*__:*\r\n:1\r\n")?;
    Ok(listener)
}

#[test]
fn events_of_collections_misses_and_new_keys_are_published() -> anyhow::Result<()> {
    for store in ["packed", "partitioned"] {
        let server = start(&["--threads", "2", "--store", store])?;
        let (mut listener, mut client) = (listener(&server, "EAmn")?, server.connect()?);
        for (request, reply, events) in [
            ("GET none", "$-1\r\n", &[("keymiss", "none")][..]),
            ("EVAL return(redis.call('get',KEYS[1])) 1 none", "$-1\r\n", &[("keymiss", "none")]),
            ("SET a 1", "+OK\r\n", &[("new", "a"), ("set", "a")]),
            ("SET a 2", "+OK\r\n", &[("set", "a")]),
            ("SADD s x y", ":2\r\n", &[("new", "s"), ("sadd", "s")]),
            ("SMOVE s t x", ":1\r\n", &[("srem", "s"), ("new", "t"), ("sadd", "t")]),
            ("SUNIONSTORE a s t", ":2\r\n", &[("sunionstore", "a")]),
            ("SINTERSTORE a s t", ":0\r\n", &[("del", "a")]),
            ("SREM s y", ":1\r\n", &[("srem", "s"), ("del", "s")]),
            ("ZADD z 1 m", ":1\r\n", &[("new", "z"), ("zadd", "z")]),
            ("ZINCRBY z 1 m", "$1\r\n2\r\n", &[("zincr", "z")]),
            ("ZPOPMIN z", "*2\r\n$1\r\nm\r\n$1\r\n2\r\n", &[("zpopmin", "z"), ("del", "z")]),
            ("HSET h f 1 g 2", ":2\r\n", &[("new", "h"), ("hset", "h")]),
            ("HPEXPIRE h 100000 FIELDS 1 g", "*1\r\n:1\r\n", &[("hexpire", "h")]),
            ("HPERSIST h FIELDS 1 g", "*1\r\n:1\r\n", &[("hpersist", "h")]),
            ("HDEL h g", ":1\r\n", &[("hdel", "h")]),
            // Its only field expires without being asked for, and takes the key along.
            ("HPEXPIRE h 20 FIELDS 1 f", "*1\r\n:1\r\n", &[("hexpire", "h"), ("hexpired", "h"), ("del", "h")]),
        ] {
            ask(&mut client, request, reply).context(store)?;
            for (event, key) in events {
                listener.expect(notified(&format!("__keyevent@0__:{event}"), key).as_bytes()).context(request)?;
            }
        }
        // Only those who ask for misses and new keys are told.
        ask(&mut client, "CONFIG SET notify-keyspace-events KA", "+OK\r\n")?;
        ask(&mut client, "GET none", "$-1\r\n")?;
        ask(&mut client, "SET b 1", "+OK\r\n")?;
        listener.expect(notified("__keyspace@0__:b", "set").as_bytes())?;
    }
    Ok(())
}

/// Keys that go for want of memory are published, and told to those who have read them.
#[test]
fn eviction_is_published_and_told_to_readers() -> anyhow::Result<()> {
    let server = start(&["--threads", "1", "--shards", "1", "--maxmemory", "4mb", "--eviction", "allkeys-lru"])?;
    let (mut listener, mut reader, mut writer) = (listener(&server, "Ee")?, resp3(&server)?, server.connect()?);
    ask(&mut reader, "CLIENT TRACKING ON", "+OK\r\n")?;
    let keys: Vec<String> = (10..40).map(|number| format!("k{number}")).collect();
    for key in &keys {
        ask(&mut writer, &format!("SET {key} v"), "+OK\r\n")?;
        ask(&mut reader, &format!("GET {key}"), "$1\r\nv\r\n")?;
    }
    let (value, exists) = ("x".repeat(20_000), format!("EXISTS {}", keys.join(" ")));
    let mut number = 0;
    eventually("all keys are evicted", || {
        for _ in 0..100 {
            number += 1;
            ask(&mut writer, &format!("SET filler{number} {value}"), "+OK\r\n")?;
        }
        send(&mut writer, &exists.split(' ').map(str::as_bytes).collect::<Vec<_>>())?;
        Ok(writer.read_line()?.trim_end() == ":0")
    })?;
    let len = invalid("k10").len();
    let told: HashSet<String> =
        keys.iter().map(|_| Ok(String::from_utf8(reader.take(len)?)?)).collect::<anyhow::Result<_>>()?;
    assert_eq!(told, keys.iter().map(|key| invalid(key)).collect());
    is_quiet(&mut reader)?;
    let mut published = HashSet::new();
    while !keys.iter().all(|key| published.contains(key)) {
        // The last line of a message is the key; those in front of it say that it is an eviction.
        for line in notified("__keyevent@0__:evicted", "").lines().take(7) {
            assert_eq!(listener.read_line()?.trim_end(), line);
        }
        listener.read_line()?;
        published.insert(listener.read_line()?.trim_end().to_owned());
    }
    Ok(())
}

/// Time takes a key that nobody asks for any more.
#[test]
fn expiry_is_published_and_told_to_readers_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "2"])?;
        let (mut listener, mut reader, mut writer) = (listener(&server, "Ex")?, resp3(&server)?, server.connect()?);
        ask(&mut reader, "CLIENT TRACKING ON", "+OK\r\n")?;
        let mut number = 0;
        // On a busy machine a key may have expired before it is read: then another one, for a longer time.
        loop {
            number += 1;
            ask(&mut writer, &format!("SET k{number} v PX {}", 100 * number), "+OK\r\n")?;
            send(&mut reader, &[b"EXISTS", format!("k{number}").as_bytes()])?;
            let has_read = reader.take(4)? == b":1\r\n";
            listener.expect(notified("__keyevent@0__:expired", &format!("k{number}")).as_bytes())?;
            if has_read {
                return reader.expect(invalid(&format!("k{number}")).as_bytes());
            }
        }
    });
}
