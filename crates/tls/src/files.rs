//! Threads that read what is not in the page cache, so that no event loop waits for a disk.

use std::{collections::VecDeque, fs::File, io, os::fd::OwnedFd, os::unix::fs::FileExt, sync::Arc, thread};

use parking_lot::{Condvar, Mutex};
use proto::{FileRegion, Outbox, Promise};

/// Threads of a pool.
const THREADS: usize = 4;
/// Limit of one read.
const READ_MAX: u64 = 128 * 1024;

/// Result of a read, for the connection that asked for it.
#[derive(Debug, Default)]
pub(crate) struct Reading(Mutex<Option<io::Result<Vec<u8>>>>);

impl Reading {
    /// Takes the bytes, if they have been read; an error of kind `UnexpectedEof` if there are none.
    pub(crate) fn take(&self) -> Option<io::Result<Vec<u8>>> {
        self.0.lock().take()
    }
}

struct Job {
    region: FileRegion,
    reading: Arc<Reading>,
    promise: Promise,
}

/// Pool of threads that read files. They start with the first read and end with the pool.
#[derive(Default)]
pub(crate) struct Readers(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    not_empty: Condvar,
}

/// At most one job for each connection: bounded by the limit of connections.
#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl Readers {
    /// Begins to read the beginning of `region`; `promise` is fulfilled, with nothing, once that has been done.
    ///
    /// # Errors
    /// There is no thread to do it, and none can be started.
    pub(crate) fn read(&self, region: &FileRegion, promise: Promise) -> io::Result<Arc<Reading>> {
        let reading = Arc::new(Reading::default());
        let region = FileRegion { len: region.len.min(READ_MAX), ..region.clone() };
        let mut state = self.0.state.lock();
        if state.idle <= state.jobs.len() && state.threads < THREADS {
            let queue = Arc::clone(&self.0);
            match thread::Builder::new().name("tls-reader".to_owned()).spawn(move || queue.run()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => return Err(error),
                Err(_) => {}
            }
        }
        state.jobs.push_back(Job { region, reading: Arc::clone(&reading), promise });
        drop(state);
        self.0.not_empty.notify_one();
        Ok(reading)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.not_empty.notify_all();
    }
}

impl Queue {
    fn run(&self) {
        while let Some(Job { region, reading, promise }) = self.pop() {
            *reading.0.lock() = Some(read(&region));
            promise.fulfil(Outbox::default());
        }
    }

    fn pop(&self) -> Option<Job> {
        let mut state = self.state.lock();
        state.idle += 1;
        self.not_empty.wait_while(&mut state, |state| state.jobs.is_empty() && !state.is_closed);
        state.idle -= 1;
        state.jobs.pop_front()
    }
}

fn read(region: &FileRegion) -> io::Result<Vec<u8>> {
    let file = File::from(OwnedFd::try_clone(&region.file)?);
    let mut bytes = vec![0; usize::try_from(region.len).unwrap_or(usize::MAX)];
    let n = loop {
        match file.read_at(&mut bytes, region.offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()), // It shrank.
            read => break read?,
        }
    };
    bytes.truncate(n);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{io::Write, task::Waker};

    use super::*;

    #[test]
    fn a_read_tells_its_bytes_and_the_end_of_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 300_000]).unwrap();
        let (readers, file) = (Readers::default(), Arc::new(OwnedFd::from(file)));
        for (offset, wanted) in [(0, Some(128 * 1024)), (299_000, Some(1_000)), (300_000, None)] {
            let region = FileRegion { file: Arc::clone(&file), offset, len: 200_000 };
            let mut out = Outbox::default();
            let reading = readers.read(&region, out.defer()).unwrap();
            while out.poll_reply(Waker::noop()).is_pending() {
                thread::yield_now();
            }
            let got = reading.take().expect("it has been read");
            assert_eq!(got.ok().map(|bytes| bytes.len()), wanted, "{offset}");
        }
    }
}
