//! Commands about the snapshot.

use store::Store;

use super::{Call, Outcome, Refusal};
use crate::state::snapshot::Began;
use crate::state::snapshot::SnapshotError;

const IN_PROGRESS: Refusal = Refusal(std::borrow::Cow::Borrowed("ERR Background save already in progress"));

fn refusal(error: SnapshotError) -> Refusal {
    match error {
        SnapshotError::NoFile => Refusal::new("ERR there is no file to save to; start the server with --snapshot FILE"),
        SnapshotError::Io { .. } | SnapshotError::Damaged { .. } | SnapshotError::DoesNotFit { .. } => {
            tracing::error!("SAVE: {error}");
            Refusal::new("ERR the snapshot has not been saved; the server's log says why")
        }
    }
}

pub(super) fn save<S: Store + 'static>(call: &mut Call<'_, '_, S>) -> Outcome {
    // The shards are locked one by one as they are saved.
    call.keys.release();
    match call.server.keeper.try_save(&call.server.space).map_err(refusal)? {
        Began::Now => call.reply.ok(),
        Began::Before => return Err(IN_PROGRESS),
    }
    Ok(())
}

pub(super) fn bgsave<S: Store + 'static>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.args.len() > 2 || call.args.len() == 2 && !call.is(1, "SCHEDULE") {
        return Err(Refusal::SYNTAX);
    }
    match call.server.keeper.save_aside(&call.server.space).map_err(refusal)? {
        Began::Now => call.reply.simple("Background saving started"),
        // One is enough: with SCHEDULE, what would follow it is what it does.
        Began::Before if call.args.len() == 2 => call.reply.simple("Background saving scheduled"),
        Began::Before => return Err(IN_PROGRESS),
    }
    Ok(())
}

pub(super) fn lastsave<S: Store + 'static>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.integer(call.server.keeper.last_saved_unix_s());
    Ok(())
}
