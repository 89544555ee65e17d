//! From the command line to a queue that is served, and to one that is put away on every way out.

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
    Engine, MqArgs, Origin, OwnQueue, Places,
    copy::{CopyVisitor, FileCopy},
    dispatch::{Crew, DispatchKind},
    statistics::Metrics,
};

/// After the drain timeout, threads notice at the end of what they are doing. One that does not, because a disk does not
/// answer, is not waited for any longer than this.
const MARGIN: Duration = Duration::from_secs(2);

/// Serves until a signal ends it.
///
/// # Errors
/// The queue, a directory or a thread cannot be had.
pub fn serve(args: &MqArgs, shell: Shell) -> anyhow::Result<()> {
    sys::limits::raise_open_files();
    sys::limits::raise_message_queue_bytes();
    let fifos = FifoPlace::new(args.fifo_dir.as_deref())?;
    let (size, is_exact) = args.queue_size();
    let name = args.queue()?;
    let (queue, origin) = OwnQueue::acquire(&name, size, is_exact, args.queue_mode)?;
    match origin {
        Origin::Created => tracing::info!("queue {name}: {}", queue.size()),
        Origin::TakenOver(left) => {
            tracing::info!(
                "queue {name}: {}, taken over from a server that is gone, {left} requests in it",
                queue.size()
            );
        }
        Origin::Replaced(left) => {
            tracing::info!("queue {name}: {}, in place of one of another size with {left} requests", queue.size());
        }
    }
    let queue_guard = Reserved(Some(queue));
    let pipe_budget = Budget::new(args.pipe_budget.as_u64());
    let options = args.copy_options(&pipe_budget);
    let run = Run { args, shell, fifos, pipe_budget, queue: queue_guard };
    args.copy.with(&options, run).with_context(|| format!("--copy {} does not work here", args.copy))?
}

/// A queue that is put away if nobody gets to serve it.
struct Reserved(Option<OwnQueue>);

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(mut queue) = self.0.take() {
            let carried = queue.take_carried();
            queue.put_away(carried);
        }
    }
}

struct Run<'a> {
    args: &'a MqArgs,
    shell: Shell,
    fifos: FifoPlace,
    pipe_budget: Budget,
    queue: Reserved,
}

impl CopyVisitor for Run<'_> {
    type Output = anyhow::Result<()>;

    fn visit<C: FileCopy>(self, copy: C) -> anyhow::Result<()> {
        let Self { args, mut shell, fifos, pipe_budget, mut queue } = self;
        let places = Places::new(&args.root, fifos.path())?;
        let options = args.options(shell.drain_timeout());
        let engine = Engine::new(copy, options, pipe_budget, places, &mut queue.0)?;
        let _guard = PutAway(Arc::clone(&engine));
        shell.registry().register_collector(Box::new(Metrics(Arc::clone(&engine))));
        shell.expect_end_within(MARGIN);
        for_every_end(&mut shell, &engine, &fifos);
        let stop = shell.stop();
        let _on_drain = stop.on_drain(Waker::from(Arc::clone(&engine)));
        if stop.is_draining() {
            engine.begin_drain();
        }
        let (dispatch, crew, endpoint) = (args.dispatch, args.crew(), format!("mq:{}", engine.queue_name()));
        shell.run(&[endpoint], || advise_what_to_try(args, &engine, &fifos), || serve_on(dispatch, &engine, &crew))
    }
}

fn serve_on<C: FileCopy>(dispatch: DispatchKind, engine: &Arc<Engine<C>>, crew: &Crew) -> anyhow::Result<()> {
    dispatch.serve(engine, crew).with_context(|| format!("dispatch {dispatch}"))
}

fn for_every_end<C: FileCopy>(shell: &mut Shell, engine: &Arc<Engine<C>>, fifos: &FifoPlace) {
    let (at_once, at_end) = (Arc::clone(engine), Arc::clone(engine));
    let [private_at_once, private_at_end] = [fifos.private(), fifos.private()];
    shell.at_once(move || {
        at_once.put_away();
        private_at_once.iter().for_each(|path| _ = fs::remove_dir_all(path));
    });
    shell.at_end(move || {
        at_end.put_away();
        private_at_end.iter().for_each(|path| _ = fs::remove_dir_all(path));
        Ok(())
    });
}

fn advise_what_to_try<C: FileCopy>(args: &MqArgs, engine: &Engine<C>, fifos: &FifoPlace) {
    let (directory, queue) = (fifos.path().display(), engine.queue_name());
    let framed = if args.framed { " --framed" } else { "" };
    advise(format_args!("try: loadgen mq --fifo-dir {directory}{framed} {queue} {}", args.file_to_try().display()));
}

/// For ways out that a panic opens.
struct PutAway<C: FileCopy>(Arc<Engine<C>>);

impl<C: FileCopy> Drop for PutAway<C> {
    fn drop(&mut self) {
        self.0.put_away();
    }
}

/// Where clients make their FIFOs.
enum FifoPlace {
    Given(PathBuf),
    /// Removed at the end.
    Private(tempfile::TempDir),
}

impl FifoPlace {
    fn new(given: Option<&Path>) -> anyhow::Result<Self> {
        // Whatever the umask: nobody else is to find, delete or replace FIFOs, and loadgen insists on it.
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
