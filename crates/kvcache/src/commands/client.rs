//! CLIENT, except for closing and pausing connections.

use std::{
    fmt::Write,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use store::Store;
use sys::listen::Address;

use super::call::Call;
use crate::{
    command_table::TABLE,
    reply::{Outcome, Refusal},
    state::{ChannelKind, Profile, ReplyMode, is_printable},
};

mod kill;
mod pause;
mod tracking;

pub(super) use self::{
    kill::{kill, unblock},
    pause::{pause, unpause},
    tracking::{caching, getredir, tracking, trackinginfo},
};

pub(super) fn id<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.integer(call.client.registration.id() as i64);
    Ok(())
}

pub(super) fn getname<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let name = call.client.registration.profile().labels().name.clone();
    if name.is_empty() {
        call.reply.null()
    } else {
        call.reply.bulk(name.as_bytes())
    }
    Ok(())
}

pub(super) fn setname<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.client.registration.set_name(call.args[2])?;
    call.reply.ok();
    Ok(())
}

pub(super) fn setinfo<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (is_name, is_version) = (call.is(2, "LIB-NAME"), call.is(2, "LIB-VER"));
    if !is_name && !is_version {
        let option = String::from_utf8_lossy(call.args[2]).into_owned();
        return Err(Refusal::new(format!("ERR Unrecognized option '{option}'")));
    }
    if !is_printable(call.args[3]) {
        let option = if is_name { "lib-name" } else { "lib-ver" };
        let text = format!("ERR {option} cannot contain spaces, newlines or special characters.");
        return Err(Refusal::new(text));
    }
    let text = String::from_utf8_lossy(call.args[3]).into_owned();
    let mut labels = call.client.registration.profile().labels();
    *(if is_name { &mut labels.library } else { &mut labels.library_version }) = text;
    drop(labels);
    call.reply.ok();
    Ok(())
}

pub(super) fn reply<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.is(2, "ON") {
        call.client.replies = ReplyMode::On;
        call.reply.ok();
    } else if call.is(2, "OFF") {
        call.client.replies = ReplyMode::Off;
    } else if call.is(2, "SKIP") {
        if call.client.replies != ReplyMode::Off {
            call.client.replies = ReplyMode::SkipNext;
        }
    } else {
        return Err(Refusal::SYNTAX);
    }
    Ok(())
}

pub(super) fn no_evict<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let on = call.switch(2)?;
    call.client.registration.profile().is_no_evict.store(on, Relaxed);
    call.reply.ok();
    Ok(())
}

pub(super) fn no_touch<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let on = call.switch(2)?;
    call.client.is_no_touch = on;
    call.client.registration.profile().is_no_touch.store(on, Relaxed);
    call.reply.ok();
    Ok(())
}

impl<S: Store> Call<'_, '_, S> {
    /// Parses ON or OFF.
    fn switch(&self, index: usize) -> Result<bool, Refusal> {
        if self.is(index, "ON") {
            return Ok(true);
        }
        self.is(index, "OFF").then_some(false).ok_or(Refusal::SYNTAX)
    }
}

// --- connected clients ------------------------------------------------------------------------

pub(super) fn info<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let line = line(
        call.client.registration.profile(),
        call.now.unix.as_millis() as u64,
        call.number().map_or(0, |number| number + 1),
    );
    call.reply.verbatim(&line);
    Ok(())
}

pub(super) fn list<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let wanted: Box<dyn Fn(&Profile) -> bool> = match call.args.len() {
        2 => Box::new(|_| true),
        4 if call.is(2, "TYPE") => {
            let kind = kind(call.args[3])?;
            Box::new(move |profile| kind.is_of(profile))
        }
        4.. if call.is(2, "ID") => {
            let ids = (3..call.args.len()).map(|index| call.integer(index).ok().and_then(|id| u64::try_from(id).ok()));
            let ids: Option<Vec<u64>> = ids.collect();
            let ids = ids.ok_or_else(|| Refusal::new("ERR Invalid client ID"))?;
            Box::new(move |profile| ids.contains(&profile.id))
        }
        _ => return Err(Refusal::SYNTAX),
    };
    let (own, unix_ms, number) =
        (call.client.registration.id(), call.now.unix.as_millis() as u64, call.number().map_or(0, |number| number + 1));
    let mut text = String::new();
    for profile in call.state.clients.list().iter().filter(|profile| wanted(profile)) {
        // The last command of this connection is this one.
        let command = if profile.id == own { number } else { profile.last_command.load(Relaxed) };
        text += &line(profile, unix_ms, command);
    }
    call.reply.verbatim(&text);
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Normal,
    Subscriber,
    /// Replicas and masters: no client is one of these.
    Other,
}

impl Kind {
    fn is_of(self, profile: &Profile) -> bool {
        match self {
            Self::Normal => !profile.is_subscribed(),
            Self::Subscriber => profile.is_subscribed(),
            Self::Other => false,
        }
    }
}

/// Parses one of Redis's types of clients.
fn kind(name: &[u8]) -> Result<Kind, Refusal> {
    match name.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(Kind::Normal),
        b"pubsub" => Ok(Kind::Subscriber),
        b"master" | b"slave" | b"replica" => Ok(Kind::Other),
        _ => Err(Refusal::new(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(name)))),
    }
}

/// Returns one line of CLIENT LIST. Buffers are given as their sum, in units of 16 KiB.
fn line(profile: &Profile, unix_ms: u64, command: usize) -> String {
    let labels = profile.labels().clone();
    let seconds = |since: u64| unix_ms.saturating_sub(since) / 1000;
    let (age, idle) = (seconds(profile.connected_unix_ms), seconds(profile.last_unix_ms.load(Relaxed)));
    let queued = profile.queued.load(Relaxed);
    let mut flags = String::new();
    for (is_set, flag) in [
        (profile.is_subscribed(), 'P'),
        (profile.tracks(), 't'),
        (profile.tracks_prefixes(), 'B'),
        (queued >= 0, 'x'),
        (matches!(profile.local, Some(Address::Unix(_))), 'U'),
        (profile.is_no_evict.load(Relaxed), 'e'),
        (profile.is_no_touch.load(Relaxed), 'T'),
    ] {
        if is_set {
            flags.push(flag);
        }
    }
    let flags = if flags.is_empty() { "N" } else { &flags };
    let command = command.checked_sub(1).map_or("NULL", |number| TABLE[number].name);
    let mut line = format!("id={} addr={} laddr={}", profile.id, profile.peer_text(), profile.local_text());
    // Writing to a string does not fail.
    let _ = write!(line, " fd={} name={} age={age} idle={idle} flags={flags}", profile.descriptor(), labels.name);
    let [sub, psub, ssub] = ChannelKind::ALL.map(|kind| profile.subscriptions(kind));
    let database = profile.database.load(Relaxed);
    let _ = write!(line, " db={database} sub={sub} psub={psub} ssub={ssub} multi={queued}");
    line += " qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0";
    let _ = write!(line, " tot-mem={} events=r", profile.buffer_bytes.load(Relaxed));
    let version = profile.version.load(Relaxed);
    let _ = write!(line, " cmd={command} user=default redir={} resp={version}", profile.redirect());
    let _ = writeln!(line, " lib-name={} lib-ver={}", labels.library, labels.library_version);
    line
}

/// Returns the clients for which `is_wanted` is true.
fn matching_clients<S: Store>(call: &Call<'_, '_, S>, is_wanted: impl Fn(&Profile) -> bool) -> Vec<Arc<Profile>> {
    call.state.clients.list().into_iter().filter(|profile| is_wanted(profile)).collect()
}
