//! The threads that serve: counted with a way to copy that blocks until it is released.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use clap::ValueEnum;
use mq_server::{
    Outcome,
    copy::{CopyError, FileCopy, Progress, Source, State},
    dispatch::DispatchKind,
};
use sys::fifo::Writer;
use testkit::eventually;

use crate::{
    client::{Fifo, ask},
    world::{Setup, World},
};

/// A way to copy whose steps block their threads until it is released.
#[derive(Clone, Default)]
struct BlockingCopy(Arc<(Mutex<bool>, Condvar, AtomicUsize)>);

impl BlockingCopy {
    fn running(&self) -> usize {
        self.0.2.load(Ordering::SeqCst)
    }

    fn release(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

impl FileCopy for BlockingCopy {
    type Transfer = ();

    fn begin(&self, _: Source, _: &Arc<Writer>) -> Result<(), CopyError> {
        Ok(())
    }

    fn step(&self, (): &mut (), _: &Arc<Writer>) -> Result<Progress, CopyError> {
        let (is_released, released, running) = &*self.0;
        running.fetch_add(1, Ordering::SeqCst);
        drop(released.wait_while(is_released.lock().unwrap(), |is_released| !*is_released).unwrap());
        running.fetch_sub(1, Ordering::SeqCst);
        Ok(Progress { moved: 0, state: State::Done })
    }
}

#[test]
fn as_many_jobs_run_at_once_as_threads_are_allowed() {
    for &dispatch in DispatchKind::value_variants() {
        let at_once = match dispatch {
            DispatchKind::Sequential | DispatchKind::Event => 1,
            DispatchKind::Handoff | DispatchKind::Pool | DispatchKind::Tokio => 2,
            DispatchKind::ThreadPerRequest | DispatchKind::Elastic => 4,
        };
        let (world, copy) = (World::new(), BlockingCopy::default());
        world.file("file", 1);
        let server = Setup::new(dispatch).serve_by(&world, copy.clone());
        let mut answers: Vec<_> = (0..7).map(|_| ask(&world, "file")).collect();
        let what = format!("{dispatch}: {at_once} at once");
        eventually(&what, || Ok(copy.running() == at_once)).unwrap();
        copy.release();
        answers.iter_mut().for_each(|answer| assert_eq!(answer.read_to_end(), b""));
        server.counts_to(Outcome::Sent, 7);
        server.stop(&world);
    }
}

#[test]
fn an_elastic_pool_shrinks_to_its_minimum() {
    let (world, copy) = (World::new(), BlockingCopy::default());
    world.file("file", 1);
    let mut setup = Setup::new(DispatchKind::Elastic);
    (setup.workers.workers, setup.workers.worker_idle) = (1, Duration::from_millis(20));
    let server = setup.serve_by(&world, copy.clone());
    for _ in 0..2 {
        *copy.0.0.lock().unwrap() = false;
        let answers: Vec<Fifo> = (0..5).map(|_| ask(&world, "file")).collect();
        eventually("it grows to its limit", || Ok(copy.running() == 4)).unwrap();
        assert_eq!(server.workers(), 4);
        copy.release();
        answers.into_iter().for_each(|mut answer| assert_eq!(answer.read_to_end(), b""));
        eventually("it shrinks", || Ok(server.workers() == 1)).unwrap();
    }
    server.stop(&world);
}

struct Panicking;

impl FileCopy for Panicking {
    type Transfer = ();

    fn begin(&self, _: Source, _: &Arc<Writer>) -> Result<(), CopyError> {
        Ok(())
    }

    fn step(&self, (): &mut (), _: &Arc<Writer>) -> Result<Progress, CopyError> {
        panic!("planted by the test");
    }
}

/// A thread that panics stops the whole server; requests that had not begun are in the queue.
#[test]
fn a_panic_ends_every_thread_and_keeps_unbegun_requests() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        world.file("file", 1);
        let mut server = Setup::new(dispatch).serve_by(&world, Panicking);
        let waiting: Vec<_> = (0..4).map(|_| Fifo::closed(&world)).collect();
        waiting.iter().for_each(|fifo| world.send(format!("file;{}", fifo.name)));
        eventually("all requests have been taken", || Ok(world.queued() == Some(0))).unwrap();
        let _answer = ask(&world, "file");
        assert!(!server.end(), "{dispatch}: the panic is reported");
        assert_eq!(world.queued(), Some(4), "{dispatch}");
    }
}
