//! Two servers behind twemproxy, each with a part of the keys.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use sys::listen::Address;
use testkit::{Client, installed_program};

use crate::common::{Kv, PeerServer, exchange};

const KEYS: usize = 64;

/// twemproxy in front of servers, speaking `redis` or memcached's text protocol on a unix socket.
pub(crate) struct Proxy {
    _process: PeerServer,
    _scratch: tempfile::TempDir,
    socket: PathBuf,
}

impl Proxy {
    /// Starts twemproxy, unless it is not installed.
    pub(crate) fn start(redis: bool, servers: &[&Address]) -> anyhow::Result<Option<Self>> {
        let Some(program) = installed_program("nutcracker")? else { return Ok(None) };
        let scratch = tempfile::tempdir()?;
        let socket = scratch.path().join("proxy.sock");
        let servers: String = servers.iter().map(|server| format!("   - {server}:1\n")).collect();
        let config = format!(
            "pool:\n  listen: {} 0777\n  hash: md5\n  distribution: ketama\n  redis: {redis}\n  servers:\n{servers}",
            socket.display(),
        );
        std::fs::write(scratch.path().join("proxy.yml"), config)?;
        let process = (0..5).map(|_| run(&program, scratch.path(), &socket)).find(Result::is_ok);
        let process = process.context("twemproxy does not start")??;
        Ok(Some(Self { _process: process, _scratch: scratch, socket }))
    }

    pub(crate) fn address(&self) -> Address {
        Address::Unix(self.socket.clone())
    }

    pub(crate) fn socket(&self) -> String {
        self.socket.display().to_string()
    }
}

/// Runs twemproxy. Its port for statistics cannot be left to the kernel, so another program may take it first.
fn run(program: &Path, scratch: &Path, socket: &Path) -> anyhow::Result<PeerServer> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let mut command = Command::new(program);
    command.arg("-c").arg(scratch.join("proxy.yml")).arg("-o").arg(scratch.join("proxy.log"));
    command.args(["-a", "127.0.0.1", "-s", &port]);
    PeerServer::start(command, &[&Address::Unix(socket.to_owned())])
}

/// Returns the number of keys of each server.
fn shares(servers: &[Kv]) -> Vec<usize> {
    let size = |kv: &Kv| {
        let mut client = Client::connect(kv.resp()).unwrap();
        client.send(b"DBSIZE\r\n").unwrap();
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(client.take(1).unwrap());
        }
        String::from_utf8(line).unwrap().trim_start_matches(':').trim().parse().unwrap()
    };
    servers.iter().map(size).collect()
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn command(words: &[String]) -> Vec<u8> {
    let words: String = words.iter().map(|word| bulk(word)).collect();
    let count = words.matches('$').count();
    format!("*{count}\r\n{words}").into_bytes()
}

fn words<'w>(first: &'w str, others: impl Iterator<Item = String> + 'w) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(others).collect()
}

#[test]
fn redis_clients_are_served_through_twemproxy() {
    let servers: Vec<_> = (0..2).map(|_| Kv::start::<&str>([]).unwrap()).collect();
    let addresses: Vec<_> = servers.iter().map(Kv::resp).collect();
    let Some(proxy) = Proxy::start(true, &addresses).unwrap() else { return };
    let mut client = Client::connect(&proxy.address()).unwrap();
    let mut ask = |request: Vec<u8>, wanted: String| exchange(&mut client, &request, wanted.as_bytes()).unwrap();
    let (keys, values) = (|| (0..KEYS).map(|n| format!("key:{n}")), || (0..KEYS).map(|n| format!("value {n}")));
    let pairs = || keys().zip(values()).flat_map(|(key, value)| [key, value]);
    for (key, value) in keys().zip(values()) {
        ask(command(&["SET".to_owned(), key.clone(), value.clone()]), "+OK\r\n".to_owned());
        ask(command(&["GET".to_owned(), key]), bulk(&value));
    }
    let shares = shares(&servers);
    assert!(shares.iter().all(|&share| share > 0) && shares.iter().sum::<usize>() == KEYS, "{shares:?}");
    ask(command(&words("DEL", keys())), format!(":{KEYS}\r\n"));
    ask(command(&words("MSET", pairs())), "+OK\r\n".to_owned());
    ask(
        command(&words("MGET", keys())),
        format!("*{KEYS}\r\n{}", values().map(|value| bulk(&value)).collect::<String>()),
    );
    ask(command(&words("DEL", keys().take(10))), ":10\r\n".to_owned());
    let missing = keys()
        .zip(values())
        .enumerate()
        .map(|(n, (_, value))| if n < 10 { "$-1\r\n".to_owned() } else { bulk(&value) });
    ask(command(&words("MGET", keys())), format!("*{KEYS}\r\n{}", missing.collect::<String>()));
    drop(proxy);
    servers.into_iter().for_each(|kv| kv.stop().unwrap());
}

#[test]
fn memcached_clients_are_served_through_twemproxy() {
    let servers: Vec<_> = (0..2).map(|_| Kv::start::<&str>([]).unwrap()).collect();
    let addresses: Vec<_> = servers.iter().map(Kv::memcached).collect();
    let Some(proxy) = Proxy::start(false, &addresses).unwrap() else { return };
    let mut client = Client::connect(&proxy.address()).unwrap();
    let mut ask =
        |request: String, wanted: String| exchange(&mut client, request.as_bytes(), wanted.as_bytes()).unwrap();
    for n in 0..KEYS {
        ask(format!("set key{n} {n} 0 5\r\nv{n:04}\r\n"), "STORED\r\n".to_owned());
        ask(format!("get key{n}\r\n"), format!("VALUE key{n} {n} 5\r\nv{n:04}\r\nEND\r\n"));
        ask(format!("append key{n} 0 0 1\r\n!\r\n"), "STORED\r\n".to_owned());
        ask(format!("touch key{n} 100\r\n"), "TOUCHED\r\n".to_owned());
    }
    let shares = shares(&servers);
    assert!(shares.iter().all(|&share| share > 0) && shares.iter().sum::<usize>() == KEYS, "{shares:?}");
    for n in 0..KEYS {
        ask(format!("delete key{n}\r\n"), "DELETED\r\n".to_owned());
        ask(format!("get key{n}\r\n"), "END\r\n".to_owned());
    }
    drop(proxy);
    servers.into_iter().for_each(|kv| kv.stop().unwrap());
}
