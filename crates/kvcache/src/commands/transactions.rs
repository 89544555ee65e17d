//! MULTI, DISCARD, WATCH and UNWATCH.

use store::Store;

use super::call::Call;
use crate::reply::{Outcome, Refusal};

/// True for commands that run even while a transaction is open.
pub(super) fn is_immediate(name: &str) -> bool {
    matches!(name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}

pub(super) fn multi<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.client.is_in_transaction() {
        return Err(Refusal::new("ERR MULTI calls can not be nested"));
    }
    call.client.transaction(&call.state.space).open();
    call.reply.ok();
    Ok(())
}

pub(super) fn discard<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if !call.client.is_in_transaction() {
        return Err(Refusal::new("ERR DISCARD without MULTI"));
    }
    call.end_transaction();
    call.reply.ok();
    Ok(())
}

pub(super) fn watch<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.client.is_in_transaction() {
        return Err(Refusal::new("ERR WATCH inside MULTI is not allowed"));
    }
    for &key in &call.args[1..] {
        call.client.transaction(&call.state.space).watch(call.keys, key);
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn unwatch<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.client.is_in_transaction() {
        // Inside a transaction it has no effect, since EXEC decides, and is no error.
        call.reply.ok();
        return Ok(());
    }
    call.end_transaction();
    call.reply.ok();
    Ok(())
}
