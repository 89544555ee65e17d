//! A client of web servers that reads one response after another.

use std::io;

use anyhow::{Context, bail, ensure};
use sys::listen::Address;

use crate::Client;

/// A parsed response.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the value of the only field of this name.
    ///
    /// # Panics
    /// Two fields have this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| &**value);
        assert!(values.next().is_none(), "{name} is there twice");
        value
    }

    /// Splits a stream into its first response, which answers `method`, and the rest; `None` while that is incomplete.
    ///
    /// # Panics
    /// The response is one that no server of this workspace may give: malformed, without a date, or of unknown length.
    pub fn split<'a>(stream: &'a [u8], method: &str) -> Option<(Self, &'a [u8])> {
        let end = stream.windows(4).position(|four| four == b"\r\n\r\n")?;
        let (head, rest) = (std::str::from_utf8(&stream[..end]).expect("a head of text"), &stream[end + 4..]);
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).expect("a status line")[..3].parse();
        let fields = lines.map(|line| line.split_once(": ").expect("a field"));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let response = Self { status: status.expect("a status"), fields, body: vec![] };
        assert_eq!(response.field("date").map(str::len), Some(29), "{head}");
        if method == "HEAD" || matches!(response.status, 204 | 304) {
            return Some((response, rest));
        }
        let length: usize = response.field("content-length").and_then(|length| length.parse().ok()).expect("a length");
        let body = rest.get(..length)?.to_vec();
        Some((Self { body, ..response }, &rest[length..]))
    }
}

/// A connection whose responses are read one by one.
#[derive(Debug)]
pub struct Http {
    client: Client,
    unread: Vec<u8>,
}

impl Http {
    pub fn connect(address: &Address) -> anyhow::Result<Self> {
        Self::from_client(Client::connect(address).with_context(|| format!("cannot connect to {address}"))?)
    }

    pub fn from_client(client: Client) -> anyhow::Result<Self> {
        Ok(Self { client, unread: Vec::new() })
    }

    pub fn send(&mut self, request: &str) -> anyhow::Result<()> {
        self.client.send(request.as_bytes())
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.client.send(bytes)
    }

    /// Ends the sending half of the connection.
    pub fn half_close(&self) -> anyhow::Result<()> {
        self.client.half_close()
    }

    /// Reads the next response, which must be complete.
    pub fn response(&mut self, method: &str) -> anyhow::Result<Response> {
        match self.response_or_end(method)? {
            Some(response) => Ok(response),
            None => bail!("the connection ended in a response, after {} bytes", self.unread.len()),
        }
    }

    /// Reads the next response; `None` when the connection ends before it is complete.
    pub fn response_or_end(&mut self, method: &str) -> anyhow::Result<Option<Response>> {
        let mut chunk = vec![0; 1 << 20];
        loop {
            if let Some((response, rest)) = Response::split(&self.unread, method) {
                self.unread = rest.to_vec();
                return Ok(Some(response));
            }
            match self.client.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(n) => self.unread.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error).context("cannot read a response"),
            }
        }
    }

    /// Sends a request and reads its response.
    pub fn ask(&mut self, request: &str) -> anyhow::Result<Response> {
        self.send(request)?;
        self.response(request.split(' ').next().unwrap_or_default())
    }

    pub fn get(&mut self, target: &str) -> anyhow::Result<Response> {
        self.ask(&get(target))
    }

    /// Expects the end of the connection, and nothing before it.
    pub fn expect_end(&mut self) -> anyhow::Result<()> {
        ensure!(self.unread.is_empty(), "{} bytes behind the last response", self.unread.len());
        self.client.expect_end()
    }

    /// Reads the head of the next response, which must be a 200; its body can then be read from the client.
    pub fn skip_head(mut self) -> anyhow::Result<Client> {
        while !self.unread.ends_with(b"\r\n\r\n") {
            self.unread.extend(self.client.take(1)?);
        }
        ensure!(self.unread.starts_with(b"HTTP/1.1 200 "), "{}", self.unread.escape_ascii());
        Ok(self.client)
    }
}

/// Returns a request for `target`.
pub fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// Returns a request for `target` that is the last one of its connection.
pub fn get_and_close(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
}
