//! The program: from its arguments to a queue that is served, and that is released on every way out.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    task::Waker,
    time::Duration,
};

use anyhow::Context;
use service::{Budget, Shell, advise};

use crate::{
    Directories, Engine, MqArgs, Origin, OwnedQueue,
    copy::{CopyVisitor, FileCopy},
    dispatch::{DispatchKind, WorkerOptions},
    metrics::Metrics,
};

/// Time after the drain timeout in which threads notice that it is over, at the end of what they are doing. A thread that
/// a disk keeps longer is not waited for.
const DRAIN_MARGIN: Duration = Duration::from_secs(2);

/// Serves until a signal ends it.
///
/// # Errors
/// The queue or a directory cannot be opened, or a thread cannot be started.
pub fn serve(args: &MqArgs, shell: Shell) -> anyhow::Result<()> {
    sys::limits::raise_open_files();
    sys::limits::raise_message_queue_bytes();
    let fifos = FifoDirectory::new(args.fifo_dir.as_deref())?;
    let directories = Directories::new(&args.root, fifos.path())?;
    let (size, is_exact) = args.queue_size();
    let name = args.queue()?;
    let (queue, origin) = OwnedQueue::acquire(&name, size, is_exact, args.queue_mode)?;
    match origin {
        Origin::Created => tracing::info!("queue {name}: {}", queue.size()),
        Origin::TakenOver(left) => {
            tracing::info!(
                "queue {name}: {}, taken over from a server that is gone, requests in it: {left}",
                queue.size()
            );
        }
        Origin::Replaced(left) => {
            tracing::info!("queue {name}: {}, in place of one of another size, requests in it: {left}", queue.size());
        }
    }
    let queue_guard = QueueGuard(Some(queue));
    let pipe_budget = Budget::new(args.pipe_budget.as_u64());
    let options = args.copy_options(&pipe_budget);
    let run = Run { args, shell, fifos, directories, pipe_budget, queue: queue_guard };
    args.copy.with(&options, run).with_context(|| format!("--copy {} does not work here", args.copy))?
}

/// A queue that is released if it never gets to an engine.
struct QueueGuard(Option<OwnedQueue>);

impl Drop for QueueGuard {
    fn drop(&mut self) {
        if let Some(mut queue) = self.0.take() {
            let backlog = queue.take_backlog();
            queue.release(backlog);
        }
    }
}

struct Run<'a> {
    args: &'a MqArgs,
    shell: Shell,
    fifos: FifoDirectory,
    directories: Directories,
    pipe_budget: Budget,
    queue: QueueGuard,
}

impl CopyVisitor for Run<'_> {
    type Output = anyhow::Result<()>;

    fn visit<C: FileCopy>(self, copy: C) -> anyhow::Result<()> {
        let Self { args, mut shell, fifos, directories, pipe_budget, mut queue } = self;
        let options = args.options(shell.drain_timeout());
        let engine = Engine::new(copy, options, pipe_budget, directories, &mut queue.0)?;
        let _guard = ShutDownOnDrop(Arc::clone(&engine));
        shell.registry().register_collector(Box::new(Metrics(Arc::clone(&engine))));
        shell.expect_end_within(DRAIN_MARGIN);
        register_exits(&mut shell, &engine, &fifos);
        let stop = shell.stop();
        engine.register_loop(&stop);
        let _on_drain = stop.on_drain(Waker::from(Arc::clone(&engine)));
        if stop.is_draining() {
            engine.begin_drain();
        }
        let (dispatch, workers, endpoint) =
            (args.dispatch, args.worker_options(), format!("mq:{}", engine.queue_name()));
        shell.run(&[endpoint], || print_example(args, &engine, &fifos), || serve_on(dispatch, &engine, &workers))
    }
}

fn serve_on<C: FileCopy>(
    dispatch: DispatchKind,
    engine: &Arc<Engine<C>>,
    workers: &WorkerOptions,
) -> anyhow::Result<()> {
    dispatch.serve(engine, workers).with_context(|| format!("dispatch {dispatch}"))
}

fn register_exits<C: FileCopy>(shell: &mut Shell, engine: &Arc<Engine<C>>, fifos: &FifoDirectory) {
    let (at_once, at_end) = (Arc::clone(engine), Arc::clone(engine));
    let [private_at_once, private_at_end] = [fifos.private(), fifos.private()];
    shell.at_once(move || {
        at_once.shut_down();
        private_at_once.iter().for_each(|path| _ = fs::remove_dir_all(path));
    });
    shell.at_end(move || {
        at_end.shut_down();
        private_at_end.iter().for_each(|path| _ = fs::remove_dir_all(path));
        Ok(())
    });
}

fn print_example<C: FileCopy>(args: &MqArgs, engine: &Engine<C>, fifos: &FifoDirectory) {
    let (directory, queue) = (fifos.path().display(), engine.queue_name());
    let framed = if args.framed { " --framed" } else { "" };
    advise(format_args!("try: loadgen mq --fifo-dir {directory}{framed} {queue} {}", args.example_file().display()));
}

/// Guard for the ways out that a panic opens.
struct ShutDownOnDrop<C: FileCopy>(Arc<Engine<C>>);

impl<C: FileCopy> Drop for ShutDownOnDrop<C> {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}

/// Directory in which clients make their FIFOs.
enum FifoDirectory {
    Given(PathBuf),
    /// Removed at the end.
    Private(tempfile::TempDir),
}

impl FifoDirectory {
    fn new(given: Option<&Path>) -> anyhow::Result<Self> {
        // Whatever the umask: no other user may find, delete or replace FIFOs, and loadgen insists on it.
        let mode = Permissions::from_mode(0o700);
        let private = || tempfile::Builder::new().prefix("mq-server-").permissions(mode).tempdir();
        match given {
            Some(path) => Ok(Self::Given(path.to_owned())),
            None => Ok(Self::Private(private().context("cannot make a directory for FIFOs")?)),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Private(directory) => directory.path(),
        }
    }

    fn private(&self) -> Option<PathBuf> {
        match self {
            Self::Given(_) => None,
            Self::Private(directory) => Some(directory.path().to_owned()),
        }
    }
}
