//! The binary protocol: random requests, sent to memcached and to kvcache, are answered with the same bytes, and what
//! memcached's clients rely on holds on every driver.
//!
//! Unique numbers are not compared but used in later requests, each server's own.

use std::process::Command;

use anyhow::{Context, ensure};
use fastrand::Rng;
use sys::listen::Address;
use testkit::{Client, DriverKind, installed_program};
use wire::memcached::binary::{
    HEADER_BYTES, Opcode, Status,
    client::{Reply, RequestBody, decode, request},
};

use crate::common::{Kv, PeerServer, exchange, on_every_driver, port_of};

const KEYS: usize = 6;
/// Number of requests in a row on each driver.
const REQUESTS: usize = 300;
/// Opaque number of the request whose reply ends the replies to all before it.
const FENCE: u32 = u32::MAX;

/// Condition on the unique number of a request.
#[derive(Clone, Copy, Debug)]
enum Cas {
    Any,
    /// One of those received, by its position; one that nobody has if there are not so many.
    Received(usize),
}

/// A request, the same for both servers but for the unique number.
#[derive(Clone, Debug)]
struct Packet {
    opcode: u8,
    cas: Cas,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A connection, and the unique numbers that it has received.
struct Side {
    client: Client,
    numbers: Vec<u64>,
}

impl Side {
    fn connect(address: &Address) -> anyhow::Result<Self> {
        Ok(Self { client: Client::connect(address)?, numbers: Vec::new() })
    }

    /// Sends requests in random pieces, and returns the replies up to the fence, in comparable form.
    fn ask(&mut self, packets: &[Packet], seed: u64) -> anyhow::Result<Vec<String>> {
        let mut bytes = Vec::new();
        for (at, packet) in packets.iter().enumerate() {
            let cas = match packet.cas {
                Cas::Any => 0,
                Cas::Received(at) => self.numbers.get(at).copied().unwrap_or(1 << 40),
            };
            let body = RequestBody { extras: &packet.extras, key: &packet.key, value: &packet.value };
            request(&mut bytes, packet.opcode, at as u32, cas, &body);
        }
        request(&mut bytes, Opcode::Noop.number(), FENCE, 0, &RequestBody::default());
        let (mut random, mut rest) = (Rng::with_seed(seed), &bytes[..]);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(random.usize(1..=rest.len()));
            self.client.send(piece)?;
            rest = behind;
        }
        let mut replies = Vec::new();
        loop {
            let reply = read_reply(&mut self.client).with_context(|| format!("after {replies:?}"))?;
            let (reply, _) = decode(&reply)?.context("a whole reply")?;
            if reply.opaque == FENCE {
                return Ok(replies);
            }
            if reply.cas != 0 {
                self.numbers.push(reply.cas);
            }
            replies.push(format!("{:?}", Reply { cas: reply.cas.min(1), ..reply }));
        }
    }
}

/// Reads the bytes of one reply.
fn read_reply(client: &mut Client) -> anyhow::Result<Vec<u8>> {
    let mut bytes = client.take(HEADER_BYTES)?;
    let body = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    bytes.extend(client.take(body as usize)?);
    Ok(bytes)
}

/// Generator of requests.
struct Requests {
    random: Rng,
    /// Number of unique numbers that both sides have received.
    numbers: usize,
}

impl Requests {
    fn key(&mut self) -> Vec<u8> {
        // Keys may have any bytes in this protocol.
        [b"key \n".as_slice(), &[self.random.u8(..KEYS as u8)]].concat()
    }

    fn value(&mut self) -> Vec<u8> {
        let text = match self.random.u8(..6) {
            0 => self.random.u64(..).to_string(),
            1 => self.random.u16(..300).to_string(),
            2 => format!("{:<w$}", self.random.u8(..), w = self.random.usize(..8)),
            3 => "text\r\nof two lines ".repeat(self.random.usize(..400)),
            4 => String::new(),
            _ => ["+8", "-9", " 7", "x12", "18446744073709551615", "18446744073709551616"][self.random.usize(..6)]
                .to_owned(),
        };
        text.into_bytes()
    }

    fn cas(&mut self) -> Cas {
        if self.random.u8(..3) > 0 {
            return Cas::Any;
        }
        let recent = self.numbers.saturating_sub(8);
        Cas::Received(self.random.usize(recent..recent + 9))
    }

    /// Never, in a while, in 1970 and in 2106.
    fn expiry(&mut self) -> [u8; 4] {
        [0, 0, 0, 100, 2_592_001, u32::MAX][self.random.usize(..6)].to_be_bytes()
    }

    fn number(&mut self, loud: Opcode) -> u8 {
        match loud.quiet_number() {
            Some(quiet) if self.random.u8(..3) == 0 => quiet,
            _ => loud.number(),
        }
    }

    /// Returns a request that memcached answers alike in a pipeline.
    fn simple(&mut self) -> Packet {
        let (cas, key) = (self.cas(), self.key());
        let empty = Packet { opcode: 0, cas, extras: Vec::new(), key, value: Vec::new() };
        match self.random.u8(..14) {
            0..5 => {
                let stores = [Opcode::Set, Opcode::Set, Opcode::Add, Opcode::Replace];
                let loud = stores[self.random.usize(..stores.len())];
                let extras = [self.random.u32(..).to_be_bytes(), self.expiry()].concat();
                Packet { opcode: self.number(loud), extras, value: self.value(), ..empty }
            }
            5 => {
                let loud = [Opcode::Append, Opcode::Prepend][self.random.usize(..2)];
                Packet { opcode: self.number(loud), value: self.value(), ..empty }
            }
            6 => Packet { opcode: self.number(Opcode::Delete), ..empty },
            7 => Packet { opcode: Opcode::Touch.number(), extras: self.expiry().to_vec(), ..empty },
            8 => {
                let loud = [Opcode::Gat, Opcode::GatK][self.random.usize(..2)];
                Packet { opcode: self.number(loud), extras: self.expiry().to_vec(), ..empty }
            }
            _ => {
                let loud = [Opcode::Get, Opcode::GetK][self.random.usize(..2)];
                Packet { opcode: self.number(loud), ..empty }
            }
        }
    }

    fn any(&mut self) -> Packet {
        let bare = Packet { opcode: 0, cas: Cas::Any, extras: Vec::new(), key: Vec::new(), value: Vec::new() };
        match self.random.u8(..20) {
            0..4 => {
                let loud = [Opcode::Increment, Opcode::Decrement][self.random.usize(..2)];
                let delta = u64::from(self.random.u16(..300));
                let initial = self.random.u64(..1000);
                let extras = [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &self.expiry()].concat();
                Packet { opcode: self.number(loud), cas: self.cas(), extras, key: self.key(), ..bare }
            }
            4 => Packet { opcode: Opcode::Version.number(), ..bare },
            5 => Packet { opcode: Opcode::SaslListMechs.number(), ..bare },
            6 => {
                let opcode = [Opcode::SaslAuth, Opcode::SaslStep][self.random.usize(..2)].number();
                Packet { opcode, key: b"PLAIN".to_vec(), value: b"\0user\0password".to_vec(), ..bare }
            }
            7 => {
                // memcached skips as many bytes too many as there are extras and keys.
                let opcode = [0x1f, 0x25, 0x30, 0x3c, 0xff][self.random.usize(..5)];
                Packet { opcode, value: self.value(), ..bare }
            }
            8 if self.random.u8(..6) == 0 => {
                let extras = [&[][..], &[0; 4]][self.random.usize(..2)].to_vec();
                Packet { opcode: self.number(Opcode::Flush), extras, ..bare }
            }
            9 => {
                let key = [b"reset".as_slice(), b"nonsense"][self.random.usize(..2)].to_vec();
                Packet { opcode: Opcode::Stat.number(), key, ..bare }
            }
            _ => self.simple(),
        }
    }
}

fn start_memcached(program: &std::path::Path, socket: &std::path::Path) -> anyhow::Result<(PeerServer, Address)> {
    let address = Address::Unix(socket.to_owned());
    let mut command = Command::new(program);
    command.arg("-s").arg(socket).args(["-t", "1", "-u", "root"]);
    // Threads that hold an item for a moment make `decr` replace it instead of padding it.
    command.args(["-o", "no_lru_maintainer,no_lru_crawler"]);
    Ok((PeerServer::start(command, &[&address])?, address))
}

fn compare(driver: DriverKind, requests: usize, make: impl Fn(&mut Requests) -> Vec<Packet>) -> anyhow::Result<()> {
    let Some(program) = installed_program("memcached")? else { return Ok(()) };
    let scratch = tempfile::tempdir()?;
    let (_memcached, address) = start_memcached(&program, &scratch.path().join("memcached.sock"))?;
    let kv = Kv::start(["--driver", driver.name(), "--compression", "lz4"])?;
    let (mut theirs, mut ours) = (Side::connect(&address)?, Side::connect(kv.memcached())?);
    let seed = driver as u64 + 1;
    let mut made = Requests { random: Rng::with_seed(seed), numbers: 0 };
    let mut history: Vec<Packet> = Vec::new();
    for at in 0..requests {
        let packets = make(&mut made);
        history.extend_from_slice(&packets);
        let seed = made.random.u64(..);
        let expected = theirs.ask(&packets, seed)?;
        let answered = ours.ask(&packets, seed)?;
        let keys: Vec<_> = packets.iter().map(|packet| &packet.key).collect();
        let before: Vec<_> = history.iter().filter(|packet| keys.contains(&&packet.key)).collect();
        let before = &before[before.len().saturating_sub(12 + packets.len())..];
        ensure!(
            expected == answered,
            "request {at}\n{}\nmemcached: {expected:#?}\nours:      {answered:#?}",
            before.iter().map(|packet| format!("{packet:?}")).collect::<Vec<_>>().join("\n"),
        );
        made.numbers = ours.numbers.len();
    }
    drop((theirs, ours));
    kv.stop()
}

#[test]
fn random_binary_requests_are_answered_as_memcached_does() {
    on_every_driver(|driver| compare(driver, REQUESTS, |requests| vec![requests.any()]));
}

#[test]
fn random_binary_pipelines_are_answered_as_memcached_does() {
    on_every_driver(|driver| compare(driver, 30, |requests| (0..20).map(|_| requests.simple()).collect()));
}

/// Requests after which memcached closes the connection.
#[test]
fn what_ends_a_binary_connection_is_answered_as_memcached_does() {
    let Some(program) = installed_program("memcached").unwrap() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let (_memcached, theirs) = start_memcached(&program, &scratch.path().join("memcached.sock")).unwrap();
    let kv = Kv::start::<&str>([]).unwrap();
    let packet = |opcode: u8, extras: &[u8], key: &[u8], value: &[u8]| {
        let mut bytes = Vec::new();
        request(&mut bytes, opcode, 7, 0, &RequestBody { extras, key, value });
        bytes
    };
    let mut lying = packet(0, b"", b"key", b"");
    lying[3] = 9;
    lying.extend_from_slice(b"behind");
    let noop = packet(0x0a, b"", b"", b"");
    for bytes in [
        lying,
        packet(0, b"", &[b'k'; 251], b""),
        packet(0, b"", b"", b""),
        packet(0, &[0; 4], b"k", b""),
        packet(1, &[0; 4], b"k", b""),
        packet(5, &[0; 4], b"k", b""),
        packet(8, &[0; 3], b"", b""),
        packet(0x1c, b"", b"k", b""),
        packet(0x0b, b"", b"k", b""),
        packet(7, b"", b"", b""),
        packet(0x17, b"", b"", b""),
        [noop.as_slice(), b"get a\r\n                      "].concat(),
    ] {
        let [expected, answered] = [&theirs, kv.memcached()].map(|address| {
            let mut client = Client::connect(address).unwrap();
            client.send(&bytes).unwrap();
            client.read_until_disconnect().0
        });
        assert_eq!(
            expected.escape_ascii().to_string(),
            answered.escape_ascii().to_string(),
            "{}",
            bytes.escape_ascii()
        );
    }
    kv.stop().unwrap();
}

/// Sends one request of the binary protocol and expects this status and value.
fn ask(client: &mut Client, opcode: Opcode, body: &RequestBody<'_>, wanted: (Status, &[u8])) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    request(&mut bytes, opcode.number(), 5, 0, body);
    client.send(&bytes)?;
    let reply = read_reply(client).with_context(|| format!("{opcode:?}"))?;
    let (reply, _) = decode(&reply)?.context("a whole reply")?;
    ensure!(
        (reply.status, reply.value, reply.opaque) == (wanted.0 as u16, wanted.1, 5),
        "{opcode:?}: {reply:?} instead of {wanted:?}"
    );
    Ok(())
}

#[test]
fn the_first_byte_of_a_connection_tells_the_protocol() {
    on_every_driver(|driver| {
        let kv = Kv::start(["--driver", driver.name()])?;
        let (mut binary, mut text) = (Client::connect(kv.memcached())?, Client::connect(kv.memcached())?);
        let key = RequestBody { key: b"k", ..RequestBody::default() };
        let set = RequestBody { extras: &[0, 0, 0, 7, 0, 0, 0, 0], value: b"value", ..key };
        ask(&mut binary, Opcode::Set, &set, (Status::Success, b""))?;
        exchange(&mut text, b"get k\r\n", b"VALUE k 7 5\r\nvalue\r\nEND\r\n")?;
        exchange(&mut text, b"append k 0 0 1\r\n!\r\n", b"STORED\r\n")?;
        ask(&mut binary, Opcode::Get, &key, (Status::Success, b"value!"))?;
        let verbosity = RequestBody { extras: &[0; 4], ..RequestBody::default() };
        ask(&mut binary, Opcode::Verbosity, &verbosity, (Status::Success, b""))?;
        // A long value travels without being copied.
        let long = vec![b'l'; 300_000];
        let set = RequestBody { extras: &[0; 8], value: &long, ..key };
        ask(&mut binary, Opcode::Set, &set, (Status::Success, b""))?;
        ask(&mut binary, Opcode::Get, &key, (Status::Success, &long))?;
        drop((binary, text));
        kv.stop()
    });
}

#[test]
fn statistics_are_listed_in_packets() {
    let kv = Kv::start::<&str>([]).unwrap();
    let mut client = Client::connect(kv.memcached()).unwrap();
    let mut bytes = Vec::new();
    request(&mut bytes, Opcode::Stat.number(), 3, 0, &RequestBody { key: b"settings", ..RequestBody::default() });
    client.send(&bytes).unwrap();
    let mut found = Vec::new();
    loop {
        let reply = read_reply(&mut client).unwrap();
        let (reply, _) = decode(&reply).unwrap().unwrap();
        assert_eq!((reply.status, reply.opaque), (0, 3));
        if reply.key.is_empty() {
            break;
        }
        found.push((String::from_utf8(reply.key.to_vec()).unwrap(), String::from_utf8(reply.value.to_vec()).unwrap()));
    }
    assert!(found.contains(&("item_size_max".to_owned(), (1 << 20).to_string())), "{found:?}");
    assert!(found.contains(&("verbosity".to_owned(), "0".to_owned())), "{found:?}");
    drop(client);
    kv.stop().unwrap();
}

#[test]
fn a_password_is_given_by_sasl() {
    on_every_driver(|driver| {
        let kv = Kv::start(["--driver", driver.name(), "--requirepass", "secret"])?;
        let key = RequestBody { key: b"k", ..RequestBody::default() };
        let plain = |value| RequestBody { key: b"PLAIN", value, ..RequestBody::default() };
        let mut client = Client::connect(kv.memcached())?;
        ask(&mut client, Opcode::Get, &key, (Status::AuthError, b"Auth failure."))?;
        client.expect_end()?;
        let mut client = Client::connect(kv.memcached())?;
        ask(&mut client, Opcode::SaslListMechs, &RequestBody::default(), (Status::Success, b"PLAIN"))?;
        for wrong in [&b"\0default\0wrong"[..], b"\0other\0secret", b"secret"] {
            ask(&mut client, Opcode::SaslAuth, &plain(wrong), (Status::AuthError, b"Auth failure."))?;
        }
        ask(&mut client, Opcode::SaslAuth, &plain(b"\0default\0secret"), (Status::Success, b"Authenticated"))?;
        ask(&mut client, Opcode::Get, &key, (Status::NotFound, b"Not found"))?;
        drop(client);
        kv.stop()
    });
}

/// The limit counts an item as memcached does, so that both accept the same values.
#[test]
fn items_have_the_limit_of_memcached() {
    on_every_driver(|driver| {
        for (args, item_bytes_max) in [(&[][..], 1 << 20), (&["--max-item-size", "2mb"], 2 << 20)] {
            let kv = Kv::start([&["--driver", driver.name()], args].concat())?;
            let (mut text, mut binary) = (Client::connect(kv.memcached())?, Client::connect(kv.memcached())?);
            let key = RequestBody { key: b"k", ..RequestBody::default() };
            let largest = vec![b'v'; item_bytes_max - 60];
            let larger = vec![b'v'; item_bytes_max - 59];
            let set = |value: &[u8]| [format!("set k 0 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat();
            exchange(&mut text, &set(&largest), b"STORED\r\n")?;
            exchange(&mut text, b"append k 0 0 1\r\nx\r\n", b"SERVER_ERROR object too large for cache\r\n")?;
            ask(&mut binary, Opcode::Get, &key, (Status::Success, &largest))?;
            exchange(&mut text, &set(&larger), b"SERVER_ERROR object too large for cache\r\n")?;
            exchange(&mut text, b"get k\r\n", b"END\r\n")?;
            for (value, wanted) in
                [(&largest, (Status::Success, &b""[..])), (&larger, (Status::TooLarge, b"Too large."))]
            {
                ask(&mut binary, Opcode::Set, &RequestBody { extras: &[0; 8], value, ..key }, wanted)?;
            }
            ask(&mut binary, Opcode::Get, &key, (Status::NotFound, b"Not found"))?;
            drop((text, binary));
            kv.stop()?;
        }
        Ok(())
    });
}

/// libmemcached's own test of a server.
#[test]
fn memccapable_is_satisfied() {
    let Some(program) = installed_program("memccapable").unwrap() else { return };
    let kv = Kv::start::<&str>([]).unwrap();
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-p", &port_of(kv.memcached()).unwrap()]);
    crate::common::run(command).unwrap();
    kv.stop().unwrap();
}
