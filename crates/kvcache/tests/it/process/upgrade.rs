//! Upgrades: the keys go over to the new process, and requests meanwhile are answered once.

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use anyhow::{Context, anyhow, ensure};
use sys::listen::Address;
use testkit::{Client, Server, Signal, eventually, sample_of};

use crate::common::{EXE, Kv, ask, on_every_driver};

/// Increments a counter until told to stop, by one connection after another. Returns how often it was told that it had.
fn count_until(address: &Address, is_over: &AtomicBool) -> anyhow::Result<u64> {
    let mut count = 0;
    while !is_over.load(Relaxed) {
        // A refused connection is an error; one that ends without a reply has not been served.
        let mut client = Client::connect(address).context("connecting")?;
        while !is_over.load(Relaxed) && client.send(b"INCR counter\r\n").is_ok() {
            let Ok(line) = client.read_line() else { break };
            ensure!(line.starts_with(':'), "{line}");
            count += 1;
        }
    }
    Ok(count)
}

/// The value of a counter is the number of replies: no request is lost after its reply, and none is run twice.
#[test]
fn an_upgrade_loses_no_key_and_runs_no_request_twice_on_every_driver() {
    on_every_driver(|driver| {
        let store = sample_of(driver, &["packed", "partitioned"])[0];
        let mut kv = Kv::start(["--driver", driver.name(), "--store", store])?;
        let mut client = Client::connect(kv.resp())?;
        for n in 0..1000 {
            ask(&mut client, &format!("SET key:{n} {n} PXAT {}", 4_000_000_000_000_u64 + n), "+OK\r\n")?;
        }
        let is_over = AtomicBool::new(false);
        let (successor, count) = thread::scope(|scope| {
            let address = kv.resp();
            let clients: Vec<_> = (0..2).map(|_| scope.spawn(|| count_until(address, &is_over))).collect();
            let successor = kv.server.upgrade(kv.server.process());
            // Its connections end in the next second; enough that some are forwarded.
            is_over.store(true, Relaxed);
            let counts = clients.into_iter().map(|client| client.join().map_err(|_| anyhow!("a panic"))?);
            anyhow::Ok((successor?, counts.sum::<anyhow::Result<u64>>()?))
        })?;
        let mut client = Client::connect(kv.resp())?;
        let counted = count.to_string();
        ask(&mut client, "GET counter", &format!("${}\r\n{counted}\r\n", counted.len()))?;
        for n in 0..1000 {
            ask(&mut client, &format!("PEXPIRETIME key:{n}"), &format!(":{}\r\n", 4_000_000_000_000_u64 + n))?;
        }
        drop(client);
        successor.process().terminate()?;
        kv.server.stop()?;
        Ok(())
    });
}

#[test]
fn a_confined_server_hands_its_keys_over_and_saves_none_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys");
    let mut kv = Kv::start(["--sandbox", "on", "--snapshot", file.to_str().unwrap()]).unwrap();
    let mut client = Client::connect(kv.resp()).unwrap();
    ask(&mut client, "SET a 1", "+OK\r\n").unwrap();
    drop(client);
    let successor = kv.server.upgrade(kv.server.process()).unwrap();
    let mut client = Client::connect(kv.resp()).unwrap();
    ask(&mut client, "INCR a", ":2\r\n").unwrap();
    ask(&mut client, "SAVE", "+OK\r\n").unwrap();
    let saved = fs::metadata(&file).unwrap().modified().unwrap();
    kv.server.terminate().unwrap();
    assert!(kv.server.wait_for_exit().unwrap().success(), "{}", kv.server.stderr());
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), saved);
    drop(client);
    successor.process().terminate().unwrap();
    kv.server.wait_for_successors().unwrap();
}

#[test]
fn a_successor_that_cannot_take_the_keys_replaces_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("kvcache.toml");
    fs::write(&config, "maxmemory = \"64MiB\"\neviction = \"noeviction\"\n").unwrap();
    let mut command = Command::new(EXE);
    command.args(["--listen", "127.0.0.1:0", "--config"]).arg(&config);
    let mut server = Server::start_command(command, 1).unwrap();
    let mut client = server.connect().unwrap();
    let value = "x".repeat(10_000);
    for n in 0..400 {
        ask(&mut client, &format!("SET {n} {value}"), "+OK\r\n").unwrap();
    }
    fs::write(&config, "maxmemory = \"2MiB\"\neviction = \"noeviction\"\n").unwrap();
    server.process().signal(Signal::USR2).unwrap();
    eventually("it says why", || Ok(server.stderr().contains("this process goes on"))).unwrap();
    assert!(server.stderr().contains("the keys do not fit"), "{}", server.stderr());
    ask(&mut client, "DBSIZE", ":400\r\n").unwrap();
    ask(&mut client, "SET one more", "+OK\r\n").unwrap();
    drop(client);
    assert!(server.stop().unwrap().success(), "{}", server.stderr());
}
