//! Measurements before the labels are sealed: what a server costs, and how far a pause moves its 99th percentile.

use anyhow::{Result, bail};

use super::{
    Judge,
    keeper::{Keeper, Label, Tail},
};
use crate::judge::{paired, stats::median};

/// Measurements until a pause has the effect that was asked for.
const ATTEMPTS: usize = 4;
/// Rounds of each.
const ROUNDS: usize = 8;
/// Relative error of an effect that is good enough.
const CLOSE: f64 = 0.05;

impl Judge<'_> {
    /// Measures cost and 99th percentile of the server that all are compared with, on two of them. `None` when the user asked to
    /// stop, here and below.
    pub(super) fn pilot(&mut self, keeper: &mut Keeper) -> Result<Option<(f64, f64)>> {
        let running = keeper.pilot(Label::None)?;
        let Some(pairs) = self.round(&running)? else { return Ok(None) };
        keeper.stop()?;
        let turns = || pairs.iter().flat_map(|pair| [pair.base, pair.change]);
        let over = |values: Vec<f64>| median(&values);
        Ok(Some((over(turns().map(|turn| turn.cost_ns()).collect()), over(turns().map(|turn| turn.p99_us).collect()))))
    }

    /// Finds the pauses that have effects of these sizes.
    pub(super) fn tails(
        &mut self,
        keeper: &mut Keeper,
        effects_percent: &[f64],
        p99_us: f64,
    ) -> Result<Option<Vec<Tail>>> {
        let mut tails = Vec::new();
        for percent in effects_percent {
            let found = tail(percent * 0.01, p99_us, |pause_us| self.moved_by(keeper, pause_us))?;
            let Some(tail) = found else { return Ok(None) };
            let (pause_us, moved) = (tail.pause_us, tail.moved * 100.0);
            eprintln!(
                "a pause of {pause_us:.0} µs moves the 99th percentile by {moved:.1} %; {percent} % were asked for"
            );
            tails.push(tail);
        }
        Ok(Some(tails))
    }

    /// Measures the effect of a pause, as a fraction.
    fn moved_by(&mut self, keeper: &mut Keeper, pause_us: f64) -> Result<Option<f64>> {
        let label = Label::P99(Tail { effect: 0.0, pause_us, moved: 0.0 });
        let mut values = Vec::new();
        for _ in 0..ROUNDS {
            let running = keeper.pilot(label)?;
            let Some(pairs) = self.round(&running)? else { return Ok(None) };
            keeper.stop()?;
            values.extend(paired::round_values(&pairs).map(|values| values.p99));
        }
        if values.is_empty() {
            bail!("no pair of turns could be used");
        }
        Ok(Some(median(&values).exp_m1()))
    }
}

/// Finds the pause that has this effect, or comes closest to it: as long as the effect itself at first, although others wait
/// behind a request that is held up, and few or many of them are among the slowest hundredth.
fn tail(effect: f64, p99_us: f64, mut moved_by: impl FnMut(f64) -> Result<Option<f64>>) -> Result<Option<Tail>> {
    let error = |tail: &Tail| (tail.moved / effect - 1.0).abs();
    let mut tried: Vec<Tail> = Vec::new();
    let mut pause_us = effect * p99_us;
    while tried.len() < ATTEMPTS && tried.last().is_none_or(|last| error(last) > CLOSE) {
        let Some(moved) = moved_by(pause_us)? else { return Ok(None) };
        let now = Tail { effect, pause_us, moved };
        pause_us = next_pause(tried.last(), &now);
        tried.push(now);
    }
    Ok(tried.into_iter().min_by(|one, other| error(one).total_cmp(&error(other))))
}

/// Pause to try after these two: on the line through them, or through the origin.
fn next_pause(before: Option<&Tail>, now: &Tail) -> f64 {
    let Tail { effect, pause_us, moved } = *now;
    let line = before.map(|before| (moved - before.moved) / (pause_us - before.pause_us));
    let per_us = line.filter(|slope| *slope > 0.0).unwrap_or(moved / pause_us);
    let next = if per_us > 0.0 { pause_us + (effect - moved) / per_us } else { pause_us * 2.0 };
    next.clamp(pause_us / 2.0, pause_us * 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_found_that_has_the_effect() {
        // Effects of a pause: itself, a part of it, nothing up to some length, less and less of it; of 400 µs.
        let responses: [fn(f64) -> f64; 4] = [
            |pause| pause / 400.0,
            |pause| 0.65 * pause / 400.0,
            |pause| (pause - 80.0).max(-5.0) / 400.0,
            |pause| (pause / 400.0).sqrt() * 0.6,
        ];
        for (at, response) in responses.into_iter().enumerate() {
            for effect in [0.25, 0.5, 1.0] {
                let mut count = 0;
                let measure = |pause_us: f64| {
                    count += 1;
                    Ok(Some(response(pause_us)))
                };
                let found = tail(effect, 400.0, measure).unwrap().unwrap();
                assert!((found.moved / effect - 1.0).abs() <= CLOSE, "response {at}: {found:?}");
                assert_eq!((found.moved, found.effect), (response(found.pause_us), effect));
                assert!(count <= ATTEMPTS && (at > 0 || count == 1), "response {at}: {count}");
            }
        }
    }

    #[test]
    fn a_pause_without_an_effect_is_told_as_one() {
        let found = tail(0.5, 400.0, |_| Ok(Some(-0.01))).unwrap().unwrap();
        assert_eq!(found.moved, -0.01);
        assert_eq!(tail(0.5, 400.0, |_| Ok(None)).unwrap(), None, "asked to stop");
    }
}
