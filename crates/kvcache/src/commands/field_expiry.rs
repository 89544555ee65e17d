//! HEXPIRE and its like: times of expiry of a hash's fields, as Redis 7.4 has them.

use store::{
    Store,
    collections::{Collection, Field, Hash},
};

use super::{
    call::{Call, parse_integer},
    expiry::{Base, Conditions},
    set_options::Unit,
};
use crate::reply::{Outcome, Refusal};

/// There is no such field, or no such key.
const NO_FIELD: i64 = -2;
/// The field has no time of expiry.
const NO_EXPIRY: i64 = -1;
/// Latest time of expiry, in milliseconds since the Unix epoch; as in Redis.
const EXPIRES_AT_MAX: i64 = (1 << 48) - 1;

const BAD_NUMBER: &str = "ERR Parameter `numFields` should be greater than 0";

// --- setting ----------------------------------------------------------------------------------

pub(super) fn hexpire<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    expire_fields(call, Base::Now, Unit::Seconds)
}

pub(super) fn hpexpire<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    expire_fields(call, Base::Now, Unit::Milliseconds)
}

pub(super) fn hexpireat<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    expire_fields(call, Base::Epoch, Unit::Seconds)
}

pub(super) fn hpexpireat<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    expire_fields(call, Base::Epoch, Unit::Milliseconds)
}

fn expire_fields<S: Store>(call: &mut Call<'_, '_, S>, base: Base, unit: Unit) -> Outcome {
    let at = parse_time(call, 2, base, unit)?;
    let options = if call.args[3].eq_ignore_ascii_case(b"FIELDS") { 3 } else { 4 };
    let conditions = Conditions::parse(&call.args[3..options])?;
    let names = field_names(call, options, BAD_NUMBER)?;
    let now = call.unix_ms();
    let event = if u64::try_from(at).is_ok_and(|at| at > now) { "hexpire" } else { "hdel" };
    let outcomes = call.change_hash(event, names.len(), |hash| {
        let outcomes: Vec<i64> = names.iter().map(|name| expire(hash, name, at, conditions, now)).collect();
        (outcomes.iter().any(|&outcome| outcome > 0), outcomes)
    })?;
    if outcomes.contains(&1) {
        call.item(1).note_field_expiry(at.unsigned_abs());
    }
    write_all(call, &outcomes);
    Ok(())
}

/// Sets the time of expiry of a field. Returns 0 if the conditions do not hold, 1, or 2 if the field has been deleted
/// because the time is over.
fn expire(hash: &mut Hash, name: &[u8], at: i64, conditions: Conditions, now: u64) -> i64 {
    let Some(field) = hash.view().get(name, now) else { return NO_FIELD };
    if !conditions.are_met(at, field.expires_at) {
        return 0;
    }
    match u64::try_from(at) {
        Ok(at) if at > now => {
            hash.set_expiry(name, at);
            1
        }
        Ok(_) | Err(_) => {
            hash.remove(name);
            2
        }
    }
}

/// Parses an argument, and returns milliseconds since the Unix epoch, at least 0.
pub(super) fn parse_time<S: Store>(
    call: &Call<'_, '_, S>,
    index: usize,
    base: Base,
    unit: Unit,
) -> Result<i64, Refusal> {
    let number = call.integer(index)?;
    if number < 0 {
        return Err(Refusal::new("ERR invalid expire time, must be >= 0"));
    }
    let ms = match unit {
        Unit::Seconds => number.checked_mul(1000),
        Unit::Milliseconds => Some(number),
    };
    let at = match base {
        // Nothing expires early, and what is to expire at once does.
        Base::Now if number > 0 => ms.and_then(|ms| ms.checked_add_unsigned(call.expiry_base_ms())),
        Base::Now => ms.and_then(|ms| ms.checked_add_unsigned(call.unix_ms())),
        Base::Epoch => ms,
    };
    at.filter(|&at| at <= EXPIRES_AT_MAX).ok_or_else(|| call.invalid_expiry())
}

pub(super) fn hpersist<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (names, now) = (field_names(call, 2, BAD_NUMBER)?, call.unix_ms());
    let outcomes = call.change_hash("hpersist", 0, |hash| {
        let persist = |name: &&[u8]| {
            let before = hash.view().get(name, now).map(|field| field.expires_at);
            match before {
                None => NO_FIELD,
                Some(0) => NO_EXPIRY,
                Some(_) => hash.set_expiry(name, 0).into(),
            }
        };
        let outcomes: Vec<i64> = names.iter().map(persist).collect();
        (outcomes.contains(&1), outcomes)
    })?;
    write_all(call, &outcomes);
    Ok(())
}

// --- asking -----------------------------------------------------------------------------------

pub(super) fn httl<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show_times(call, Base::Now, Unit::Seconds)
}

pub(super) fn hpttl<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show_times(call, Base::Now, Unit::Milliseconds)
}

pub(super) fn hexpiretime<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show_times(call, Base::Epoch, Unit::Seconds)
}

pub(super) fn hpexpiretime<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show_times(call, Base::Epoch, Unit::Milliseconds)
}

fn show_times<S: Store>(call: &mut Call<'_, '_, S>, base: Base, unit: Unit) -> Outcome {
    let (names, now, base_ms) = (field_names(call, 2, BAD_NUMBER)?, call.unix_ms(), call.expiry_base_ms());
    let time_of = |field: Field<'_>| match field.expires_at {
        0 => NO_EXPIRY,
        at => {
            let ms = if base == Base::Now { at.saturating_sub(base_ms) } else { at };
            let time = if unit == Unit::Seconds { ms.div_ceil(1000) } else { ms };
            time.cast_signed()
        }
    };
    let hash = call.hash()?;
    let times: Vec<i64> =
        names.iter().map(|name| hash.and_then(|hash| hash.get(name, now)).map_or(NO_FIELD, time_of)).collect();
    write_all(call, &times);
    Ok(())
}

/// Parses `FIELDS number name…` from argument `at` to the end; a number that is not positive is refused with this text.
pub(super) fn field_names<'a, S: Store>(
    call: &Call<'a, '_, S>,
    at: usize,
    bad_number: &'static str,
) -> Result<&'a [&'a [u8]], Refusal> {
    if !call.is(at, "FIELDS") {
        return Err(Refusal::new("ERR Mandatory argument FIELDS is missing or not at the right position"));
    }
    let number = call.args.get(at + 1).and_then(|number| parse_integer(number)).filter(|&number| number > 0);
    let number = number.ok_or_else(|| Refusal::new(bad_number))?;
    let names = call.args.get(at + 2..).unwrap_or_default();
    match usize::try_from(number) == Ok(names.len()) {
        true => Ok(names),
        false => Err(Refusal::new("ERR The `numfields` parameter must match the number of arguments")),
    }
}

fn write_all<S: Store>(call: &mut Call<'_, '_, S>, numbers: &[i64]) {
    call.reply.array(numbers.len());
    numbers.iter().for_each(|&number| call.reply.integer(number));
}
