//! Commands on the fields of a hash.

use store::{
    Store,
    collections::{Collection, Field, FieldExpiry, Hash, HashView, Text},
};

use super::{
    call::{Call, parse_integer},
    long_double::LongDouble,
};
use crate::{
    reply::{Outcome, Refusal},
    state::EventClass,
};

/// Memory that a new field may take beside its name and value, in bytes.
const FIELD_BYTES: usize = 64;

impl<S: Store> Call<'_, '_, S> {
    /// Returns the hash under argument 1, for a command that reads it.
    pub(super) fn hash<'a>(&'a mut self) -> Result<Option<HashView<'a>>, Refusal> {
        Ok(self.keys.item(self.args[1]).into_collection::<Hash>()?)
    }

    /// Changes the hash under argument 1, from which the fields that have expired are removed first. `change` returns true
    /// if it has changed the hash, which is then the event.
    pub(super) fn change_hash<R>(
        &mut self,
        event: &'static str,
        fields_added: usize,
        change: impl FnOnce(&mut Hash) -> (bool, R),
    ) -> Result<R, Refusal> {
        let growth = match fields_added {
            0 => 0,
            added => self.args.iter().map(|arg| arg.len()).sum::<usize>() + added * FIELD_BYTES,
        };
        let now = self.unix_ms();
        let (has_purged, has_changed, result) = self.item(1).change(growth, |hash: &mut Hash| {
            let has_purged = hash.purge(now) > 0;
            let (has_changed, result) = change(hash);
            (has_changed || has_purged, (has_purged, has_changed, result))
        })?;
        let key = self.args[1];
        match (has_purged, has_changed) {
            (true, false) => self.notify_removal(EventClass::Hash, "hexpired", key),
            (true, true) => self.notify(EventClass::Hash, "hexpired", key),
            (false, _) => {}
        }
        if has_changed {
            self.notify_removal(EventClass::Hash, event, key);
        }
        Ok(result)
    }
}

// --- writing ----------------------------------------------------------------------------------

pub(super) fn hset<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let added = set_fields(call)?;
    call.reply.count(added);
    Ok(())
}

pub(super) fn hmset<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    set_fields(call)?;
    call.reply.ok();
    Ok(())
}

/// Sets fields, which lose their times of expiry. Returns the number of new ones.
fn set_fields<S: Store>(call: &mut Call<'_, '_, S>) -> Result<usize, Refusal> {
    if !call.args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let pairs = call.args[2..].chunks_exact(2);
    call.change_hash("hset", pairs.len(), |hash| {
        let added = pairs.filter(|pair| hash.set(pair[0], pair[1], FieldExpiry::At(0))).count();
        (true, added)
    })
}

pub(super) fn hsetnx<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (args, now) = (call.args, call.unix_ms());
    let done = call.change_hash("hset", 1, |hash| {
        let is_absent = hash.view().get(args[2], now).is_none();
        let done = is_absent && hash.set(args[2], args[3], FieldExpiry::At(0));
        (done, done)
    })?;
    call.reply.integer(done.into());
    Ok(())
}

pub(super) fn hdel<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let args = call.args;
    let removed = call.change_hash("hdel", 0, |hash| {
        let removed = args[2..].iter().filter(|name| hash.remove(name)).count();
        (removed > 0, removed)
    })?;
    call.reply.count(removed);
    Ok(())
}

pub(super) fn hincrby<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (args, by, now) = (call.args, call.integer(3)?, call.unix_ms());
    let sum = call.change_hash("hincrby", 1, |hash| {
        let sum = add(hash.view().get(args[2], now), by);
        if let Ok(sum) = sum {
            hash.set(args[2], itoa::Buffer::new().format(sum).as_bytes(), FieldExpiry::Keep);
        }
        (sum.is_ok(), sum)
    })??;
    call.reply.integer(sum);
    Ok(())
}

fn add(field: Option<Field<'_>>, by: i64) -> Result<i64, Refusal> {
    let before = match field.map(|field| field.value) {
        None => Some(0),
        Some(Text::Integer(number)) => Some(number),
        Some(Text::Bytes(bytes)) => parse_integer(bytes),
    };
    let before = before.ok_or_else(|| Refusal::new("ERR hash value is not an integer"))?;
    before.checked_add(by).ok_or_else(|| Refusal::new("ERR increment or decrement would overflow"))
}

pub(super) fn hincrbyfloat<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (args, now) = (call.args, call.unix_ms());
    let by = LongDouble::parse(args[3]).ok_or(Refusal::NOT_A_FLOAT)?;
    let sum = call.change_hash("hincrbyfloat", 1, |hash| {
        let sum = add_float(hash.view().get(args[2], now), by);
        if let Ok(sum) = &sum {
            hash.set(args[2], sum.as_bytes(), FieldExpiry::Keep);
        }
        (sum.is_ok(), sum)
    })??;
    call.reply.bulk(sum.as_bytes());
    Ok(())
}

fn add_float(field: Option<Field<'_>>, by: LongDouble) -> Result<String, Refusal> {
    let before = match field {
        None => Some(LongDouble::ZERO),
        Some(field) => LongDouble::parse(&field.value.to_bytes()),
    };
    let before = before.ok_or_else(|| Refusal::new("ERR hash value is not a float"))?;
    let sum = before.add(by).ok_or_else(|| Refusal::new("ERR increment would produce NaN or Infinity"))?;
    Ok(sum.to_string())
}

// --- reading ----------------------------------------------------------------------------------

pub(super) fn hget<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (name, now) = (call.args[2], call.unix_ms());
    let hash = call.keys.item(call.args[1]).into_collection::<Hash>()?;
    match hash.and_then(|hash| hash.get(name, now)) {
        Some(field) => call.reply.text(field.value),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn hmget<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let now = call.unix_ms();
    let hash = call.keys.item(call.args[1]).into_collection::<Hash>()?;
    call.reply.array(call.args.len() - 2);
    for name in &call.args[2..] {
        match hash.and_then(|hash| hash.get(name, now)) {
            Some(field) => call.reply.text(field.value),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) fn hlen<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let now = call.unix_ms();
    let len = call.hash()?.map_or(0, |hash| hash.len(now));
    call.reply.count(len);
    Ok(())
}

pub(super) fn hstrlen<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (name, now) = (call.args[2], call.unix_ms());
    let len = call.hash()?.and_then(|hash| hash.get(name, now)).map_or(0, |field| field.value.len());
    call.reply.count(len);
    Ok(())
}

pub(super) fn hexists<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (name, now) = (call.args[2], call.unix_ms());
    let exists = call.hash()?.is_some_and(|hash| hash.get(name, now).is_some());
    call.reply.integer(exists.into());
    Ok(())
}

/// Parts of the fields that a command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    Names,
    Values,
    Both,
}

pub(super) fn hkeys<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, Parts::Names)
}

pub(super) fn hvals<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, Parts::Values)
}

pub(super) fn hgetall<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, Parts::Both)
}

fn show<S: Store>(call: &mut Call<'_, '_, S>, parts: Parts) -> Outcome {
    let now = call.unix_ms();
    let hash = call.keys.item(call.args[1]).into_collection::<Hash>()?;
    let len = hash.map_or(0, |hash| hash.len(now));
    match parts {
        Parts::Both => call.reply.map(len),
        Parts::Names | Parts::Values => call.reply.array(len),
    }
    let fields = hash.into_iter().flat_map(HashView::fields).filter(|field| !field.has_expired(now));
    for field in fields {
        if parts != Parts::Values {
            call.reply.text(field.name);
        }
        if parts != Parts::Names {
            call.reply.text(field.value);
        }
    }
    Ok(())
}
