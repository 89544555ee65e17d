//! Functions for operators: pauses, kills, active expiry, settings, figures.

use std::io::ErrorKind;

use anyhow::{Context, ensure};
use sys::listen::Address;
use testkit::{Client, DriverKind, eventually};

use crate::common::{Kv, ask, field, on_every_driver, send, start, text};

/// Returns the client's own identifier.
fn id(client: &mut Client) -> anyhow::Result<String> {
    let info = text(client, "CLIENT INFO")?;
    let id = info.split(' ').find_map(|field| field.strip_prefix("id="));
    Ok(id.unwrap_or_default().to_owned())
}

#[test]
fn a_killed_idle_connection_closes_at_once_on_every_driver() -> anyhow::Result<()> {
    for driver in testkit::sample(DriverKind::ALL).iter().filter(|driver| driver.probe().is_ok()) {
        let server = start(&["--driver", driver.name(), "--threads", "2", "--workers", "4"])?;
        let (mut killer, mut victim, mut other) = (server.connect()?, server.connect()?, server.connect()?);
        let victim_id = id(&mut victim)?;
        ask(&mut other, "PING", "+PONG\r\n")?;
        ask(&mut killer, &format!("CLIENT KILL ID {victim_id}"), ":1\r\n")?;
        victim.expect_disconnect()?;
        ask(&mut other, "PING", "+PONG\r\n")?;
        ask(&mut killer, &format!("CLIENT KILL ID {victim_id}"), ":0\r\n")?;
        // A client that kills itself is answered before it is closed.
        ask(&mut killer, "CLIENT KILL SKIPME no", ":2\r\n")?;
        killer.expect_end()?;
        other.expect_disconnect()?;
    }
    Ok(())
}

#[test]
fn a_pause_holds_commands_but_no_event_loop_on_every_driver() -> anyhow::Result<()> {
    for driver in testkit::sample(DriverKind::ALL).iter().filter(|driver| driver.probe().is_ok()) {
        let server = start(&["--driver", driver.name(), "--threads", "1", "--workers", "4"])?;
        let (mut admin, mut writer, mut reader) = (server.connect()?, server.connect()?, server.connect()?);
        ask(&mut writer, "SET k 1", "+OK\r\n")?;
        ask(&mut reader, "GET k", "$1\r\n1\r\n")?;
        ask(&mut admin, "CLIENT PAUSE 100000 WRITE", "+OK\r\n")?;
        // Commands behind one that waits wait, too.
        send(&mut writer, &[b"INCR", b"k"])?;
        send(&mut writer, &[b"GET", b"k"])?;
        eventually("the writer waits", || Ok(field(&text(&mut admin, "INFO clients")?, "blocked_clients")? == "1"))?;
        ask(&mut reader, "GET k", "$1\r\n1\r\n")?;
        ask(&mut admin, "CLIENT UNPAUSE", "+OK\r\n")?;
        writer.expect(b":2\r\n$1\r\n2\r\n")?;
        // A pause of everything ends by itself.
        ask(&mut admin, "CLIENT PAUSE 60", "+OK\r\n")?;
        ask(&mut reader, "GET k", "$1\r\n2\r\n")?;
        ask(&mut admin, "PING", "+PONG\r\n")?;
    }
    Ok(())
}

#[test]
fn debug_sleep_keeps_the_order_of_replies_and_delays_no_other() -> anyhow::Result<()> {
    for driver in testkit::sample(DriverKind::ALL).iter().filter(|driver| driver.probe().is_ok()) {
        let server = start(&["--driver", driver.name(), "--threads", "1", "--workers", "4"])?;
        let (mut sleeper, mut other) = (server.connect()?, server.connect()?);
        ask(&mut sleeper, "CONFIG SET slowlog-log-slower-than 50000", "+OK\r\n")?;
        send(&mut sleeper, &[b"SET", b"k", b"1"])?;
        send(&mut sleeper, &[b"DEBUG", b"SLEEP", b"0.1"])?;
        send(&mut sleeper, &[b"GET", b"k"])?;
        send(&mut sleeper, &[b"SLOWLOG", b"LEN"])?;
        ask(&mut other, "PING", "+PONG\r\n")?;
        sleeper.expect(b"+OK\r\n+OK\r\n$1\r\n1\r\n:1\r\n")?;
    }
    Ok(())
}

#[test]
fn expired_keys_are_removed_without_being_read() -> anyhow::Result<()> {
    for store in ["hashbrown", "std", "packed", "partitioned"] {
        let server = start(&["--store", store, "--threads", "2"])?;
        let mut client = server.connect()?;
        let value = "v".repeat(1000);
        for number in 0..500 {
            ask(&mut client, &format!("SET k{number} {value} PX 200"), "+OK\r\n")?;
        }
        ask(&mut client, "SET stays 1", "+OK\r\n")?;
        let before: u64 = field(&text(&mut client, "INFO memory")?, "used_memory_dataset")?.parse()?;
        eventually("the keys are gone", || {
            Ok(field(&text(&mut client, "INFO keyspace")?, "db0")?.starts_with("keys=1,expires=0"))
        })?;
        ask(&mut client, "DBSIZE", ":1\r\n")?;
        let stats = text(&mut client, "INFO stats")?;
        assert_eq!((field(&stats, "expired_keys")?, field(&stats, "keyspace_misses")?), ("500".into(), "0".into()));
        let after: u64 = field(&text(&mut client, "INFO memory")?, "used_memory_dataset")?.parse()?;
        assert!(after <= before + before / 10, "{store}: {after} after {before}");
    }
    Ok(())
}

#[test]
fn a_lowered_memory_limit_is_reached_without_a_write() -> anyhow::Result<()> {
    let server = start(&["--threads", "2", "--shards", "2", "--store", "hashbrown"])?;
    let mut client = server.connect()?;
    let value = "v".repeat(1000);
    for number in 0..5000 {
        ask(&mut client, &format!("SET k{number} {value}"), "+OK\r\n")?;
    }
    ask(&mut client, "CONFIG SET maxmemory 2mb maxmemory-policy allkeys-lru", "+OK\r\n")?;
    eventually("the limit is reached", || {
        Ok(field(&text(&mut client, "INFO memory")?, "used_memory")?.parse::<u64>()? <= 2 << 20)
    })?;
    assert_ne!(field(&text(&mut client, "INFO stats")?, "evicted_keys")?, "0");
    let info = text(&mut client, "INFO memory")?;
    assert_eq!(
        (field(&info, "maxmemory")?, field(&info, "maxmemory_policy")?),
        ("2097152".into(), "allkeys-lru".into())
    );
    Ok(())
}

#[test]
fn settings_change_together_or_not_at_all() -> anyhow::Result<()> {
    let server = start(&[])?;
    let (mut client, mut other) = (server.connect()?, server.connect()?);
    ask(
        &mut client,
        "CONFIG SET maxmemory 1gb timeout x",
        "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer\r\n",
    )?;
    ask(&mut client, "CONFIG GET maxmemory", "*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n")?;
    // A fixed setting can be set to its value.
    ask(&mut client, "CONFIG SET save  appendonly no", "+OK\r\n")?;
    ask(&mut other, "PING", "+PONG\r\n")?;
    ask(&mut other, "CONFIG SET requirepass secret", "+OK\r\n")?;
    // A client that is connected already stays authenticated; a new one has to authenticate.
    ask(&mut other, "PING", "+PONG\r\n")?;
    let mut stranger = server.connect()?;
    ask(&mut stranger, "PING", "-NOAUTH Authentication required.\r\n")?;
    ask(&mut stranger, "AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")?;
    ask(&mut stranger, "AUTH default secret", "+OK\r\n")?;
    ask(&mut stranger, "PING", "+PONG\r\n")?;
    // Idle connections are closed although their deadline was a day away.
    ask(&mut stranger, "CONFIG SET timeout 1", "+OK\r\n")?;
    stranger.expect_disconnect()
}

#[test]
fn shutdown_is_the_same_drain_as_sigterm() -> anyhow::Result<()> {
    let mut server = start(&[])?;
    let mut client = server.connect()?;
    ask(&mut client, "SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n")?;
    send(&mut client, &[b"SHUTDOWN", b"NOSAVE"])?;
    client.expect_end()?;
    assert_eq!(server.wait()?.code(), Some(0), "{}", server.stderr());
    Ok(())
}

#[test]
fn with_no_touch_reading_is_no_use_of_a_key() -> anyhow::Result<()> {
    let server = start(&["--eviction", "allkeys-lru"])?;
    let mut client = server.connect()?;
    ask(&mut client, "SET k 1", "+OK\r\n")?;
    ask(&mut client, "CLIENT NO-TOUCH on", "+OK\r\n")?;
    let idle = |client: &mut Client| -> anyhow::Result<u32> {
        send(client, &[b"OBJECT", b"IDLETIME", b"k"])?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(client.take(1)?);
        }
        Ok(String::from_utf8(line)?.trim().trim_start_matches(':').parse()?)
    };
    eventually("the key has been idle", || Ok(idle(&mut client)? >= 1))?;
    ask(&mut client, "GET k", "$1\r\n1\r\n")?;
    assert!(idle(&mut client)? >= 1, "GET was not a use");
    ask(&mut client, "CLIENT NO-TOUCH off", "+OK\r\n")?;
    ask(&mut client, "GET k", "$1\r\n1\r\n")?;
    ask(&mut client, "OBJECT IDLETIME k", ":0\r\n")
}

/// Entries have no room for it as long as nothing is evicted.
#[test]
fn idle_times_are_kept_once_there_is_a_limit() -> anyhow::Result<()> {
    let server = start(&[])?;
    let mut client = server.connect()?;
    ask(&mut client, "SET old 1", "+OK\r\n")?;
    ask(&mut client, "SET expiring 2 EX 1000", "+OK\r\n")?;
    ask(&mut client, "CONFIG SET maxmemory 1gb", "+OK\r\n")?;
    ask(&mut client, "GET old", "$1\r\n1\r\n")?;
    ask(&mut client, "GET expiring", "$1\r\n2\r\n")?;
    for key in ["old", "expiring"] {
        eventually("the key has been idle", || {
            send(&mut client, &[b"OBJECT", b"IDLETIME", key.as_bytes()])?;
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                line.extend(client.take(1)?);
            }
            Ok((1..60).contains(&String::from_utf8(line)?.trim().trim_start_matches(':').parse::<u32>()?))
        })?;
    }
    // Nothing is kept of it without a limit and with an eviction that needs none.
    let server = start(&[])?;
    let mut client = server.connect()?;
    ask(&mut client, "SET k 1", "+OK\r\n")?;
    ask(&mut client, "OBJECT IDLETIME k", ":0\r\n")
}

/// Sends HTTP with a command in its body, and reads until the connection is closed: perhaps by a reset, since not all that
/// was sent is read.
fn send_http(address: &Address, head: &str, body: &str) -> anyhow::Result<()> {
    let mut client = Client::connect(address)?;
    client.send([head.as_bytes(), body.as_bytes()].concat().as_slice())?;
    loop {
        match client.read(&mut [0; 4096]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("{head:?} and {body:?} at {address}")),
        }
    }
}

/// A page in a browser can make it send such requests, with commands in their bodies.
#[test]
fn http_is_not_executed_and_logged_on_every_driver() {
    let (post, put) =
        ("POST / HTTP/1.1\r\nContent-Type: text/plain\r\n\r\n", "PUT / HTTP/1.1\r\nHost: example.com\r\n\r\n");
    let (resp, us, memcached) = ("SET pwn 1\r\n", "\u{1f}SET pwn 1\u{1f}", "set pwn 0 0 1\r\n1\r\n");
    on_every_driver(|driver| {
        // Whichever comes first is logged, so each is the first once. The 0x1F text protocol is detected at RESP's address, too.
        for first in 0..4 {
            let kv = Kv::start(["--driver", driver.name()])?;
            let mut dialects = [(kv.resp(), resp), (kv.resp(), us), (kv.us(), us), (kv.memcached(), memcached)];
            dialects.rotate_left(first);
            send_http(dialects[0].0, if first % 2 == 0 { post } else { put }, dialects[0].1)?;
            let logged = || kv.server.stderr().matches("it sends HTTP").count();
            eventually("it is logged", || Ok(logged() == 1)).with_context(|| format!("{:?}", dialects[0]))?;
            for (address, body) in dialects {
                send_http(address, post, body)?;
                send_http(address, put, body)?;
            }
            ask(&mut Client::connect(kv.resp())?, "EXISTS pwn", ":0\r\n")?;
            ensure!(logged() == 1, "once, however many there are");
            kv.stop()?;
        }
        Ok(())
    });
}

/// Bytes that are no request are not collected.
#[test]
fn a_request_without_an_end_is_refused_on_every_driver() {
    on_every_driver(|driver| {
        let kv = Kv::start(["--driver", driver.name()])?;
        for (address, reply) in [
            (kv.resp(), &b"-ERR Protocol error: too big inline request\r\n"[..]),
            (kv.us(), b"ERROR: request too long\x1f"),
        ] {
            let mut client = Client::connect(address)?;
            client.send(&[b'x'; 64 * 1024 + 1])?;
            client.expect(reply)?;
        }
        // A long value needs no line feed in the 0x1F text protocol, whose requests may be long.
        let mut client = Client::connect(kv.resp())?;
        client.send(b"SET k ")?;
        client.send(&[b'x'; 200_000])?;
        client.send(b"\x1f")?;
        client.expect(b"OK\x1f")?;
        // The same protocol is detected if all of it arrives at once, with a line feed behind the first 64 KiB.
        let mut client = Client::connect(kv.resp())?;
        client.send(&[b"SET k ", &[b'x'; 100_000][..], b"\nx\x1f"].concat())?;
        client.expect(b"OK\x1f")?;
        drop(client);
        kv.stop()
    });
}

#[test]
fn settings_without_an_effect_are_accepted_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "1"])?;
        let mut client = server.connect()?;
        let shows = |client: &mut Client, name: &str, value: &str| {
            let reply = format!("*2\r\n${}\r\n{name}\r\n${}\r\n{value}\r\n", name.len(), value.len());
            ask(client, &format!("CONFIG GET {name}"), &reply)
        };
        shows(&mut client, "stop-writes-on-bgsave-error", "yes")?;
        shows(&mut client, "tcp-keepalive", "0")?;
        let settings = "stop-writes-on-bgsave-error no hz 20 lazyfree-lazy-eviction yes tcp-keepalive 60";
        ask(&mut client, &format!("CONFIG SET {settings}"), "+OK\r\n")?;
        shows(&mut client, "hz", "20")?;
        shows(&mut client, "stop-writes-on-bgsave-error", "no")?;
        shows(&mut client, "tcp-keepalive", "60")?;
        // Whoever sets these counts on them.
        for misleading in ["appendonly yes", "save 60", "maxclients 5", "appendfsync always"] {
            let name = misleading.split(' ').next().unwrap_or_default();
            let why = "can't set immutable config";
            let refusal = format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {why}\r\n");
            ask(&mut client, &format!("CONFIG SET {misleading}"), &refusal)?;
        }
        Ok(())
    });
}

#[test]
fn sizes_are_powers_of_1024_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--maxmemory", "1gb"])?;
        let mut client = server.connect()?;
        for (size, bytes) in
            [("1gb", "1073741824"), ("1.0gb", "1073741824"), ("1.5gb", "1610612736"), ("1tb", "1099511627776")]
        {
            let shown = format!("*2\r\n$9\r\nmaxmemory\r\n${}\r\n{bytes}\r\n", bytes.len());
            if size != "1gb" {
                ask(&mut client, &format!("CONFIG SET maxmemory {size}"), "+OK\r\n")?;
            }
            ask(&mut client, "CONFIG GET maxmemory", &shown)?;
        }
        Ok(())
    });
}

#[test]
fn a_cluster_of_one_node_names_the_address_of_the_client() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--cluster", "yes"])?;
        let (mut client, port) = (server.connect()?, crate::common::port(&server)?);
        let id = text(&mut client, "CLUSTER MYID")?;
        let bus = port.parse::<u32>()? + 10_000;
        let node = format!("{id} 127.0.0.1:{port}@{bus} myself,master - 0 0 0 connected 0-16383\n");
        ensure!(text(&mut client, "CLUSTER NODES")? == node);
        let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$40\r\n{id}\r\n*0\r\n");
        ask(&mut client, "CLUSTER SLOTS", &slots)?;
        send(&mut client, &[b"CLUSTER", b"SHARDS"])?;
        let shards = String::from_utf8(client.take(170)?)?;
        ensure!(shards.contains("$2\r\nip\r\n$9\r\n127.0.0.1"), "{shards}");
        Ok(())
    });
}

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// Stores values until there is no memory left.
fn fill_memory(client: &mut Client) -> anyhow::Result<()> {
    for len in [10_000, 1000, 100, 10, 1] {
        for number in 0.. {
            send(client, &[b"SET", format!("fill:{len}:{number}").as_bytes(), &vec![b'x'; len]])?;
            if client.take(5)? != b"+OK\r\n" {
                client.expect(format!("{}\r\n", &OOM[4..]).as_bytes())?;
                break;
            }
        }
    }
    Ok(())
}

#[test]
fn a_transaction_without_memory_is_refused_on_every_driver() {
    on_every_driver(|driver| {
        let limits = ["--driver", driver.name(), "--maxmemory", "8mb", "--eviction", "noeviction", "--shards", "1"];
        let server = start(&limits)?;
        let (mut client, mut other) = (server.connect()?, server.connect()?);
        let value = "v".repeat(5000);
        ask(&mut client, "MULTI", "+OK\r\n")?;
        ask(&mut client, &format!("SET a {value}"), "+QUEUED\r\n")?;
        ask(&mut client, &format!("SET b {value}"), "+QUEUED\r\n")?;
        fill_memory(&mut other)?;
        ask(&mut client, "EXEC", &format!("-EXECABORT Transaction discarded because of: {OOM}\r\n"))?;
        ask(&mut client, "MULTI", "+OK\r\n")?;
        ask(&mut client, "GET a", "+QUEUED\r\n")?;
        ask(&mut client, &format!("SET a {value}"), &format!("-{OOM}\r\n"))?;
        ask(&mut client, "EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")?;
        ask(&mut client, &format!("MSET s 1 a {value} b {value}"), &format!("-{OOM}\r\n"))?;
        let mut us = server.connect()?;
        us.send(format!("MULTI\x1fSET s 1\x1fSET a {value}\x1fEXEC\x1f").as_bytes())?;
        us.expect(b"OK\x1fQUEUED\x1fQUEUED\x1fERROR: Transaction discarded: out of memory\x1f")?;
        ask(&mut client, "EXISTS s a b", ":0\r\n")?;
        Ok(())
    });
}

/// Values that fit one by one are stored all together, even if there is no room for their sum.
#[test]
fn a_transaction_is_never_half_applied() -> anyhow::Result<()> {
    for store in ["packed", "hashbrown", "std", "partitioned"] {
        let limits = ["--maxmemory", "8mb", "--eviction", "noeviction", "--threads", "1", "--store", store];
        let server = start(&limits)?;
        let mut client = server.connect()?;
        fill_memory(&mut client)?;
        ask(&mut client, "DEL fill:10000:0", ":1\r\n")?;
        let value = "v".repeat(10_000);
        send(&mut client, &[b"MSET", b"a", value.as_bytes(), b"b", value.as_bytes(), b"c", value.as_bytes()])?;
        client.expect(b"+OK\r\n").with_context(|| format!("MSET, {store}"))?;
        ask(&mut client, "DEL a b c fill:10000:1", ":4\r\n")?;
        ask(&mut client, "MULTI", "+OK\r\n")?;
        for key in ["a", "b", "c"] {
            ask(&mut client, &format!("SET {key} {value}"), "+QUEUED\r\n")?;
        }
        ask(&mut client, "EXEC", "*3\r\n+OK\r\n+OK\r\n+OK\r\n")?;
        // The limit holds again afterwards.
        ask(&mut client, &format!("SET d {value}"), &format!("-{OOM}\r\n"))?;
    }
    Ok(())
}
