//! Ranges of sorted sets: by rank, by score, or by the members' bytes.

use std::ops::Range;

use store::{
    Store,
    collections::{Collection, PACKED_LEN_MAX, SortedSet, SortedSetView},
};

use super::{
    call::{Call, parse_integer},
    score,
};
use crate::{
    reply::{Outcome, Refusal},
    state::EventClass,
};

/// Meaning of the two bounds of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Rank,
    Score,
    Lex,
}

/// One end of a range of members.
#[derive(Clone, Copy, Debug)]
enum LexBound<'a> {
    Lowest,
    Highest,
    Inclusive(&'a [u8]),
    Exclusive(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
enum Bounds<'a> {
    Rank(i64, i64),
    /// The least and the greatest score; true: not itself.
    Score((f64, bool), (f64, bool)),
    Lex(LexBound<'a>, LexBound<'a>),
}

/// Part of a sorted set that a command is about.
#[derive(Clone, Copy, Debug)]
struct Selection<'a> {
    bounds: Bounds<'a>,
    is_reverse: bool,
    offset: i64,
    /// Limit of the members; negative: none.
    limit: i64,
    with_scores: bool,
}

impl<'a> LexBound<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        match text {
            [b'-'] | [b'-', 0, ..] => Some(Self::Lowest),
            [b'+'] | [b'+', 0, ..] => Some(Self::Highest),
            [b'[', bound @ ..] => Some(Self::Inclusive(bound)),
            [b'(', bound @ ..] => Some(Self::Exclusive(bound)),
            _ => None,
        }
    }

    /// True if a member is below a range that begins here.
    fn is_above(self, member: &[u8]) -> bool {
        match self {
            Self::Lowest => false,
            Self::Highest => true,
            Self::Inclusive(bound) => member < bound,
            Self::Exclusive(bound) => member <= bound,
        }
    }

    /// True if a member is not above a range that ends here.
    fn reaches(self, member: &[u8]) -> bool {
        match self {
            Self::Lowest => false,
            Self::Highest => true,
            Self::Inclusive(bound) => member <= bound,
            Self::Exclusive(bound) => member < bound,
        }
    }
}

impl<'a> Bounds<'a> {
    fn parse(order: Order, first: &'a [u8], last: &'a [u8]) -> Result<Self, Refusal> {
        match order {
            Order::Rank => {
                let rank = |text| parse_integer(text).ok_or(Refusal::NOT_AN_INTEGER);
                Ok(Self::Rank(rank(first)?, rank(last)?))
            }
            Order::Score => {
                let bound =
                    |text| score::parse_bound(text).ok_or_else(|| Refusal::new("ERR min or max is not a float"));
                Ok(Self::Score(bound(first)?, bound(last)?))
            }
            Order::Lex => {
                let why = "ERR min or max not valid string range item";
                let bound = |text| LexBound::parse(text).ok_or_else(|| Refusal::new(why));
                Ok(Self::Lex(bound(first)?, bound(last)?))
            }
        }
    }

    /// Returns the ranks within the bounds; in reverse, ranks are counted from the end.
    fn ranks(self, set: SortedSetView<'_>, is_reverse: bool) -> Range<usize> {
        let (start, end) = match self {
            Self::Rank(first, last) => {
                let len = i64::try_from(set.len()).unwrap_or(i64::MAX);
                let from_start = |rank: i64| if rank < 0 { rank.saturating_add(len) } else { rank };
                // The rank behind the last one; both are between 0 and the length.
                let start = from_start(first).clamp(0, len);
                let end = from_start(last).saturating_add(1).clamp(0, len);
                let (start, end) = if is_reverse { (len - end, len - start) } else { (start, end) };
                (start as usize, end as usize)
            }
            Self::Score((min, excludes_min), (max, excludes_max)) => (
                set.partition_point(|score, _| score < min || excludes_min && score == min),
                set.partition_point(|score, _| score < max || !excludes_max && score == max),
            ),
            Self::Lex(min, max) => (
                set.partition_point(|_, member| min.is_above(member)),
                set.partition_point(|_, member| max.reaches(member)),
            ),
        };
        start..end.max(start)
    }
}

impl<'a> Selection<'a> {
    /// Parses the bounds, and the options behind them. What `order` and `is_reverse` do not say may be said by options.
    fn parse(
        args: &'a [&'a [u8]],
        order: Option<Order>,
        is_reverse: Option<bool>,
        is_stored: bool,
    ) -> Result<Self, Refusal> {
        let (mut chosen, mut reverse) = (order, is_reverse);
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut options = &args[2..];
        while let [option, rest @ ..] = options {
            options = rest;
            match &*option.to_ascii_uppercase() {
                b"WITHSCORES" if !is_stored => with_scores = true,
                b"LIMIT" if rest.len() >= 2 => {
                    let number = |at: usize| parse_integer(rest[at]).ok_or(Refusal::NOT_AN_INTEGER);
                    (offset, limit) = (number(0)?, number(1)?);
                    options = &rest[2..];
                }
                b"REV" if reverse.is_none() => reverse = Some(true),
                b"BYSCORE" if chosen.is_none() => chosen = Some(Order::Score),
                b"BYLEX" if chosen.is_none() => chosen = Some(Order::Lex),
                _ => return Err(Refusal::SYNTAX),
            }
        }
        let (order, is_reverse) = (chosen.unwrap_or(Order::Rank), reverse.unwrap_or(false));
        if limit != -1 && order == Order::Rank {
            let why = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
            return Err(Refusal::new(why));
        }
        if with_scores && order == Order::Lex {
            return Err(Refusal::new("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        let (first, last) = if is_reverse && order != Order::Rank { (args[1], args[0]) } else { (args[0], args[1]) };
        Ok(Self { bounds: Bounds::parse(order, first, last)?, is_reverse, offset, limit, with_scores })
    }

    fn ranks(&self, set: SortedSetView<'_>) -> Range<usize> {
        let all = self.bounds.ranks(set, self.is_reverse);
        if matches!(self.bounds, Bounds::Rank(..)) {
            return all;
        }
        let Ok(offset) = usize::try_from(self.offset) else { return 0..0 };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let skipped = offset.min(all.len());
        let len = limit.min(all.len() - skipped);
        match self.is_reverse {
            false => all.start + skipped..all.start + skipped + len,
            true => all.end - skipped - len..all.end - skipped,
        }
    }
}

pub(super) fn zrange<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, None, None)
}

pub(super) fn zrevrange<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, Some(Order::Rank), Some(true))
}

pub(super) fn zrangebyscore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, Some(Order::Score), Some(false))
}

pub(super) fn zrevrangebyscore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, Some(Order::Score), Some(true))
}

pub(super) fn zrangebylex<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, Some(Order::Lex), Some(false))
}

pub(super) fn zrevrangebylex<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show(call, Some(Order::Lex), Some(true))
}

fn show<S: Store>(call: &mut Call<'_, '_, S>, order: Option<Order>, is_reverse: Option<bool>) -> Outcome {
    let selection = Selection::parse(&call.args[2..], order, is_reverse, false)?;
    let Some(view) = call.keys.item(call.args[1]).into_collection::<SortedSet>()? else {
        call.reply.array(0);
        return Ok(());
    };
    let ranks = selection.ranks(view);
    call.reply.scored(ranks.len(), selection.with_scores);
    view.visit(ranks, selection.is_reverse, |member, score| {
        call.reply.scored_member(member, selection.with_scores.then_some(score));
    });
    Ok(())
}

pub(super) fn zrangestore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let selection = Selection::parse(&call.args[3..], None, None, true)?;
    call.lock_all();
    let mut result = SortedSet::default();
    if let Some(view) = call.keys.item(call.args[2]).into_collection::<SortedSet>()? {
        let ranks = selection.ranks(view);
        // As in Redis, which knows the number of members beforehand; a negative zero is kept then.
        if matches!(selection.bounds, Bounds::Rank(..)) && ranks.len() > PACKED_LEN_MAX {
            result = SortedSet::Table(Box::default());
        }
        view.visit(ranks, selection.is_reverse, |member, score| {
            result.insert(member, score);
        });
    }
    let len = result.view().len();
    let had_key = call.item(1).exists();
    call.item(1).replace(result)?;
    call.notify_stored(EventClass::SortedSet, "zrangestore", had_key, len);
    call.reply.count(len);
    Ok(())
}

pub(super) fn zcount<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    count(call, Order::Score)
}

pub(super) fn zlexcount<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    count(call, Order::Lex)
}

fn count<S: Store>(call: &mut Call<'_, '_, S>, order: Order) -> Outcome {
    let bounds = Bounds::parse(order, call.args[2], call.args[3])?;
    let count = call.item(1).into_collection::<SortedSet>()?.map_or(0, |set| bounds.ranks(set, false).len());
    call.reply.count(count);
    Ok(())
}

pub(super) fn zremrangebyrank<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    remove(call, Order::Rank, "zremrangebyrank")
}

pub(super) fn zremrangebyscore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    remove(call, Order::Score, "zremrangebyscore")
}

pub(super) fn zremrangebylex<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    remove(call, Order::Lex, "zremrangebylex")
}

fn remove<S: Store>(call: &mut Call<'_, '_, S>, order: Order, event: &'static str) -> Outcome {
    let bounds = Bounds::parse(order, call.args[2], call.args[3])?;
    let removed = call.item(1).change(0, |set: &mut SortedSet| {
        let ranks = bounds.ranks(set.view(), false);
        let removed = ranks.len();
        set.remove_ranks(ranks);
        (removed > 0, removed)
    })?;
    if removed > 0 {
        call.notify_removal(EventClass::SortedSet, event, call.args[1]);
    }
    call.reply.count(removed);
    Ok(())
}
