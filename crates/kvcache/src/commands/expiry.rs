//! Commands on the expiry of entries.

use store::Store;

use super::{call::Call, set_options::Unit};
use crate::{
    reply::{Outcome, Refusal, quote::quote},
    state::EventClass,
};

/// Conditions of EXPIRE about the current expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    has_nx: bool,
    has_xx: bool,
    has_gt: bool,
    has_lt: bool,
}

/// Point that a time is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Now,
    Epoch,
}

pub(super) fn expire<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    expire_at(call, Base::Now, Unit::Seconds)
}

pub(super) fn pexpire<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    expire_at(call, Base::Now, Unit::Milliseconds)
}

pub(super) fn expireat<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    expire_at(call, Base::Epoch, Unit::Seconds)
}

pub(super) fn pexpireat<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    expire_at(call, Base::Epoch, Unit::Milliseconds)
}

fn expire_at<S: Store>(call: &mut Call<'_, '_, S>, base: Base, unit: Unit) -> Outcome {
    let conditions = Conditions::parse(&call.args[3..])?;
    let number = call.integer(2)?;
    let ms = match unit {
        Unit::Seconds => number.checked_mul(1000),
        Unit::Milliseconds => Some(number),
    };
    let at = match base {
        Base::Now => ms.and_then(|ms| ms.checked_add_unsigned(call.expiry_base_ms())),
        Base::Epoch => ms,
    };
    let at = at.ok_or_else(|| call.invalid_expiry())?;
    let is_future = match base {
        Base::Now => number > 0,
        Base::Epoch => u64::try_from(at).is_ok_and(|at| at > call.unix_ms()),
    };
    let mut item = call.keys.item(call.args[1]);
    let done = match item.attributes() {
        Some(attributes) if conditions.are_met(at, attributes.expires_at) => match u64::try_from(at) {
            Ok(at) if is_future => item.set_expiry(at)?,
            Ok(_) | Err(_) => item.remove(),
        },
        Some(_) | None => false,
    };
    if done {
        call.notify(EventClass::Generic, if is_future { "expire" } else { "del" }, call.args[1]);
    }
    call.reply.integer(done.into());
    Ok(())
}

impl Conditions {
    pub(super) fn parse(args: &[&[u8]]) -> Result<Self, Refusal> {
        let mut conditions = Self::default();
        for option in args {
            match &*option.to_ascii_lowercase() {
                b"nx" => conditions.has_nx = true,
                b"xx" => conditions.has_xx = true,
                b"gt" => conditions.has_gt = true,
                b"lt" => conditions.has_lt = true,
                _ => {
                    let option = quote(option, usize::MAX);
                    return Err(Refusal::new(format!("ERR Unsupported option {option}")));
                }
            }
        }
        let Self { has_nx, has_xx, has_gt, has_lt } = conditions;
        if has_nx && (has_xx || has_gt || has_lt) {
            return Err(Refusal::new("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if has_gt && has_lt {
            return Err(Refusal::new("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// True if the conditions hold. A `current` of 0 means never, which is later than anything.
    pub(super) fn are_met(self, at: i64, current: u64) -> bool {
        let (expires, current) = (current != 0, i64::try_from(current).unwrap_or(i64::MAX));
        !(self.has_nx && expires
            || self.has_xx && !expires
            || self.has_gt && !(expires && at > current)
            || self.has_lt && expires && at >= current)
    }
}

pub(super) fn ttl<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    time_left(call, Base::Now, Unit::Seconds)
}

pub(super) fn pttl<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    time_left(call, Base::Now, Unit::Milliseconds)
}

pub(super) fn expiretime<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    time_left(call, Base::Epoch, Unit::Seconds)
}

pub(super) fn pexpiretime<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    time_left(call, Base::Epoch, Unit::Milliseconds)
}

fn time_left<S: Store>(call: &mut Call<'_, '_, S>, base: Base, unit: Unit) -> Outcome {
    let now = i64::try_from(call.expiry_base_ms()).unwrap_or(i64::MAX);
    let answer = match call.item(1).look_up() {
        None => -2,
        Some(attributes) if attributes.expires_at == 0 => -1,
        Some(attributes) => {
            let at = i64::try_from(attributes.expires_at).unwrap_or(i64::MAX);
            let ms = if base == Base::Now { (at - now).max(0) } else { at };
            match unit {
                Unit::Milliseconds => ms,
                Unit::Seconds => ((ms.unsigned_abs() + 500) / 1000).cast_signed(),
            }
        }
    };
    call.reply.integer(answer);
    Ok(())
}

pub(super) fn persist<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let mut item = call.keys.item(call.args[1]);
    let expires = item.attributes().is_some_and(|attributes| attributes.expires_at != 0);
    let done = expires && item.set_expiry(0)?;
    if done {
        call.notify(EventClass::Generic, "persist", call.args[1]);
    }
    call.reply.integer(done.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proto::{Now, Outbox, Protocol};
    use store::HashbrownStore;

    use super::*;
    use crate::{
        connection::Conn,
        testing::{self, Server},
    };

    fn parse(options: &str) -> Result<Conditions, Refusal> {
        let args: Vec<&[u8]> = options.split_ascii_whitespace().map(str::as_bytes).collect();
        Conditions::parse(&args)
    }

    #[test]
    fn conditions_compare_with_the_current_expiry() {
        let are_met = |options: &str, at: i64, current: u64| parse(options).unwrap().are_met(at, current);
        for (options, never, earlier, later) in [
            ("", true, true, true),
            ("nx", true, false, false),
            ("XX", false, true, true),
            ("gt", false, false, true),
            ("lt", true, true, false),
            ("xx lt", false, true, false),
            ("xx gt gt", false, false, true),
        ] {
            assert_eq!(are_met(options, 5, 0), never, "{options}");
            assert_eq!(are_met(options, 5, 6), earlier, "{options}");
            assert_eq!(are_met(options, 5, 4), later, "{options}");
        }
        assert!(!are_met("gt", 5, 5) && !are_met("lt", 5, 5));
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let text = |options: &str| parse(options).unwrap_err().0.into_owned();
        assert_eq!(text("nx gt"), "ERR NX and XX, GT or LT options at the same time are not compatible");
        assert_eq!(text("gt lt"), "ERR GT and LT options at the same time are not compatible");
        assert_eq!(text("gt lt ch"), "ERR Unsupported option ch");
    }

    /// Sends a request at a time and returns the reply.
    fn ask(server: &Server, conn: &mut Conn<HashbrownStore>, unix_us: u64, request: &str) -> String {
        let (now, mut out) = (Now { unix: Duration::from_micros(unix_us), ..testing::now() }, Outbox::default());
        let step = server.on_input(conn, request.as_bytes(), now, &mut out);
        assert_eq!(step.consumed, request.len());
        String::from_utf8_lossy(out.inline()).into_owned()
    }

    #[test]
    fn nothing_expires_early_or_more_than_a_millisecond_late() {
        const BEGIN: u64 = 4_000_000_000_000_000;
        for (set, get, value, nil) in [
            ("SET k 1 PX 20\r\n", "GET k\r\n", "$1\r\n1\r\n", "$-1\r\n"),
            ("SET k 1\r\nPEXPIRE k 20\r\n", "EXISTS k\r\n", ":1\r\n", ":0\r\n"),
            ("PSETEX k 20 1\r\n", "STRLEN k\r\n", ":1\r\n", ":0\r\n"),
        ] {
            for offset in [0, 1, 499, 999] {
                let (server, mut conn) = testing::server();
                ask(&server, &mut conn, BEGIN + offset, set);
                assert_eq!(ask(&server, &mut conn, BEGIN + offset, "PTTL k\r\n"), ":20\r\n", "{set:?} at {offset}");
                assert_eq!(ask(&server, &mut conn, BEGIN + offset + 19_999, get), value, "{set:?} at {offset}");
                assert_eq!(ask(&server, &mut conn, BEGIN + offset + 21_000, get), nil, "{set:?} at {offset}");
            }
        }
    }

    #[test]
    fn a_time_that_is_not_in_the_future_deletes_at_once() {
        let (server, mut conn) = testing::server();
        for request in ["EXPIRE k 0\r\n", "PEXPIRE k -1\r\n", "PEXPIREAT k 4000000000000\r\n"] {
            ask(&server, &mut conn, 4_000_000_000_000_300, "SET k 1\r\n");
            assert_eq!(ask(&server, &mut conn, 4_000_000_000_000_300, request), ":1\r\n", "{request:?}");
            assert_eq!(ask(&server, &mut conn, 4_000_000_000_000_300, "EXISTS k\r\n"), ":0\r\n", "{request:?}");
        }
    }
}
