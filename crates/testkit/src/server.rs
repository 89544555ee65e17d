//! A server as a process.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail, ensure};
use parking_lot::Mutex;
use rustix::process::Signal;
use sys::listen::Address;

use crate::{Client, Digest, HANG, Process, eventually};

/// Warning of a server that stays root, as it does in a container that runs tests.
pub const ROOT_WARNING: &str = "this server runs as root";

/// Text by which a server says that a kernel cannot confine it.
const UNCONFINED: &str = "--sandbox auto: ";

/// A running server; killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    addresses: Vec<Address>,
    stderr: CapturedStream,
}

/// A process that has succeeded a server; killed when this is dropped.
#[derive(Debug)]
pub struct Successor(Process);

impl Successor {
    pub fn process(&self) -> Process {
        self.0
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        // It fails if it has ended already.
        let _ = self.0.signal(Signal::KILL);
    }
}

/// A process that has ended.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// The exit code; `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

impl Server {
    /// Pause after which one more signal is a second one, and not the first one sent twice.
    pub const SIGNAL_PAUSE: Duration = Duration::from_millis(200);

    /// Starts a server that listens on one address.
    pub fn start<S: AsRef<OsStr>>(exe: &Path, args: impl IntoIterator<Item = S>) -> anyhow::Result<Self> {
        let mut command = Command::new(exe);
        command.args(args);
        Self::start_command(command, 1)
    }

    /// Starts a server and waits for as many ready lines as it has addresses to listen on.
    ///
    /// # Errors
    /// It ends or prints no ready line; the error holds its standard error.
    pub fn start_command(mut command: Command, addresses: usize) -> anyhow::Result<Self> {
        sys::limits::raise_open_files();
        let mut child = spawn(&mut command)?;
        let stderr = CapturedStream::start(child.stderr.take());
        let lines = lines_of(child.stdout.take());
        let mut server = Self { child, addresses: Vec::new(), stderr };
        let begin = Instant::now();
        while server.addresses.len() < addresses {
            let line = lines.recv_timeout(HANG.saturating_sub(begin.elapsed()));
            let line = line.map_err(|_| anyhow!("{command:?} is not ready: {}", server.stderr()))?;
            let address = line.strip_prefix("listening on ").with_context(|| format!("ready line {line:?}"))?;
            let address = address.split_once("://").map_or(address, |(_, address)| address);
            server.addresses.push(address.parse().with_context(|| format!("ready line {line:?}"))?);
        }
        Ok(server)
    }

    pub fn process(&self) -> Process {
        Process::new(self.child.id())
    }

    /// Returns the first address, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.addresses[0]
    }

    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    pub fn connect(&self) -> anyhow::Result<Client> {
        Client::connect(self.address()).with_context(|| format!("cannot connect to {}", self.address()))
    }

    /// Returns its standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until its standard error has `text`: what it wrote before its ready line may be read after that.
    pub fn wait_for_stderr(&self, text: &str) -> anyhow::Result<()> {
        eventually(text, || Ok(self.stderr().contains(text))).with_context(|| self.stderr())
    }

    /// Makes it drain, by SIGTERM; [`Server::wait`] follows.
    pub fn terminate(&self) -> anyhow::Result<()> {
        self.process().terminate().context("cannot send SIGTERM")
    }

    /// Returns true while the process runs.
    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Asks `process`, which is this server or a successor of it, to start a successor, and waits until that has taken
    /// over.
    pub fn upgrade(&self, process: Process) -> anyhow::Result<Successor> {
        let successors = || {
            let said = self.stderr();
            let processes = said.lines().filter_map(|line| line.strip_suffix(" has taken over"));
            processes.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect::<Vec<u32>>()
        };
        let before = successors().len();
        process.signal(Signal::USR2)?;
        let mut successor = None;
        eventually("a successor takes over", || {
            successor = successors().get(before).copied();
            Ok(successor.is_some())
        })
        .with_context(|| format!("it said: {}", self.stderr()))?;
        Ok(Successor(Process::new(successor.context("no successor")?)))
    }

    /// Waits until it has ended by itself; a successor may still be writing to its standard error.
    pub fn wait_for_exit(&mut self) -> anyhow::Result<ExitStatus> {
        wait(&mut self.child).with_context(|| format!("its standard error: {}", self.stderr()))
    }

    /// Waits until all that could write to its standard error have ended: successors, too.
    pub fn wait_for_successors(&self) -> anyhow::Result<()> {
        eventually("its standard error ends", || Ok(self.stderr.reader.is_finished()))
    }

    /// Waits until it has ended by itself. [`Server::stderr`] is complete then.
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let status = self.wait_for_exit()?;
        self.wait_for_successors()?;
        Ok(status)
    }

    /// Drains it. It must have logged the line that says how to try it, and no warning or error.
    pub fn drain(&mut self) -> anyhow::Result<()> {
        ensure!(self.is_running()?, "it has ended by itself: {}", self.stderr());
        let status = self.stop()?;
        ensure!(status.success(), "{status}: {}", self.stderr());
        let said = self.stderr();
        let is_alarming = |line: &str| [" WARN ", "ERROR ", "panicked"].iter().any(|word| line.contains(word));
        let complains =
            |line: &str| is_alarming(line) && ![ROOT_WARNING, UNCONFINED].iter().any(|it| line.contains(it));
        let advises = said.lines().any(|line| line.starts_with("try: "));
        ensure!(advises && !said.lines().any(complains), "it said: {said}");
        Ok(())
    }

    /// Drains it with transfers in flight. The rest of each must arrive and have the digest `whole`; `meanwhile` checks
    /// anything else that must hold during the drain.
    pub fn drain_with_transfers(
        &mut self,
        transfers: Vec<Client>,
        whole: Digest,
        meanwhile: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.terminate()?;
        meanwhile()?;
        self.expect_refusal()?;
        for mut transfer in transfers {
            let got = transfer.digest(1 << 20, Duration::ZERO).context("a transfer in flight")?;
            ensure!(got == whole, "{} bytes, or wrong ones", got.len);
        }
        let status = self.wait()?;
        ensure!(status.code() == Some(0), "{status}: {}", self.stderr());
        Ok(())
    }

    /// Stops it by two signals: the first begins a drain that something in flight keeps from ending.
    pub fn stop_by_second_signal(&mut self) -> anyhow::Result<()> {
        self.terminate()?;
        self.expect_refusal()?;
        thread::sleep(Self::SIGNAL_PAUSE);
        ensure!(self.is_running()?, "nothing was in flight");
        let status = self.stop()?;
        ensure!(status.code() == Some(1), "{status}: {}", self.stderr());
        Ok(())
    }

    fn expect_refusal(&self) -> anyhow::Result<()> {
        eventually("new connections are refused", || Ok(Client::connect(self.address()).is_err()))
    }

    /// Drains it and waits.
    pub fn stop(&mut self) -> anyhow::Result<ExitStatus> {
        self.terminate()?;
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command that must end with this exit status, nothing on standard output, and one `error: ` line.
///
/// # Panics
/// It does not.
pub fn expect_failure(command: Command, code: i32) -> Finished {
    let finished = run_to_end(command).expect("it ends by itself");
    let errors = finished.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!((finished.code(), &*finished.stdout, errors), (Some(code), "", 1), "{finished:?}");
    finished
}

/// Runs a command that is expected to end by itself.
pub fn run_to_end(mut command: Command) -> anyhow::Result<Finished> {
    let mut child = spawn(&mut command)?;
    let (stdout, stderr) = (CapturedStream::start(child.stdout.take()), CapturedStream::start(child.stderr.take()));
    match wait(&mut child) {
        Ok(status) => Ok(Finished { status, stdout: stdout.finish(), stderr: stderr.finish() }),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error.context(format!("{command:?}: {}", stderr.text())))
        }
    }
}

fn spawn(command: &mut Command) -> anyhow::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().with_context(|| format!("cannot run {command:?}"))
}

fn wait(child: &mut Child) -> anyhow::Result<ExitStatus> {
    let begin = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if begin.elapsed() > HANG => bail!("process {} has not ended after {HANG:?}", child.id()),
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn lines_of(stdout: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()).map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// Output of a process, which a thread reads to its end.
#[derive(Debug)]
struct CapturedStream {
    text: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl CapturedStream {
    fn start(stream: Option<impl Read + Send + 'static>) -> Self {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let captured = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let Some(mut stream) = stream else { return };
            let mut chunk = [0; 4096];
            loop {
                match stream.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(n) => captured.lock().extend_from_slice(&chunk[..n]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
        Self { text, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock()).into_owned()
    }

    fn finish(self) -> String {
        // A reader that panicked has captured all that it read before.
        let _ = self.reader.join();
        String::from_utf8_lossy(&self.text.lock()).into_owned()
    }
}
