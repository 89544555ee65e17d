//! Commands about the connection.

use std::sync::atomic::Ordering::Relaxed;

use proto::Flow;
use store::Store;
use wire::resp::Version;

use super::{call::Call, generic::parse_database};
use crate::{
    reply::{Outcome, Refusal},
    state::ReplyMode,
};

pub(super) fn ping<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.args.len() <= 2 && call.client.version == Version::Resp2 && call.client.is_subscribed() {
        call.reply.array(2);
        call.reply.bulk(b"pong");
        call.reply.bulk(call.args.get(1).copied().unwrap_or_default());
        return Ok(());
    }
    match call.args {
        [_] => call.reply.simple("PONG"),
        [_, message] => call.reply.bulk(message),
        _ => return Err(Refusal::new("ERR wrong number of arguments for 'ping' command")),
    }
    Ok(())
}

pub(super) fn echo<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.bulk(call.args[1]);
    Ok(())
}

pub(super) fn quit<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.ok();
    call.flow = Flow::Close;
    Ok(())
}

pub(super) fn select<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let database = parse_database(call.args[1])?;
    if call.state.info.is_cluster && database != 0 {
        return Err(Refusal::new("ERR SELECT is not allowed in cluster mode"));
    }
    call.client.database = database;
    call.keys.database = call.client.database;
    call.reply.ok();
    Ok(())
}

pub(super) fn auth<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (user, password) = match call.args {
        [_, password] => (&b"default"[..], *password),
        [_, user, password] => (*user, *password),
        _ => return Err(Refusal::SYNTAX),
    };
    if call.args.len() == 2 && call.state.settings.password().is_none() {
        return Err(Refusal::new(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        ));
    }
    log_in(call, user, password)?;
    call.reply.ok();
    Ok(())
}

fn log_in<S: Store>(call: &mut Call<'_, '_, S>, user: &[u8], password: &[u8]) -> Outcome {
    let right = call.state.settings.password().is_none_or(|right| is_same(right.as_bytes(), password));
    if user != b"default" || !right {
        return Err(Refusal::new("WRONGPASS invalid username-password pair or user is disabled."));
    }
    call.client.is_authenticated = true;
    Ok(())
}

/// True if the passwords are the same. Takes as long for any wrong password of one length.
pub(crate) fn is_same(right: &[u8], given: &[u8]) -> bool {
    let differing = |different: u8, (at, byte): (usize, &u8)| different | (byte ^ right.get(at).copied().unwrap_or(0));
    let different = given.iter().enumerate().fold(0, differing);
    std::hint::black_box(different) == 0 && right.len() == given.len()
}

/// Resets the connection to its state at the start.
pub(super) fn reset<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.end_transaction();
    call.client.unsubscribe_all();
    call.client.tracking = None;
    call.client.registration.profile().set_tracking(None);
    call.client.discard_pushes();
    let profile = call.client.registration.profile();
    profile.labels().name.clear();
    profile.is_no_evict.store(false, Relaxed);
    profile.is_no_touch.store(false, Relaxed);
    call.client.is_authenticated = call.state.settings.password().is_none();
    (call.client.database, call.client.version, call.client.is_no_touch) = (0, Version::Resp2, false);
    call.client.replies = ReplyMode::On;
    call.reply.version = Version::Resp2;
    call.reply.simple("RESET");
    Ok(())
}

pub(super) fn hello<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let version = match call.args.get(1) {
        None => call.client.version,
        Some(_) => match call.integer(1) {
            Ok(2) => Version::Resp2,
            Ok(3) => Version::Resp3,
            Ok(_) => return Err(Refusal::new("NOPROTO unsupported protocol version")),
            Err(_) => return Err(Refusal::new("ERR Protocol version is not an integer or out of range")),
        },
    };
    let mut at = 2;
    while at < call.args.len() {
        let left = call.args.len() - at - 1;
        if call.is(at, "AUTH") && left >= 2 {
            log_in(call, call.args[at + 1], call.args[at + 2])?;
            at += 3;
        } else if call.is(at, "SETNAME") && left >= 1 {
            call.client.registration.set_name(call.args[at + 1])?;
            at += 2;
        } else {
            let option = String::from_utf8_lossy(call.args[at]).into_owned();
            return Err(Refusal::new(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if !call.client.is_authenticated {
        return Err(Refusal::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    call.client.version = version;
    call.reply.version = version;
    let reply = &mut call.reply;
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(crate::command_table::REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if version == Version::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(call.client.registration.id() as i64);
    reply.bulk(b"mode");
    reply.bulk(if call.state.info.is_cluster { b"cluster" } else { b"standalone" });
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}
