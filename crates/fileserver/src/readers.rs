//! Threads that load documents, so that no event loop waits for a disk or a database.

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use proto::{Now, Promise};
use wire::file::{Dialect, FileId};

use crate::{
    backend::AnyReader,
    cache::Cache,
    inflight::Flight,
    cached_backend::{Library, Outcome, Shared, fulfil},
    statistics::Tally,
};

/// Loads that wait for a reader; who comes behind them is told to try again.
const QUEUE_MAX: usize = 1024;

/// A document to load, and who is to be told.
pub(crate) struct Job {
    pub(crate) id: FileId,
    /// When it was asked for.
    pub(crate) now: Now,
    /// Whoever asked for it first.
    pub(crate) promise: Promise,
    /// All who will have joined by then; `None` where nobody shares.
    pub(crate) flight: Option<Flight<Promise>>,
}

impl Job {
    /// Gives all who wait the same answer. Whatever is to be found in the cache by others must be there by now.
    pub(crate) fn finish<D: Dialect>(self, outcome: &Outcome, tally: &mut Tally) {
        let joined = self.flight.map_or_else(Vec::new, Flight::land);
        fulfil::<D>([self.promise].into_iter().chain(joined), outcome, tally);
    }
}

/// A bounded queue and the threads that work it off. They end with it, once it is empty.
pub(crate) struct Readers {
    /// `None` only at the very end.
    queue: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts a thread for each of the `readers`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start<D: Dialect, C: Cache<Shared>>(
        library: &Arc<Library<C>>,
        readers: Vec<AnyReader>,
    ) -> io::Result<Self> {
        let (queue, jobs) = crossbeam_channel::bounded(QUEUE_MAX);
        let mut started = Self { queue: Some(queue), threads: Vec::with_capacity(readers.len()) };
        for (number, reader) in readers.into_iter().enumerate() {
            let (library, jobs) = (Arc::clone(library), jobs.clone());
            let thread = thread::Builder::new().name(format!("reader-{number}"));
            started.threads.push(thread.spawn(move || read::<D, C>(&library, reader, &jobs))?);
        }
        Ok(started)
    }

    /// # Errors
    /// The job, when as many as there is room for are waiting already.
    pub(crate) fn submit(&self, job: Job) -> Result<(), Job> {
        let Some(queue) = &self.queue else { return Err(job) };
        queue.try_send(job).map_err(TrySendError::into_inner)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        drop(self.queue.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // A panic there has been reported by the thread itself.
        }
    }
}

fn read<D: Dialect, C: Cache<Shared>>(library: &Library<C>, mut reader: AnyReader, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        let mut tally = Tally::default();
        let outcome = library.load(&mut reader, &job.id, job.now, &mut tally);
        job.finish::<D>(&outcome, &mut tally);
        tally.add_to(&library.totals);
    }
}
