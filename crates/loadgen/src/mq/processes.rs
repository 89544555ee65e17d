//! Clients that are processes of their own, as those of the original were.
//!
//! Each is this program once more. Through its standard input it gets its plan and, when all are ready, the edges of the
//! window; the end of its input, also that of a parent that was killed, is the end of its run. Through its standard
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
    account::Written,
    answer::Lengths,
    client::{Client, Place, collector},
    conduct::{Crew, Edges, News},
    log::Log,
    plan::MqLoad,
};
use crate::{
    engine::{Collector, LiveStats, Timeline, Window},
    request_log::Kept,
};

/// The subcommand that makes this program a client.
pub const CLIENT_COMMAND: &str = "mq-client";

/// How often a client says how far it is.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How long a client may take to end.
const END_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// A line has so many requests for the log at most: every client may have one under way at once.
const REQUESTS_A_LINE: usize = 256;

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
    /// Of those for the log.
    Requests(Kept),
    Report(Box<Written>),
}

/// The clients, seen from the process that started them.
pub(super) struct Processes {
    clients: Vec<One>,
    live: Arc<LiveStats>,
    news: Receiver<News>,
}

struct One {
    child: Child,
    stdin: Option<ChildStdin>,
    listener: Option<JoinHandle<()>>,
}

impl Processes {
    pub(super) fn start(plan: &MqLoad, log: Option<&Log>) -> Result<Self, MqError> {
        let program = std::env::current_exe().map_err(MqError::Start)?;
        let (sender, news) = channel();
        let mut started = Self { clients: Vec::new(), live: Arc::new(LiveStats::new(plan.clients)), news };
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
            let hear = move |stdout| listen(stdout, index, &live, log.as_ref(), &sender);
            let listener = stdout.map(|stdout| std::thread::spawn(move || hear(stdout)));
            let task = serde_json::to_string(&Task { index, plan: plan.clone() });
            if let (Some(stdin), Ok(task)) = (&mut stdin, task) {
                // One that has ended already says so by ending without a word.
                let _ = writeln!(stdin, "{task}");
            }
            started.clients.push(One { child, stdin, listener });
        }
        Ok(started)
    }
}

/// Hears one client to its end.
fn listen(stdout: ChildStdout, index: usize, live: &LiveStats, log: Option<&Log>, news: &Sender<News>) {
    let mut ended = Err(MqError::Lost("its output ended".to_owned()));
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Line::Ready) => drop(news.send(News::Ready)),
            Ok(Line::Live { ok, failed }) => live.set(index, ok, failed),
            Ok(Line::Requests(kept)) => {
                if let Some(log) = log {
                    log.add(index, kept);
                }
            }
            Ok(Line::Failed(why)) => ended = Err(MqError::Lost(why)),
            Ok(Line::Report(written)) => {
                ended =
                    written.read().map(Box::new).ok_or_else(|| MqError::Lost("a report of another kind".to_owned()));
            }
            Err(error) => ended = Err(MqError::Lost(error.to_string())),
        }
    }
    // Nobody listens any more after an error.
    let _ = news.send(News::Ended(ended));
}

impl Crew for Processes {
    fn news(&self) -> &Receiver<News> {
        &self.news
    }

    fn live(&self) -> &LiveStats {
        &self.live
    }

    fn go(&mut self, edges: Edges) {
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
        let deadline = Instant::now() + END_WITHIN;
        for client in &mut self.clients {
            while matches!(client.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(LOOK_EVERY);
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

/// What [`CLIENT_COMMAND`] does.
///
/// # Errors
/// There is no task on standard input, or nobody reads what is said.
pub fn run_client_process() -> std::io::Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let Task { index, plan } = serde_json::from_str(&line)?;
    let (window, lengths, live) = (Arc::new(Window::default()), Lengths::of(&plan), Arc::new(LiveStats::new(1)));
    let place = match Place::open(&plan) {
        Ok(place) => place,
        Err(error) => return say(&Line::Failed(error.to_string())),
    };
    let collector = match collector(&plan) {
        Ok(collector) => collector,
        Err(error) => return say(&Line::Failed(error.to_string())),
    };
    let slicer = collector.as_ref().map(Collector::slicer);
    let client = match Client::prepare(&plan, &place, &window, &lengths, index, (&live, 0), slicer) {
        Ok(client) => client,
        Err(error) => return say(&Line::Failed(error.to_string())),
    };
    say(&Line::Ready)?;
    line.clear();
    std::io::stdin().read_line(&mut line)?;
    match serde_json::from_str::<Edges>(&line) {
        Ok(edges) => edges.tell(&window),
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
            std::thread::sleep(TELL_EVERY);
            let (ok, failed) = told.counts();
            if say(&Line::Live { ok, failed }).is_err() {
                return;
            }
        }
    });
    let mut report = client.run();
    report.timeline = collector.and_then(Collector::finish);
    for piece in report.kept.take().into_iter().flat_map(|kept| kept.pieces(REQUESTS_A_LINE)) {
        say(&Line::Requests(piece))?;
    }
    say(&Line::Report(Box::new(Written::from(&report))))
}

fn say(line: &Line) -> std::io::Result<()> {
    let text = serde_json::to_string(line)? + "\n";
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
