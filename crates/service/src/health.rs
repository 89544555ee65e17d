//! `--check-health`: asks a server of this machine for its health, as a container's engine does, in whose image there is no
//! other program to ask with.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::{Context, ensure};
use sys::listen::Address;

/// Time for each step: an engine asks every few seconds.
const PATIENCE: Duration = Duration::from_secs(2);
const REQUEST: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 4096;

/// Asks at the metrics address.
///
/// # Errors
/// There is no answer, or the server is not ready.
pub(crate) fn check(metrics: Option<&Address>) -> anyhow::Result<()> {
    let address = metrics.context("--check-health asks at the address of --metrics")?;
    let answer = ask(address).with_context(|| format!("no answer at {address}"))?;
    let status = answer.split(' ').nth(1).unwrap_or_default();
    ensure!(status == "200", "not ready: {}", answer.lines().next().unwrap_or_default());
    Ok(())
}

fn ask(address: &Address) -> io::Result<String> {
    match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect_timeout(&reachable(*address), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            exchange(stream)
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            exchange(stream)
        }
    }
}

fn exchange(mut stream: impl Read + Write) -> io::Result<String> {
    stream.write_all(REQUEST)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns an address that leads to a server which listens at all of them.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    fn check_with(answer: &'static str) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; REQUEST.len()];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            request
        });
        let checked = check(Some(&Address::Tcp(SocketAddr::from(([0, 0, 0, 0], port)))));
        assert_eq!(server.join().unwrap(), REQUEST);
        checked.map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_is_healthy_if_it_says_that_it_is_ready() {
        assert_eq!(check_with("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"), Ok(()));
        let draining = check_with("HTTP/1.1 503 Service Unavailable\r\n\r\n200");
        assert_eq!(draining.unwrap_err(), "not ready: HTTP/1.1 503 Service Unavailable");
        assert_eq!(check_with("").unwrap_err(), "not ready: ");
    }

    #[test]
    fn nobody_is_asked_where_there_is_no_address() {
        assert!(check(None).unwrap_err().to_string().contains("--metrics"));
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(check(Some(&Address::Tcp(gone))).unwrap_err().to_string().starts_with("no answer at"));
    }
}
