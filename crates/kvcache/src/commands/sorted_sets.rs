//! Commands on the members of one sorted set.

use store::{
    Store,
    collections::{Collection, SortedSet, SortedSetView},
};

use super::{call::Call, score, sets::growth_of};
use crate::{
    reply::{Outcome, Refusal},
    state::EventClass,
};

/// Options of ZADD.
#[derive(Clone, Copy, Debug, Default)]
struct AddOptions {
    /// NX: members that exist stay as they are.
    only_new: bool,
    /// XX: no members are added.
    only_present: bool,
    /// GT and LT: a score may only rise, or only fall.
    only_up: bool,
    only_down: bool,
    /// CH: members whose score has changed are counted.
    counts_changed: bool,
    /// INCR: the score is added to the present one.
    is_increment: bool,
}

/// Effect of [`AddOptions::apply`] on one member, with its score.
#[derive(Clone, Copy, Debug)]
enum Effect {
    Added(f64),
    Changed(f64),
    Same(f64),
    /// An option has kept the member as it is, or away.
    Kept,
}

impl AddOptions {
    /// Parses the options in front of the scores, and returns their number, too.
    fn parse(args: &[&[u8]]) -> (Self, usize) {
        let mut options = Self::default();
        for (at, arg) in args.iter().enumerate() {
            let option = match &*arg.to_ascii_uppercase() {
                b"NX" => &mut options.only_new,
                b"XX" => &mut options.only_present,
                b"GT" => &mut options.only_up,
                b"LT" => &mut options.only_down,
                b"CH" => &mut options.counts_changed,
                b"INCR" => &mut options.is_increment,
                _ => return (options, at),
            };
            *option = true;
        }
        (options, args.len())
    }

    fn check(self, pairs: usize) -> Result<(), Refusal> {
        let Self { only_new, only_present, only_up, only_down, .. } = self;
        if only_new && only_present {
            return Err(Refusal::new("ERR XX and NX options at the same time are not compatible"));
        }
        if only_new && (only_up || only_down) || only_up && only_down {
            return Err(Refusal::new("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.is_increment && pairs > 1 {
            return Err(Refusal::new("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    fn apply(self, set: &mut SortedSet, member: &[u8], score: f64) -> Result<Effect, Refusal> {
        let Some(present) = set.view().score(member) else {
            if self.only_present {
                return Ok(Effect::Kept);
            }
            set.insert(member, score);
            return Ok(Effect::Added(score));
        };
        if self.only_new {
            return Ok(Effect::Kept);
        }
        let score = if self.is_increment { present + score } else { score };
        if score.is_nan() {
            return Err(Refusal::new("ERR resulting score is not a number (NaN)"));
        }
        if self.only_down && score >= present || self.only_up && score <= present {
            return Ok(Effect::Kept);
        }
        if score == present {
            return Ok(Effect::Same(score));
        }
        set.insert(member, score);
        Ok(Effect::Changed(score))
    }
}

pub(super) fn zadd<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (options, len) = AddOptions::parse(&call.args[2..]);
    add(call, options, 2 + len)
}

pub(super) fn zincrby<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    // Redis parses the options of ZADD here, too.
    let (options, len) = AddOptions::parse(&call.args[2..]);
    add(call, AddOptions { is_increment: true, ..options }, 2 + len)
}

/// Adds the members behind position `at`, each with a score in front.
fn add<S: Store>(call: &mut Call<'_, '_, S>, options: AddOptions, at: usize) -> Outcome {
    let args = call.args;
    let (pairs, rest) = args[at..].as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(Refusal::SYNTAX);
    }
    options.check(pairs.len())?;
    let scores: Option<Vec<f64>> = pairs.iter().map(|[text, _]| score::parse(text)).collect();
    let scores = scores.ok_or(Refusal::NOT_A_FLOAT)?;
    let growth = growth_of(&args[at..]);
    let (has_changed, effects) = call.item(1).change(growth, |set: &mut SortedSet| {
        let members = pairs.iter().zip(&scores);
        let effects: Result<Vec<Effect>, Refusal> =
            members.map(|([_, member], &score)| options.apply(set, member, score)).collect();
        let has_changed = |effects: &Vec<Effect>| {
            effects.iter().any(|effect| matches!(effect, Effect::Added(_) | Effect::Changed(_)))
        };
        let has_changed = effects.as_ref().is_ok_and(has_changed);
        (has_changed, (has_changed, effects))
    })?;
    let effects = effects?;
    if has_changed {
        let event = if options.is_increment { "zincr" } else { "zadd" };
        call.notify(EventClass::SortedSet, event, args[1]);
    }
    if options.is_increment {
        match effects.first() {
            Some(Effect::Added(score) | Effect::Changed(score) | Effect::Same(score)) => call.reply.score(*score),
            Some(Effect::Kept) | None => call.reply.null(),
        }
        return Ok(());
    }
    let is_counted = |effect: &&Effect| match effect {
        Effect::Added(_) => true,
        Effect::Changed(_) => options.counts_changed,
        Effect::Same(_) | Effect::Kept => false,
    };
    call.reply.count(effects.iter().filter(is_counted).count());
    Ok(())
}

pub(super) fn zrem<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let members = &call.args[2..];
    let removed = call.item(1).change(0, |set: &mut SortedSet| {
        let removed = members.iter().filter(|member| set.remove(member).is_some()).count();
        (removed > 0, removed)
    })?;
    if removed > 0 {
        call.notify_removal(EventClass::SortedSet, "zrem", call.args[1]);
    }
    call.reply.count(removed);
    Ok(())
}

pub(super) fn zcard<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let len = call.item(1).into_collection::<SortedSet>()?.map_or(0, SortedSetView::len);
    call.reply.count(len);
    Ok(())
}

pub(super) fn zscore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let member = call.args[2];
    let score = call.item(1).into_collection::<SortedSet>()?.and_then(|set| set.score(member));
    call.reply.optional_score(score);
    Ok(())
}

pub(super) fn zmscore<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let members = &call.args[2..];
    let view = call.keys.item(call.args[1]).into_collection::<SortedSet>()?;
    call.reply.array(members.len());
    for member in members {
        call.reply.optional_score(view.and_then(|set| set.score(member)));
    }
    Ok(())
}

pub(super) fn zrank<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show_rank(call, |rank, _| rank)
}

pub(super) fn zrevrank<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    show_rank(call, |rank, len| len - 1 - rank)
}

fn show_rank<S: Store>(call: &mut Call<'_, '_, S>, shown: fn(usize, usize) -> usize) -> Outcome {
    let member = call.args[2];
    let view = call.keys.item(call.args[1]).into_collection::<SortedSet>()?.map(|set| (set.rank(member), set.len()));
    match view {
        Some((Some(rank), len)) => call.reply.count(shown(rank, len)),
        Some((None, _)) | None => call.reply.null(),
    }
    Ok(())
}
