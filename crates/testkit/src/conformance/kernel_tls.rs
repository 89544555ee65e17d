//! Steps of kernel TLS keep their place in the output on every driver, whether the kernel has TLS or not. What the kernel then
//! does with the bytes is looked at in a guest that has it (`cargo xtask verify ktls`).

use std::time::Duration;

use crate::{Client, Server};
use anyhow::ensure;

use super::case::{Case, PIPE_BYTES, PLAIN, Setup, ask};

const WITH_CONTENT: Setup = Setup { content_bytes: 4 << 20, args: &["--registered"], ..PLAIN };

/// Requests of every kind with a step between any two, and their replies.
fn mixed(case: &Case<'_>) -> (Vec<u8>, Vec<u8>) {
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    for i in 0..12 {
        for (kind, len) in [
            ("record", 2),
            ("file", 90_000 + i),
            ("record", 3),
            ("shared", 300_000 + i),
            ("attach", 9_000),
            ("record", 2),
            ("record", 7),
            ("pipe", PIPE_BYTES - 5),
            ("record", 2),
            ("mapped", 5_000 + i),
            ("attach", 1),
            ("pages", 70_000 + i),
            ("record", 2),
            ("registered", 40_000),
        ] {
            let line = format!("{kind} {len}\n");
            requests.extend_from_slice(line.as_bytes());
            replies.extend_from_slice(line.as_bytes());
            replies.extend_from_slice(&case.content.bytes()[..len]);
        }
        requests.extend_from_slice(b"later 3\n");
        replies.extend_from_slice(b"later\n");
    }
    (requests, replies)
}

pub fn a_step_is_taken_between_the_bytes_before_it_and_those_behind_it() {
    WITH_CONTENT.check_server(|server, case| {
        let (requests, replies) = mixed(case);
        for (buffer, pause) in [(1 << 20, Duration::ZERO), (16 << 10, Duration::from_millis(20))] {
            let mut client = Client::connect_with_buffer(server.address(), buffer)?;
            client.send_and_half_close(&requests)?;
            // Until the buffers on the way are full.
            std::thread::sleep(pause);
            client.expect_all(&replies)?;
        }
        Ok(())
    });
}

/// A step alone in the output is one, too, and the connection goes on.
pub fn requests_are_read_on_after_a_step() {
    WITH_CONTENT.check_server(|server, case| {
        let mut client = server.connect()?;
        for kind in ["attach", "record", "attach", "record"] {
            client.send(format!("{kind} 2\n").as_bytes())?;
            client.expect(format!("{kind} 2\n").as_bytes())?;
            client.expect(&case.content.bytes()[..2])?;
            ask(&mut client, "next")?;
        }
        Ok(())
    });
}

pub fn a_step_that_fails_ends_the_connection_behind_what_comes_before_it() {
    WITH_CONTENT.check_server(|server, case| {
        let mut bystander = server.connect()?;
        for kind in ["shared", "file"] {
            let (got, wanted) = until_failure(server, case, kind)?;
            ensure!(got == wanted, "{kind}: {} bytes instead of {}", got.len(), wanted.len());
        }
        ask(&mut bystander, "bystander")
    });
}

/// Returns the bytes that come before a step that no kernel can take, and those that should.
fn until_failure(server: &Server, case: &Case<'_>, kind: &str) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let mut client = server.connect()?;
    let line = format!("{kind} 300000\n");
    client.send(format!("{line}start 100\nfile 100\n").as_bytes())?;
    let wanted = [line.as_bytes(), &case.content.bytes()[..300_000], b"start 100\n"].concat();
    Ok((client.read_until_disconnect().0, wanted))
}
