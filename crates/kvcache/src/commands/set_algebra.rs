//! Intersections, unions and differences of sets.

use store::{
    Store,
    collections::{Collection, Set, SetView},
};

use super::call::Call;
use crate::{
    reply::{Outcome, Refusal},
    state::EventClass,
};

#[derive(Clone, Copy, Debug)]
enum Operation {
    Intersect,
    Unite,
    Subtract,
}

pub(super) fn sinter<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, Operation::Intersect)
}

pub(super) fn sunion<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, Operation::Unite)
}

pub(super) fn sdiff<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, Operation::Subtract)
}

pub(super) fn sinterstore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    store_result(call, Operation::Intersect, "sinterstore")
}

pub(super) fn sunionstore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    store_result(call, Operation::Unite, "sunionstore")
}

pub(super) fn sdiffstore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    store_result(call, Operation::Subtract, "sdiffstore")
}

pub(super) fn sintercard<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let count = call.positive(1, "ERR numkeys should be greater than 0")?;
    if count == 0 {
        return Err(Refusal::new("ERR numkeys should be greater than 0"));
    }
    let Some((keys, options)) = call.args[2..].split_at_checked(count) else {
        return Err(Refusal::new("ERR Number of keys can't be greater than number of args"));
    };
    let mut limit = 0;
    for at in (0..options.len()).step_by(2) {
        let at = 2 + count + at;
        if !call.is(at, "LIMIT") || at + 1 == call.args.len() {
            return Err(Refusal::SYNTAX);
        }
        limit = call.positive(at + 1, "ERR LIMIT can't be negative")?;
    }
    let len = combine(call, Operation::Intersect, keys)?.view().len();
    call.reply.count(if limit == 0 { len } else { len.min(limit) });
    Ok(())
}

fn show<S: Store>(call: &mut Call<'_, '_, S>, operation: Operation) -> Outcome {
    let result = combine(call, operation, &call.args[1..])?;
    call.reply.set(result.view().len());
    result.view().iter().for_each(|member| call.reply.text(member));
    Ok(())
}

fn store_result<S: Store>(call: &mut Call<'_, '_, S>, operation: Operation, event: &'static str) -> Outcome {
    call.lock_all();
    let result = combine(call, operation, &call.args[2..])?;
    let len = result.view().len();
    let had_key = call.item(1).exists();
    call.item(1).replace(result)?;
    call.notify_stored(EventClass::Set, event, had_key, len);
    call.reply.count(len);
    Ok(())
}

/// Combines the sets of these keys; what does not exist is empty.
fn combine<S: Store>(call: &mut Call<'_, '_, S>, operation: Operation, keys: &[&[u8]]) -> Result<Set, Refusal> {
    if keys.len() > 1 {
        call.lock_all();
    }
    // All are looked at, so that another type is refused wherever it stands.
    let mut ordered = Vec::with_capacity(keys.len());
    for &key in keys {
        ordered.push((call.keys.item(key).into_collection::<Set>()?.map_or(0, SetView::len), key));
    }
    if let Operation::Intersect = operation {
        ordered.sort_by_key(|(len, _)| *len);
    }
    let mut result = members(call, ordered.first().map(|(_, key)| *key))?;
    for &(_, key) in ordered.iter().skip(1) {
        let mut item = call.keys.item(key);
        let view = item.peek_collection::<Set>()?;
        match operation {
            Operation::Intersect => result.retain(|member| view.is_some_and(|set| set.contains(member))),
            Operation::Subtract => result.retain(|member| !view.is_some_and(|set| set.contains(member))),
            Operation::Unite => {
                result.extend(view.into_iter().flat_map(SetView::iter).map(|member| member.to_bytes().into_owned()));
            }
        }
    }
    let mut set = Set::default();
    for member in result {
        set.insert(&member);
    }
    Ok(set)
}

/// Returns the members of a key's set.
fn members<S: Store>(call: &mut Call<'_, '_, S>, key: Option<&[u8]>) -> Result<Vec<Vec<u8>>, Refusal> {
    let Some(key) = key else { return Ok(Vec::new()) };
    let mut item = call.keys.item(key);
    let view = item.peek_collection::<Set>()?;
    Ok(view.into_iter().flat_map(SetView::iter).map(|member| member.to_bytes().into_owned()).collect())
}
