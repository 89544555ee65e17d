//! Commands about the server as a whole.

use std::time::SystemTime;

use proto::Flow;
use store::Store;

use super::call::Call;
use crate::{
    command_table::REDIS_VERSION,
    reply::{Outcome, Refusal},
};

pub(super) fn time<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    call.reply.array(2);
    call.reply.bulk(now.as_secs().to_string().as_bytes());
    call.reply.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(())
}

pub(super) fn role<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

pub(super) fn lolwut<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.verbatim(&format!("Redis ver. {REDIS_VERSION}\n"));
    Ok(())
}

/// Answers at once, whatever the timeout: there are no replicas to wait for, and none will come.
pub(super) fn wait<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.integer(1)?;
    call.timeout_ms(2)?;
    call.reply.integer(0);
    Ok(())
}

pub(super) fn replicaof<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.state.info.is_cluster {
        return Err(Refusal::new("ERR REPLICAOF not allowed in cluster mode."));
    }
    if call.is(1, "NO") && call.is(2, "ONE") {
        call.reply.ok();
        return Ok(());
    }
    match call.integer(2).ok().and_then(|port| u16::try_from(port).ok()) {
        Some(_) => Err(Refusal::new("ERR replication is not supported")),
        None => Err(Refusal::new("ERR Invalid master port")),
    }
}

/// Begins the same drain as SIGTERM. Success has no reply: the connection closes.
pub(super) fn shutdown<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (mut saves, mut discards, mut aborts) = (false, false, false);
    for index in 1..call.args.len() {
        match () {
            () if call.is(index, "SAVE") => saves = true,
            () if call.is(index, "NOSAVE") => discards = true,
            () if call.is(index, "ABORT") => aborts = true,
            () if call.is(index, "NOW") || call.is(index, "FORCE") => {}
            () => return Err(Refusal::SYNTAX),
        }
    }
    if saves && discards || aborts && call.args.len() > 2 {
        return Err(Refusal::SYNTAX);
    }
    if aborts {
        return Err(Refusal::new("ERR No shutdown in progress."));
    }
    let Some(stop) = &call.state.info.stop else {
        return Err(Refusal::new("ERR Errors trying to SHUTDOWN. Check logs."));
    };
    (stop.0)();
    call.flow = Flow::Close;
    Ok(())
}
