//! An agent as the coordinator sees it: a process with two streams.

use std::{
    io::{self, BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

use super::{
    super::eprint_line,
    message::{FromAgent, ToAgent, receive, send},
    unix_nanos,
};

/// Limit of the time between the end of an agent's output and its own.
const ENDING_MAX: Duration = Duration::from_secs(2);

/// Event of an agent.
pub(super) enum Event {
    /// It said something, at this time since 1970.
    Said(Box<FromAgent>, u64),
    /// Nothing more will come, for this reason.
    Gone(Option<io::Error>),
}

/// An agent's process, and the way to it.
pub(super) struct AgentProcess {
    child: Child,
    input: ChildStdin,
    /// Disconnected once all that it said of its errors has been passed on.
    errors_end: Receiver<()>,
}

impl AgentProcess {
    /// Starts `program` by the command that reaches its machine, and sends what it says to `events` under a number.
    pub(super) fn start(
        command: &str,
        program: &str,
        number: usize,
        events: Sender<(usize, Event)>,
    ) -> io::Result<Self> {
        // The shell lets the command have quotes; program and argument are words of their own.
        let mut child = Command::new("sh")
            .args(["-c", &format!("exec {command} \"$@\""), "sh", program, "agent"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C on a terminal is for the coordinator, which then tells the agents.
            .process_group(0)
            .spawn()?;
        let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = taken else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let name = command.to_owned();
        let (errors_last, errors_end) = channel();
        std::thread::spawn(move || {
            let _until_the_end: Sender<()> = errors_last;
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                eprint_line(&format!("{name}: {line}"));
            }
        });
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let event = match receive(&mut output) {
                    Ok(Some(message)) => Event::Said(Box::new(message), unix_nanos()),
                    Ok(None) => Event::Gone(None),
                    Err(error) => Event::Gone(Some(error)),
                };
                let is_over = matches!(event, Event::Gone(_));
                // Nobody listens any more at the end of the coordinator.
                if events.send((number, event)).is_err() || is_over {
                    return;
                }
            }
        });
        Ok(Self { child, input, errors_end })
    }

    /// Sends a message. If the agent has gone, the end of its output says so.
    pub(super) fn tell(&mut self, message: &ToAgent) {
        let _ = send(&mut self.input, message);
    }

    /// Waits for the end of a process whose output has ended, and says how it ended.
    pub(super) fn ending(&mut self) -> String {
        // What closes its output without ending would be waited for in vain.
        let deadline = Instant::now() + ENDING_MAX;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let ended = self.child.wait();
        // Its own words come before ours about it; a process of its own may keep the stream open.
        let _ = self.errors_end.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        match ended {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // An agent ends with its input, too; this is for one that hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
