//! All protocols on all drivers and stores, on the same keys.

use std::{process::Command, time::Duration};

use anyhow::ensure;
use clap::ValueEnum;
use kvcache::StoreKind;
use testkit::{
    Client, DriverKind, check_each,
    open_files::{Exchange, connections_come_first},
};

use crate::common::{EXE, Kv, exchange, on_every_driver};

#[test]
fn all_protocols_see_the_same_keys_on_every_driver() {
    on_every_driver(|driver| {
        let kv = Kv::start(["--driver", driver.name()])?;
        let (mut resp, mut detected) = (Client::connect(kv.resp())?, Client::connect(kv.resp())?);
        let (mut us, mut memcached) = (Client::connect(kv.us())?, Client::connect(kv.memcached())?);
        exchange(&mut resp, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\n w\r\n", b"+OK\r\n")?;
        exchange(&mut us, b"GET k\x1fGET none\x1f", b"v\r\n w\x1f(nil)\x1f")?;
        exchange(
            &mut memcached,
            b"get k none\r\nmg k v s\r\n",
            b"VALUE k 0 5\r\nv\r\n w\r\nEND\r\nVA 5 s5\r\nv\r\n w\r\n",
        )?;
        exchange(&mut us, b"SET k a\nb c\x1fDEL none\x1fGET k\x1f", b"OK\x1fERROR: Key does not exist\x1fa\nb c\x1f")?;
        exchange(&mut detected, b"SET l 1\x1fGET k\x1f", b"OK\x1fa\nb c\x1f")?;
        exchange(&mut memcached, b"incr l 41\r\nset m 7 0 1 noreply\r\nx\r\nmn\r\n", b"42\r\nMN\r\n")?;
        exchange(&mut resp, b"GET l\r\nGET m\r\n", b"$2\r\n42\r\n$1\r\nx\r\n")?;
        exchange(&mut memcached, b"flush_all\r\nget k\r\n", b"OK\r\nEND\r\n")?;
        drop((resp, detected, us, memcached));
        kv.stop()
    });
}

/// Every store keeps memcached's attributes, and the order of commands of all protocols.
#[test]
fn all_protocols_see_the_same_keys_in_every_store() {
    check_each(StoreKind::value_variants(), 2, |store| {
        let kv = Kv::start(["--store", &service::choice_name(store), "--compression", "gzip"])?;
        let long = "long ".repeat(30);
        let (mut us, mut memcached) = (Client::connect(kv.us())?, Client::connect(kv.memcached())?);
        let mut resp = Client::connect(kv.resp())?;
        exchange(&mut us, format!("SET k {long}\x1fGET k\x1f").as_bytes(), format!("OK\x1f{long}\x1f").as_bytes())?;
        exchange(&mut memcached, b"mg k h s c t\r\nmd k I T100\r\n", b"HD h0 s150 c1 t-1\r\nHD\r\n")?;
        exchange(&mut memcached, b"mg k h s c t\r\nmg k f\r\n", b"HD h1 s150 c2 t100 X W\r\nHD f0 Z X\r\n")?;
        exchange(&mut resp, b"TTL k\r\nAPPEND k !\r\nTTL k\r\n", b":100\r\n:151\r\n:100\r\n")?;
        exchange(&mut memcached, b"mg k h s c t\r\nset n 7 0 2\r\n99\r\n", b"HD h0 s151 c3 t100\r\nSTORED\r\n")?;
        exchange(&mut resp, b"INCR n\r\nDEL k n\r\n", b":100\r\n:2\r\n")?;
        exchange(&mut us, b"GET k\x1f", b"(nil)\x1f")?;
        drop((resp, us, memcached));
        kv.stop()
    });
}

#[test]
fn a_torn_pipeline_of_the_text_protocol_is_answered_in_order() {
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    for n in 0..400 {
        let (key, value) = (format!("key:{}", n % 37), format!("value {n}\r\n{}", "x".repeat(n * 7 % 90)));
        requests.extend_from_slice(format!("SET {key} {value}\x1fGET {key}\x1fDEL {key}\x1fGET {key}\x1f").as_bytes());
        answers.extend_from_slice(format!("OK\x1f{value}\x1fOK\x1f(nil)\x1f").as_bytes());
    }
    let kv = Kv::start::<&str>([]).unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    for piece_max in [usize::MAX, 5000, 97] {
        let mut client = Client::connect(kv.us()).unwrap();
        let mut rest = &requests[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(random.usize(1..=piece_max.min(rest.len())));
            client.send(piece).unwrap();
            rest = behind;
        }
        client.expect(&answers).unwrap();
    }
    kv.stop().unwrap();
}

#[test]
fn transactions_of_the_text_protocol_are_answered_whole() {
    let kv = Kv::start::<&str>([]).unwrap();
    let mut client = Client::connect(kv.us()).unwrap();
    let mut ask = |request: &[u8], wanted: &[u8]| exchange(&mut client, request, wanted).unwrap();
    ask(b"EXEC\x1f", b"ERROR: EXEC without MULTI\x1f");
    ask(b"DISCARD\x1f", b"ERROR: DISCARD without MULTI\x1f");
    ask(b"MULTI\x1fSET a 1\x1fGET a\x1fDEL a\x1fGET a\x1f", b"OK\x1fQUEUED\x1fQUEUED\x1fQUEUED\x1fQUEUED\x1f");
    ask(b"EXEC\x1f", b"OK\x1f1\x1fOK\x1f(nil)\x1f");
    ask(b"MULTI\x1fSET a 2\x1fDISCARD\x1fGET a\x1f", b"OK\x1fQUEUED\x1fOK\x1f(nil)\x1f");
    ask(b"MULTI\x1fMULTI\x1fFOO bar\x1f", b"OK\x1fERROR: MULTI calls can not be nested\x1fERROR: Unknown command\x1f");
    ask(b"EXEC\x1fGET a\x1f", b"ERROR: Transaction discarded because of previous errors\x1f(nil)\x1f");
    kv.stop().unwrap();
}

#[test]
fn every_protocol_requires_the_password() {
    let kv = Kv::start(["--requirepass", "secret"]).unwrap();
    let mut resp = Client::connect(kv.resp()).unwrap();
    exchange(&mut resp, b"GET k\r\n", b"-NOAUTH Authentication required.\r\n").unwrap();
    let mut us = Client::connect(kv.us()).unwrap();
    us.send(b"GET k\x1fGET k\x1f").unwrap();
    us.expect_all(b"ERROR: Authentication required\x1f").unwrap();
    let mut memcached = Client::connect(kv.memcached()).unwrap();
    let mut ask = |request: &[u8], wanted: &[u8]| exchange(&mut memcached, request, wanted).unwrap();
    ask(b"get k\r\n", b"CLIENT_ERROR unauthenticated\r\n");
    ask(b"set any 0 0 13\r\ndefault wrong\r\n", b"CLIENT_ERROR authentication failure\r\n");
    ask(b"set any 0 0 14\r\ndefault secret\r\nget any\r\n", b"STORED\r\nEND\r\n");
    kv.stop().unwrap();
}

#[test]
fn a_delayed_flush_removes_later_keys_too() {
    let kv = Kv::start::<&str>([]).unwrap();
    let mut client = Client::connect(kv.memcached()).unwrap();
    exchange(&mut client, b"set a 0 0 1\r\n1\r\nflush_all 1\r\nset b 0 0 1\r\n2\r\n", b"STORED\r\nOK\r\nSTORED\r\n")
        .unwrap();
    testkit::eventually("both are gone", || {
        client.send(b"mg a\r\nmg b\r\nmn\r\n")?;
        let mut got = Vec::new();
        while !got.ends_with(b"MN\r\n") {
            got.extend(client.take(1)?);
        }
        std::thread::sleep(Duration::from_millis(20));
        Ok(got == b"EN\r\nEN\r\nMN\r\n")
    })
    .unwrap();
    exchange(&mut client, b"set a 0 0 1\r\n1\r\nget a\r\n", b"STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n").unwrap();
    kv.stop().unwrap();
}

#[test]
fn large_values_pass_between_protocols() {
    let value = "v".repeat(300_000);
    for args in [&["--compression", "none"][..], &["--compression", "zstd"]] {
        let kv = Kv::start(args).unwrap();
        let (mut us, mut memcached) = (Client::connect(kv.us()).unwrap(), Client::connect(kv.memcached()).unwrap());
        exchange(&mut us, format!("SET k {value}\x1f").as_bytes(), b"OK\x1f").unwrap();
        let wanted = format!("VALUE k 0 300000\r\n{value}\r\nEND\r\n");
        exchange(&mut memcached, b"get k\r\n", wanted.as_bytes()).unwrap();
        exchange(&mut memcached, b"get k\r\n", wanted.as_bytes()).unwrap();
        exchange(&mut us, b"GET k\x1f", format!("{value}\x1f").as_bytes()).unwrap();
        kv.stop().unwrap();
    }
}

#[test]
fn a_request_that_is_cut_off_stores_nothing() {
    let kv = Kv::start::<&str>([]).unwrap();
    for (address, request) in [(kv.memcached(), &b"set half 0 0 10\r\n12345"[..]), (kv.us(), b"SET half 12345")] {
        let mut client = Client::connect(address).unwrap();
        client.send(request).unwrap();
        client.half_close().unwrap();
        client.expect_end().unwrap();
    }
    let mut client = Client::connect(kv.memcached()).unwrap();
    exchange(&mut client, b"get half\r\n", b"END\r\n").unwrap();
    kv.stop().unwrap();
}

#[test]
fn other_protocols_are_refused_at_the_memcached_address() {
    let kv = Kv::start::<&str>([]).unwrap();
    // A reply of the binary protocol, and HTTP.
    for request in [&[&[0x81], [b'k'; 2100].as_slice()].concat()[..], b"POST / HTTP/1.1\r\n"] {
        let mut client = Client::connect(kv.memcached()).unwrap();
        client.send(request).unwrap();
        client.expect_disconnect().unwrap();
    }
    let status = kv.server.stderr();
    ensure_no_panic(&status).unwrap();
    kv.stop().unwrap();
}

fn ensure_no_panic(stderr: &str) -> anyhow::Result<()> {
    ensure!(!stderr.contains("panicked"), "{stderr}");
    Ok(())
}

#[test]
fn connections_come_first_with_few_open_files() {
    let command = |driver: DriverKind| {
        let mut command = Command::new(EXE);
        command.args(["--listen", "127.0.0.1:0", "--threads", "2", "--driver", driver.name()]);
        command
    };
    connections_come_first(command, Exchange { request: b"PING\r\n", answer: b"+PONG\r\n" }, |_| Ok(()));
}
