//! Commands on one set.

use std::collections::HashSet;

use bytes::Bytes;
use store::{
    Store,
    collections::{Collection, Set, SetView},
};
use wire::resp::reply;

use super::{call::Call, scan};
use crate::{
    glob,
    reply::{Outcome, Refusal},
    state::EventClass,
};

/// Bytes that a member takes beside its own, at most.
const MEMBER_BYTES: usize = 64;

/// Returns about the number of bytes that these members add to a collection.
pub(super) fn growth_of(members: &[&[u8]]) -> usize {
    members.iter().map(|member| member.len() + MEMBER_BYTES).sum()
}

pub(super) fn sadd<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let members = &call.args[2..];
    let added = call.item(1).change(growth_of(members), |set: &mut Set| {
        let added = members.iter().filter(|member| set.insert(member)).count();
        (added > 0, added)
    })?;
    if added > 0 {
        call.notify(EventClass::Set, "sadd", call.args[1]);
    }
    call.reply.count(added);
    Ok(())
}

pub(super) fn srem<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let members = &call.args[2..];
    let removed = call.item(1).change(0, |set: &mut Set| {
        let removed = members.iter().filter(|member| set.remove(member)).count();
        (removed > 0, removed)
    })?;
    if removed > 0 {
        call.notify_removal(EventClass::Set, "srem", call.args[1]);
    }
    call.reply.count(removed);
    Ok(())
}

pub(super) fn smembers<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let view = call.keys.item(call.args[1]).into_collection::<Set>()?;
    call.reply.set(view.map_or(0, SetView::len));
    view.into_iter().flat_map(SetView::iter).for_each(|member| call.reply.text(member));
    Ok(())
}

pub(super) fn scard<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let len = call.item(1).into_collection::<Set>()?.map_or(0, SetView::len);
    call.reply.count(len);
    Ok(())
}

pub(super) fn sismember<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let member = call.args[2];
    let is_member = call.item(1).into_collection::<Set>()?.is_some_and(|set| set.contains(member));
    call.reply.integer(is_member.into());
    Ok(())
}

pub(super) fn smismember<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let members = &call.args[2..];
    let view = call.keys.item(call.args[1]).into_collection::<Set>()?;
    call.reply.array(members.len());
    for member in members {
        call.reply.integer(view.is_some_and(|set| set.contains(member)).into());
    }
    Ok(())
}

pub(super) fn smove<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.lock_all();
    let (from, to, member) = (call.args[1], call.args[2], call.args[3]);
    let is_member = call.keys.item(from).peek_collection::<Set>()?.map(|set| set.contains(member));
    let Some(is_member) = is_member else {
        call.reply.integer(0);
        return Ok(());
    };
    call.keys.item(to).peek_collection::<Set>()?;
    if is_member && from != to {
        let growth = growth_of(&[member]);
        // It leaves one set only if there is memory for it in the other.
        call.keys.item(to).reserve(growth)?;
        call.keys.item(from).change(0, |set: &mut Set| (set.remove(member), ()))?;
        call.notify_removal(EventClass::Set, "srem", from);
        let is_added = call.keys.with_allowance(growth, |keys| {
            keys.item(to).change(growth, |set: &mut Set| {
                let is_added = set.insert(member);
                (is_added, is_added)
            })
        })?;
        if is_added {
            call.notify(EventClass::Set, "sadd", to);
        }
    }
    call.reply.integer(is_member.into());
    Ok(())
}

pub(super) fn spop<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let count = match call.args.len() {
        2 => None,
        3 => Some(call.positive(2, "ERR value is out of range, must be positive")?),
        _ => return Err(Refusal::SYNTAX),
    };
    let taken = call.item(1).change(0, |set: &mut Set| {
        let view = set.view();
        let positions = choose(view.len(), count.unwrap_or(1));
        let members = positions.into_iter().filter_map(|position| view.nth(position));
        let taken: Vec<Vec<u8>> = members.map(|member| member.to_bytes().into_owned()).collect();
        for member in &taken {
            set.remove(member);
        }
        (!taken.is_empty(), taken)
    })?;
    if !taken.is_empty() {
        call.notify_removal(EventClass::Set, "spop", call.args[1]);
    }
    match count {
        None => match taken.first() {
            Some(member) => call.reply.bulk(member),
            None => call.reply.null(),
        },
        Some(_) => {
            call.reply.set(taken.len());
            taken.iter().for_each(|member| call.reply.bulk(member));
        }
    }
    Ok(())
}

pub(super) fn srandmember<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let count = match call.args.len() {
        2 => None,
        3 => Some(call.sample_count(2)?),
        _ => return Err(Refusal::SYNTAX),
    };
    let bytes_max = call.string_bytes_max();
    let view = call.keys.item(call.args[1]).into_collection::<Set>()?;
    let Some(count) = count else {
        match view.and_then(|view| view.nth(fastrand::usize(..view.len().max(1)))) {
            Some(member) => call.reply.text(member),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let len = view.map_or(0, SetView::len);
    let mut found = Vec::new();
    for position in count.positions(len) {
        if let Some(member) = view.and_then(|view| view.nth(position)) {
            member.with_bytes(|member| reply::bulk(&mut found, member));
        }
        if found.len() > bytes_max {
            return Err(Refusal::OUT_OF_RANGE);
        }
    }
    call.reply.array(count.len(len));
    call.reply.out.push_shared(&Bytes::from(found));
    Ok(())
}

/// Number of random members that a client asks for: of different ones, or of any.
#[derive(Clone, Copy, Debug)]
pub(super) enum SampleCount {
    Distinct(usize),
    Any(usize),
}

impl SampleCount {
    /// Returns the number of members of a collection of this length.
    pub(super) fn len(self, len: usize) -> usize {
        match self {
            Self::Distinct(count) => count.min(len),
            Self::Any(_) if len == 0 => 0,
            Self::Any(count) => count,
        }
    }

    /// Returns the positions of these members, chosen at random one after the other.
    pub(super) fn positions(self, len: usize) -> impl Iterator<Item = usize> {
        let (distinct, any) = match self {
            Self::Distinct(count) => (choose(len, count), 0),
            Self::Any(_) => (Vec::new(), self.len(len)),
        };
        distinct.into_iter().chain((0..any).map(move |_| fastrand::usize(..len)))
    }
}

/// Chooses different positions below `len`.
pub(super) fn choose(len: usize, count: usize) -> Vec<usize> {
    if count >= len {
        return (0..len).collect();
    }
    if count > len / 4 {
        return fastrand::choose_multiple(0..len, count);
    }
    let mut chosen = HashSet::with_capacity(count);
    while chosen.len() < count {
        chosen.insert(fastrand::usize(..len));
    }
    chosen.into_iter().collect()
}

impl<S: Store> Call<'_, '_, S> {
    /// Parses argument `index` as a number that is not negative.
    pub(super) fn positive(&self, index: usize, why: &'static str) -> Result<usize, Refusal> {
        let number = self.integer(index).ok().and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| Refusal::new(why))
    }

    /// Parses argument `index` as a number of random members; a negative one is of members that may be equal.
    pub(super) fn sample_count(&self, index: usize) -> Result<SampleCount, Refusal> {
        let count = self.integer(index)?;
        if count == i64::MIN {
            return Err(Refusal::new(format!(
                "ERR value is out of range, value must between {} and {}",
                -i64::MAX,
                i64::MAX
            )));
        }
        let absolute = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        Ok(if count < 0 { SampleCount::Any(absolute) } else { SampleCount::Distinct(absolute) })
    }
}

pub(super) fn sscan<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let cursor = scan::parse_cursor(call.args[2])?;
    let Some(view) = call.keys.item(call.args[1]).into_collection::<Set>()? else {
        scan::empty(&mut call.reply);
        return Ok(());
    };
    let filter = scan::parse_part_filter(&call.args[3..])?;
    let (mut found, mut shown) = (Vec::new(), 0);
    let next = view.scan(cursor, filter.count, |member| {
        member.with_bytes(|member| {
            if filter.pattern.is_none_or(|pattern| glob::matches(pattern, member)) {
                reply::bulk(&mut found, member);
                shown += 1;
            }
        });
    });
    scan::write_page(&mut call.reply, next, shown, found);
    Ok(())
}
