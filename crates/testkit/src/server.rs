//! A server as a process.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail, ensure};
use sys::listen::Address;

use crate::{Client, Digest, HANG, Process, eventually};

/// A running server; killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    addresses: Vec<Address>,
    stderr: Kept,
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
    /// Starts a server with one `--listen`, or none.
    pub fn start<S: AsRef<OsStr>>(exe: &Path, args: impl IntoIterator<Item = S>) -> anyhow::Result<Self> {
        let mut command = Command::new(exe);
        command.args(args);
        Self::start_command(command, 1)
    }

    /// Starts a server and waits for as many ready lines as it has addresses to listen on.
    ///
    /// # Errors
    /// Its standard error, when it ends or keeps silent instead.
    pub fn start_command(mut command: Command, addresses: usize) -> anyhow::Result<Self> {
        sys::limits::raise_open_files();
        let mut child = spawn(&mut command)?;
        let stderr = Kept::start(child.stderr.take());
        let lines = lines_of(child.stdout.take());
        let mut server = Self { child, addresses: Vec::new(), stderr };
        let begin = Instant::now();
        while server.addresses.len() < addresses {
            let line = lines.recv_timeout(HANG.saturating_sub(begin.elapsed()));
            let line = line.map_err(|_| anyhow!("{command:?} is not ready: {}", server.stderr()))?;
            let address = line.strip_prefix("listening on ").with_context(|| format!("ready line {line:?}"))?;
            server.addresses.push(address.parse().with_context(|| format!("ready line {line:?}"))?);
        }
        Ok(server)
    }

    pub fn process(&self) -> Process {
        Process::new(self.child.id())
    }

    /// The first address, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.addresses[0]
    }

    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    pub fn connect(&self) -> anyhow::Result<Client> {
        Client::connect(self.address()).with_context(|| format!("cannot connect to {}", self.address()))
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Asks it to drain (SIGTERM); [`Server::wait`] follows.
    pub fn terminate(&self) -> anyhow::Result<()> {
        self.process().terminate().context("cannot send SIGTERM")
    }

    /// Still running?
    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits until it has ended by itself; then [`Server::stderr`] is all it has said.
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let status = wait(&mut self.child).with_context(|| format!("its standard error: {}", self.stderr()))?;
        eventually("its standard error ends", || Ok(self.stderr.reader.is_finished()))?;
        Ok(status)
    }

    /// Drains it; it must have nothing to complain about, and have said what to try.
    pub fn drain(&mut self) -> anyhow::Result<()> {
        ensure!(self.is_running()?, "it has ended by itself: {}", self.stderr());
        let status = self.stop()?;
        ensure!(status.success(), "{status}: {}", self.stderr());
        let said = self.stderr();
        let complains = |line: &str| [" WARN ", "ERROR ", "panicked"].iter().any(|word| line.contains(word));
        let advises = said.lines().any(|line| line.starts_with("try: "));
        ensure!(advises && !said.lines().any(complains), "it said: {said}");
        Ok(())
    }

    /// Lets it drain with transfers in flight: what is left of each must arrive, and has this digest. Whatever else
    /// has to be so during the drain is up to `meanwhile`.
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

    /// Stops it by two signals while something keeps the drain, which the first one begins, from ending.
    pub fn stop_by_second_signal(&mut self) -> anyhow::Result<()> {
        self.terminate()?;
        self.expect_refusal()?;
        ensure!(self.is_running()?, "there was nothing in flight");
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
        // It has ended by itself, or now has to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs to the end, which must come with this exit status, nothing on standard output, and one line of error.
///
/// # Panics
/// Something of that is not so.
pub fn expect_failure(command: Command, code: i32) -> Finished {
    let finished = run_to_end(command).expect("it ends by itself");
    let errors = finished.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!((finished.code(), &*finished.stdout, errors), (Some(code), "", 1), "{finished:?}");
    finished
}

/// Runs a command that is expected to end by itself.
pub fn run_to_end(mut command: Command) -> anyhow::Result<Finished> {
    let mut child = spawn(&mut command)?;
    let (stdout, stderr) = (Kept::start(child.stdout.take()), Kept::start(child.stderr.take()));
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

/// A stream that is read to its end by a thread of its own.
#[derive(Debug)]
struct Kept {
    text: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Kept {
    fn start(stream: Option<impl Read + Send + 'static>) -> Self {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let kept = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let Some(mut stream) = stream else { return };
            let mut chunk = [0; 4096];
            loop {
                match stream.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(n) => kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..n]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
        Self { text, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    fn finish(self) -> String {
        // A reader that panicked has kept what it read before.
        let _ = self.reader.join();
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}
