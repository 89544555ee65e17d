//! The protocol is told of output that the kernel has taken, and never of more.

use crate::{Client, Server, eventually};
use anyhow::{Context, ensure};

use super::case::{PIPE_BYTES, PLAIN, Setup};

const LEN: usize = 16 << 20;

const WITH_CONTENT: Setup = Setup { content_bytes: LEN, args: &["--registered"], ..PLAIN };

/// Asks for the bytes that have not been sent: those of this connection, and those of all.
fn unsent(client: &mut Client) -> anyhow::Result<(u64, u64)> {
    client.send(b"unsent\n")?;
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        line.extend(client.take(1)?);
    }
    let line = String::from_utf8(line)?;
    let (own, all) = line.trim_end().split_once(' ').with_context(|| format!("{line:?}"))?;
    Ok((own.parse()?, all.parse()?))
}

fn fetch(client: &mut Client, line: &str, body: &[u8]) -> anyhow::Result<()> {
    client.send(line.as_bytes())?;
    client.expect(line.as_bytes())?;
    client.expect(body)
}

/// Who has received a reply can ask, and the protocol has been told: of every kind of output, alone and in a row.
pub fn output_that_has_been_sent_is_reported() {
    WITH_CONTENT.check_server(|server, case| {
        let mut client = server.connect()?;
        for kind in ["shared", "file", "mapped", "pages", "chain", "registered", "headed", "pipe"] {
            for len in [1, 4_096, PIPE_BYTES / 2] {
                fetch(&mut client, &format!("{kind} {len}\n"), &case.content.bytes()[..len])?;
                let left = unsent(&mut client)?;
                ensure!(left == (0, 0), "{kind} {len}: {left:?} have not been reported");
            }
        }
        client.send(b"first\nlater 20\nthird\nfourth 5 big\nlast\n")?;
        client.expect(b"first\nlater\nthird\nfourth\n")?;
        client.expect(&[b'x'; 100_000])?;
        client.expect(b"last\n")?;
        let left = unsent(&mut client)?;
        ensure!(left == (0, 0), "replies of promises: {left:?} have not been reported");
        Ok(())
    });
}

/// A reply that does not fit what the kernel holds has not been sent before its peer reads.
pub fn output_that_the_peer_has_yet_to_take_is_not_reported() {
    WITH_CONTENT.check_server(|server, case| {
        for kind in ["shared", "file", "mapped", "pages", "registered"] {
            stall(server, kind, case.content.bytes()).with_context(|| kind.to_owned())?;
        }
        Ok(())
    });
}

fn stall(server: &Server, kind: &str, content: &[u8]) -> anyhow::Result<()> {
    let (mut reader, mut observer) = (server.connect()?, server.connect()?);
    let line = format!("{kind} {LEN}\n");
    reader.send(line.as_bytes())?;
    reader.expect(line.as_bytes())?;
    for _ in 0..5 {
        let (_, all) = unsent(&mut observer)?;
        ensure!(all > 0, "all of it is sent, though nobody has read it");
    }
    reader.expect(content)?;
    eventually("all of it has been sent", || Ok(unsent(&mut observer)?.1 == 0))
}
