//! Our servers behind other people's proxies, with the configurations of `deploy/engines`: keys and requests are spread, a server is
//! killed and comes back, and what is lost is counted.
//!
//! `engines DIRECTORY CONFIGURATIONS` takes the programs from the one and the files from the other; `cargo xtask verify engines` builds
//! and runs it. A proxy that is not installed is named, and is a failure where none may be missing.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool talks to its user")]

mod place;
mod web;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, ensure};
use clap::Parser;
use testkit::{Client, eventually, installed_program};

use crate::place::{Place, Proxy};

/// Keys that are spread.
const KEYS: usize = 300;
/// Least share of a server: a third of the keys, less what a ring leaves to chance.
const SHARE_MIN: usize = KEYS / 10;

/// Command line.
#[derive(Parser)]
struct Cli {
    /// Directory of the workspace's programs
    programs: PathBuf,

    /// Directory of the configurations
    configurations: PathBuf,

    /// Run set-ups whose name contains this, alone
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

type Check = fn(&Place, Proxy) -> anyhow::Result<String>;

/// Set-ups: a configuration, the proxy that reads it, and the check.
const SET_UPS: [(&str, &str, Check); 8] = [
    ("twemproxy-kvcache.yml", "nutcracker", spread_keys),
    ("envoy-kvcache.yaml", "envoy", spread_keys),
    ("haproxy-kvcache.cfg", "haproxy", fail_over),
    ("nginx-http.conf", "nginx", web::http1),
    ("haproxy-http.cfg", "haproxy", web::http1_proxied),
    ("haproxy-http.cfg", "haproxy", web::http2_proxied),
    ("envoy-http.yaml", "envoy", web::http1_proxied),
    ("envoy-http.yaml", "envoy", web::http2_proxied),
];

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut failed = 0;
    for (number, (file, program, check)) in SET_UPS.into_iter().enumerate() {
        if !file.contains(&cli.only) {
            continue;
        }
        let Some(program) = installed_program(program)? else { continue };
        let servers: &[&str] = if file.contains("kvcache") { &["kvcache"] } else { &["http-server", "zerocopy"] };
        for server in servers {
            let place = Place::new(&cli.programs, server, number)?;
            let outcome =
                Proxy::new(&place, &program, &cli.configurations.join(file)).and_then(|proxy| check(&place, proxy));
            match outcome {
                Ok(text) => println!("{file}: {server}: {text}"),
                Err(error) => {
                    println!("{file}: {server}: FAILED: {error:#}");
                    failed += 1;
                }
            }
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reply to a GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Got {
    Value,
    Nothing,
    Failure,
}

fn get(client: &mut Client, key: usize) -> anyhow::Result<Got> {
    client.send(format!("*2\r\n$3\r\nGET\r\n${}\r\nkey:{key}\r\n", key.to_string().len() + 4).as_bytes())?;
    let line = client.read_line()?;
    let line = line.trim_end();
    match line {
        "$-1" => Ok(Got::Nothing),
        _ if line.starts_with('-') => Ok(Got::Failure),
        _ => {
            let value = client.read_line()?;
            ensure!(value.trim_end() == format!("value {key}"), "key:{key} is {value:?}");
            Ok(Got::Value)
        }
    }
}

fn set(client: &mut Client, key: usize) -> anyhow::Result<bool> {
    let (key, value) = (format!("key:{key}"), format!("value {key}"));
    let request = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n{value}\r\n", key.len(), value.len());
    client.send(request.as_bytes())?;
    Ok(client.read_line()?.trim_end() == "+OK")
}

/// Counts the replies to GETs of all keys.
fn get_all(client: &mut Client) -> anyhow::Result<[usize; 3]> {
    let mut counts = [0; 3];
    for key in 0..KEYS {
        counts[get(client, key)? as usize] += 1;
    }
    Ok(counts)
}

/// Each key has one of three servers. While one is lost its keys fail and the others do not; when it is back, its keys are missed.
fn spread_keys(place: &Place, proxy: Proxy) -> anyhow::Result<String> {
    let mut servers = (1..=3).map(|number| place.start(number, 6379, &[])).collect::<anyhow::Result<Vec<_>>>()?;
    let proxy = proxy.start(0)?;
    let mut client = proxy.connect()?;
    for key in 0..KEYS {
        ensure!(set(&mut client, key)?, "key:{key} cannot be set");
    }
    let shares = servers.iter().map(|server| size(&mut server.connect()?)).collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(
        shares.iter().sum::<usize>() == KEYS && shares.iter().all(|&share| share >= SHARE_MIN),
        "shares {shares:?}"
    );
    ensure!(get_all(&mut client)? == [KEYS, 0, 0], "a key is not there");

    let (lost, kept) = (shares[1], KEYS - shares[1]);
    drop(servers.remove(1));
    ensure!(get_all(&mut client)? == [kept, 0, lost], "keys of others fail");
    servers.insert(1, place.start(2, 6379, &[])?);
    eventually("the proxy finds it again", || Ok(get_all(&mut client)? == [kept, lost, 0]))?;
    for key in 0..KEYS {
        ensure!(set(&mut client, key)?, "key:{key} cannot be set");
    }
    ensure!(get_all(&mut client)? == [KEYS, 0, 0], "a key is not there");
    Ok(format!("keys {shares:?}; {lost} of {KEYS} failed while their server was killed, and were lost; no others"))
}

/// All clients have the first of two servers, the second one while that is lost, and then the first one again.
fn fail_over(place: &Place, proxy: Proxy) -> anyhow::Result<String> {
    let trusting = ["--proxy-protocol", "127.0.0.0/8"];
    let (first, second) = (place.start(1, 6379, &trusting)?, place.start(2, 6379, &trusting)?);
    let proxy = proxy.start(0)?;
    let connect = || proxy.connect();
    // The first check has to be over.
    eventually("the first server is used", || {
        Ok(connect().and_then(|mut client| set(&mut client, 1)).unwrap_or(false))
    })?;
    let mut client = connect()?;
    client.send(b"CLIENT INFO\r\n")?;
    // A bulk string, which ends with a line end of its own.
    let (_, info, _) = (client.read_line()?, client.read_line()?, client.read_line()?);
    let told = client.local_address().context("an address")?;
    ensure!(info.contains(&format!(" addr={told} ")), "the proxy does not name the client {told}: {info}");
    drop(first);
    eventually("the second server is used", || {
        Ok(connect().and_then(|mut client| set(&mut client, 2)).unwrap_or(false))
    })?;
    ensure!(get(&mut connect()?, 1)? == Got::Nothing, "the second server has the keys of the first one");
    client.expect_disconnect().context("a client of the first server was left where it was")?;
    let _first = place.start(1, 6379, &trusting)?;
    let is_back = || Ok(connect().and_then(|mut client| get(&mut client, 2)).is_ok_and(|got| got == Got::Nothing));
    eventually("the first server is used again", is_back)?;
    drop(second);
    Ok("one server has all clients; its keys were lost when it was killed, and those of the second one when it was back".to_owned())
}

fn size(client: &mut Client) -> anyhow::Result<usize> {
    client.send(b"DBSIZE\r\n")?;
    let line = client.read_line()?;
    line.trim_start_matches(':').trim().parse().with_context(|| line.clone())
}
