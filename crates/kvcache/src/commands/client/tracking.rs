//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR.

use std::sync::Arc;

use store::{Observer, Store};
use wire::resp::Version;

use crate::{
    command_table::{Flags, TABLE},
    commands::{call::Call, scripting},
    reply::{Outcome, Refusal},
    state::{ClientTracking, Profile, TrackingOptions},
};

pub(in crate::commands) fn tracking<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let options = parse(call)?;
    if call.is(2, "OFF") {
        call.client.tracking = None;
        call.publish_tracking();
        call.reply.ok();
        return Ok(());
    }
    if !call.is(2, "ON") {
        return Err(Refusal::SYNTAX);
    }
    let target = call.redirect_target(&options)?;
    let options = merged(call.client.tracking.as_deref().map(|tracking| &tracking.options), options)?;
    let own = Arc::clone(call.client.subscriber(call.state.pushed_bytes_max));
    let all = &call.state.tracking;
    all.enable(&own, target.as_ref(), options.clone());
    match &mut call.client.tracking {
        Some(tracking) => tracking.options = options,
        none => *none = Some(Box::new(ClientTracking::new(all, own.id(), options))),
    }
    call.observe_changes();
    call.publish_tracking();
    call.reply.ok();
    Ok(())
}

/// Parses the options behind ON or OFF.
fn parse<S: Store>(call: &Call<'_, '_, S>) -> Result<TrackingOptions, Refusal> {
    let mut options = TrackingOptions::default();
    let mut index = 3;
    while index < call.args.len() {
        let has_more = index + 1 < call.args.len();
        if call.is(index, "REDIRECT") && has_more {
            index += 1;
            if options.redirect.is_some() {
                return Err(Refusal::new("ERR A client can only redirect to a single other client"));
            }
            let id = call.integer(index)?;
            let exists = |id: &u64| call.state.clients.find(*id).is_some();
            let id = u64::try_from(id).ok().filter(exists);
            options.redirect =
                Some(id.ok_or_else(|| Refusal::new("ERR The client ID you want redirect to does not exist"))?);
        } else if call.is(index, "BCAST") {
            options.is_broadcast = true;
        } else if call.is(index, "OPTIN") {
            options.is_opt_in = true;
        } else if call.is(index, "OPTOUT") {
            options.is_opt_out = true;
        } else if call.is(index, "NOLOOP") {
            options.is_no_loop = true;
        } else if call.is(index, "PREFIX") && has_more {
            index += 1;
            options.prefixes.push(call.args[index].into());
        } else {
            return Err(Refusal::SYNTAX);
        }
        index += 1;
    }
    Ok(options)
}

/// Checks options against one another and against those that the client has already.
fn merged(before: Option<&TrackingOptions>, options: TrackingOptions) -> Result<TrackingOptions, Refusal> {
    let refuse = |why: &'static str| Err(Refusal::new(why));
    if !options.prefixes.is_empty() && !options.is_broadcast {
        return refuse("ERR PREFIX option requires BCAST mode to be enabled");
    }
    if before.is_some_and(|before| before.is_broadcast != options.is_broadcast) {
        return refuse(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it \
             with a different mode.",
        );
    }
    if options.is_broadcast && (options.is_opt_in || options.is_opt_out) {
        return refuse("ERR OPTIN and OPTOUT are not compatible with BCAST");
    }
    if options.is_opt_in && options.is_opt_out {
        return refuse("ERR You can't specify both OPTIN mode and OPTOUT mode");
    }
    let has_switched =
        |before: &TrackingOptions| options.is_opt_in && before.is_opt_out || options.is_opt_out && before.is_opt_in;
    if before.is_some_and(has_switched) {
        return refuse(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it \
             with a different mode.",
        );
    }
    if !options.is_broadcast {
        return Ok(options);
    }
    let known = before.map_or(&[][..], |before| &before.prefixes);
    check_overlaps(known, &options.prefixes)?;
    // Without a prefix it is all keys; a client that has some already keeps those.
    let mut prefixes = known.to_vec();
    prefixes.extend(options.prefixes);
    if prefixes.is_empty() {
        prefixes.push(Box::default());
    }
    Ok(TrackingOptions { prefixes, ..options })
}

/// Refuses prefixes of which one is the beginning of another: a key would be told twice.
fn check_overlaps(known: &[Box<[u8]>], given: &[Box<[u8]>]) -> Outcome {
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let refusal = |prefix: &[u8], which: &str, other: &[u8]| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Err(Refusal::new(format!(
            "ERR Prefix '{}' overlaps with {which} prefix '{}'. Prefixes for a single client must not overlap.",
            text(prefix),
            text(other)
        )))
    };
    for (at, prefix) in given.iter().enumerate() {
        if let Some(other) = known.iter().find(|other| overlap(prefix, other)) {
            return refusal(prefix, "an existing", other);
        }
        if let Some(other) = given[at + 1..].iter().find(|other| overlap(prefix, other)) {
            return refusal(prefix, "another provided", other);
        }
    }
    Ok(())
}

pub(in crate::commands) fn caching<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let Some(tracking) = call.client.tracking.as_deref_mut() else {
        return Err(Refusal::new(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    let TrackingOptions { is_opt_in, is_opt_out, .. } = tracking.options;
    if call.args[2].eq_ignore_ascii_case(b"YES") {
        if !is_opt_in {
            return Err(Refusal::new("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."));
        }
    } else if call.args[2].eq_ignore_ascii_case(b"NO") {
        if !is_opt_out {
            return Err(Refusal::new("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."));
        }
    } else {
        return Err(Refusal::SYNTAX);
    }
    tracking.is_caching = true;
    call.reply.ok();
    Ok(())
}

pub(in crate::commands) fn trackinginfo<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let mut flags = vec!["off"];
    let (mut redirect, mut prefixes) = (-1, Vec::new());
    if let Some(tracking) = call.client.tracking.as_deref() {
        let options = &tracking.options;
        flags = vec!["on"];
        for (is_set, flag) in [
            (options.is_broadcast, "bcast"),
            (options.is_opt_in, "optin"),
            (options.is_opt_in && tracking.is_caching, "caching-yes"),
            (options.is_opt_out, "optout"),
            (options.is_opt_out && tracking.is_caching, "caching-no"),
            (options.is_no_loop, "noloop"),
            (tracking.is_redirect_broken(), "broken_redirect"),
        ] {
            if is_set {
                flags.push(flag);
            }
        }
        redirect = shown_redirect(options);
        prefixes = options.prefixes.clone();
    }
    let reply = &mut call.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

pub(in crate::commands) fn getredir<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.integer(call.client.tracking.as_ref().map_or(-1, |tracking| shown_redirect(&tracking.options)));
    Ok(())
}

/// Returns the number of the client that is told instead, or 0.
fn shown_redirect(options: &TrackingOptions) -> i64 {
    options.redirect.map_or(0, |id| i64::try_from(id).unwrap_or(i64::MAX))
}

impl<S: Store> Call<'_, '_, S> {
    /// Returns the connection that is to be told instead of this one.
    fn redirect_target(&mut self, options: &TrackingOptions) -> Result<Option<Arc<Profile>>, Refusal> {
        let Some(id) = options.redirect.filter(|&id| id != self.client.registration.id()) else { return Ok(None) };
        let Some(target) = self.state.clients.find(id) else { return Ok(None) };
        // Redis takes any connection. One of RESP2 gets nothing before it has subscribed; one of RESP3 would there.
        if target.subscriber().is_none() && target.resp_version() == Version::Resp3 {
            let why = "ERR The client you want to redirect to has to subscribe to __redis__:invalidate first";
            return Err(Refusal::new(why));
        }
        Ok(Some(target))
    }

    /// Sees to it that the store tells of changes.
    pub(in crate::commands) fn observe_changes(&mut self) {
        let observer = Arc::clone(&self.state.tracking) as Arc<dyn Observer>;
        self.keys.observe(&observer);
        self.state.tracking.note_observing();
    }

    /// Remembers the keys that a command of a client which tracks is about to read.
    pub(in crate::commands) fn remember_keys(&self, number: usize, args: &[&[u8]]) {
        let Some(tracking) = self.client.tracking.as_deref() else { return };
        let command = &TABLE[number];
        if scripting::runs_script(number) {
            // Those that the call names; what a script reads beside is its own affair, as in a cluster.
            tracking.remember(scripting::keys_of_script(args).iter().copied());
        } else if command.flags.has(Flags::READONLY) {
            tracking.remember(command.keys_among(args));
        }
    }

    /// Remembers the keys of a transaction that another thread runs.
    pub(in crate::commands) fn remember_queued_keys(&mut self) {
        if self.client.tracking.is_none() {
            return;
        }
        let transaction = self.client.transaction(&self.state.space);
        let queue: Vec<(usize, Vec<Box<[u8]>>)> =
            transaction.queue_so_far().iter().map(|command| (command.number, command.args.clone())).collect();
        for (number, args) in &queue {
            let args: Vec<&[u8]> = args.iter().map(|arg| &**arg).collect();
            self.remember_keys(*number, &args);
        }
    }

    /// Ends the effect of CLIENT CACHING, which is for one command or one transaction.
    #[inline]
    pub(in crate::commands) fn end_caching(&mut self, number: usize) {
        if self.client.tracking.is_some()
            && !self.client.is_in_transaction()
            && TABLE[number].name != "client|caching"
            && let Some(tracking) = &mut self.client.tracking
        {
            tracking.is_caching = false;
        }
    }

    /// Publishes what CLIENT LIST shows of tracking.
    fn publish_tracking(&self) {
        let options = self.client.tracking.as_deref().map(|tracking| &tracking.options);
        self.client.registration.profile().set_tracking(options);
    }
}
