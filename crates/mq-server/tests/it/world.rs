//! A test's own queue, root and FIFO directory, and servers for them, in this process or in another.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use mq_server::{
    Directories, Engine, Options, Outcome, OwnedQueue,
    copy::{CopyKind, CopyOptions, CopyVisitor, FileCopy},
    dispatch::{DispatchKind, WorkerOptions},
};
use service::Budget;
use sys::mqueue::{Access, Queue, QueueName, QueueSize};
use testkit::{HANG, Server, eventually};

pub(crate) const SIZE: QueueSize = QueueSize { messages_max: 10, message_bytes_max: 8192 };

/// A timeout longer than any test.
pub(crate) const NEVER: Duration = Duration::from_secs(600);

pub(crate) struct World {
    directory: tempfile::TempDir,
    pub(crate) queue: QueueName,
    fifos: AtomicU32,
}

impl World {
    pub(crate) fn new() -> Self {
        static WORLDS: AtomicU32 = AtomicU32::new(0);
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let directory = tempfile::tempdir().unwrap();
        for name in ["root", "fifos"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let queue = format!("/quintet-it-{}-{number}", std::process::id()).parse().unwrap();
        Self { directory, queue, fifos: AtomicU32::new(0) }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub(crate) fn fifo_dir(&self) -> PathBuf {
        self.directory.path().join("fifos")
    }

    /// Returns a name that no FIFO has had.
    pub(crate) fn fresh_name(&self) -> String {
        format!("fifo-{}", self.fifos.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes a file of this many bytes, which differ from offset to offset.
    pub(crate) fn file(&self, name: &str, bytes: usize) -> Vec<u8> {
        let contents: Vec<u8> =
            (0..bytes as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        std::fs::write(self.root().join(name), &contents).unwrap();
        contents
    }

    pub(crate) fn send(&self, message: impl AsRef<[u8]>) {
        let queue = Queue::open(&self.queue, Access::Send).unwrap();
        queue.send_within(message.as_ref(), 0, HANG).unwrap();
    }

    /// Returns the number of messages in the queue, if there is one.
    pub(crate) fn queued(&self) -> Option<usize> {
        Queue::open(&self.queue, Access::Receive).ok().map(|queue| queue.len().unwrap())
    }

    /// Starts the server as a process and waits until it is ready.
    pub(crate) fn process(&self, arguments: &[&str]) -> Server {
        self.start(self.command(arguments))
    }

    /// The same, started by this command.
    pub(crate) fn start(&self, command: Command) -> Server {
        let mut server = Server::start_command(command, 0).unwrap();
        let ready = || Ok(server.stderr().contains("try: ") || !server.is_running()?);
        eventually("the server is ready", ready).unwrap();
        assert!(server.is_running().unwrap(), "{}", server.stderr());
        server
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mq-server"));
        command.arg("--queue").arg(self.queue.to_string());
        command.arg("--fifo-dir").arg(self.fifo_dir()).arg("--root").arg(self.root()).args(arguments);
        command
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = Queue::unlink(&self.queue); // Most servers have removed it already.
    }
}

/// Options of a server in this process.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) dispatch: DispatchKind,
    pub(crate) options: Options,
    pub(crate) workers: WorkerOptions,
}

impl Setup {
    /// Makes options with limits that no test reaches.
    pub(crate) fn new(dispatch: DispatchKind) -> Self {
        let options = Options {
            request_timeout: NEVER,
            stall_timeout: NEVER,
            drain_timeout: NEVER,
            waiting_max: 1024,
            is_framed: false,
            pipe_bytes: 1 << 20,
        };
        Self { dispatch, options, workers: WorkerOptions { workers: 2, workers_max: 4, worker_idle: NEVER } }
    }

    pub(crate) fn framed(mut self) -> Self {
        self.options.is_framed = true;
        self
    }

    pub(crate) fn serve(self, world: &World, copy: CopyKind) -> Running {
        let pipe_budget = Budget::new(16 << 20);
        let options = CopyOptions { buffer_bytes: 4096, pipe_budget };
        copy.with(&options, Start(self, world)).unwrap()
    }

    pub(crate) fn serve_by<C: FileCopy>(self, world: &World, copy: C) -> Running {
        Start(self, world).visit(copy)
    }
}

struct Start<'a>(Setup, &'a World);

impl CopyVisitor for Start<'_> {
    type Output = Running;

    fn visit<C: FileCopy>(self, copy: C) -> Running {
        let Self(Setup { dispatch, options, workers }, world) = self;
        let (queue, _) = OwnedQueue::acquire(&world.queue, SIZE, true, 0o600).unwrap();
        let places = Directories::new(&world.root(), &world.fifo_dir()).unwrap();
        let engine = Engine::new(copy, options, Budget::new(16 << 20), places, &mut Some(queue)).unwrap();
        let [serving, draining, counting, working, ending] = [(); 5].map(|()| Arc::clone(&engine));
        Running {
            thread: Some(thread::spawn(move || dispatch.serve(&serving, &workers).unwrap())),
            drain: Box::new(move || draining.begin_drain()),
            count: Box::new(move |outcome| counting.ended_as(outcome)),
            workers: Box::new(move || working.workers()),
            shut_down: Box::new(move || ending.shut_down()),
        }
    }
}

/// A server in this process.
pub(crate) struct Running {
    thread: Option<JoinHandle<()>>,
    drain: Box<dyn Fn()>,
    count: Box<dyn Fn(Outcome) -> u64>,
    workers: Box<dyn Fn() -> i64>,
    shut_down: Box<dyn Fn()>,
}

impl Running {
    pub(crate) fn count(&self, outcome: Outcome) -> u64 {
        (self.count)(outcome)
    }

    pub(crate) fn workers(&self) -> i64 {
        (self.workers)()
    }

    pub(crate) fn counts_to(&self, outcome: Outcome, count: u64) {
        let what = format!("{count} requests end as {}", outcome.name());
        eventually(&what, || Ok(self.count(outcome) >= count)).unwrap();
        assert_eq!(self.count(outcome), count, "{what}");
    }

    pub(crate) fn drain(&self) {
        (self.drain)();
    }

    /// Waits until all its threads have ended, and releases the queue. False if a thread has panicked.
    pub(crate) fn end(&mut self) -> bool {
        let thread = self.thread.take().unwrap();
        eventually("the server ends", || Ok(thread.is_finished())).unwrap();
        let ended = thread.join();
        (self.shut_down)();
        ended.is_ok()
    }

    /// Drains it, and checks that nothing is left.
    pub(crate) fn stop(mut self, world: &World) {
        self.drain();
        assert!(self.end());
        assert_eq!(world.queued(), None, "the queue is removed");
        assert_eq!(self.workers(), 0);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            (self.shut_down)();
            let _ = thread.join(); // A failing test has reported why.
        }
    }
}

pub(crate) fn absolute(path: &Path) -> &str {
    path.to_str().unwrap()
}
