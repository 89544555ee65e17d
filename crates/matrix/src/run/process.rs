//! Child processes: started pinned and in a group of their own, ready when they say so, stopped with SIGTERM,
//! killed when dropped.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

use crate::run::machine::{self, Machine};

/// Limit for a server to be ready.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// The same behind a tracer or an interpreter of its instructions, which make its start slow.
const WRAPPED_READY_WITHIN: Duration = Duration::from_secs(60);
/// Limit for a server to stop after SIGTERM.
const STOP_WITHIN: Duration = Duration::from_secs(10);
const POLL_EVERY: Duration = Duration::from_millis(2);
/// Limit of a child's standard error that an error message quotes.
const QUOTE_BYTES_MAX: usize = 400;

/// A running child.
pub(crate) struct Process {
    child: Child,
    name: String,
    log: PathBuf,
    /// Standard output line by line, once somebody asked for it.
    lines: Option<Receiver<String>>,
    /// The server behind a prefix, of which `child` is only the shell.
    elsewhere: Option<Elsewhere>,
}

struct Elsewhere {
    prefix: Vec<String>,
    pid: u32,
}

impl Process {
    /// Starts `command` on `cpus`, its standard error in `log`.
    pub(crate) fn start(command: &[OsString], cpus: &[usize], log: &Path, stdout: Stdio) -> Result<Self> {
        Self::start_fed(command, cpus, log, Stdio::null(), stdout)
    }

    /// The same with a standard input.
    pub(crate) fn start_fed(
        command: &[OsString],
        cpus: &[usize],
        log: &Path,
        stdin: Stdio,
        stdout: Stdio,
    ) -> Result<Self> {
        let [program, arguments @ ..] = command else { bail!("no command") };
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
        let stderr = File::create(log).with_context(|| format!("{}", log.display()))?;
        let mut process = guarded(program);
        // A group of its own: the terminal's Ctrl-C is for the matrix, which then ends its children in order.
        process.args(arguments).stdin(stdin).stdout(stdout).stderr(stderr).process_group(0);
        let child = on_cpus(cpus, || process.spawn().with_context(|| format!("cannot start {name}")))?;
        Ok(Self { child, name, log: log.to_path_buf(), lines: None, elsewhere: None })
    }

    /// Starts `command` behind `prefix`, on the CPUs of the machine that is there.
    pub(crate) fn start_remote(prefix: &[String], command: &[OsString], cpus: &[usize], log: &Path) -> Result<Self> {
        let words = command.iter().map(|word| word.to_str().map(str::to_owned));
        let words = words.collect::<Option<Vec<String>>>().context("a word of the command is not UTF-8")?;
        let [program, ..] = words.as_slice() else { bail!("no command") };
        let name = program.rsplit('/').next().unwrap_or(program).to_owned();
        let stderr = File::create(log).with_context(|| format!("{}", log.display()))?;
        let there = machine::shell(prefix);
        let mut process = guarded(there.get_program());
        process.args(there.get_args()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).process_group(0);
        let mut child = process.spawn().with_context(|| format!("cannot start {}", prefix.join(" ")))?;
        // Standard input stays open as long as the child: its end is what kills the server there.
        let stdin = child.stdin.as_mut().ok_or_else(|| anyhow!("{name}: no standard input"))?;
        let written = stdin.write_all(machine::start_script(&words, cpus).as_bytes());
        let mut process = Self { child, name, log: log.to_path_buf(), lines: None, elsewhere: None };
        let pid = process.line(Instant::now() + READY_WITHIN)?;
        let pid = pid.and_then(|line| line.strip_prefix("pid ")?.trim().parse().ok());
        let pid = pid.ok_or_else(|| anyhow!("{} did not start{}", process.name, process.quote()))?;
        process.elsewhere = Some(Elsewhere { prefix: prefix.to_vec(), pid });
        written.with_context(|| prefix.join(" "))?;
        Ok(process)
    }

    /// The server's process, on the machine where it runs.
    pub(crate) fn pid(&self) -> u32 {
        self.elsewhere.as_ref().map_or_else(|| self.child.id(), |elsewhere| elsewhere.pid)
    }

    pub(crate) fn take_stdout(&mut self) -> Result<ChildStdout> {
        self.child.stdout.take().ok_or_else(|| anyhow!("{}: standard output is not piped", self.name))
    }

    /// Waits for lines `listening on ADDR` and returns the address of the one at `index`.
    pub(crate) fn wait_for_ready_line(&mut self, index: usize) -> Result<String> {
        self.ready_line(index, READY_WITHIN)
    }

    /// Does the same for a server behind a program that makes it slow.
    pub(crate) fn wait_for_wrapped_ready_line(&mut self, index: usize) -> Result<String> {
        self.ready_line(index, WRAPPED_READY_WITHIN)
    }

    fn ready_line(&mut self, index: usize, limit: Duration) -> Result<String> {
        let deadline = Instant::now() + limit;
        let mut last = None;
        for _ in 0..=index {
            last = self.line(deadline)?;
        }
        let address = last.and_then(|line| Some(line.trim().strip_prefix("listening on ")?.to_owned()));
        address.ok_or_else(|| anyhow!("{} did not start{}", self.name, self.quote()))
    }

    /// Writes a line to its standard input.
    pub(crate) fn tell(&mut self, line: &str) -> Result<()> {
        let Some(stdin) = &mut self.child.stdin else { bail!("{}: no standard input", self.name) };
        let told = stdin.write_all(format!("{line}\n").as_bytes());
        told.with_context(|| format!("{} does not listen{}", self.name, last_words(&self.log)))
    }

    /// Ends its standard input.
    pub(crate) fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Returns the next line of its standard output.
    ///
    /// # Errors
    /// There is none within `limit`, or it has ended.
    pub(crate) fn answer(&mut self, limit: Duration) -> Result<String> {
        let line = self.line(Instant::now() + limit)?;
        line.ok_or_else(|| anyhow!("{} has ended{}", self.name, self.quote()))
    }

    /// The next line of standard output, `None` at its end.
    fn line(&mut self, deadline: Instant) -> Result<Option<String>> {
        if self.lines.is_none() {
            let lines = BufReader::new(self.take_stdout()?).lines();
            let (sender, receiver) = mpsc::channel();
            // To the end, so that a talkative server does not block on a full pipe; nobody may listen any more.
            std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
            self.lines = Some(receiver);
        }
        let Some(lines) = &self.lines else { return Ok(None) };
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                bail!("{} has not answered in time{}", self.name, self.quote())
            }
        }
    }

    /// Waits until something accepts connections at `address`, for servers that do not say when they are ready.
    pub(crate) fn wait_for_accept(&mut self, address: SocketAddr) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        while TcpStream::connect(address).is_err() {
            if self.child.try_wait().context("wait")?.is_some() {
                bail!("{} did not start{}", self.name, self.quote());
            }
            if Instant::now() >= deadline {
                bail!("{} not ready after {} s{}", self.name, READY_WITHIN.as_secs(), self.quote());
            }
            std::thread::sleep(POLL_EVERY);
        }
        Ok(())
    }

    /// SIGTERM, then exit status 0 within a while; anything else is an error.
    pub(crate) fn stop(self) -> Result<()> {
        let (name, log) = (self.name.clone(), self.log.clone());
        let status = self.terminate()?;
        if !status.success() {
            bail!("{name} ended with {status} after SIGTERM{}", last_words(&log));
        }
        Ok(())
    }

    /// SIGTERM, then whatever exit status; a server that does not stop is killed, which is an error.
    pub(crate) fn terminate(mut self) -> Result<ExitStatus> {
        if let Some(end) = self.how_it_ended() {
            bail!(end);
        }
        match &self.elsewhere {
            Some(Elsewhere { prefix, pid }) => Machine::signal(prefix, *pid, "TERM"),
            None => kill(self.nix_pid()?, Signal::SIGTERM).map_err(anyhow::Error::from),
        }
        .with_context(|| format!("cannot stop {}", self.name))?;
        let deadline = Instant::now() + STOP_WITHIN;
        match self.wait_until(|| Instant::now() >= deadline)? {
            Some(status) => Ok(status),
            None => bail!("{} still ran {} s after SIGTERM{}", self.name, STOP_WITHIN.as_secs(), self.quote()),
        }
    }

    /// Describes a process that has ended without being asked to; `None` while it runs.
    pub(crate) fn how_it_ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("{} ended by itself with {status}{}", self.name, self.quote()))
    }

    /// The exit status, or `None` once `give_up` says so (the process then still runs).
    pub(crate) fn wait_until(&mut self, give_up: impl Fn() -> bool) -> Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.child.try_wait().context("wait")? {
                return Ok(Some(status));
            }
            if give_up() {
                return Ok(None);
            }
            std::thread::sleep(POLL_EVERY);
        }
    }

    /// `: last words on standard error`, for the end of an error message.
    pub(crate) fn quote(&self) -> String {
        last_words(&self.log)
    }

    fn nix_pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.child.id()).context("pid")?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(Elsewhere { prefix, pid }) = &self.elsewhere
            && matches!(self.child.try_wait(), Ok(None))
        {
            // If nobody answers there any more, the end of standard input has to do.
            drop(Machine::signal(prefix, *pid, "KILL"));
        }
        // With whatever it has started itself. Fails only when the child is gone already.
        if matches!(self.child.try_wait(), Ok(None))
            && let Ok(pid) = self.nix_pid()
        {
            let _ = killpg(pid, Signal::SIGKILL);
        }
        drop(self.child.wait());
    }
}

/// The end of a log as `: words`, or nothing.
fn last_words(log: &Path) -> String {
    let said = std::fs::read(log).unwrap_or_default();
    let tail = &said[said.len().saturating_sub(QUOTE_BYTES_MAX)..];
    let words = String::from_utf8_lossy(tail).split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() { words } else { format!(": {words}") }
}

/// The program, as a child that even a SIGKILL here does not leave behind.
fn guarded(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    sys::child::end_with_starter(&mut command);
    command
}

/// Runs `start` with this thread on `cpus`; a child started meanwhile inherits them.
fn on_cpus<T>(cpus: &[usize], start: impl FnOnce() -> Result<T>) -> Result<T> {
    let this_thread = Pid::from_raw(0);
    let before = sched_getaffinity(this_thread).context("sched_getaffinity")?;
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu).with_context(|| format!("CPU {cpu}"))?;
    }
    sched_setaffinity(this_thread, &set).with_context(|| format!("cannot use CPUs {cpus:?}"))?;
    let outcome = start();
    sched_setaffinity(this_thread, &before).context("sched_setaffinity")?;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (Process, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let command = ["sh", "-c", script].map(OsString::from);
        let process = Process::start(&command, &[0], &directory.path().join("log"), Stdio::piped()).unwrap();
        (process, directory)
    }

    #[test]
    fn a_server_is_ready_where_it_prints_and_stops_on_sigterm() {
        let (mut server, _log) =
            shell("trap 'exit 0' TERM; echo listening on 127.0.0.1:1234; while :; do sleep 0.01; done");
        assert_eq!(server.wait_for_ready_line(0).unwrap(), "127.0.0.1:1234");
        server.stop().unwrap();
    }

    #[test]
    fn a_server_with_two_addresses_can_be_asked_for_the_second() {
        let (mut server, _log) =
            shell("echo listening on 127.0.0.1:1; echo listening on 127.0.0.1:2; while :; do sleep 0.01; done");
        assert_eq!(server.wait_for_ready_line(1).unwrap(), "127.0.0.1:2");
    }

    #[test]
    fn a_server_that_fails_is_quoted() {
        let (mut server, _log) = shell("echo 'error: port is busy' >&2; exit 1");
        let error = server.wait_for_ready_line(0).unwrap_err().to_string();
        assert!(error.contains("did not start: error: port is busy"), "{error}");
    }

    #[test]
    fn a_server_that_ends_with_an_error_or_by_itself_is_an_error() {
        let (mut server, _log) =
            shell("trap 'echo oh >&2; exit 7' TERM; echo listening on 127.0.0.1:1; while :; do sleep 0.01; done");
        server.wait_for_ready_line(0).unwrap();
        let error = server.stop().unwrap_err().to_string();
        assert!(error.contains("exit status: 7") && error.ends_with(": oh"), "{error}");
        let (mut server, _log) = shell("exit 0");
        server.wait_until(|| false).unwrap();
        assert!(server.stop().unwrap_err().to_string().contains("ended by itself"));
    }

    #[test]
    fn a_child_runs_on_its_cpus_and_the_thread_keeps_its_own() {
        let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let (mut child, _log) = shell("grep Cpus_allowed_list /proc/self/status");
        let text = std::io::read_to_string(child.take_stdout().unwrap()).unwrap();
        assert_eq!(text.split_whitespace().last(), Some("0"));
        assert_eq!(sched_getaffinity(Pid::from_raw(0)).unwrap(), before);
    }

    fn behind(script: &str) -> (Process, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let (prefix, command) = (["env".to_owned()], ["sh", "-c", script].map(OsString::from));
        let process = Process::start_remote(&prefix, &command, &[0], &directory.path().join("log")).unwrap();
        (process, directory)
    }

    #[test]
    fn a_remote_server_has_its_pid_its_cpus_and_stops() {
        let (mut server, _log) =
            behind("trap 'exit 0' TERM; echo listening on 127.0.0.1:$(($$ % 65536)); while :; do sleep 0.01; done");
        let address: SocketAddr = server.wait_for_ready_line(0).unwrap().parse().unwrap();
        let port = address.port();
        assert_eq!(u32::from(port), server.pid() % 65_536, "the line is printed by the process that is named");
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
        server.stop().unwrap();
        let (mut server, _log) =
            behind("trap 'echo oh >&2; exit 7' TERM; echo listening on 127.0.0.1:1; while :; do sleep 0.01; done");
        server.wait_for_ready_line(0).unwrap();
        let error = server.stop().unwrap_err().to_string();
        assert!(error.contains("exit status: 7") && error.ends_with(": oh"), "{error}");
        let (mut server, _log) = behind("echo 'error: no such file' >&2; exit 1");
        assert!(server.wait_for_ready_line(0).unwrap_err().to_string().contains("error: no such file"));
    }

    #[test]
    fn a_dropped_remote_server_ends_and_so_with_its_starter() {
        let gone = |pid: u32| {
            let deadline = Instant::now() + STOP_WITHIN;
            let pid = Pid::from_raw(i32::try_from(pid).unwrap());
            while kill(pid, None).is_ok() {
                assert!(Instant::now() < deadline, "{pid} still runs");
                std::thread::sleep(POLL_EVERY);
            }
        };
        let (server, _log) = behind("sleep 600");
        let pid = server.pid();
        drop(server);
        gone(pid);
        let (mut server, _log) = behind("sleep 600");
        let pid = server.pid();
        // What the kernel does to our pipes when we are killed; the shell there is killed with us.
        drop(server.child.stdin.take());
        server.elsewhere = None;
        drop(server);
        gone(pid);
    }

    #[test]
    fn a_dropped_child_is_gone() {
        let (child, _log) = shell("sleep 600");
        let pid = child.nix_pid().unwrap();
        drop(child);
        assert_eq!(kill(pid, None), Err(nix::errno::Errno::ESRCH));
    }
}
