use std::sync::Arc;

use super::{Dispatch, WorkerOptions, pool};
use crate::{copy::FileCopy, engine::Engine};

/// A pool of one thread: the one that calls.
pub(super) struct Sequential;

impl Dispatch for Sequential {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, _: &WorkerOptions) -> anyhow::Result<()> {
        pool::work(engine);
        Ok(())
    }
}
