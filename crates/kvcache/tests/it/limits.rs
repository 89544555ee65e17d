//! Memory of clients: long replies, limits of buffers, and what is given back.

use anyhow::{Context, ensure};
use testkit::{Client, DriverKind, IoModel, Server, eventually};

use crate::common::{Kv, ask, field, metrics_page, on_every_driver, send, start, text};

/// Length of values whose replies were once longer than a client was allowed to have waiting.
const LONG: usize = 64 << 20;

/// Reads a bulk string of zeros whose last byte is `x`.
fn expect_long(client: &mut Client, len: usize) -> anyhow::Result<()> {
    client.expect(format!("${len}\r\n").as_bytes())?;
    let (mut left, mut last) = (len + 2, Vec::new());
    let mut buffer = vec![0; 1 << 20];
    while left > 0 {
        let room = left.min(buffer.len());
        let n = client.read(&mut buffer[..room])?;
        ensure!(n > 0, "closed with {left} bytes to come");
        left -= n;
        last = [last, buffer[n.saturating_sub(3)..n].to_vec()].concat();
        last.drain(..last.len().saturating_sub(3));
    }
    ensure!(last == b"x\r\n", "{last:?}");
    Ok(())
}

#[test]
fn a_long_value_arrives_on_every_driver() {
    on_every_driver(|driver| {
        // Values are shared with the store, and are no output of the client's own.
        let server = start(&["--driver", driver.name(), "--max-output-buffer", "1MiB"])?;
        let mut client = server.connect()?;
        ask(&mut client, &format!("SETRANGE k {} x", LONG - 1), &format!(":{LONG}\r\n"))?;
        ask(&mut client, "SETRANGE l 999999 x", ":1000000\r\n")?;
        send(&mut client, &[b"GET", b"k"])?;
        send(&mut client, &[b"MGET", b"l", b"l", b"none", b"l"])?;
        send(&mut client, &[b"PING"])?;
        expect_long(&mut client, LONG)?;
        client.expect(b"*4\r\n")?;
        expect_long(&mut client, 1_000_000)?;
        expect_long(&mut client, 1_000_000)?;
        client.expect(b"$-1\r\n")?;
        expect_long(&mut client, 1_000_000)?;
        client.expect(b"+PONG\r\n")
    });
}

/// A compressed value has to be decoded for each reply, which is the client's own then.
#[test]
fn a_long_value_that_has_to_be_decoded_arrives_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--compression", "lz4"])?;
        let mut client = server.connect()?;
        ask(&mut client, &format!("SETRANGE k {} x", LONG), &format!(":{}\r\n", LONG + 1))?;
        send(&mut client, &[b"GET", b"k"])?;
        send(&mut client, &[b"PING"])?;
        expect_long(&mut client, LONG + 1)?;
        client.expect(b"+PONG\r\n")
    });
}

#[test]
fn requests_may_have_a_million_arguments_on_every_driver() {
    // One more than Redis takes.
    const ARGUMENTS: usize = (1 << 20) + 1;
    let mut request = format!("*{ARGUMENTS}\r\n$4\r\nMSET\r\n").into_bytes();
    request.extend_from_slice(&b"$1\r\nk\r\n$1\r\nv\r\n".repeat(ARGUMENTS / 2));
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name()])?;
        let mut client = server.connect()?;
        client.send(&request)?;
        client.expect(b"+OK\r\n")?;
        ask(&mut client, "DBSIZE", ":1\r\n")?;
        ask(&mut client, "GET k", "$1\r\nv\r\n")
    });
}

/// Returns a number of a section of INFO.
fn number(client: &mut Client, section: &str, name: &str) -> anyhow::Result<u64> {
    Ok(field(&text(client, &format!("INFO {section}"))?, name)?.parse()?)
}

/// Returns a number of kvcache's own from the metrics.
fn metric(address: &str, name: &str) -> anyhow::Result<u64> {
    let text = metrics_page(address)?;
    let value = text.lines().find_map(|line| line.strip_prefix("kvcache_")?.strip_prefix(name)?.strip_prefix(' '));
    value.with_context(|| format!("no {name} in {text}"))?.parse().context("no number")
}

/// Sends the beginning of a request of which so many bytes are held; the server may close the connection meanwhile.
fn send_torn(client: &mut Client, bytes: usize) -> anyhow::Result<()> {
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9000000\r\n")?;
    let _ = client.send(&vec![b'v'; bytes]);
    Ok(())
}

#[test]
fn the_client_with_the_largest_buffers_is_closed_on_every_driver() {
    on_every_driver(|driver| {
        let place = tempfile::tempdir()?;
        let metrics = format!("unix:{}", place.path().join("metrics").display());
        let limit = ["--maxmemory-clients", "1mb", "--workers", "8", "--metrics", &metrics];
        let kv = Kv::start(["--driver", driver.name()].into_iter().chain(limit))?;
        let (mut admin, mut small, mut large) =
            (Client::connect(kv.resp())?, Client::connect(kv.resp())?, Client::connect(kv.resp())?);
        ask(&mut admin, "CONFIG GET maxmemory-clients", "*2\r\n$17\r\nmaxmemory-clients\r\n$7\r\n1048576\r\n")?;
        send_torn(&mut small, 300_000)?;
        let buffers = |client: &mut Client| number(client, "memory", "mem_clients_normal");
        eventually("its bytes are counted", || Ok(buffers(&mut admin)? >= 294_912))?;
        ensure!(metric(&metrics, "client_memory_bytes")? >= 294_912);
        ensure!(metric(&metrics, "client_memory_limit_bytes")? == 1 << 20);
        ensure!(number(&mut admin, "memory", "maxmemory_clients")? == 1 << 20);
        send_torn(&mut large, 2 << 20)?;
        eventually("a client is closed", || Ok(number(&mut admin, "stats", "evicted_clients")? == 1))?;
        let (_, _) = large.read_until_disconnect();
        // A transaction counts, too.
        let mut writer = Client::connect(kv.resp())?;
        ask(&mut writer, "MULTI", "+OK\r\n")?;
        let value = "v".repeat(400_000);
        ask(&mut writer, &format!("SET a {value}"), "+QUEUED\r\n")?;
        send(&mut writer, &[b"SET", b"b", value.as_bytes()])?;
        eventually("another client is closed", || Ok(number(&mut admin, "stats", "evicted_clients")? == 2))?;
        let (_, _) = writer.read_until_disconnect();
        // The small one is as it was. No more than its socket's buffers take: one that is closed while its window is closed is not told so
        // before the kernel forgets it.
        small.send(&vec![b'v'; 600_000]).ok();
        drop((small, large, writer));
        eventually("nothing is counted", || Ok(buffers(&mut admin)? == 0))?;
        ensure!(metric(&metrics, "client_memory_bytes")? == 0);
        ensure!(metric(&metrics, "evicted_clients_total")? == number(&mut admin, "stats", "evicted_clients")?);
        ask(&mut admin, "EXISTS a b", ":0\r\n")?;
        drop(admin);
        kv.stop()
    });
}

/// A client that does not take its replies is counted with them; one that must not be evicted stays.
#[test]
fn replies_that_wait_count_on_every_driver() {
    on_every_driver(|driver| {
        let kv = Kv::start(["--driver", driver.name(), "--workers", "8"])?;
        let (mut admin, mut reader) = (Client::connect(kv.resp())?, Client::connect(kv.resp())?);
        ask(&mut admin, "SETRANGE k 19999999 x", ":20000000\r\n")?;
        ask(&mut reader, "CLIENT NO-EVICT on", "+OK\r\n")?;
        send(&mut reader, &[b"GET", b"k"])?;
        eventually("the reply is counted", || Ok(number(&mut admin, "memory", "mem_clients_normal")? > 5_000_000))?;
        ask(&mut admin, "CONFIG SET maxmemory-clients 1mb", "+OK\r\n")?;
        expect_long(&mut reader, 20_000_000)?;
        ask(&mut reader, "PING", "+PONG\r\n")?;
        eventually("it counts no more", || Ok(number(&mut admin, "memory", "mem_clients_normal")? == 0))?;
        ensure!(number(&mut admin, "stats", "evicted_clients")? == 0);
        drop((admin, reader));
        kv.stop()
    });
}

// --- memory that is given back ----------------------------------------------------------------

/// Memory of the process, in bytes.
fn resident(server: &Server) -> anyhow::Result<u64> {
    number(&mut server.connect()?, "memory", "used_memory_rss")
}

/// Requests that make a server allocate: as many as that, with values of so many bytes.
#[derive(Clone, Copy, Debug)]
struct Requests {
    batches: usize,
    value_bytes: usize,
}

/// Number of requests that are sent before their replies are read.
const BATCH: usize = 1000;

impl Requests {
    /// Fewer allocations cost less, and take as much memory. What an allocator keeps is best seen where there are many.
    fn for_driver(driver: DriverKind) -> Self {
        match driver.descriptor().io {
            IoModel::Completion => Self { batches: 200, value_bytes: 100 },
            IoModel::Readiness => Self { batches: 40, value_bytes: 700 },
        }
    }

    /// Stores or queues the values.
    fn send(self, client: &mut Client, answer: &[u8]) -> anyhow::Result<()> {
        let (value, replies) = (vec![b'v'; self.value_bytes], answer.repeat(BATCH));
        for batch in 0..self.batches {
            let mut requests = Vec::new();
            for number in 0..BATCH {
                let key = format!("key:{}", batch * BATCH + number);
                wire::resp::client::command(&mut requests, &[b"SET", key.as_bytes(), &value]);
            }
            client.send(&requests)?;
            client.expect(&replies)?;
        }
        Ok(())
    }
}

#[test]
fn memory_goes_back_after_multi_and_flushall_on_every_driver() {
    let stores = ["packed", "hashbrown", "std", "partitioned"];
    on_every_driver(|driver| {
        let number = DriverKind::ALL.iter().position(|&other| other == driver).unwrap_or_default();
        let (store, requests) = (stores[number % stores.len()], Requests::for_driver(driver));
        let start = || start(&["--driver", driver.name(), "--store", store, "--threads", "2"]);
        let server = start()?;
        let mut client = server.connect()?;
        // One round warms up what every server keeps.
        requests.send(&mut client, b"+OK\r\n")?;
        ask(&mut client, "FLUSHALL", "+OK\r\n")?;
        let base = resident(&start()?)?;
        // Each thread's heap may keep 2 MiB.
        let is_back = || Ok(resident(&server)? <= base + base / 10 + (6 << 20));
        eventually("memory is back after FLUSHALL", is_back).with_context(|| store)?;
        ask(&mut client, "MULTI", "+OK\r\n")?;
        requests.send(&mut client, b"+QUEUED\r\n")?;
        ensure!(resident(&server)? > base + (20 << 20), "{store}: a transaction needs memory");
        ask(&mut client, "DISCARD", "+OK\r\n")?;
        eventually("memory is back after DISCARD", is_back).with_context(|| store)
    });
}
