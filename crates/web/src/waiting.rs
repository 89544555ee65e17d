//! Requests that wait for another thread: for a listing to be rendered, or for a program to run.
//!
//! The place of the answer is kept by a promise, whose answer is empty: it only makes the session go on. The last byte of the
//! request is left in the input until then, so that there is something to go on with, and the request is answered where all
//! others are.

use std::sync::Arc;

use parking_lot::Mutex;
use wire::http1::Connection;

use crate::{NotFound, cgi::ProgramOutput, listing::Page, upload::DiscardedBody};

/// Request that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Head of the request.
    pub(crate) head: Box<[u8]>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) connection: Connection,
    /// Local redirects that have led here.
    pub(crate) redirects: u8,
    /// Body that is still to be discarded.
    pub(crate) body: Option<DiscardedBody>,
}

/// Place for what another thread finds out.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<Option<Outcome>>);

/// Result of another thread.
#[derive(Debug)]
pub(crate) enum Outcome {
    Listing(Result<Arc<Page>, NotFound>),
    Program(ProgramOutput),
}

impl Slot {
    pub(crate) fn set(&self, outcome: Outcome) {
        *self.0.lock() = Some(outcome);
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.0.lock().is_some()
    }

    pub(crate) fn take(&self) -> Option<Outcome> {
        self.0.lock().take()
    }
}
