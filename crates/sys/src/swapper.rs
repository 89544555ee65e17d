//! For tests: a tree that is hostile.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Lets the names of each pair change places all the time, until this is dropped.
pub(crate) struct Swapper {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    pub(crate) fn start(pairs: Vec<[PathBuf; 2]>) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                for [a, b] in &pairs {
                    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let swapped = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || swapped.is_some_and(|swapped| swapped.is_ok()), "names cannot be swapped here");
    }
}
