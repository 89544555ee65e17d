//! The program: from its arguments to a queue that is served, and that is released on every way out.

use std::{
    fs::{self, File, Permissions},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::Duration,
};

use anyhow::Context;
use service::{Budget, HandOver, Shell, advise};
use sys::successor::{HandedDescriptor, Role};

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
pub fn serve(args: &MqArgs, mut shell: Shell) -> anyhow::Result<()> {
    sys::limits::raise_open_files();
    sys::limits::raise_message_queue_bytes();
    let fifos = FifoDirectory::new(args.fifo_dir.as_deref(), shell.take_inherited(Role::FifoDirectory))?;
    let directories = Directories::new(&args.root, fifos.path())?;
    let (size, is_exact) = args.queue_size();
    let name = args.queue()?;
    let (queue, origin) = match shell.take_inherited(Role::MessageQueue) {
        Some(queue) => OwnedQueue::inherit(&name, queue, size, is_exact, args.queue_mode)?,
        None => OwnedQueue::acquire(&name, size, is_exact, args.queue_mode)?,
    };
    match origin {
        Origin::Inherited => tracing::info!("queue {name}: that of the process before this one"),
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
        register_hand_over(&mut shell, &engine, &fifos);
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
        private_at_once.iter().for_each(|directory| directory.remove());
    });
    shell.at_end(move || {
        at_end.shut_down();
        private_at_end.iter().for_each(|directory| directory.remove());
        Ok(())
    });
}

fn register_hand_over<C: FileCopy>(shell: &mut Shell, engine: &Arc<Engine<C>>, fifos: &FifoDirectory) {
    let (owner, directory) = (Arc::clone(engine), fifos.private());
    shell.before_ready(move || {
        owner.own_queue();
        directory.iter().for_each(|directory| directory.own());
        Ok(())
    });
    shell.hand_over(QueueHandOver { engine: Arc::clone(engine), directory: fifos.private() });
}

/// Hand-over of the queue, and of the directory of FIFOs if it is a private one. Each message is taken by one process, and
/// finished there or put back.
struct QueueHandOver<C: FileCopy> {
    engine: Arc<Engine<C>>,
    directory: Option<Arc<PrivateDirectory>>,
}

impl<C: FileCopy> HandOver for QueueHandOver<C> {
    fn begin(&mut self) -> anyhow::Result<Vec<HandedDescriptor>> {
        let queue = HandedDescriptor { descriptor: self.engine.queue().duplicate()?, role: Role::MessageQueue };
        let open = |directory: &Arc<PrivateDirectory>| -> anyhow::Result<_> {
            let descriptor = File::open(&directory.path).context("the directory of FIFOs")?.into();
            Ok(HandedDescriptor { descriptor, role: Role::FifoDirectory })
        };
        let directory = self.directory.as_ref().map(open).transpose()?;
        Ok([queue].into_iter().chain(directory).collect())
    }

    fn complete(&mut self) {
        self.engine.give_queue_away();
        self.directory.iter().for_each(|directory| directory.give_away());
    }

    fn cancel(&mut self) {}
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
    Private(Arc<PrivateDirectory>),
}

/// Directory of this process, which removes it at its end unless another one has it then.
struct PrivateDirectory {
    path: PathBuf,
    is_ours: AtomicBool,
}

impl PrivateDirectory {
    fn create() -> anyhow::Result<Self> {
        // Whatever the umask: no other user may find, delete or replace FIFOs, and loadgen insists on it.
        let mode = Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix("mq-server-").permissions(mode).tempdir();
        let path = directory.context("cannot make a directory for FIFOs")?.keep();
        Ok(Self { path, is_ours: AtomicBool::new(true) })
    }

    /// Takes that of the process before this one, which still has it: [`PrivateDirectory::own`] follows.
    fn inherit(descriptor: &OwnedFd) -> anyhow::Result<Self> {
        let path = fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
        let path = path.context("cannot take over the directory of FIFOs")?;
        Ok(Self { path, is_ours: AtomicBool::new(false) })
    }

    fn own(&self) {
        self.is_ours.store(true, Ordering::Release);
    }

    fn give_away(&self) {
        self.is_ours.store(false, Ordering::Release);
    }

    fn remove(&self) {
        if self.is_ours.swap(false, Ordering::AcqRel) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        self.remove();
    }
}

impl FifoDirectory {
    fn new(given: Option<&Path>, inherited: Option<OwnedFd>) -> anyhow::Result<Self> {
        Ok(match (given, inherited) {
            (Some(path), _) => Self::Given(path.to_owned()),
            (None, Some(descriptor)) => Self::Private(Arc::new(PrivateDirectory::inherit(&descriptor)?)),
            (None, None) => Self::Private(Arc::new(PrivateDirectory::create()?)),
        })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Private(directory) => &directory.path,
        }
    }

    fn private(&self) -> Option<Arc<PrivateDirectory>> {
        match self {
            Self::Given(_) => None,
            Self::Private(directory) => Some(Arc::clone(directory)),
        }
    }
}
