//! Pool of threads that load documents, so that no event loop waits for a disk or a database.

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
    cached_backend::{CachedBackend, Outcome, SharedDocument, fulfil},
    inflight::InflightLoad,
    statistics::{Tally, Totals},
};

/// Number of loads that may wait for a reader; beyond it, a client is told to try again.
const QUEUE_MAX: usize = 1024;

/// Document to load, and the clients that wait for it.
pub(crate) struct Job {
    pub(crate) id: FileId,
    /// Time of the request.
    pub(crate) now: Now,
    /// Reply to the client that asked first.
    pub(crate) promise: Promise,
    /// Load that later clients join; `None` where loads are not shared.
    pub(crate) load: Option<InflightLoad<Promise>>,
}

impl Job {
    /// Gives all clients the same reply. A document that others are to find in the cache must be there by now.
    pub(crate) fn finish<D: Dialect>(self, outcome: &Outcome, totals: &Totals) {
        let joined = self.load.map_or_else(Vec::new, InflightLoad::complete);
        fulfil::<D>([self.promise].into_iter().chain(joined), outcome, totals);
    }
}

/// Bounded queue and the threads that serve it. They end with it, once it is empty.
pub(crate) struct ReaderPool {
    /// `None` only at the very end.
    queue: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl ReaderPool {
    /// Starts a thread for each of the `readers`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start<D: Dialect, C: Cache<SharedDocument>>(
        documents: &Arc<CachedBackend<C>>,
        readers: Vec<AnyReader>,
    ) -> io::Result<Self> {
        let (queue, jobs) = crossbeam_channel::bounded(QUEUE_MAX);
        let mut started = Self { queue: Some(queue), threads: Vec::with_capacity(readers.len()) };
        for (number, reader) in readers.into_iter().enumerate() {
            let (documents, jobs) = (Arc::clone(documents), jobs.clone());
            let thread = thread::Builder::new().name(format!("reader-{number}"));
            started.threads.push(thread.spawn(move || run_reader::<D, C>(&documents, reader, &jobs))?);
        }
        Ok(started)
    }

    /// # Errors
    /// The queue is full; this is the job.
    pub(crate) fn submit(&self, job: Job) -> Result<(), Job> {
        let Some(queue) = &self.queue else { return Err(job) };
        queue.try_send(job).map_err(TrySendError::into_inner)
    }
}

impl Drop for ReaderPool {
    fn drop(&mut self) {
        drop(self.queue.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // A panic there has been reported by the thread itself.
        }
    }
}

fn run_reader<D: Dialect, C: Cache<SharedDocument>>(
    documents: &CachedBackend<C>,
    mut reader: AnyReader,
    jobs: &Receiver<Job>,
) {
    while let Ok(job) = jobs.recv() {
        let mut tally = Tally::default();
        let outcome = documents.load(&mut reader, &job.id, job.now, &mut tally);
        tally.add_to(&documents.totals);
        job.finish::<D>(&outcome, &documents.totals);
    }
}
