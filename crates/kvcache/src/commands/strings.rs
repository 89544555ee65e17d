//! Commands that read or replace whole values.

use store::{Attributes, OutOfMemory, Store};

use super::{
    call::Call,
    set_options::{Condition, Expiry, GetOptions, SetOptions, Unit},
};
use crate::{
    reply::{Outcome, Refusal},
    state::{EventClass, Keyspace},
    value::Value,
};

pub(super) fn get<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let mut item = call.keys.item(call.args[1]);
    let value = item.get()?;
    call.reply.value(value);
    Ok(())
}

pub(super) fn set<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let options = SetOptions::parse(&call.args[3..])?;
    match options.has_get {
        true => set_and_show(call, call.args[2], &options),
        false => {
            set_with(call, call.args[2], &options).map(|done| if done { call.reply.ok() } else { call.reply.null() })
        }
    }
}

pub(super) fn setnx<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let options = SetOptions { condition: Some(Condition::Absent), ..SetOptions::default() };
    let done = set_with(call, call.args[2], &options)?;
    call.reply.integer(done.into());
    Ok(())
}

pub(super) fn setex<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    set_for(call, Unit::Seconds)
}

pub(super) fn psetex<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    set_for(call, Unit::Milliseconds)
}

fn set_for<S: Store>(call: &mut Call<'_, '_, S>, unit: Unit) -> Outcome {
    let options = SetOptions { expiry: Some(Expiry::In(unit, call.args[2])), ..SetOptions::default() };
    set_with(call, call.args[3], &options)?;
    call.reply.ok();
    Ok(())
}

/// Sets the value. False if the condition does not hold.
fn set_with<S: Store>(call: &mut Call<'_, '_, S>, value: &[u8], options: &SetOptions<'_>) -> Result<bool, Refusal> {
    let expires_at = call.expires_at(options.expiry)?;
    let mut item = call.keys.item(call.args[1]);
    let before = if options.has_condition() { item.attributes() } else { None };
    if !options.is_met(before.is_some()) {
        return Ok(false);
    }
    let current = before.filter(|_| options.has_keep_ttl).map_or(0, |before| before.expires_at);
    item.set(value, Attributes { expires_at: expires_at.unwrap_or(current), ..Attributes::default() })?;
    call.notify(EventClass::String, "set", call.args[1]);
    if expires_at.is_some() {
        call.notify(EventClass::Generic, "expire", call.args[1]);
    }
    Ok(true)
}

/// Sets the value, and answers the previous one, whether or not the condition holds.
fn set_and_show<S: Store>(call: &mut Call<'_, '_, S>, value: &[u8], options: &SetOptions<'_>) -> Outcome {
    // An invalid expiry is refused before anything is looked up.
    call.expires_at(options.expiry)?;
    let before = call.keys.item(call.args[1]).get()?.map(Value::into_bytes);
    set_with(call, value, options)?;
    call.reply.bytes(before.as_ref());
    Ok(())
}

pub(super) fn getset<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    set_and_show(call, call.args[2], &SetOptions::default())
}

pub(super) fn getex<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let GetOptions { expiry, has_persist } = GetOptions::parse(&call.args[2..])?;
    let Some(before) = call.item(1).get()?.map(|value| value.attributes) else {
        call.reply.null();
        return Ok(());
    };
    let expires_at = match (call.expires_at(expiry)?, has_persist) {
        (Some(expires_at), _) => expires_at,
        (None, true) => 0,
        (None, false) => before.expires_at,
    };
    let is_past = matches!(expiry, Some(Expiry::At(..))) && expires_at <= call.unix_ms();
    let mut item = call.keys.item(call.args[1]);
    // The expiry is changed first, since that may fail; nothing comes between it and the value.
    let is_changed = expiry.is_some() || expires_at != before.expires_at;
    if !is_past && is_changed {
        item.set_expiry(expires_at)?;
    }
    let value = item.peek()?;
    call.reply.value(value);
    if is_past {
        item.remove();
    }
    match (is_past, expires_at) {
        (true, _) => call.notify(EventClass::Generic, "del", call.args[1]),
        (false, _) if !is_changed => {}
        (false, 0) => call.notify(EventClass::Generic, "persist", call.args[1]),
        (false, _) => call.notify(EventClass::Generic, "expire", call.args[1]),
    }
    Ok(())
}

pub(super) fn getdel<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let mut item = call.keys.item(call.args[1]);
    let value = item.get()?;
    call.reply.value(value);
    if item.remove() {
        call.notify(EventClass::Generic, "del", call.args[1]);
    }
    Ok(())
}

pub(super) fn mget<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.args.len() > 2 {
        call.lock_all();
    }
    call.reply.array(call.args.len() - 1);
    for &key in &call.args[1..] {
        // As in Redis, a value of another type counts as missing here.
        call.reply.value(call.keys.item(key).get().unwrap_or_default());
    }
    Ok(())
}

pub(super) fn mset<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    set_pairs(call, false)?;
    call.reply.ok();
    Ok(())
}

pub(super) fn msetnx<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let done = set_pairs(call, true)?;
    call.reply.integer(done.into());
    Ok(())
}

/// Sets all pairs. False if one of the keys exists, and none may.
fn set_pairs<S: Store>(call: &mut Call<'_, '_, S>, all_absent: bool) -> Result<bool, Refusal> {
    if call.args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let has_several = call.args.len() > 3;
    if has_several {
        call.lock_all();
    }
    let pairs = call.args[1..].chunks_exact(2);
    if all_absent && pairs.clone().any(|pair| call.keys.item(pair[0]).exists()) {
        return Ok(false);
    }
    let notifications = &call.state.notifications;
    let set = |keys: &mut Keyspace<'_, S>| {
        pairs.clone().try_for_each(|pair| {
            keys.item(pair[0]).set(pair[1], Attributes::default())?;
            if notifications.is_on() {
                notifications.publish(EventClass::String, keys.database, "set", pair[0]);
            }
            Ok::<(), OutOfMemory>(())
        })
    };
    if !has_several {
        set(call.keys)?;
        return Ok(true);
    }
    for pair in pairs.clone() {
        call.keys.item(pair[0]).reserve(pair[1].len())?;
    }
    let added = call.args[1..].iter().map(|arg| arg.len()).sum();
    call.keys.with_allowance(added, set)?;
    Ok(true)
}
