//! Clients as they should not be: killed in the middle, gone behind half a request, or slow.

use std::{sync::atomic::Ordering::Relaxed, thread, time::Duration};

use anyhow::Context;
use servers::LoadKind;
use testkit::{Client, Server, subjects::Subject};

use crate::Course;

/// Time between two disturbances.
const PAUSE: Duration = Duration::from_millis(150);
/// Slow clients at a time, and bytes that each reads between two disturbances.
const SLOW: usize = 4;
const SLOW_BYTES: usize = 2000;
/// Requests of a client that is killed: more than it has time for.
const REQUESTS_IN_VAIN: u32 = 100_000;

/// Returns the name of the file that changes: for a file server none of a document, since its load compares all of them.
pub(crate) fn changing(load: LoadKind) -> &'static str {
    if load == LoadKind::File { "changing.txt" } else { "CHANGING" }
}

/// Disturbs the server until the time is over.
pub(crate) fn disturb(subject: &Subject, server: &Server, course: &Course) -> anyhow::Result<()> {
    let mut slow = Vec::new();
    for number in 0.. {
        if course.is_over.load(Relaxed) {
            break;
        }
        match number % 8 {
            0 => kill_a_client(subject, server)?,
            _ if subject.load_kind() == LoadKind::Mq => {}
            // Who comes while the old process ends may be cut off, and no client here minds.
            kind => drop(misbehave(subject.load_kind(), server, kind, &mut slow)),
        }
        for client in &mut slow {
            let _ = Client::try_read(client, &mut [0; SLOW_BYTES]);
        }
        course.disturbances.fetch_add(1, Relaxed);
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Kills a load generator, and with it all of its connections.
fn kill_a_client(subject: &Subject, server: &Server) -> anyhow::Result<()> {
    let mut client = subject.load_command(server, REQUESTS_IN_VAIN, Duration::from_secs(10))?;
    client.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut client = client.spawn().context("loadgen")?;
    thread::sleep(Duration::from_millis(300));
    client.kill()?;
    client.wait()?;
    Ok(())
}

fn misbehave(load: LoadKind, server: &Server, kind: u32, slow: &mut Vec<Client>) -> anyhow::Result<()> {
    let (large, changing, half): (&[u8], &[u8], &[u8]) = match load {
        LoadKind::Http => (
            b"GET /DOCUMEN3 HTTP/1.1\r\nHost: soak\r\n\r\n",
            b"GET /CHANGING HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n\r\n",
            b"GET /DOCUMEN3 HTTP/1.1\r\nHost:",
        ),
        LoadKind::Kv => (
            b"SETRANGE large 400000 end\r\nGET large\r\n",
            b"SET changing now EX 1\r\nQUIT\r\n",
            b"*3\r\n$3\r\nSET\r\n$3\r\n",
        ),
        LoadKind::File | LoadKind::Mq => (b"DOCUMEN3", b"CHANGING", b"DOCU"),
    };
    let mut client = Client::connect_with_buffer(server.address(), SLOW_BYTES)?;
    match kind {
        1 => client.send(half)?,
        2 => {
            client.send(large)?;
            client.reset()?;
        }
        3..5 => {
            client.send(changing)?;
            client.half_close()?;
            drop(client.read_until_disconnect());
        }
        5 => {
            client.send(large)?;
            client.take(10)?; // Gone with the rest unread.
        }
        _ => {
            client.send(large)?;
            slow.push(client);
            if slow.len() > SLOW {
                slow.remove(0);
            }
        }
    }
    Ok(())
}
