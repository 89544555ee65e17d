//! Ways to start and to watch a server.

use std::{fs, process::Command};

use anyhow::{Context, ensure};
use fileserver::{ProtocolKind, Sample};
use layouts::LayoutKind;
use sys::listen::Address;
use testkit::{
    Client, DriverKind, Server, eventually,
    open_files::{Exchange, connections_come_first},
};
use wire::file::Status;

use crate::{
    common::{Collection, DOCUMENTS, contents, frame},
    process::setup::{EXE, FRAMED, ORIGINAL, Setup, metric, metrics_address, metrics_page},
};

fn serves(setup: Setup, address: &Address) -> anyhow::Result<()> {
    let (id, size) = DOCUMENTS[2];
    let got = setup.get(address, id.as_bytes())?;
    ensure!(got == (Status::Found, contents(id, size)), "{:?}, {} bytes", got.0, got.1.len());
    Ok(())
}

#[test]
fn several_addresses_are_served_alike() {
    let collection = Collection::new(LayoutKind::Flat);
    ORIGINAL.for_each_driver(|driver| {
        let socket = collection.outside().join(format!("{driver}.sock"));
        let mut command = ORIGINAL.command(driver, &collection.root);
        command.args(["--listen", "[::1]:0", "--listen", &format!("unix:{}", socket.display())]);
        let mut server = Server::start_command(command, 3)?;
        for address in server.addresses() {
            serves(ORIGINAL, address).with_context(|| address.to_string())?;
        }
        server.drain()?;
        ensure!(!socket.exists(), "the socket file is still there");
        Ok(())
    });
}

#[test]
fn metrics_count_what_was_answered() {
    let collection = Collection::new(LayoutKind::Flat);
    FRAMED.for_each_driver(|driver| {
        let metrics = metrics_address(collection.outside());
        let mut command = FRAMED.command(driver, &collection.root);
        command.args(["--metrics", &metrics.to_string()]);
        let mut server = Server::start_command(command, 1)?;
        for id in [&b"SMALL002"[..], b"SMALL002", b"FILE0004", b"MISSING9", b"a\0b"] {
            FRAMED.get(server.address(), id)?;
        }
        let open = Client::connect(server.address())?;
        eventually("one connection is open", || Ok(metric(&metrics, "request_map_entries")? == 1))?;
        eventually("they are counted alike", || Ok(metric(&metrics, "connections_open")? == 1))?;
        for (name, value) in [
            ("requests_total{status=\"found\"}", 3),
            ("requests_total{status=\"missing\"}", 1),
            ("requests_total{status=\"malformed\"}", 1),
            ("requests_total{status=\"unavailable\"}", 0),
            ("requests_total{status=\"failed\"}", 0),
            ("document_bytes_total", 62_000),
            ("cache_hits_total", 1),
            ("cache_misses_total", 3),
            ("cache_coalesced_total", 0),
            ("cache_evictions_total", 0),
            ("loads_total", 3),
            ("cache_entries", 2),
            ("cache_descriptors", 1),
        ] {
            let counted = metric(&metrics, name)?;
            ensure!(counted == value, "{name} is {counted} instead of {value}");
        }
        testkit::check_queries("fileserver", &metrics_page(&metrics)?)?;
        ensure!(metric(&metrics, "cache_bytes")? > 1_000, "what is cached takes memory");
        drop(open);
        eventually("none is open", || Ok(metric(&metrics, "request_map_entries")? == 0))?;
        server.drain()
    });
}

#[test]
fn every_flag_reads_an_environment_variable() {
    let collection = Collection::new(LayoutKind::Tree);
    FRAMED.for_each_driver(|driver| {
        let mut command = Command::new(EXE);
        command.env("FILESERVER_LISTEN", "127.0.0.1:0").env("FILESERVER_DRIVER", driver.name());
        command.env("FILESERVER_PROTOCOL", "framed").env("FILESERVER_LAYOUT", "tree").env("FILESERVER_THREADS", "1");
        command.env("FILESERVER_CACHE_MAP", "none").arg(&collection.root);
        let mut server = Server::start_command(command, 1)?;
        serves(FRAMED, server.address())?;
        server.drain()
    });
}

/// Only the address is given, and not by an argument, so that a server on the usual port is not in the way.
#[test]
fn without_an_argument_a_sample_is_served_and_removed() {
    for arguments in [&[][..], &["--layout", "manifest"], &["--backend", "sqlite"], &["--protocol", "framed"]] {
        let mut command = Command::new(EXE);
        command.args(arguments).env("FILESERVER_LISTEN", "127.0.0.1:0");
        let mut server = Server::start_command(command, 1).unwrap();
        eventually("it says what to try", || Ok(server.stderr().contains("try: "))).unwrap();
        let said = server.stderr();
        let path =
            said.split(" sample in ").nth(1).and_then(|rest| rest.split(", removed").next()).expect("says where it is");
        assert!(said.starts_with("serving a generated sample") && std::path::Path::new(path).exists(), "{said}");
        let protocol = if arguments.contains(&"framed") { ProtocolKind::Framed } else { ProtocolKind::Original };
        for id in Sample::ids() {
            let (status, body) = Setup { protocol, ..ORIGINAL }.get(server.address(), id.as_bytes()).unwrap();
            assert!(
                status == Status::Found && body.starts_with(format!("document {id} of the sample").as_bytes()),
                "{id}"
            );
        }
        server.drain().unwrap();
        assert!(!std::path::Path::new(path).exists(), "{path} is still there");
    }
}

/// Command line of the original, word for word (see docs/originals.md).
#[test]
fn the_original_command_line_works() {
    let collection = Collection::new(LayoutKind::Zotero);
    // The port may be taken by another process meanwhile, so another one is tried until it is free.
    let started = (0..20).find_map(|_| {
        let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = probe.local_addr().unwrap().port();
        drop(probe);
        let mut command = Command::new(EXE);
        let words = "-l epoll -r umap -c mutex -m umap -f filesystem -n 30";
        command.args(words.split(' ')).arg(port.to_string()).arg(&collection.root);
        Server::start_command(command, 1).ok().map(|server| (server, port))
    });
    let (mut server, port) = started.expect("a free port");
    assert_eq!(server.address().to_string(), format!("127.0.0.1:{port}"));
    serves(ORIGINAL, server.address()).unwrap();
    server.drain().unwrap();
}

/// The four rows of its table: what is cached after three requests for one document, and what is in the order of use.
#[test]
fn the_four_rows_of_the_originals_table_hold() {
    let collection = Collection::new(LayoutKind::Zotero);
    for (row, hits, entries) in
        [("-c mutex -m none", 0, 3), ("-c mutex -m umap", 2, 1), ("-c none -m none", 0, 0), ("-c none -m umap", 2, 1)]
    {
        let metrics = metrics_address(collection.outside());
        let mut command = Command::new(EXE);
        command.args("-l epoll -r umap -f filesystem -n 30 --listen 127.0.0.1:0 --threads 1".split(' '));
        command.args(row.split(' ')).args(["--metrics", &metrics.to_string()]).arg(&collection.root);
        let mut server = Server::start_command(command, 1).unwrap();
        for _ in 0..3 {
            serves(ORIGINAL, server.address()).unwrap();
        }
        for (name, value) in [("cache_hits_total", hits), ("loads_total", 3 - hits), ("cache_entries", entries)] {
            assert_eq!(metric(&metrics, name).unwrap(), value, "{row}: {name}");
        }
        server.drain().unwrap();
    }
}

#[test]
fn aliases_of_the_original_are_understood_on_every_driver() {
    let collection = Collection::new(LayoutKind::Zotero);
    ORIGINAL.for_each_driver(|driver| {
        for words in ["-r khash -c lockfree -m sparsehash -f sendfile", "-r slab -m none -f fs", "-c none -m khash"] {
            let mut command = Command::new(EXE);
            command.args(["-l", driver.name(), "--listen", "127.0.0.1:0", "--threads", "1"]).args(words.split(' '));
            command.arg(&collection.root);
            let mut server = Server::start_command(command, 1)?;
            serves(ORIGINAL, server.address())?;
            server.drain()?;
        }
        Ok(())
    });
}

/// Nothing of the sample stays behind, be it served from a directory or from a database in one.
#[test]
fn a_second_signal_removes_the_sample_as_well() {
    for backend in ["fs", "sqlite"] {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = Command::new(EXE);
        command.args(["--backend", backend, "--listen", "127.0.0.1:0"]).env("TMPDIR", temporary.path());
        let mut server = Server::start_command(command, 1).unwrap();
        // A transfer in flight keeps the drain from ending by itself.
        let mut readers: Vec<_> =
            (0..8).map(|_| Client::connect_with_buffer(server.address(), 4 << 10).unwrap()).collect();
        for reader in &mut readers {
            reader.send(b"SAMPLE06").unwrap();
            reader.take(100).unwrap();
        }
        assert!(fs::read_dir(temporary.path()).unwrap().count() > 0, "there is no sample");
        server.stop_by_second_signal().unwrap();
        let left = fs::read_dir(temporary.path()).unwrap().count();
        assert_eq!(left, 0, "{backend}: {}", server.stderr());
    }
}

#[test]
fn a_second_signal_stops_at_once() {
    let collection = Collection::empty(LayoutKind::Flat);
    collection.write("LARGE008", &contents("LARGE008", 8 << 20));
    let mut server = ORIGINAL.start(DriverKind::DEFAULT, &collection.root).unwrap();
    let mut reader = Client::connect_with_buffer(server.address(), 16 << 10).unwrap();
    reader.send(b"LARGE008").unwrap();
    reader.take(100).unwrap();
    server.stop_by_second_signal().unwrap();
}

/// Cached documents hold descriptors, and connections come first.
#[test]
fn connections_come_first_with_few_open_files() {
    let collection = Collection::new(LayoutKind::Flat);
    let (id, size) = DOCUMENTS[2];
    let answer = [&[0][..], &(size as u64).to_be_bytes(), &contents(id, size)].concat();
    let exchange = Exchange { request: &frame(id.as_bytes()), answer: &answer };
    let setup = Setup { threads: "2", ..FRAMED };
    connections_come_first(
        |driver| setup.command(driver, &collection.root),
        exchange,
        |server| DOCUMENTS.iter().try_for_each(|(id, _)| setup.get(server.address(), id.as_bytes()).map(drop)),
    );
}
