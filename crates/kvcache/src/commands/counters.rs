//! Commands that take a value for a number.

use store::{Attributes, Store};

use super::{
    call::{Call, parse_integer},
    long_double::LongDouble,
    ranges::without_version,
};
use crate::{
    reply::{Outcome, Refusal},
    state::EventClass,
};

pub(super) fn incr<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    add(call, 1)
}

pub(super) fn decr<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    add(call, -1)
}

pub(super) fn incrby<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let by = call.integer(2)?;
    add(call, by)
}

pub(super) fn decrby<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let by = call.integer(2)?.checked_neg().ok_or_else(|| Refusal::new("ERR decrement would overflow"))?;
    add(call, by)
}

fn add<S: Store>(call: &mut Call<'_, '_, S>, by: i64) -> Outcome {
    let mut item = call.keys.item(call.args[1]);
    let (old, attributes) = match item.peek()? {
        None => (0, Attributes::default()),
        Some(value) => (parse_integer(&value.bytes).ok_or(Refusal::NOT_AN_INTEGER)?, value.attributes),
    };
    let new = old.checked_add(by).ok_or_else(|| Refusal::new("ERR increment or decrement would overflow"))?;
    item.set(itoa::Buffer::new().format(new).as_bytes(), without_version(attributes))?;
    call.notify(EventClass::String, "incrby", call.args[1]);
    call.reply.integer(new);
    Ok(())
}

pub(super) fn incrbyfloat<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let by = call.args[2];
    let mut item = call.keys.item(call.args[1]);
    let (old, attributes) = match item.peek()? {
        None => (LongDouble::ZERO, Attributes::default()),
        Some(value) => (LongDouble::parse(&value.bytes).ok_or(Refusal::NOT_A_FLOAT)?, value.attributes),
    };
    let by = LongDouble::parse(by).ok_or(Refusal::NOT_A_FLOAT)?;
    let sum = old.add(by).ok_or_else(|| Refusal::new("ERR increment would produce NaN or Infinity"))?;
    let text = sum.to_string();
    item.set(text.as_bytes(), without_version(attributes))?;
    call.notify(EventClass::String, "incrbyfloat", call.args[1]);
    call.reply.bulk(text.as_bytes());
    Ok(())
}
