//! SAVE, BGSAVE and LASTSAVE.

use store::Store;

use super::call::Call;
use crate::{
    reply::{Outcome, Refusal},
    state::{SaveStart, SnapshotError},
};

const IN_PROGRESS: Refusal = Refusal(std::borrow::Cow::Borrowed("ERR Background save already in progress"));

fn refusal(error: SnapshotError) -> Refusal {
    match error {
        SnapshotError::NoFile => Refusal::new("ERR there is no file to save to; start the server with --snapshot FILE"),
        SnapshotError::Io { .. }
        | SnapshotError::CannotSave { .. }
        | SnapshotError::Damaged { .. }
        | SnapshotError::DoesNotFit { .. } => {
            tracing::error!("SAVE: {error}");
            Refusal::new("ERR the snapshot has not been saved; see the server's log")
        }
    }
}

pub(super) fn save<S: Store + 'static>(call: &mut Call<'_, '_, S>) -> Outcome {
    // Saving locks the shards one by one.
    call.keys.unlock();
    match call.state.snapshots.try_save(&call.state.space).map_err(refusal)? {
        SaveStart::Started => call.reply.ok(),
        SaveStart::AlreadyRunning => return Err(IN_PROGRESS),
    }
    Ok(())
}

pub(super) fn bgsave<S: Store + 'static>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.args.len() > 2 || call.args.len() == 2 && !call.is(1, "SCHEDULE") {
        return Err(Refusal::SYNTAX);
    }
    match call.state.snapshots.save_in_background(&call.state.space).map_err(refusal)? {
        SaveStart::Started => call.reply.simple("Background saving started"),
        // SCHEDULE asks for a save after the running one; the running one serves as well.
        SaveStart::AlreadyRunning if call.args.len() == 2 => call.reply.simple("Background saving scheduled"),
        SaveStart::AlreadyRunning => return Err(IN_PROGRESS),
    }
    Ok(())
}

pub(super) fn lastsave<S: Store + 'static>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.integer(call.state.snapshots.last_saved_unix_s());
    Ok(())
}
