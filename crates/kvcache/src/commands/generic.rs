//! Commands on keys, whatever their values.

use store::{Store, collections::Kind};

use super::call::{Call, parse_integer};
use crate::{
    reply::{Outcome, Refusal},
    state::{DATABASES, EventClass},
};

const SAME_OBJECT: &str = "ERR source and destination objects are the same";

/// DEL and UNLINK, which free the memory at once.
pub(super) fn del<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    count_keys(call, |call, key| {
        let is_removed = call.keys.item(key).remove();
        if is_removed {
            call.notify(EventClass::Generic, "del", key);
        }
        is_removed
    })
}

pub(super) fn exists<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    count_keys(call, |call, key| call.keys.item(key).look_up().is_some())
}

pub(super) fn touch<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    count_keys(call, |call, key| {
        let mut item = call.keys.item(key);
        item.look_up().is_some() && item.touch()
    })
}

fn count_keys<S: Store>(
    call: &mut Call<'_, '_, S>,
    mut is_counted: impl FnMut(&mut Call<'_, '_, S>, &[u8]) -> bool,
) -> Outcome {
    if call.args.len() > 2 {
        call.lock_all();
    }
    let args = call.args;
    let count = args[1..].iter().filter(|key| is_counted(call, key)).count();
    call.reply.count(count);
    Ok(())
}

pub(super) fn type_of<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let name = match call.item(1).look_up() {
        None => "none",
        Some(attributes) => type_name(attributes.encoding),
    };
    call.reply.simple(name);
    Ok(())
}

/// Returns the name of the type of a value with this encoding.
pub(super) fn type_name(encoding: u8) -> &'static str {
    Kind::of(encoding).map_or("string", Kind::name)
}

pub(super) fn rename<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    rename_if(call, |_| true)?;
    call.reply.ok();
    Ok(())
}

pub(super) fn renamenx<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let done = rename_if(call, |target_exists| !target_exists)?;
    call.reply.integer(done.into());
    Ok(())
}

/// Renames a key, if the target may exist or does not. False if it must not, and does.
fn rename_if<S: Store>(call: &mut Call<'_, '_, S>, can_rename: impl FnOnce(bool) -> bool) -> Result<bool, Refusal> {
    call.lock_all();
    let (from, to) = (call.args[1], call.args[2]);
    // A value that cannot be decoded counts as missing.
    if let Ok(None) = call.keys.item(from).peek() {
        return Err(Refusal::NO_SUCH_KEY);
    }
    if !can_rename(call.keys.item(to).exists()) {
        return Ok(false);
    }
    if from == to {
        return Ok(true);
    }
    // The target is another key from here on, and so a new one.
    call.keys.item(to).remove();
    if let Some(entry) = call.keys.item(from).take() {
        call.keys.item(to).put_moved(entry);
    }
    call.notify(EventClass::Generic, "rename_from", from);
    call.notify(EventClass::Generic, "rename_to", to);
    Ok(true)
}

pub(super) fn copy<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (mut database, mut replace) = (call.keys.database, false);
    let mut at = 3;
    while at < call.args.len() {
        if call.is(at, "REPLACE") {
            replace = true;
        } else if call.is(at, "DB") && at + 1 < call.args.len() {
            at += 1;
            database = parse_database(call.args[at])?;
        } else {
            return Err(Refusal::SYNTAX);
        }
        at += 1;
    }
    if database == call.keys.database && call.args[1] == call.args[2] {
        return Err(Refusal::new(SAME_OBJECT));
    }
    call.lock_all();
    call.item(1).look_up();
    let copied = transfer(call, database, call.args[2], replace)?;
    if copied {
        call.notify_in(database, EventClass::Generic, "copy_to", call.args[2]);
    }
    call.reply.integer(copied.into());
    Ok(())
}

pub(super) fn move_to<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let database = parse_database(call.args[2])?;
    if database == call.keys.database {
        return Err(Refusal::new(SAME_OBJECT));
    }
    let moved = transfer(call, database, call.args[1], false)?;
    if moved {
        call.item(1).remove();
        call.notify(EventClass::Generic, "move_from", call.args[1]);
        call.notify_in(database, EventClass::Generic, "move_to", call.args[1]);
    }
    call.reply.integer(moved.into());
    Ok(())
}

/// Copies value and expiry of argument 1 to another key. False if there is no value, or the other key exists and must not
/// be replaced.
fn transfer<S: Store>(call: &mut Call<'_, '_, S>, database: u8, to: &[u8], replace: bool) -> Result<bool, Refusal> {
    call.lock_all();
    let mut item = call.item(1);
    // A value that cannot be decoded counts as missing.
    if let Ok(None) = item.peek() {
        return Ok(false);
    }
    let Some(entry) = item.copy() else { return Ok(false) };
    let mut target = call.keys.item_in(database, to);
    match target.exists() {
        true if !replace => return Ok(false),
        // The target is another key from here on, and so a new one.
        true => {
            target.reserve(entry.bytes())?;
            target.remove();
            target.put_moved(entry);
        }
        false => target.put(entry)?,
    }
    Ok(true)
}

/// Parses the number of a database, with the three errors that Redis has for it.
pub(super) fn parse_database(text: &[u8]) -> Result<u8, Refusal> {
    let number = parse_integer(text).ok_or(Refusal::NOT_AN_INTEGER)?;
    let number = i32::try_from(number).map_err(|_| {
        Refusal::new(format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX))
    })?;
    let database = u8::try_from(number).ok().filter(|&database| database < DATABASES);
    database.ok_or_else(|| Refusal::new("ERR DB index is out of range"))
}
