//! `--otlp`: a result sent to a collector of OpenTelemetry.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    str::FromStr,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use http::Uri;
use loadgen::{otlp, result::RunResult};

/// Path of metrics where the URL has none.
const PATH: &str = "/v1/metrics";
/// Port of OTLP over HTTP.
const PORT: u16 = 4318;
/// Limit of each step of the delivery.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of what is read of a reply.
const REPLY_BYTES_MAX: u64 = 1 << 16;

/// Collector that takes OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Collector {
    host: String,
    port: u16,
    path: String,
}

impl FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || format!("`{text}` is not a URL like http://127.0.0.1:{PORT} (TLS is for a collector beside)");
        let uri: Uri = text.parse().map_err(|_| problem())?;
        let host = uri.host().filter(|_| uri.scheme_str() == Some("http")).ok_or_else(problem)?;
        let path = Some(uri.path()).filter(|path| *path != "/").unwrap_or(PATH);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port: uri.port_u16().unwrap_or(PORT), path: path.to_owned() })
    }
}

impl Collector {
    /// Sends the metrics of a result.
    pub(super) fn send(&self, result: &RunResult) -> anyhow::Result<()> {
        let Self { host, port, path } = self;
        let why = || format!("--otlp: the result was not delivered to {host}:{port}");
        let body = serde_json::to_vec(&otlp::message(result))?;
        let status = self.post(&body).with_context(why)?;
        if !(200..300).contains(&status) {
            return Err(anyhow!("the collector replied with status {status} to POST {path}").context(why()));
        }
        Ok(())
    }

    /// Posts a message, and returns the status of the reply.
    fn post(&self, body: &[u8]) -> anyhow::Result<u16> {
        let Self { host, port, path } = self;
        let address = (host.as_str(), *port).to_socket_addrs()?.next().context("there is no such host")?;
        let mut socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        socket.write_all(&[head.as_bytes(), body].concat())?;
        let mut line = String::new();
        BufReader::new(socket.take(REPLY_BYTES_MAX)).read_line(&mut line)?;
        match line.split(' ').nth(1).and_then(|status| status.parse().ok()) {
            Some(status) => Ok(status),
            None => bail!("`{}` is no reply of HTTP", line.trim_end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_has_the_usual_port_and_path() {
        let parsed = |text: &str| text.parse::<Collector>();
        let collector = |host: &str, port, path: &str| Ok(Collector { host: host.into(), port, path: path.into() });
        assert_eq!(parsed("http://localhost"), collector("localhost", 4318, "/v1/metrics"));
        assert_eq!(
            parsed("http://[::1]:9090/api/v1/otlp/v1/metrics"),
            collector("::1", 9090, "/api/v1/otlp/v1/metrics")
        );
        for text in ["", "localhost", "localhost:4318", "https://localhost", "http://"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
