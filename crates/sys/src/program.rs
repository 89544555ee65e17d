//! Programs that are given input, and whose output is read, by a deadline and within limits.
//!
//! A program runs in a process group of its own. Whatever is left of that when the [`Program`] is dropped is killed, so
//! nothing in the group outlives it; a process that has made itself a session of its own does, but holds nobody up: output
//! ends when the program ends, even where another process keeps its pipes open.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

use crate::eventfd::EventFd;

/// Bytes that are read at a time, as many as a pipe usually holds.
const READ_BYTES: usize = 64 << 10;
/// Time between two looks at whether anybody waits for the output.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Limits of one run.
#[derive(Clone, Copy, Debug)]
pub struct ProgramLimits {
    /// Time from the start to the end.
    pub time: Duration,
    /// Length of the longest output, in bytes.
    pub output_bytes_max: usize,
    /// Length of the error output that is kept, in bytes; more is read and discarded.
    pub errors_bytes_max: usize,
}

/// Reason why there is no output.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("cannot be started")]
    Start(#[source] io::Error),
    #[error("not done in time")]
    TimedOut,
    #[error("too much output")]
    TooLong,
    /// Nobody waits for it, or the server stops.
    #[error("cancelled")]
    Cancelled,
    #[error("cannot be waited for")]
    Failed(#[source] io::Error),
}

/// Program that runs.
#[derive(Debug)]
pub struct Program {
    child: Child,
    group: Pid,
    exit: OwnedFd,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    output: Vec<u8>,
    errors: Vec<u8>,
    deadline: Option<Instant>,
    has_exited: bool,
    limits: ProgramLimits,
    stop: Arc<EventFd>,
}

impl Program {
    /// Starts a program. It is killed as soon as `stop` is poked.
    ///
    /// # Errors
    /// Those of fork(2), execve(2) and pidfd_open(2).
    pub fn start(command: &mut Command, limits: ProgramLimits, stop: Arc<EventFd>) -> Result<Self, ProgramError> {
        let pipes = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
        let [stdin, stdout, stderr] = pipes;
        let started = command.stdin(stdin).stdout(stdout).stderr(stderr).process_group(0).spawn();
        let mut child = started.map_err(ProgramError::Start)?;
        let group = Pid::from_child(&child);
        let exit = pidfd_open(group, PidfdFlags::empty()).inspect_err(|_| {
            end(&mut child, group);
        });
        let exit = exit.map_err(|error| ProgramError::Start(error.into()))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let program = Self {
            child,
            group,
            exit,
            stdin,
            stdout,
            stderr,
            output: Vec::new(),
            errors: Vec::new(),
            deadline: Instant::now().checked_add(limits.time),
            has_exited: false,
            limits,
            stop,
        };
        program.make_nonblocking().map_err(|error| ProgramError::Failed(error.into()))?;
        Ok(program)
    }

    fn make_nonblocking(&self) -> rustix::io::Result<()> {
        let ends = [
            self.stdin.as_ref().map(AsFd::as_fd),
            self.stdout.as_ref().map(AsFd::as_fd),
            self.stderr.as_ref().map(AsFd::as_fd),
        ];
        ends.into_iter().flatten().try_for_each(|end| rustix::io::ioctl_fionbio(end, true))
    }

    /// Gives the program its input, and waits until it has closed its output or ended. Returns its output.
    /// `is_awaited` is asked now and then if anybody still waits.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub fn output(&mut self, mut input: &[u8], is_awaited: impl Fn() -> bool) -> Result<Vec<u8>, ProgramError> {
        while self.stdout.is_some() && !self.has_exited {
            self.turn(&mut input, &is_awaited)?;
        }
        self.stdin = None;
        self.read_output()?;
        Ok(std::mem::take(&mut self.output))
    }

    /// Waits until the program has ended.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub fn wait(&mut self) -> Result<(), ProgramError> {
        self.stdout = None;
        while !self.has_exited {
            self.turn(&mut &[][..], &|| true)?;
        }
        Ok(())
    }

    /// Returns the beginning of what the program has written to its error output so far.
    pub fn errors(&mut self) -> &[u8] {
        self.read_errors();
        &self.errors
    }

    /// Waits for something to do, and does it.
    fn turn(&mut self, input: &mut &[u8], is_awaited: &impl Fn() -> bool) -> Result<(), ProgramError> {
        if input.is_empty() {
            self.stdin = None;
        }
        let now = Instant::now();
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(now));
        match left {
            Some(Duration::ZERO) => return Err(ProgramError::TimedOut),
            _ if !is_awaited() => return Err(ProgramError::Cancelled),
            _ => {}
        }
        let ready = self.poll(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)))?;
        if ready.stop {
            return Err(ProgramError::Cancelled);
        }
        if ready.stdin {
            self.write(input);
        }
        if ready.stdout {
            self.read_output()?;
        }
        if ready.stderr {
            self.read_errors();
        }
        self.has_exited = ready.exit;
        Ok(())
    }

    fn poll(&self, timeout: Duration) -> Result<Ready, ProgramError> {
        // An absent end is represented by one that is watched for nothing.
        let nothing = (self.exit.as_fd(), PollFlags::empty());
        let ends = [
            (self.stop.as_fd(), PollFlags::IN),
            (self.exit.as_fd(), PollFlags::IN),
            self.stdin.as_ref().map_or(nothing, |end| (end.as_fd(), PollFlags::OUT)),
            self.stdout.as_ref().map_or(nothing, |end| (end.as_fd(), PollFlags::IN)),
            self.stderr.as_ref().map_or(nothing, |end| (end.as_fd(), PollFlags::IN)),
        ];
        let mut ends = ends.map(|(end, flags)| PollFd::from_borrowed_fd(end, flags));
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        match poll(&mut ends, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ProgramError::Failed(error.into())),
        }
        let [stop, exit, stdin, stdout, stderr] = ends.map(|end| !end.revents().is_empty());
        Ok(Ready {
            stop,
            exit,
            stdin: stdin && self.stdin.is_some(),
            stdout: stdout && self.stdout.is_some(),
            stderr: stderr && self.stderr.is_some(),
        })
    }

    fn write(&mut self, input: &mut &[u8]) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(input) {
            Ok(written) => *input = &input[written..],
            Err(error) if is_temporary(&error) => {}
            // A program need not read all of its input.
            Err(_) => self.stdin = None,
        }
    }

    fn read_output(&mut self) -> Result<(), ProgramError> {
        let room = self.limits.output_bytes_max.saturating_sub(self.output.len());
        let Some(stdout) = &mut self.stdout else { return Ok(()) };
        // One byte above the limit tells a long output from the longest.
        let read = read_available(stdout, room.saturating_add(1), &mut self.output);
        if self.output.len() > self.limits.output_bytes_max {
            return Err(ProgramError::TooLong);
        }
        if !read.map_err(ProgramError::Failed)? {
            self.stdout = None;
        }
        Ok(())
    }

    /// Reads as much as there is, at most a pipe's contents, and keeps what there is room for.
    fn read_errors(&mut self) {
        let Some(stderr) = &mut self.stderr else { return };
        let mut read = Vec::new();
        if !matches!(read_available(stderr, READ_BYTES, &mut read), Ok(true)) {
            self.stderr = None;
        }
        let room = self.limits.errors_bytes_max.saturating_sub(self.errors.len());
        self.errors.extend_from_slice(&read[..read.len().min(room)]);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        end(&mut self.child, self.group);
    }
}

/// Kills a group, and takes note of the end of its first process: before that, its number cannot mean another group.
fn end(child: &mut Child, group: Pid) {
    // Both fail only where nothing is left to do.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

#[derive(Clone, Copy)]
struct Ready {
    stop: bool,
    exit: bool,
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

/// Reads at most `limit` bytes without waiting. Returns false at the end of the input.
fn read_available(from: &mut impl Read, limit: usize, to: &mut Vec<u8>) -> io::Result<bool> {
    let mut left = limit;
    while left > 0 {
        let (start, size) = (to.len(), left.min(READ_BYTES));
        to.resize(start + size, 0);
        let outcome = from.read(&mut to[start..]);
        to.truncate(start + *outcome.as_ref().unwrap_or(&0));
        match outcome {
            Ok(0) => return Ok(false),
            Ok(read) => left -= read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ProgramLimits =
        ProgramLimits { time: Duration::from_secs(60), output_bytes_max: 100_000, errors_bytes_max: 10 };

    fn start(script: &str, limits: ProgramLimits) -> (Program, Arc<EventFd>) {
        let stop = Arc::new(EventFd::new().unwrap());
        let program = Program::start(Command::new("sh").args(["-c", script]), limits, Arc::clone(&stop));
        (program.unwrap(), stop)
    }

    fn run(script: &str, input: &[u8]) -> Result<Vec<u8>, ProgramError> {
        let mut program = start(script, LIMITS).0;
        let output = program.output(input, || true)?;
        program.wait()?;
        Ok(output)
    }

    #[test]
    fn a_program_gets_its_input_and_gives_its_output() {
        let input: Vec<u8> = (0..90_000).map(|at| b'a' + (at % 23) as u8).collect();
        assert_eq!(run("cat", &input).unwrap(), input);
        assert_eq!(run("exec 0<&-; echo early", &input).unwrap(), b"early\n");
        assert_eq!(run("true", b"").unwrap(), b"");
        assert_eq!(run("echo out; kill -9 $$", b"").unwrap(), b"out\n");
        assert!(matches!(
            Program::start(&mut Command::new("/nowhere"), LIMITS, Arc::new(EventFd::new().unwrap())),
            Err(ProgramError::Start(_))
        ));
    }

    #[test]
    fn output_has_a_limit_and_errors_are_cut() {
        assert!(matches!(run("yes", b""), Err(ProgramError::TooLong)));
        let output = |bytes: usize| run(&format!("head -c {bytes} /dev/zero"), b"");
        assert_eq!(output(LIMITS.output_bytes_max).unwrap().len(), LIMITS.output_bytes_max);
        assert!(matches!(output(LIMITS.output_bytes_max + 1), Err(ProgramError::TooLong)));
        let (mut program, _stop) = start("head -c 1000000 /dev/zero >&2; echo done", LIMITS);
        assert_eq!(program.output(b"", || true).unwrap(), b"done\n");
        assert_eq!(program.errors(), [0; 10]);
    }

    /// It waits for ever, so it has ended by the limit.
    #[test]
    fn a_program_that_hangs_is_ended() {
        let short = ProgramLimits { time: Duration::from_millis(50), ..LIMITS };
        let (mut program, _stop) = start("sleep 1000", short);
        assert!(matches!(program.output(b"", || true), Err(ProgramError::TimedOut)));
        let (mut program, _stop) = start("exec 1>&-; sleep 1000", short);
        assert_eq!(program.output(b"", || true).unwrap(), b"", "its output has ended, if not the program");
        assert!(matches!(program.wait(), Err(ProgramError::TimedOut)));
        let (mut program, _stop) = start("sleep 1000", LIMITS);
        assert!(matches!(program.output(b"", || false), Err(ProgramError::Cancelled)));
        let (mut program, stop) = start("sleep 1000", LIMITS);
        stop.poke();
        assert!(matches!(program.output(b"", || true), Err(ProgramError::Cancelled)));
    }

    #[test]
    fn no_process_of_the_group_outlives_the_program() {
        let (mut program, _stop) = start("sleep 1000 & echo $!", LIMITS);
        let child = program.output(b"", || true).unwrap();
        program.wait().unwrap();
        let stat = format!("/proc/{}/stat", String::from_utf8(child).unwrap().trim());
        let is_alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        assert!(is_alive(), "it has ended its output, although its child keeps the pipe open");
        drop(program);
        while is_alive() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
