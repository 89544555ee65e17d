//! CLIENT KILL and UNBLOCK.

use std::sync::Arc;

use proto::Flow;
use store::Store;

use super::{Call, Kind, Outcome, Refusal, address, address_of, kind, those};
use crate::state::clients::Profile;

/// Which connections are meant; what is `None` is not asked for.
#[derive(Debug, Default)]
struct Wanted {
    id: Option<u64>,
    address: Option<String>,
    local: Option<String>,
    kind: Option<Kind>,
    skips_me: bool,
}

impl Wanted {
    fn is(&self, profile: &Profile, me: u64) -> bool {
        self.id.is_none_or(|id| id == profile.id)
            && self.address.as_ref().is_none_or(|wanted| *wanted == address_of(profile))
            && self.local.as_ref().is_none_or(|wanted| *wanted == address(profile.local.as_ref()))
            && self.kind.is_none_or(|kind| kind == Kind::Normal)
            && !(self.skips_me && profile.id == me)
    }
}

pub(in super::super) fn kill<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let text = |index: usize| String::from_utf8_lossy(call.args[index]).into_owned();
    if call.args.len() == 3 {
        let wanted = Wanted { address: Some(text(2)), ..Wanted::default() };
        let found = those(call, |profile| wanted.is(profile, 0));
        if found.is_empty() {
            return Err(Refusal::new("ERR No such client"));
        }
        call.reply.ok();
        call.end(&found[..1]);
        return Ok(());
    }
    let mut wanted = Wanted { skips_me: true, ..Wanted::default() };
    for index in (2..call.args.len()).step_by(2) {
        if index + 1 == call.args.len() {
            return Err(Refusal::SYNTAX);
        } else if call.is(index, "ID") {
            let id = call.integer(index + 1).ok().and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
            wanted.id = Some(id.ok_or_else(|| Refusal::new("ERR client-id should be greater than 0"))?);
        } else if call.is(index, "TYPE") {
            wanted.kind = Some(kind(call.args[index + 1])?);
        } else if call.is(index, "ADDR") {
            wanted.address = Some(text(index + 1));
        } else if call.is(index, "LADDR") {
            wanted.local = Some(text(index + 1));
        } else if call.is(index, "USER") {
            if call.args[index + 1] != b"default" {
                return Err(Refusal::new(format!("ERR No such user '{}'", text(index + 1))));
            }
        } else if call.is(index, "SKIPME") && (call.is(index + 1, "YES") || call.is(index + 1, "NO")) {
            wanted.skips_me = call.is(index + 1, "YES");
        } else {
            return Err(Refusal::SYNTAX);
        }
    }
    let me = call.conn.client.id();
    let found = those(call, |profile| wanted.is(profile, me));
    call.reply.count(found.len());
    call.end(&found);
    Ok(())
}

impl<S: Store> Call<'_, '_, S> {
    /// Closes connections; this one not before its reply.
    fn end(&mut self, profiles: &[Arc<Profile>]) {
        for profile in profiles {
            match profile.id == self.conn.client.id() {
                true => self.flow = Flow::Close,
                false => profile.kill(),
            }
        }
    }
}

/// No command blocks, so nobody is waiting for one to end.
pub(in super::super) fn unblock<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
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
