//! Members taken from the ends of sorted sets, at random, or page by page.

use bytes::Bytes;
use store::{
    Store,
    collections::{Collection, SortedSet, SortedSetView},
};
use wire::resp::{Version, reply};

use super::{call::Call, scan, score};
use crate::{
    glob,
    reply::{Outcome, Refusal, Reply},
    state::EventClass,
};

/// End of a sorted set that is taken from.
#[derive(Clone, Copy, Debug)]
enum End {
    Lowest,
    Highest,
}

/// Members with their scores.
type Scored = Vec<(Vec<u8>, f64)>;

pub(super) fn zpopmin<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    pop(call, End::Lowest)
}

pub(super) fn zpopmax<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    pop(call, End::Highest)
}

fn pop<S: Store>(call: &mut Call<'_, '_, S>, end: End) -> Outcome {
    let count = match call.args.len() {
        2 => None,
        3 => Some(call.positive(2, "ERR value is out of range, must be positive")?),
        _ => return Err(Refusal::SYNTAX),
    };
    let taken = take(call, call.args[1], end, count.unwrap_or(1))?;
    let is_nested = count.is_some() && call.reply.version == Version::Resp3;
    call.reply.array(if is_nested { taken.len() } else { 2 * taken.len() });
    write_pairs(&mut call.reply, &taken, is_nested);
    Ok(())
}

fn write_pairs(reply: &mut Reply<'_>, pairs: &Scored, is_nested: bool) {
    for (member, score) in pairs {
        if is_nested {
            reply.array(2);
        }
        reply.bulk(member);
        reply.score(*score);
    }
}

/// Takes up to `count` members from one end, the outermost first.
fn take<S: Store>(call: &mut Call<'_, '_, S>, key: &[u8], end: End, count: usize) -> Result<Scored, Refusal> {
    let taken = call.keys.item(key).change(0, |set: &mut SortedSet| {
        let len = set.view().len();
        let count = count.min(len);
        let (ranks, is_reverse) = match end {
            End::Lowest => (0..count, false),
            End::Highest => (len - count..len, true),
        };
        let mut taken = Vec::with_capacity(count);
        set.view().visit(ranks.clone(), is_reverse, |member, score| taken.push((member.to_vec(), score)));
        set.remove_ranks(ranks);
        (count > 0, taken)
    })?;
    if !taken.is_empty() {
        let event = match end {
            End::Lowest => "zpopmin",
            End::Highest => "zpopmax",
        };
        call.notify_removal(EventClass::SortedSet, event, key);
    }
    Ok(taken)
}

pub(super) fn zmpop<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let why = "ERR numkeys should be greater than 0";
    let keys_len = call.positive(1, why)?;
    if keys_len == 0 {
        return Err(Refusal::new(why));
    }
    let Some((keys, [end, options @ ..])) = call.args[2..].split_at_checked(keys_len) else {
        return Err(Refusal::SYNTAX);
    };
    let end = match &*end.to_ascii_uppercase() {
        b"MIN" => End::Lowest,
        b"MAX" => End::Highest,
        _ => return Err(Refusal::SYNTAX),
    };
    let count = match options {
        [] => 1,
        [option, _, rest @ ..] if option.eq_ignore_ascii_case(b"COUNT") => {
            let why = "ERR count should be greater than 0";
            let count = call.positive(keys_len + 4, why)?;
            match (count, rest) {
                (0, _) => return Err(Refusal::new(why)),
                (count, []) => count,
                _ => return Err(Refusal::SYNTAX),
            }
        }
        _ => return Err(Refusal::SYNTAX),
    };
    if keys.len() > 1 {
        call.lock_all();
    }
    for key in keys {
        let taken = take(call, key, end, count)?;
        if !taken.is_empty() {
            call.reply.array(2);
            call.reply.bulk(key);
            call.reply.array(taken.len());
            write_pairs(&mut call.reply, &taken, true);
            return Ok(());
        }
    }
    call.reply.null_array();
    Ok(())
}

pub(super) fn zrandmember<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let count = if call.args.len() > 2 { Some(call.sample_count(2)?) } else { None };
    let with_scores = call.args.len() > 3;
    if call.args.len() > 4 || with_scores && !call.is(3, "WITHSCORES") {
        return Err(Refusal::SYNTAX);
    }
    if with_scores && call.integer(2)?.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(Refusal::OUT_OF_RANGE);
    }
    let bytes_max = call.string_bytes_max();
    let view = call.keys.item(call.args[1]).into_collection::<SortedSet>()?;
    let len = view.map_or(0, SortedSetView::len);
    let (Some(count), Some(view)) = (count, view) else {
        match (count, view) {
            (None, Some(view)) => view.nth(fastrand::usize(..len), |member, _| call.reply.bulk(member)),
            (None, None) => call.reply.null(),
            (Some(_), _) => call.reply.array(0),
        }
        return Ok(());
    };
    let (mut found, version) = (Vec::new(), call.reply.version);
    for position in count.positions(len) {
        view.nth(position, |member, score| {
            write_member(&mut found, version, member, with_scores.then_some(score));
        });
        if found.len() > bytes_max {
            return Err(Refusal::OUT_OF_RANGE);
        }
    }
    call.reply.scored(count.len(len), with_scores);
    call.reply.out.push_shared(&Bytes::from(found));
    Ok(())
}

/// Appends a member of [`Reply::scored`].
fn write_member(found: &mut Vec<u8>, version: Version, member: &[u8], score: Option<f64>) {
    if score.is_some() && version == Version::Resp3 {
        reply::array(found, 2);
    }
    reply::bulk(found, member);
    if let Some(score) = score {
        score::write(found, version, score);
    }
}

pub(super) fn zscan<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let cursor = scan::parse_cursor(call.args[2])?;
    let Some(view) = call.keys.item(call.args[1]).into_collection::<SortedSet>()? else {
        scan::empty(&mut call.reply);
        return Ok(());
    };
    let filter = scan::parse_part_filter(&call.args[3..])?;
    let (mut found, mut shown) = (Vec::new(), 0);
    let next = view.scan(cursor, filter.count, |member, score| {
        if filter.pattern.is_none_or(|pattern| glob::matches(pattern, member)) {
            reply::bulk(&mut found, member);
            reply::bulk(&mut found, score::format(score).as_bytes());
            shown += 2;
        }
    });
    scan::write_page(&mut call.reply, next, shown, found);
    Ok(())
}
