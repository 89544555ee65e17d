//! Replies as bytes and their parts.

use anyhow::{Context, ensure};
use testkit::Client;

/// One end of a connection, whose replies are read one by one.
#[derive(Debug)]
pub(crate) struct Replies {
    pub(crate) client: Client,
    unread: Vec<u8>,
    chunk: Vec<u8>,
}

impl Replies {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, unread: Vec::new(), chunk: vec![0; 1 << 18] }
    }

    /// Returns the bytes of the next reply.
    pub(crate) fn next(&mut self) -> anyhow::Result<Vec<u8>> {
        loop {
            if let Some(len) = length(&self.unread) {
                let rest = self.unread.split_off(len);
                return Ok(std::mem::replace(&mut self.unread, rest));
            }
            let n = self.client.read(&mut self.chunk)?;
            ensure!(n > 0, "the connection has ended after {}", self.unread.escape_ascii());
            self.unread.extend_from_slice(&self.chunk[..n]);
        }
    }
}

/// A reply and the replies that it consists of.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) raw: &'a [u8],
    pub(crate) children: Vec<Self>,
}

impl<'a> Node<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> anyhow::Result<Self> {
        let len = length(bytes).context("a reply is torn")?;
        let (raw, mut at) = (&bytes[..len], line_end(bytes).unwrap_or(len));
        let mut children = Vec::new();
        for _ in 0..parts(bytes) {
            let child = Self::parse(&bytes[at..len])?;
            at += child.raw.len();
            children.push(child);
        }
        Ok(Self { raw, children })
    }

    /// Returns the first line.
    pub(crate) fn head(&self) -> &'a [u8] {
        &self.raw[..line_end(self.raw).unwrap_or(self.raw.len())]
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        std::str::from_utf8(self.raw).ok()?.strip_prefix(':')?.trim_end().parse().ok()
    }

    pub(crate) fn sorted(&self) -> Vec<&'a [u8]> {
        let mut all: Vec<&[u8]> = self.children.iter().map(|child| child.raw).collect();
        all.sort_unstable();
        all
    }
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|two| two == b"\r\n").map(|at| at + 2)
}

/// Parses the number behind the first byte.
fn number(bytes: &[u8]) -> i64 {
    let end = line_end(bytes).map_or(bytes.len(), |end| end - 2);
    std::str::from_utf8(&bytes[1..end]).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns the number of replies that a reply consists of.
fn parts(bytes: &[u8]) -> i64 {
    match bytes.first() {
        Some(b'*' | b'~' | b'>') => number(bytes),
        Some(b'%') => 2 * number(bytes),
        _ => 0,
    }
}

/// Returns the length of the first reply, or `None` if it is torn.
fn length(bytes: &[u8]) -> Option<usize> {
    let mut end = line_end(bytes)?;
    if matches!(bytes[0], b'$' | b'=')
        && let Ok(len) = usize::try_from(number(bytes))
    {
        end += len + 2;
    }
    for _ in 0..parts(bytes) {
        end += length(bytes.get(end..)?)?;
    }
    (end <= bytes.len()).then_some(end)
}
