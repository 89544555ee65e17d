//! Intersections, unions and differences of sorted sets; sets count as sorted sets whose scores are all 1.

use std::collections::HashMap;

use store::{
    Store,
    collections::{Collection, Kind, Set, SetView, SortedSet, SortedSetView},
};

use super::{
    call::{Call, parse_integer},
    score,
};
use crate::{
    command_table::TABLE,
    reply::{Outcome, Refusal},
    state::{EventClass, Item},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Intersect,
    Unite,
    Subtract,
}

impl Operation {
    /// Returns the event of the command that stores the result.
    fn event(self) -> &'static str {
        match self {
            Self::Intersect => "zinterstore",
            Self::Unite => "zunionstore",
            Self::Subtract => "zdiffstore",
        }
    }
}

/// Combination of the scores of one member.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Least,
    Greatest,
}

impl Aggregate {
    fn combine(self, a: f64, b: f64) -> f64 {
        match self {
            // Infinities of both signs cancel out.
            Self::Sum => number_or_zero(a + b),
            Self::Least => a.min(b),
            Self::Greatest => a.max(b),
        }
    }
}

fn number_or_zero(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// Use that a command makes of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Show,
    Store,
    Count,
}

/// Keys and options of a command.
#[derive(Debug)]
struct Request<'a> {
    sources: Vec<Weighted<'a>>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Limit of the members counted; 0: none.
    limit: usize,
}

#[derive(Clone, Copy, Debug)]
struct Weighted<'a> {
    key: &'a [u8],
    weight: f64,
    len: usize,
}

/// Members of a key.
#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Nothing,
    Set(SetView<'a>),
    SortedSet(SortedSetView<'a>),
}

impl<'a> Source<'a> {
    fn of<S: Store>(mut item: Item<'a, '_, S>) -> Result<Self, Refusal> {
        Ok(match item.kind() {
            Some(Kind::Set) => item.into_collection::<Set>()?.map_or(Self::Nothing, Self::Set),
            _ => item.into_collection::<SortedSet>()?.map_or(Self::Nothing, Self::SortedSet),
        })
    }

    /// Returns the members of a key that has been counted already.
    fn peek<S: Store>(item: &'a mut Item<'_, '_, S>) -> Result<Self, Refusal> {
        Ok(match item.kind() {
            Some(Kind::Set) => item.peek_collection::<Set>()?.map_or(Self::Nothing, Self::Set),
            _ => item.peek_collection::<SortedSet>()?.map_or(Self::Nothing, Self::SortedSet),
        })
    }

    fn len(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Set(set) => set.len(),
            Self::SortedSet(set) => set.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Nothing => None,
            Self::Set(set) => set.contains(member).then_some(1.0),
            Self::SortedSet(set) => set.score(member),
        }
    }

    fn for_each(self, mut visit: impl FnMut(&[u8], f64)) {
        match self {
            Self::Nothing => {}
            Self::Set(set) => set.iter().for_each(|member| member.with_bytes(|member| visit(member, 1.0))),
            Self::SortedSet(set) => set.visit(0..set.len(), false, visit),
        }
    }
}

pub(super) fn zinter<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    run(call, Operation::Intersect, Use::Show)
}

pub(super) fn zunion<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    run(call, Operation::Unite, Use::Show)
}

pub(super) fn zdiff<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    run(call, Operation::Subtract, Use::Show)
}

pub(super) fn zinterstore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    run(call, Operation::Intersect, Use::Store)
}

pub(super) fn zunionstore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    run(call, Operation::Unite, Use::Store)
}

pub(super) fn zdiffstore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    run(call, Operation::Subtract, Use::Store)
}

pub(super) fn zintercard<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    run(call, Operation::Intersect, Use::Count)
}

fn run<S: Store>(call: &mut Call<'_, '_, S>, operation: Operation, purpose: Use) -> Outcome {
    let request = parse(call, operation, purpose)?;
    let result = combine(call, operation, &request)?;
    let len = result.view().len();
    match purpose {
        Use::Show => {
            call.reply.scored(len, request.with_scores);
            result.view().visit(0..len, false, |member, score| {
                call.reply.scored_member(member, request.with_scores.then_some(score));
            });
        }
        Use::Store => {
            let had_key = call.item(1).exists();
            call.item(1).replace(result.packed_if_small())?;
            call.notify_stored(EventClass::SortedSet, operation.event(), had_key, len);
            call.reply.count(len);
        }
        Use::Count => call.reply.count(if request.limit == 0 { len } else { len.min(request.limit) }),
    }
    Ok(())
}

/// Parses the keys and options, and looks at the keys in between: another type is refused before a wrong option.
fn parse<'a, S: Store>(call: &mut Call<'a, '_, S>, operation: Operation, purpose: Use) -> Result<Request<'a>, Refusal> {
    let at = if purpose == Use::Store { 2 } else { 1 };
    let count = parse_integer(call.args[at]).ok_or(Refusal::NOT_AN_INTEGER)?;
    if count < 1 {
        let name = call.number().or_else(|| crate::command_table::find(call.args[0])).map_or("", |at| TABLE[at].name);
        return Err(Refusal::new(format!("ERR at least 1 input key is needed for '{name}' command")));
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let (keys, mut options) = call.args[at + 1..].split_at_checked(count).ok_or(Refusal::SYNTAX)?;
    if keys.len() > 1 || purpose == Use::Store {
        call.lock_all();
    }
    let mut sources = Vec::with_capacity(keys.len());
    for &key in keys {
        sources.push(Weighted { key, weight: 1.0, len: Source::of(call.keys.item(key))?.len() });
    }
    let mut request = Request { sources, aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
    let has_weights = operation != Operation::Subtract && purpose != Use::Count;
    while let [option, rest @ ..] = options {
        options = match &*option.to_ascii_uppercase() {
            b"WEIGHTS" if has_weights && rest.len() >= count => {
                let why = "ERR weight value is not a float";
                for (source, weight) in request.sources.iter_mut().zip(rest) {
                    source.weight = score::parse(weight).ok_or_else(|| Refusal::new(why))?;
                }
                &rest[count..]
            }
            b"AGGREGATE" if has_weights && !rest.is_empty() => {
                request.aggregate = match &*rest[0].to_ascii_uppercase() {
                    b"SUM" => Aggregate::Sum,
                    b"MIN" => Aggregate::Least,
                    b"MAX" => Aggregate::Greatest,
                    _ => return Err(Refusal::SYNTAX),
                };
                &rest[1..]
            }
            b"WITHSCORES" if purpose == Use::Show => {
                request.with_scores = true;
                rest
            }
            b"LIMIT" if purpose == Use::Count && !rest.is_empty() => {
                let limit = parse_integer(rest[0]).and_then(|limit| usize::try_from(limit).ok());
                request.limit = limit.ok_or_else(|| Refusal::new("ERR LIMIT can't be negative"))?;
                &rest[1..]
            }
            _ => return Err(Refusal::SYNTAX),
        };
    }
    Ok(request)
}

fn combine<S: Store>(
    call: &mut Call<'_, '_, S>,
    operation: Operation,
    request: &Request<'_>,
) -> Result<SortedSet, Refusal> {
    let mut sources = request.sources.clone();
    if operation != Operation::Subtract {
        // The smallest first, as in Redis: sums of floating-point numbers depend on their order.
        sources.sort_by_key(|source| source.len);
    }
    let mut scores: HashMap<Vec<u8>, f64> = HashMap::new();
    for (number, Weighted { key, weight, .. }) in sources.into_iter().enumerate() {
        let mut item = call.keys.item(key);
        let source = Source::peek(&mut item)?;
        let weighted = |score: f64| number_or_zero(weight * score);
        let combined = |present: f64, score: f64| request.aggregate.combine(present, weighted(score));
        match operation {
            _ if number == 0 => source.for_each(|member, score| {
                let score = if operation == Operation::Subtract { score } else { weighted(score) };
                scores.insert(member.to_vec(), score);
            }),
            Operation::Subtract => scores.retain(|member, _| source.score(member).is_none()),
            Operation::Intersect => scores.retain(|member, present| {
                let score = source.score(member);
                *present = score.map_or(*present, |score| combined(*present, score));
                score.is_some()
            }),
            Operation::Unite => source.for_each(|member, score| match scores.get_mut(member) {
                Some(present) => *present = combined(*present, score),
                None => {
                    scores.insert(member.to_vec(), weighted(score));
                }
            }),
        }
    }
    // Not packed: what is only shown keeps a negative zero.
    let mut result = SortedSet::Table(Box::default());
    for (member, score) in scores {
        result.insert(&member, score);
    }
    Ok(result)
}
