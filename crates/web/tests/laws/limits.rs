//! Limits of each client, and proxies that speak for clients.

use anyhow::{Context, ensure};
use sys::listen::Address;
use testkit::{
    Client, DriverKind, Server, eventually,
    http::{Http, get, get_and_close},
};

use super::{CONCURRENCY, command, field, on_every_driver, write};

pub(super) const V1: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";

pub(super) fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "a.txt", "a").unwrap();
    tree
}

/// Returns a header of version 2 from this IPv6 client, with an extension.
pub(super) fn v2(client: u8) -> Vec<u8> {
    let mut client_address = [0x20, 1, 0xd, 0xb8, 0, 0, 0, client, 0, 0, 0, 0, 0, 0, 0, 1].to_vec();
    let server_address = client_address.clone();
    client_address.extend(server_address);
    let fields = [&client_address[..], &56324_u16.to_be_bytes(), &443_u16.to_be_bytes(), b"\x04\0\x01x"].concat();
    let length = u16::try_from(fields.len()).unwrap().to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x21"[..], &length, &fields].concat()
}

/// Starts a server on a driver, whose log may have warnings.
fn on_every_driver_noisily(args: &[&str], law: impl Fn(&Server, DriverKind) -> anyhow::Result<()> + Sync) {
    let tree = tree();
    testkit::check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| {
        let mut server = Server::start_command(command(driver, tree.path(), args), 1).context(driver.name())?;
        law(&server, driver).map_err(|error| anyhow::anyhow!("{driver}: {error:#}\n it said: {}", server.stderr()))?;
        ensure!(server.stop()?.success(), "{driver}: {}", server.stderr());
        Ok(())
    });
}

pub(super) fn connect(server: &Server, header: &[u8]) -> anyhow::Result<Http> {
    let mut client = Client::connect(server.address())?;
    client.send(header)?;
    Http::from_client(client)
}

/// Waits for each of these in the log, where it stands once however many were refused.
fn expect_one_line(server: &Server, texts: &[&str]) -> anyhow::Result<()> {
    eventually("the log says why", || Ok(texts.iter().all(|text| server.stderr().contains(text))))?;
    let said = server.stderr();
    ensure!(texts.iter().all(|text| said.matches(text).count() == 1), "{said}");
    Ok(())
}

#[test]
fn one_client_has_so_many_connections() {
    on_every_driver_noisily(&["--max-connections-per-client", "2"], |server, _| {
        let mut open = [Http::connect(server.address())?, Http::connect(server.address())?];
        for client in &mut open {
            ensure!(client.get("/a.txt")?.status == 200);
        }
        for _ in 0..3 {
            let mut third = Client::connect(server.address())?;
            // It is answered before it asks, or closed.
            let answer = third.read_to_end().unwrap_or_default();
            ensure!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 503 "), "{}", answer.escape_ascii());
        }
        ensure!(open.iter_mut().all(|client| client.get("/a.txt").is_ok_and(|got| got.status == 200)));
        drop(open);
        eventually("there is room again", || {
            let mut client = Client::connect(server.address())?;
            client.send(get_and_close("/a.txt").as_bytes())?;
            Ok(client.read_to_end().is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200 ")))
        })?;
        expect_one_line(server, &["127.0.0.1 has 2 open; see --max-connections-per-client"])
    });
}

#[test]
fn one_client_asks_so_often() {
    on_every_driver_noisily(&["--max-requests-per-client", "2/h"], |server, _| {
        let mut client = Http::connect(server.address())?;
        ensure!(client.get("/a.txt")?.status == 200 && client.get("/missing")?.status == 404);
        for _ in 0..3 {
            let got = client.get("/a.txt")?;
            ensure!(got.status == 429, "{got:?}");
            let seconds: u32 = field(&got, "retry-after")?.parse()?;
            ensure!((1..=1800).contains(&seconds), "{got:?}");
        }
        let got = client.ask("POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")?;
        ensure!(got.status == 429, "{got:?}");
        ensure!(Http::connect(server.address())?.get("/a.txt")?.status == 429, "another connection of the same client");
        expect_one_line(server, &["127.0.0.1 sends more than 2/h; see --max-requests-per-client"])
    });
}

#[test]
fn a_header_of_a_proxy_is_read_however_it_is_torn() {
    on_every_driver(tree().path(), &["--proxy-protocol", "127.0.0.0/8"], |server| {
        for header in [V1, &v2(1), b"PROXY UNKNOWN\r\n", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
            let stream = [header, get("/a.txt").as_bytes(), get("/missing").as_bytes()].concat();
            for at in 0..=header.len() {
                let mut client = connect(server, &stream[..at])?;
                client.send_bytes(&stream[at..])?;
                let (first, second) = (client.response("GET")?, client.response("GET")?);
                ensure!((first.status, second.status) == (200, 404), "torn at {at}: {first:?} {second:?}");
            }
            let mut client = Client::connect(server.address())?;
            for byte in header.chunks(1) {
                client.send(byte)?;
            }
            ensure!(Http::from_client(client)?.get("/a.txt")?.status == 200);
        }
        Ok(())
    });
}

#[test]
fn a_proxy_that_sends_no_header_is_cut_off() {
    let args = ["--proxy-protocol", "127.0.0.1", "--request-timeout", "300ms"];
    on_every_driver_noisily(&args, |server, _| {
        for bad in
            [&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..], b"PROXY TCP4 1.2.3.4\r\n", &[b'x'; 300], b"PROXY TCP4 ", b""]
        {
            let mut client = Client::connect(server.address())?;
            client.send(bad)?;
            let answer = client.read_to_end().unwrap_or_default();
            ensure!(answer.is_empty(), "{}: {}", bad.escape_ascii(), answer.escape_ascii());
        }
        ensure!(connect(server, V1)?.get("/a.txt")?.status == 200);
        expect_one_line(server, &["a connection of the proxy 127.0.0.1:"])
    });
}

#[test]
fn nobody_else_can_send_a_proxy_header() {
    for args in [&["--proxy-protocol", "192.0.2.0/24"][..], &[]] {
        on_every_driver(tree().path(), args, |server| {
            for header in [V1, &v2(1)] {
                let mut client = connect(server, header)?;
                client.send(&get("/a.txt"))?;
                ensure!(client.response("GET")?.status == 400);
            }
            ensure!(Http::connect(server.address())?.get("/a.txt")?.status == 200);
            Ok(())
        });
    }
}

#[test]
fn limits_count_the_clients_of_a_proxy() {
    let args =
        ["--proxy-protocol", "127.0.0.1", "--max-connections-per-client", "1", "--max-requests-per-client", "2/h"];
    on_every_driver_noisily(&args, |server, _| {
        let mut first = connect(server, &v2(1))?;
        ensure!(first.get("/a.txt")?.status == 200);
        let mut other = connect(server, &v2(2))?;
        ensure!(other.get("/a.txt")?.status == 200, "another network");
        let mut second = Client::connect(server.address())?;
        second.send(&v2(1))?;
        let refused = second.read_to_end()?;
        ensure!(refused.starts_with(b"HTTP/1.1 503 "), "{}", refused.escape_ascii());
        ensure!((first.get("/a.txt")?.status, first.get("/a.txt")?.status) == (200, 429));
        ensure!(other.get("/a.txt")?.status == 200);
        expect_one_line(server, &["2001:db8:0:1::/64 has 1 open", "2001:db8:0:1::/64 sends more"])
    });
}

#[test]
fn the_access_log_names_the_client_of_a_proxy() {
    let logs = tempfile::tempdir().unwrap();
    let tree = tree();
    testkit::check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| {
        let log = logs.path().join(format!("{driver}.log"));
        let args = ["--proxy-protocol", "127.0.0.1", "--access-log", log.to_str().context("UTF-8")?];
        let mut server = Server::start_command(command(driver, tree.path(), &args), 1).context(driver.name())?;
        ensure!(connect(&server, V1)?.get("/a.txt")?.status == 200);
        server.drain()?;
        let text = std::fs::read_to_string(&log)?;
        ensure!(text.starts_with("192.0.2.1 - - [") && text.lines().count() == 1, "{driver}: {text}");
        Ok(())
    });
}

#[test]
fn refusals_are_counted_in_the_metrics() {
    let (tree, sockets) = (tree(), tempfile::tempdir().unwrap());
    testkit::check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| {
        let metrics = Address::Unix(sockets.path().join(driver.name()));
        let [limits, flags] = [
            ["--max-connections-per-client", "1", "--max-requests-per-client", "2/h"],
            ["--proxy-protocol", "127.0.0.1", "--metrics", &metrics.to_string()],
        ];
        let mut server = Server::start_command(command(driver, tree.path(), &[limits, flags].concat()), 1)?;
        let scrape = || {
            let mut scraper = Client::connect(&metrics)?;
            scraper.send(get_and_close("/metrics").as_bytes())?;
            let text = String::from_utf8(scraper.read_to_end()?)?;
            let count = |name: &str| {
                let line = text.lines().find(|line| !line.starts_with('#') && line.contains(name));
                line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned).with_context(|| text.clone())
            };
            anyhow::Ok([
                count("_connections_refused_by_client_limit_total ")?,
                count("_requests_refused_by_client_limit_total ")?,
                count("_proxy_headers_refused_total ")?,
            ])
        };
        ensure!(scrape()? == ["0"; 3], "{driver}: {:?}", scrape()?);
        let mut client = connect(&server, V1)?;
        for status in [200, 200, 429, 429, 429] {
            ensure!(client.get("/a.txt")?.status == status, "{driver}");
        }
        for _ in 0..2 {
            let mut second = Client::connect(server.address())?;
            second.send(V1)?;
            second.read_to_end()?;
        }
        let mut nobody = Client::connect(server.address())?;
        nobody.send(b"GET / HTTP/1.1\r\n\r\n")?;
        nobody.read_until_disconnect().1.ok();
        eventually("refusals are counted", || Ok(scrape()? == ["2", "3", "1"]))
            .with_context(|| format!("{driver}: {:?}", scrape()))?;
        ensure!(server.stop()?.success(), "{driver}: {}", server.stderr());
        Ok(())
    });
}
