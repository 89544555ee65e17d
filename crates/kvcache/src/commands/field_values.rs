//! HGETDEL, HGETEX and HSETEX: values of a hash's fields together with their expiry, as Redis 8 has them.

use store::{
    Store,
    collections::{Collection, FieldExpiry, Hash},
};

use super::{
    call::{Call, parse_integer},
    expiry::Base,
    field_expiry::{field_names, parse_time},
    set_options::Unit,
};
use crate::{
    reply::{Outcome, Refusal},
    state::EventClass,
};

const BAD_NUMBER: &str = "ERR Number of fields must be a positive integer";

/// New expiry of the fields that a command names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewExpiry {
    Keep,
    Never,
    /// Milliseconds since the Unix epoch, perhaps in the past.
    At(u64),
}

/// Condition of HSETEX about all fields that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldCondition {
    NonePresent,
    AllPresent,
}

pub(super) fn hgetdel<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (names, now) = (field_names(call, 2, BAD_NUMBER)?, call.unix_ms());
    let values = call.change_hash("hdel", 0, |hash| {
        let take = |name: &&[u8]| {
            let value = value(hash, name, now);
            if value.is_some() {
                hash.remove(name);
            }
            value
        };
        let values: Vec<_> = names.iter().map(take).collect();
        (values.iter().any(Option::is_some), values)
    })?;
    write_values(call, &values);
    Ok(())
}

pub(super) fn hgetex<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (expiry, at) = match timed_option(call, 2) {
        Some((base, unit)) => (NewExpiry::At(parse_time(call, 3, base, unit)?.unsigned_abs()), 4),
        None if call.is(2, "PERSIST") => (NewExpiry::Never, 3),
        None => (NewExpiry::Keep, 2),
    };
    let (names, now) = (field_names(call, at, BAD_NUMBER)?, call.unix_ms());
    let event = match expiry {
        NewExpiry::At(at) if at <= now => "hdel",
        NewExpiry::At(_) => "hexpire",
        NewExpiry::Never | NewExpiry::Keep => "hpersist",
    };
    let values = call.change_hash(event, 0, |hash| {
        let read = |name: &&[u8]| {
            let value = value(hash, name, now);
            match expiry {
                NewExpiry::At(at) if value.is_some() && at <= now => {
                    hash.remove(name);
                }
                NewExpiry::At(at) if value.is_some() => {
                    hash.set_expiry(name, at);
                }
                NewExpiry::Never if value.is_some() => {
                    hash.set_expiry(name, 0);
                }
                NewExpiry::At(_) | NewExpiry::Never | NewExpiry::Keep => {}
            }
            value
        };
        let values: Vec<_> = names.iter().map(read).collect();
        (expiry != NewExpiry::Keep && values.iter().any(Option::is_some), values)
    })?;
    if let NewExpiry::At(at) = expiry
        && values.iter().any(Option::is_some)
    {
        call.item(1).note_field_expiry(at);
    }
    write_values(call, &values);
    Ok(())
}

pub(super) fn hsetex<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let SetFields { condition, expiry, pairs } = SetFields::parse(call)?;
    let now = call.unix_ms();
    let event = if matches!(expiry, NewExpiry::At(at) if at <= now) { "hdel" } else { "hset" };
    let done = call.change_hash(event, pairs.len() / 2, |hash| {
        let mut present = pairs.chunks_exact(2).map(|pair| hash.view().get(pair[0], now).is_some());
        let is_met = match condition {
            None => true,
            Some(FieldCondition::NonePresent) => !present.any(|is_present| is_present),
            Some(FieldCondition::AllPresent) => present.all(|is_present| is_present),
        };
        for pair in pairs.chunks_exact(2).filter(|_| is_met) {
            match expiry {
                NewExpiry::At(at) if at <= now => {
                    hash.remove(pair[0]);
                }
                NewExpiry::At(at) => {
                    hash.set(pair[0], pair[1], FieldExpiry::At(at));
                }
                NewExpiry::Keep => {
                    hash.set(pair[0], pair[1], FieldExpiry::Keep);
                }
                NewExpiry::Never => {
                    hash.set(pair[0], pair[1], FieldExpiry::At(0));
                }
            }
        }
        (is_met, is_met)
    })?;
    if let NewExpiry::At(at) = expiry
        && done
    {
        call.item(1).note_field_expiry(at);
        if at > now {
            call.notify(EventClass::Hash, "hexpire", call.args[1]);
        }
    }
    call.reply.integer(done.into());
    Ok(())
}

/// Arguments of HSETEX: `[FNX | FXX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] FIELDS number field value…`.
struct SetFields<'a> {
    condition: Option<FieldCondition>,
    expiry: NewExpiry,
    /// Names and values in turn.
    pairs: &'a [&'a [u8]],
}

impl<'a> SetFields<'a> {
    fn parse<S: Store>(call: &Call<'a, '_, S>) -> Result<Self, Refusal> {
        let (mut condition, mut expiry, mut at) = (None, None, 2);
        while !call.is(at, "FIELDS") {
            let name = *call.args.get(at).ok_or_else(|| call.wrong_arity())?;
            if let Some((base, unit)) = timed_option(call, at) {
                let missing = || Refusal::new("ERR missing expire time");
                at += 1;
                call.args.get(at).ok_or_else(missing)?;
                let time = NewExpiry::At(parse_time(call, at, base, unit)?.unsigned_abs());
                set_once(&mut expiry, time, "EX, PX, EXAT, PXAT or KEEPTTL")?;
            } else if call.is(at, "KEEPTTL") {
                set_once(&mut expiry, NewExpiry::Keep, "EX, PX, EXAT, PXAT or KEEPTTL")?;
            } else if call.is(at, "FNX") {
                set_once(&mut condition, FieldCondition::NonePresent, "FXX or FNX")?;
            } else if call.is(at, "FXX") {
                set_once(&mut condition, FieldCondition::AllPresent, "FXX or FNX")?;
            } else {
                return Err(Refusal::new(format!("ERR unknown argument: {}", String::from_utf8_lossy(name))));
            }
            at += 1;
        }
        let pairs = call.args.get(at + 2..).filter(|pairs| !pairs.is_empty()).ok_or_else(|| call.wrong_arity())?;
        let number = parse_integer(call.args[at + 1]).and_then(|number| usize::try_from(number).ok());
        let number = number.filter(|&number| number > 0);
        let number = number.ok_or_else(|| Refusal::new("ERR invalid number of fields"))?;
        if !pairs.len().is_multiple_of(2) || number != pairs.len() / 2 {
            return Err(call.wrong_arity());
        }
        Ok(Self { condition, expiry: expiry.unwrap_or(NewExpiry::Never), pairs })
    }
}

/// Sets an option of which only one may be given.
fn set_once<T>(option: &mut Option<T>, value: T, choices: &str) -> Result<(), Refusal> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(Refusal::new(format!("ERR Only one of {choices} arguments can be specified"))),
    }
}

/// Returns the meaning of an argument that names a time behind it.
fn timed_option<S: Store>(call: &Call<'_, '_, S>, at: usize) -> Option<(Base, Unit)> {
    [
        ("EX", Base::Now, Unit::Seconds),
        ("PX", Base::Now, Unit::Milliseconds),
        ("EXAT", Base::Epoch, Unit::Seconds),
        ("PXAT", Base::Epoch, Unit::Milliseconds),
    ]
    .into_iter()
    .find_map(|(name, base, unit)| call.is(at, name).then_some((base, unit)))
}

fn value(hash: &Hash, name: &[u8], now: u64) -> Option<Vec<u8>> {
    hash.view().get(name, now).map(|field| field.value.to_bytes().into_owned())
}

fn write_values<S: Store>(call: &mut Call<'_, '_, S>, values: &[Option<Vec<u8>>]) {
    call.reply.array(values.len());
    for value in values {
        match value {
            Some(value) => call.reply.bulk(value),
            None => call.reply.null(),
        }
    }
}
