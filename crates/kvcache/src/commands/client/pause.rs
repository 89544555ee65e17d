//! CLIENT PAUSE and UNPAUSE.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use store::Store;

use super::{Call, Outcome, Refusal};
use crate::state::pause::Paused;

pub(in super::super) fn pause<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let what = match call.args.len() {
        3 => Paused::All,
        4 if call.is(3, "ALL") => Paused::All,
        4 if call.is(3, "WRITE") => Paused::Writes,
        4 => return Err(Refusal::new("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(Refusal::SYNTAX),
    };
    let timeout = call.timeout_ms(2)?;
    let until = Instant::now().checked_add(Duration::from_millis(timeout));
    let until = until.ok_or_else(|| Refusal::new("ERR timeout is out of range"))?;
    call.server.clients.pause.begin(what, until);
    let clients = Arc::downgrade(&call.server.clients);
    let scheduled = call.server.timer.at(until, move || {
        if let Some(clients) = clients.upgrade() {
            clients.pause.end(Some(Instant::now()));
        }
    });
    if scheduled.is_err() {
        call.server.clients.pause.end(None);
        return Err(Refusal::new("ERR no thread to end the pause"));
    }
    call.reply.ok();
    Ok(())
}

pub(in super::super) fn unpause<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.server.clients.pause.end(None);
    call.reply.ok();
    Ok(())
}

impl<S: Store> Call<'_, '_, S> {
    /// Milliseconds, in Redis's words for what is none.
    pub(in super::super) fn timeout_ms(&self, index: usize) -> Result<u64, Refusal> {
        let timeout = self.integer(index).map_err(|_| Refusal::new("ERR timeout is not an integer or out of range"))?;
        u64::try_from(timeout).map_err(|_| Refusal::new("ERR timeout is negative"))
    }
}
