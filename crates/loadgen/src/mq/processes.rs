//! Clients that are processes of their own, as those of the original were.
//!
//! Each is this program once more. Through its standard input it gets its plan and, when all are ready, the edges of
//! the window; the end of its input, also that of a parent that was killed, is the end of its run. Through its standard
//! output it says, a line at a time, that it is ready, how far it is, which requests are for the log, and its report.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{
    MqError,
    client::{Client, ClientResources, collector},
    coordinator::{ClientEvent, Clients, Edges},
    load::MqLoad,
    log::Log,
    recorder::ReportMessage,
    reply::Lengths,
};
use crate::{
    engine::{Collector, LiveStats, Timeline, Window},
    request_log::KeptRequests,
};

/// Subcommand that makes this program a client.
pub const CLIENT_COMMAND: &str = "mq-client";

/// Interval at which a client reports its progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Time within which a client has to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Limit of requests for the log in one line: every client may have one under way at once.
const REQUESTS_PER_LINE: usize = 256;

/// The first line of a client's input.
#[derive(Debug, Deserialize, Serialize)]
struct Task {
    index: usize,
    plan: MqLoad,
}

/// A line of its output.
#[derive(Debug, Deserialize, Serialize)]
enum Line {
    Ready,
    Live {
        ok: u64,
        failed: u64,
    },
    Failed(String),
    /// Requests for the log.
    Requests(KeptRequests),
    Report(Box<ReportMessage>),
}

/// The clients, seen from the process that started them.
pub(super) struct Processes {
    clients: Vec<ClientProcess>,
    live: Arc<LiveStats>,
    events: Receiver<ClientEvent>,
}

struct ClientProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    listener: Option<JoinHandle<()>>,
}

impl Processes {
    pub(super) fn start(plan: &MqLoad, log: Option<&Log>) -> Result<Self, MqError> {
        let program = std::env::current_exe().map_err(MqError::Start)?;
        let (sender, events) = channel();
        let mut started = Self { clients: Vec::new(), live: Arc::new(LiveStats::new(plan.clients)), events };
        for index in 0..plan.clients {
            // Ctrl-C in a terminal is for this process, which then ends the others in order.
            let mut child = Command::new(&program)
                .arg(CLIENT_COMMAND)
                .process_group(0)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(MqError::Start)?;
            let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
            let (live, log, sender) = (Arc::clone(&started.live), log.cloned(), sender.clone());
            let read = move |stdout| read_output(stdout, index, &live, log.as_ref(), &sender);
            let listener = stdout.map(|stdout| std::thread::spawn(move || read(stdout)));
            let task = serde_json::to_string(&Task { index, plan: plan.clone() });
            if let (Some(stdin), Ok(task)) = (&mut stdin, task) {
                // One that has ended already says so by ending without a word.
                let _ = writeln!(stdin, "{task}");
            }
            started.clients.push(ClientProcess { child, stdin, listener });
        }
        Ok(started)
    }
}

/// Reads the output of one client to its end.
fn read_output(stdout: ChildStdout, index: usize, live: &LiveStats, log: Option<&Log>, events: &Sender<ClientEvent>) {
    let mut ended = Err(MqError::Lost("its output ended".to_owned()));
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Line::Ready) => drop(events.send(ClientEvent::Ready)),
            Ok(Line::Live { ok, failed }) => live.set(index, ok, failed),
            Ok(Line::Requests(kept)) => {
                if let Some(log) = log {
                    log.add(index, kept);
                }
            }
            Ok(Line::Failed(why)) => ended = Err(MqError::Lost(why)),
            Ok(Line::Report(message)) => {
                ended =
                    message.read().map(Box::new).ok_or_else(|| MqError::Lost("a report of another kind".to_owned()));
            }
            Err(error) => ended = Err(MqError::Lost(error.to_string())),
        }
    }
    // The receiver is gone after an error.
    let _ = events.send(ClientEvent::Ended(ended));
}

impl Clients for Processes {
    fn events(&self) -> &Receiver<ClientEvent> {
        &self.events
    }

    fn live(&self) -> &LiveStats {
        &self.live
    }

    fn start(&mut self, edges: Edges) {
        let Ok(line) = serde_json::to_string(&edges) else { return };
        for stdin in self.clients.iter_mut().filter_map(|client| client.stdin.as_mut()) {
            // One that has ended says so by ending.
            let _ = writeln!(stdin, "{line}");
        }
    }

    /// Each has its own, which comes with its report.
    fn timeline(&mut self) -> Option<Timeline> {
        None
    }

    fn stop(&mut self) {
        for client in &mut self.clients {
            client.stdin = None;
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.stop();
        let deadline = Instant::now() + EXIT_TIMEOUT;
        for client in &mut self.clients {
            while matches!(client.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(POLL_INTERVAL);
            }
            // Both fail only when it has ended, as it should have.
            let _ = client.child.kill();
            let _ = client.child.wait();
            if let Some(listener) = client.listener.take() {
                // Its output has ended with it.
                let _ = listener.join();
            }
        }
    }
}

/// Runs [`CLIENT_COMMAND`].
///
/// # Errors
/// There is no task on standard input, or the output is closed.
pub fn run_client_process() -> std::io::Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let Task { index, plan } = serde_json::from_str(&line)?;
    let (window, lengths, live) = (Arc::new(Window::default()), Lengths::of(&plan), Arc::new(LiveStats::new(1)));
    let resources = match ClientResources::open(&plan) {
        Ok(resources) => resources,
        Err(error) => return write_line(&Line::Failed(error.to_string())),
    };
    let collector = match collector(&plan) {
        Ok(collector) => collector,
        Err(error) => return write_line(&Line::Failed(error.to_string())),
    };
    let slicer = collector.as_ref().map(Collector::slicer);
    let client = match Client::prepare(&plan, &resources, &window, &lengths, index, (&live, 0), slicer) {
        Ok(client) => client,
        Err(error) => return write_line(&Line::Failed(error.to_string())),
    };
    write_line(&Line::Ready)?;
    line.clear();
    std::io::stdin().read_line(&mut line)?;
    match serde_json::from_str::<Edges>(&line) {
        Ok(edges) => edges.apply(&window),
        // The run ended before it began.
        Err(_) => window.stop(0),
    }
    let (watched, told) = (Arc::clone(&window), Arc::clone(&live));
    std::thread::spawn(move || {
        // The end of the input says that all is over; an error is no better.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        watched.stop(crate::clock::now());
    });
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(REPORT_INTERVAL);
            let (ok, failed) = told.counts();
            if write_line(&Line::Live { ok, failed }).is_err() {
                return;
            }
        }
    });
    let mut report = client.run();
    report.timeline = collector.and_then(Collector::finish);
    for piece in report.kept.take().into_iter().flat_map(|kept| kept.pieces(REQUESTS_PER_LINE)) {
        write_line(&Line::Requests(piece))?;
    }
    write_line(&Line::Report(Box::new(ReportMessage::from(&report))))
}

fn write_line(line: &Line) -> std::io::Result<()> {
    let text = serde_json::to_string(line)? + "\n";
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
