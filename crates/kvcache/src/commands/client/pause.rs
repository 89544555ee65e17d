//! CLIENT PAUSE and UNPAUSE.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use store::Store;

use crate::{
    commands::call::Call,
    reply::{Outcome, Refusal},
    state::PauseMode,
};

pub(in crate::commands) fn pause<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let mode = match call.args.len() {
        3 => PauseMode::All,
        4 if call.is(3, "ALL") => PauseMode::All,
        4 if call.is(3, "WRITE") => PauseMode::Writes,
        4 => return Err(Refusal::new("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(Refusal::SYNTAX),
    };
    let timeout = call.timeout_ms(2)?;
    let until = Instant::now().checked_add(Duration::from_millis(timeout));
    let until = until.ok_or_else(|| Refusal::new("ERR timeout is out of range"))?;
    call.state.clients.pause.begin(mode, until);
    let clients = Arc::downgrade(&call.state.clients);
    let scheduled = call.state.timer.at(until, move || {
        if let Some(clients) = clients.upgrade() {
            clients.pause.end(Some(Instant::now()));
        }
    });
    if scheduled.is_err() {
        call.state.clients.pause.end(None);
        return Err(Refusal::new("ERR no thread to end the pause"));
    }
    call.reply.ok();
    Ok(())
}

pub(in crate::commands) fn unpause<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.state.clients.pause.end(None);
    call.reply.ok();
    Ok(())
}
