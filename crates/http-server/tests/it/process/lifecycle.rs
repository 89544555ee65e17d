//! Ways to start and to watch a server.

use std::process::Command;

use anyhow::{Context, ensure};
use sys::listen::Address;
use testkit::{Client, DriverKind, Server, eventually, run_to_end};

use crate::process::setup::{EXE, Http, LARGE, PLAIN, TWO_THREADS, content, get_and_close};

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("a.txt"), "0123456789").unwrap();
    tree
}

fn serves(address: &Address) -> anyhow::Result<()> {
    let got = Http::connect(address)?.get("/a.txt")?;
    ensure!(got.status == 200 && got.body == b"0123456789", "{got:?}");
    Ok(())
}

#[test]
fn several_addresses_are_served_alike() {
    let tree = tree();
    PLAIN.for_each_driver(|driver| {
        let socket = tree.path().join(format!("{driver}.sock"));
        let mut command = PLAIN.command(driver, tree.path());
        command.args(["--listen", "[::1]:0", "--listen", &format!("unix:{}", socket.display())]);
        let mut server = Server::start_command(command, 3)?;
        for address in server.addresses() {
            serves(address).with_context(|| address.to_string())?;
        }
        server.drain()?;
        ensure!(!socket.exists(), "the socket file is still there");
        Ok(())
    });
}

#[test]
fn two_threads_share_many_connections() {
    // No more than `pool` has workers: it closes idle connections in favour of waiting ones.
    const COUNT: usize = 60;
    let tree = tree();
    TWO_THREADS.for_each_server(tree.path(), |server, _| {
        let mut clients = (0..COUNT).map(|_| Http::connect(server.address())).collect::<anyhow::Result<Vec<_>>>()?;
        for (i, client) in clients.iter_mut().enumerate() {
            ensure!(client.get("/a.txt")?.body == b"0123456789", "connection {i}");
        }
        Ok(())
    });
}

#[test]
fn metrics_count_what_was_answered() {
    let tree = tree();
    PLAIN.for_each_driver(|driver| {
        let socket = tree.path().join(format!("{driver}.metrics"));
        let mut command = PLAIN.command(driver, tree.path());
        command.args(["--metrics", &format!("unix:{}", socket.display())]);
        let mut server = Server::start_command(command, 1)?;
        let mut client = Http::connect(server.address())?;
        for (target, status) in [("/a.txt", 200), ("/a.txt", 200), ("/missing", 404)] {
            ensure!(client.get(target)?.status == status, "{target}");
        }
        let metrics = Address::Unix(socket);
        eventually("metrics are served", || Ok(Client::connect(&metrics).is_ok()))?;
        let scrape = |target: &str| -> anyhow::Result<String> {
            let mut scraper = Client::connect(&metrics)?;
            scraper.send(get_and_close(target).as_bytes())?;
            Ok(String::from_utf8(scraper.read_to_end()?)?)
        };
        let text = scrape("/metrics")?;
        for line in [
            "http_server_responses_total{class=\"2xx\"} 2",
            "http_server_responses_total{class=\"4xx\"} 1",
            "http_server_cache_hits_total 1",
            "http_server_connections_accepted_total 1",
            "http_server_connections_open 1",
        ] {
            ensure!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        testkit::check_queries("http-server", &text)?;
        ensure!(scrape("/readyz")?.starts_with("HTTP/1.1 200 "), "it is ready");
        server.drain()
    });
}

#[test]
fn every_flag_reads_an_environment_variable() {
    let tree = tree();
    PLAIN.for_each_driver(|driver| {
        let mut command = Command::new(EXE);
        command.env("HTTP_SERVER_LISTEN", "127.0.0.1:0").env("HTTP_SERVER_DRIVER", driver.name());
        command.env("HTTP_SERVER_ROOT", tree.path()).env("HTTP_SERVER_THREADS", "1");
        let mut server = Server::start_command(command, 1)?;
        serves(server.address())?;
        server.drain()
    });
    let mut command = Command::new(EXE);
    command.env("HTTP_SERVER_DRIVER", "select");
    let finished = run_to_end(command).unwrap();
    assert_eq!(finished.code(), Some(2), "{finished:?}");
}

/// Only the address is given, and not by an argument, so that a server on the usual port is not in the way.
#[test]
fn without_an_argument_the_current_directory_is_served() {
    let tree = tree();
    let mut command = Command::new(EXE);
    command.current_dir(tree.path()).env("HTTP_SERVER_LISTEN", "127.0.0.1:0");
    let mut server = Server::start_command(command, 1).unwrap();
    serves(server.address()).unwrap();
    server.drain().unwrap();
    let to_try = format!("try: curl http://{}/\n", server.address());
    assert!(server.stderr().contains(&to_try), "{}", server.stderr());
}

#[test]
fn a_second_signal_stops_at_once() {
    let content = content(LARGE);
    let mut server = PLAIN.start(DriverKind::DEFAULT, content.dir()).unwrap();
    let mut reader = Client::connect_with_buffer(server.address(), 16 << 10).unwrap();
    reader.send(get_and_close("/content").as_bytes()).unwrap();
    reader.take(100).unwrap();
    server.stop_by_second_signal().unwrap();
}
