//! CLIENT KILL and UNBLOCK.

use std::sync::Arc;

use proto::Flow;
use store::Store;

use super::{Kind, kind, matching_clients};
use crate::{
    commands::call::Call,
    reply::{Outcome, Refusal},
    state::Profile,
};

/// Filter of connections; what is `None` matches all.
#[derive(Debug, Default)]
struct Filter {
    id: Option<u64>,
    address: Option<String>,
    local: Option<String>,
    kind: Option<Kind>,
    should_skip_me: bool,
}

impl Filter {
    fn matches(&self, profile: &Profile, me: u64) -> bool {
        self.id.is_none_or(|id| id == profile.id)
            && self.address.as_ref().is_none_or(|wanted| *wanted == profile.peer_text())
            && self.local.as_ref().is_none_or(|wanted| *wanted == profile.local_text())
            && self.kind.is_none_or(|kind| kind.is_of(profile))
            && !(self.should_skip_me && profile.id == me)
    }
}

pub(in crate::commands) fn kill<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let text = |index: usize| String::from_utf8_lossy(call.args[index]).into_owned();
    if call.args.len() == 3 {
        let filter = Filter { address: Some(text(2)), ..Filter::default() };
        let found = matching_clients(call, |profile| filter.matches(profile, 0));
        if found.is_empty() {
            return Err(Refusal::new("ERR No such client"));
        }
        call.reply.ok();
        call.close(&found[..1]);
        return Ok(());
    }
    let mut filter = Filter { should_skip_me: true, ..Filter::default() };
    for index in (2..call.args.len()).step_by(2) {
        if index + 1 == call.args.len() {
            return Err(Refusal::SYNTAX);
        } else if call.is(index, "ID") {
            let id = call.integer(index + 1).ok().and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
            filter.id = Some(id.ok_or_else(|| Refusal::new("ERR client-id should be greater than 0"))?);
        } else if call.is(index, "TYPE") {
            filter.kind = Some(kind(call.args[index + 1])?);
        } else if call.is(index, "ADDR") {
            filter.address = Some(text(index + 1));
        } else if call.is(index, "LADDR") {
            filter.local = Some(text(index + 1));
        } else if call.is(index, "USER") {
            if call.args[index + 1] != b"default" {
                return Err(Refusal::new(format!("ERR No such user '{}'", text(index + 1))));
            }
        } else if call.is(index, "SKIPME") && (call.is(index + 1, "YES") || call.is(index + 1, "NO")) {
            filter.should_skip_me = call.is(index + 1, "YES");
        } else {
            return Err(Refusal::SYNTAX);
        }
    }
    let me = call.client.registration.id();
    let found = matching_clients(call, |profile| filter.matches(profile, me));
    call.reply.count(found.len());
    call.close(&found);
    Ok(())
}

impl<S: Store> Call<'_, '_, S> {
    /// Closes connections; this one after its reply.
    fn close(&mut self, profiles: &[Arc<Profile>]) {
        for profile in profiles {
            match profile.id == self.client.registration.id() {
                true => self.flow = Flow::Close,
                false => profile.kill(),
            }
        }
    }
}

/// Finds no client, since no command blocks.
pub(in crate::commands) fn unblock<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.args.len() > 4 {
        return Err(Refusal::SYNTAX);
    }
    if call.args.len() == 4 && !call.is(3, "TIMEOUT") && !call.is(3, "ERROR") {
        return Err(Refusal::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
    }
    call.integer(2)?;
    call.reply.integer(0);
    Ok(())
}
