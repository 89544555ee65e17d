//! `loadgen agent`: the side that makes the load.

use std::{
    ffi::OsString,
    io::{self, BufReader},
    process::ExitCode,
    sync::OnceLock,
    time::{Duration, Instant},
};

use anyhow::anyhow;
use clap::Args;
use loadgen::{engine::LiveStats, result::RunResult};
use parking_lot::{Condvar, Mutex};
use rustix::process::{Signal, getpid, kill_process};

use super::{
    super::{Failure, eprint_line},
    message::{FromAgent, PROTOCOL, ToAgent, VERSION, receive, send},
    unix_nanos,
};

/// Time between two messages about what has been counted.
const LIVE_EVERY: Duration = Duration::from_millis(250);

/// The coordinator of this process, if it is an agent.
static LINK: OnceLock<Link> = OnceLock::new();

/// The connection to the coordinator.
#[derive(Debug, Default)]
pub(in super::super) struct Link {
    begin: Mutex<Begin>,
    has_changed: Condvar,
}

/// State of the start.
#[derive(Debug, Default, Clone, Copy)]
enum Begin {
    #[default]
    Awaited,
    /// Time since 1970, in nanoseconds.
    At(u64),
    Cancelled,
}

/// Options of `loadgen agent`: it has none, because a coordinator tells it all.
#[derive(Args, Debug)]
pub(in super::super) struct AgentArgs {}

/// Returns the connection to the coordinator, if this process is an agent.
pub(in super::super) fn link() -> Option<&'static Link> {
    LINK.get()
}

impl Link {
    /// Sends a message. If nobody reads it any more, the end of standard input says so.
    fn send(message: &FromAgent) {
        let _ = send(&mut io::stdout().lock(), message);
    }

    /// Says that all is prepared, and waits for the time to begin.
    pub(in super::super) fn await_start(&self) -> Result<(), Failure> {
        Self::send(&FromAgent::Ready);
        let mut begin = self.begin.lock();
        loop {
            match *begin {
                Begin::Awaited => self.has_changed.wait(&mut begin),
                Begin::Cancelled => return Err(Failure::Interrupted(anyhow!("interrupted before the start"))),
                Begin::At(at) => {
                    let wait = at.saturating_sub(unix_nanos());
                    if wait == 0 {
                        return Ok(());
                    }
                    self.has_changed.wait_for(&mut begin, Duration::from_nanos(wait));
                }
            }
        }
    }

    pub(in super::super) fn send_result(result: &RunResult) {
        Self::send(&FromAgent::Result(Box::new(result.clone())));
    }

    fn set(&self, begin: Begin) {
        *self.begin.lock() = begin;
        self.has_changed.notify_all();
    }
}

/// Progress of a run, told to the coordinator.
pub(in super::super) struct LiveMessages {
    next: Instant,
}

impl LiveMessages {
    pub(in super::super) fn new() -> Self {
        Self { next: Instant::now() }
    }

    pub(in super::super) fn update(&mut self, live: &LiveStats, now: Instant) {
        if now >= self.next {
            self.next = now + LIVE_EVERY;
            let (ok, failed) = live.counts();
            Link::send(&FromAgent::Live { ok, failed });
        }
    }
}

/// Runs as an agent: reads what to do from standard input. `run` carries out a command line, and returns its exit status and error.
pub(in super::super) fn serve(run: impl FnOnce(Vec<OsString>) -> (u8, Option<String>)) -> ExitCode {
    let mut input = BufReader::new(io::stdin());
    let arguments = loop {
        match receive(&mut input) {
            Ok(Some(ToAgent::Run { arguments })) => break arguments,
            Ok(Some(other)) => answer(&other),
            Ok(None) => {
                eprint_line("error: an agent is started by `loadgen … --agent`, and nobody has told it what to do");
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprint_line(&format!("error: {error}"));
                return ExitCode::FAILURE;
            }
        }
    };
    let link = LINK.get_or_init(Link::default);
    std::thread::spawn(move || {
        while let Ok(Some(message)) = receive::<ToAgent>(&mut input) {
            match message {
                ToAgent::Start { at } => link.set(Begin::At(at)),
                ToAgent::Stop => stop(link),
                message @ (ToAgent::Hello { .. } | ToAgent::Ping | ToAgent::Run { .. }) => answer(&message),
            }
        }
        // The coordinator has gone.
        stop(link);
    });
    let words = std::iter::once("loadgen".to_owned()).chain(arguments).map(OsString::from).collect();
    let (status, error) = run(words);
    Link::send(&FromAgent::End { status, error });
    ExitCode::from(status)
}

/// Answers what can be answered at any time.
fn answer(message: &ToAgent) {
    match message {
        ToAgent::Hello { .. } => {
            let host = loadgen::summary::host_name();
            Link::send(&FromAgent::Hello { protocol: PROTOCOL, version: VERSION.to_owned(), host });
        }
        ToAgent::Ping => Link::send(&FromAgent::Pong { time: unix_nanos() }),
        ToAgent::Run { .. } | ToAgent::Start { .. } | ToAgent::Stop => {}
    }
}

/// Ends the run as Ctrl-C would: with the result of what was measured until then.
fn stop(link: &Link) {
    link.set(Begin::Cancelled);
    // The process is alive: it is this one.
    let _ = kill_process(getpid(), Signal::INT);
}
