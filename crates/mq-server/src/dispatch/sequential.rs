use std::sync::Arc;

use super::{Crew, Dispatch, pool};
use crate::{copy::FileCopy, engine::Engine};

/// A pool of one, which is the thread that was there anyway.
pub(super) struct Sequential;

impl Dispatch for Sequential {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, _: &Crew) -> anyhow::Result<()> {
        pool::work(engine);
        Ok(())
    }
}
