//! Clients of one server that send requests at fixed times, whatever becomes of the ones before.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use testkit::{
    Client, Server,
    http::{Response, get},
};

use crate::latencies::Latencies;

/// Time between two requests of a client.
const INTERVAL: Duration = Duration::from_millis(5);
/// Document that is asked for, and its content.
pub(crate) const DOCUMENT: (&str, &str) = ("DOCUMENT", "the same before and after\n");

/// Protocol of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    /// kvcache: each client increments a counter of its own.
    Counter,
    Http,
    /// fileserver's original one, with a connection for each request.
    Original,
}

/// Course of the upgrades: even while one is under way, and odd between two.
#[derive(Debug, Default)]
pub(crate) struct Course {
    pub(crate) step: AtomicU64,
    pub(crate) is_over: AtomicBool,
}

/// Requests of one client.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) answered: u64,
    /// Connections that ended between two replies; a request on one of them has not been run.
    pub(crate) ended: u64,
    pub(crate) latencies: Latencies,
}

/// Sends requests on one connection after another until the upgrades are over.
pub(crate) fn ask_at_fixed_times(
    server: &Server,
    protocol: Protocol,
    number: usize,
    course: &Course,
) -> anyhow::Result<Tally> {
    let (mut tally, mut connection) = (Tally::default(), None);
    let mut due = Instant::now();
    let mut on_this_connection = 0;
    while !course.is_over.load(Relaxed) {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let step = course.step.load(Relaxed);
        loop {
            let connected = match connection.take() {
                Some(connected) => connected,
                None => {
                    on_this_connection = 0;
                    server.connect()?
                }
            };
            on_this_connection += 1;
            let asked = ask(connected, protocol, number, tally.answered + 1);
            match asked.with_context(|| format!("request {on_this_connection} of a connection, step {step}"))? {
                Answer::Whole(kept) => {
                    connection = kept;
                    break;
                }
                Answer::Ended => tally.ended += 1,
            }
        }
        tally.answered += 1;
        let times = match step % 2 {
            0 => &mut tally.latencies.during,
            _ => &mut tally.latencies.between[(step / 2 % 2) as usize],
        };
        times.push(due.elapsed());
        due += INTERVAL;
    }
    Ok(tally)
}

enum Answer {
    /// With the connection, if it goes on.
    Whole(Option<Client>),
    /// The connection ended before there was any of it, as Redis's protocol cannot announce.
    Ended,
}

fn ask(mut client: Client, protocol: Protocol, number: usize, count: u64) -> anyhow::Result<Answer> {
    let (name, content) = DOCUMENT;
    match protocol {
        Protocol::Http => {
            client.send(get(&format!("/{name}")).as_bytes())?;
            let response = response(&mut client).context("a request is lost")?;
            ensure!(response.status == 200 && response.body == content.as_bytes(), "{response:?}");
            let is_last = response.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
            Ok(Answer::Whole((!is_last).then_some(client)))
        }
        Protocol::Counter => {
            let request = format!("INCR counter:{number}\r\n");
            let Ok(reply) = client.send(request.as_bytes()).and_then(|()| client.read_line()) else {
                return Ok(Answer::Ended);
            };
            ensure!(reply == format!(":{count}\r"), "{reply:?} instead of {count}");
            Ok(Answer::Whole(Some(client)))
        }
        Protocol::Original => {
            client.send(name.as_bytes())?;
            let document = client.read_to_end().context("a request is lost")?;
            ensure!(document == content.as_bytes(), "{} bytes", document.len());
            Ok(Answer::Whole(None))
        }
    }
}

fn response(client: &mut Client) -> anyhow::Result<Response> {
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some((response, _)) = Response::split(&got, "GET") {
            return Ok(response);
        }
        let length = client.read(&mut buffer)?;
        ensure!(length > 0, "the connection ended after {} bytes", got.len());
        got.extend_from_slice(&buffer[..length]);
    }
}
