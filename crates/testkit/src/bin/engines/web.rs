//! Two web servers behind a proxy, which keeps connections to them, and to which one of them is lost for a while.

use std::{fs, net::SocketAddr, path::Path};

use anyhow::{bail, ensure};
use sys::listen::Address;
use testkit::{Client, Server, eventually, http, http::Http, http2};

use crate::place::{Place, Proxy, RunningProxy};

/// Requests on one connection of a client.
const REQUESTS: usize = 200;
/// Connections that a proxy may make for them and for its checks, if it keeps them.
const CONNECTIONS_MAX: u64 = 60;
/// Requests in a row that have to succeed while a server is gone, once the proxy has seen it.
const WITHOUT_FAILURE: usize = 50;

/// Version of HTTP that the client speaks.
#[derive(Clone, Copy)]
enum Version {
    Http1,
    Http2,
}

pub(crate) fn http1(place: &Place, proxy: Proxy) -> anyhow::Result<String> {
    check(place, proxy, Version::Http1, &[])
}

/// The proxy names its clients by the PROXY protocol, without which the servers close.
pub(crate) fn http1_proxied(place: &Place, proxy: Proxy) -> anyhow::Result<String> {
    check(place, proxy, Version::Http1, &["--proxy-protocol", "127.0.0.0/8"])
}

pub(crate) fn http2_proxied(place: &Place, proxy: Proxy) -> anyhow::Result<String> {
    check(place, proxy, Version::Http2, &["--proxy-protocol", "127.0.0.0/8"])
}

fn check(place: &Place, proxy: Proxy, version: Version, args: &[&str]) -> anyhow::Result<String> {
    let (first, _second) = (start(place, 1, args)?, start(place, 2, args)?);
    // HAProxy's configuration has a second address, for HTTP/2; Envoy tells the two apart at one.
    let number = if matches!(version, Version::Http2) && proxy.has_several() { 1 } else { 0 };
    let proxy = proxy.start(number)?;
    eventually("both servers are used", || {
        let bodies = (0..8).map(|_| fetch(&proxy, version)).collect::<anyhow::Result<Vec<_>>>();
        Ok(bodies.is_ok_and(|bodies| bodies.contains(&"1".to_owned()) && bodies.contains(&"2".to_owned())))
    })?;
    let before = accepted(place)?;
    keep_alive(&proxy, version)?;
    let connections = accepted(place)? - before;
    ensure!(connections <= CONNECTIONS_MAX, "{connections} connections for {REQUESTS} requests of one client");

    drop(first);
    let mut failures = 0;
    let (mut in_a_row, mut requests) = (0, 0);
    while in_a_row < WITHOUT_FAILURE {
        requests += 1;
        ensure!(requests < 100_000, "requests go on failing");
        match fetch(&proxy, version) {
            Ok(body) if body == "2" => in_a_row += 1,
            Ok(body) => bail!("the server that is gone answers: {body}"),
            Err(_) => (failures, in_a_row) = (failures + 1, 0),
        }
    }
    let _first = start(place, 1, args)?;
    eventually("the server that is back is used", || Ok(fetch(&proxy, version).is_ok_and(|body| body == "1")))?;
    Ok(format!(
        "{REQUESTS} requests of one client by {connections} connections, health checks included; {failures} requests failed when a \
         server was killed, none after that"
    ))
}

/// Starts a server whose file says its number.
fn start(place: &Place, number: usize, args: &[&str]) -> anyhow::Result<Server> {
    let root = place.directory.path().join(format!("root-{number}"));
    fs::create_dir_all(&root)?;
    fs::write(root.join("index.html"), number.to_string())?;
    let (root, metrics) = (root.display().to_string(), format!("unix:{}", metrics(place.directory.path(), number)));
    let args = [args, &["--metrics", &metrics, &root]].concat();
    place.start(number, 8080, &args)
}

fn metrics(directory: &Path, number: usize) -> String {
    directory.join(format!("metrics-{number}")).display().to_string()
}

/// Returns the number of connections that both servers have accepted.
fn accepted(place: &Place) -> anyhow::Result<u64> {
    let mut sum = 0;
    for number in 1..=2 {
        let mut client = Client::connect(&Address::Unix(metrics(place.directory.path(), number).into()))?;
        client.send(http::get_and_close("/metrics").as_bytes())?;
        let page = String::from_utf8(client.read_to_end()?)?;
        let line = page.lines().find_map(|line| line.split_once("_connections_accepted_total "));
        sum += line.map_or(Ok(0), |(_, count)| count.parse())?;
    }
    Ok(sum)
}

/// Sends all requests on one connection.
fn keep_alive(proxy: &RunningProxy, version: Version) -> anyhow::Result<()> {
    match version {
        Version::Http1 => {
            let mut client = Http::connect(proxy.address())?;
            for _ in 0..REQUESTS {
                ensure!(client.get("/")?.status == 200);
            }
        }
        Version::Http2 => {
            let mut client = http2::Client::connect(socket_address(proxy)?)?;
            for stream in (1..).step_by(2).take(REQUESTS) {
                client.send(&http2::get(stream, "/"))?;
                ensure!(client.response(stream)?.status() == 200);
            }
        }
    }
    Ok(())
}

/// Returns the body of `/`, asked for on a connection of its own.
fn fetch(proxy: &RunningProxy, version: Version) -> anyhow::Result<String> {
    let (status, body) = match version {
        Version::Http1 => {
            let mut client = proxy.connect()?;
            client.send(http::get_and_close("/").as_bytes())?;
            let text = String::from_utf8(client.read_to_end()?)?;
            let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
            (u16::from(head.starts_with("HTTP/1.1 200 ")) * 200, body.to_owned())
        }
        Version::Http2 => {
            let mut client = http2::Client::connect(socket_address(proxy)?)?;
            client.send(&http2::get(1, "/"))?;
            let response = client.response(1)?;
            (response.status(), String::from_utf8(response.body)?)
        }
    };
    ensure!(status == 200, "{status}");
    Ok(body)
}

fn socket_address(proxy: &RunningProxy) -> anyhow::Result<SocketAddr> {
    match proxy.address() {
        Address::Tcp(address) => Ok(*address),
        Address::Unix(path) => bail!("{} is no address of HTTP/2", path.display()),
    }
}
