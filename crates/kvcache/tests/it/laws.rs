//! Laws that no comparison of single replies shows.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use testkit::Client;

use crate::common::{on_every_driver, send, start};

fn ask(client: &mut Client, request: &[&[u8]], answer: &[u8]) -> anyhow::Result<()> {
    send(client, request)?;
    client.expect(answer)
}

/// Sends one SCAN, and returns the next cursor and the keys.
fn scan(client: &mut Client, cursor: &[u8]) -> anyhow::Result<(Vec<u8>, Vec<Vec<u8>>)> {
    use wire::resp::client::{Reply, ReplyDecoder};

    send(client, &[b"SCAN", cursor, b"COUNT", b"7"])?;
    let (mut got, mut decoder) = (Vec::new(), ReplyDecoder::default());
    loop {
        let mut chunk = [0; 4096];
        let n = client.read(&mut chunk)?;
        anyhow::ensure!(n > 0, "the connection has ended");
        got.extend_from_slice(&chunk[..n]);
        let Some((reply, _)) = decoder.decode(&got)? else { continue };
        let Reply::Array(parts) = reply else { anyhow::bail!("no array: {reply:?}") };
        let [Reply::Bulk(next), Reply::Array(keys)] = &*parts else { anyhow::bail!("no cursor and keys: {parts:?}") };
        let keys = keys.iter().filter_map(|key| if let Reply::Bulk(key) = key { Some(key.to_vec()) } else { None });
        return Ok((next.to_vec(), keys.collect()));
    }
}

#[test]
fn a_scan_shows_every_key_while_the_table_grows() -> anyhow::Result<()> {
    for store in ["packed", "hashbrown", "std", "partitioned"] {
        let server = start(&["--threads", "2", "--shards", "7", "--store", store])?;
        let (mut client, mut other) = (server.connect()?, server.connect()?);
        let mut wanted = BTreeSet::new();
        for number in 0..2000 {
            let key = format!("key{number}");
            ask(&mut client, &[b"SET", key.as_bytes(), b"1"], b"+OK\r\n")?;
            wanted.insert(key.into_bytes());
        }
        ask(&mut other, &[b"SELECT", b"3"], b"+OK\r\n")?;
        let (mut seen, mut cursor, mut steps) = (BTreeSet::new(), b"0".to_vec(), 0);
        loop {
            let (next, keys) = scan(&mut client, &cursor)?;
            seen.extend(keys);
            // The table grows meanwhile, by keys of another database.
            ask(&mut other, &[b"SET", &cursor, b"x"], b"+OK\r\n")?;
            (cursor, steps) = (next, steps + 1);
            if cursor == b"0" {
                break;
            }
        }
        assert_eq!(seen, wanted, "{store}");
        assert!(steps > 100, "{store} took {steps} steps");
    }
    Ok(())
}

/// The parser remembers how far it has read a torn GET, so nothing else may read its end.
#[test]
fn a_torn_get_is_read_on_where_it_was_torn() -> anyhow::Result<()> {
    for store in ["packed", "partitioned"] {
        let server = start(&["--threads", "1", "--shards", "1", "--store", store])?;
        let (mut client, mut other) = (server.connect()?, server.connect()?);
        ask(&mut client, &[b"SET", b"a", b"1"], b"+OK\r\n")?;
        let get = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        for torn in 1..get.len() {
            client.send(&get[..torn])?;
            // After this reply the only thread has read the first part.
            ask(&mut other, &[b"PING"], b"+PONG\r\n")?;
            client.send(&get[torn..])?;
            client.expect(b"$1\r\n1\r\n")?;
            ask(&mut client, &[b"ECHO", b"b"], b"$1\r\nb\r\n")?;
        }
    }
    Ok(())
}

#[test]
fn databases_do_not_share_keys() -> anyhow::Result<()> {
    let server = start(&["--threads", "1", "--shards", "2"])?;
    let mut client = server.connect()?;
    for database in [b"0", b"1", b"2"] {
        ask(&mut client, &[b"SELECT", database], b"+OK\r\n")?;
        ask(&mut client, &[b"DBSIZE"], b":0\r\n")?;
        ask(&mut client, &[b"MSET", b"a", database, b"b", b"2"], b"+OK\r\n")?;
        ask(&mut client, &[b"DBSIZE"], b":2\r\n")?;
    }
    ask(&mut client, &[b"FLUSHDB"], b"+OK\r\n")?;
    ask(&mut client, &[b"RANDOMKEY"], b"$-1\r\n")?;
    ask(&mut client, &[b"SELECT", b"1"], b"+OK\r\n")?;
    ask(&mut client, &[b"MGET", b"a", b"b"], b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n")?;
    ask(&mut client, &[b"FLUSHALL"], b"+OK\r\n")?;
    ask(&mut client, &[b"SELECT", b"0"], b"+OK\r\n")?;
    ask(&mut client, &[b"DBSIZE"], b":0\r\n")
}

/// One client moves a value from one key to the other and back; the other client never sees both keys or none.
#[test]
fn commands_on_several_keys_are_atomic() -> anyhow::Result<()> {
    for store in ["packed", "partitioned"] {
        let server = start(&["--threads", "2", "--shards", "7", "--store", store])?;
        ask(&mut server.connect()?, &[b"SET", b"a", b"1"], b"+OK\r\n")?;
        let (mut mover, mut watcher) = (server.connect()?, server.connect()?);
        let moving = std::thread::spawn(move || -> anyhow::Result<()> {
            for _ in 0..500 {
                ask(&mut mover, &[b"RENAME", b"a", b"b"], b"+OK\r\n")?;
                ask(&mut mover, &[b"RENAME", b"b", b"a"], b"+OK\r\n")?;
            }
            Ok(())
        });
        while !moving.is_finished() {
            ask(&mut watcher, &[b"EXISTS", b"a", b"b"], b":1\r\n")?;
        }
        moving.join().map_err(|_| anyhow::anyhow!("the mover panicked"))??;
    }
    Ok(())
}

/// The lock of another client, as it were: it must not be free before its time, however coarse a driver's clock is.
#[test]
fn a_key_is_there_until_its_time_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "1"])?;
        let mut client = server.connect()?;
        for _ in 0..20 {
            let sent = Instant::now();
            ask(&mut client, &[b"SET", b"lock", b"1", b"NX", b"PX", b"10"], b"+OK\r\n")?;
            loop {
                send(&mut client, &[b"SET", b"lock", b"2", b"NX", b"PX", b"1"])?;
                let is_free = match &client.take(5)?[..] {
                    b"+OK\r\n" => true,
                    b"$-1\r\n" => false,
                    other => anyhow::bail!("{}", other.escape_ascii()),
                };
                if is_free {
                    break;
                }
            }
            let held = sent.elapsed();
            anyhow::ensure!(held >= Duration::from_millis(10), "free after {held:?}");
            ask(&mut client, &[b"FLUSHALL"], b"+OK\r\n")?;
        }
        Ok(())
    });
}
