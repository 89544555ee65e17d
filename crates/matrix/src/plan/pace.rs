//! Number of blocks and length of slices: as asked for, or as many as a time budget holds.

use anyhow::Result;

use crate::{plan::minutes::minutes, usage};

/// Part of a budget that the visits are planned for; the rest is for calibration, repeats and the report.
const PLANNED_PART: f64 = 0.9;
/// Fewer give no interval that means anything.
const BLOCKS_MIN: u32 = 3;
/// With time for so many the slices keep their length.
const BLOCKS_ENOUGH: u32 = 5;
/// More narrow the intervals by little.
const BLOCKS_MAX: u32 = 40;
/// Shorter ones measure little but starting.
const SLICE_MIN_S: f64 = 0.2;
const SHORTER: f64 = 0.8;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pace {
    pub(crate) blocks: u32,
    pub(crate) slice_s: f64,
    /// Effect of a budget, in a sentence.
    pub(crate) note: Option<String>,
}

/// Blocks and slices that were asked for; where they were not, the default may give way to the budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaceRequest {
    pub(crate) blocks: Option<u32>,
    pub(crate) slice_s: Option<f64>,
    pub(crate) default_blocks: u32,
    pub(crate) default_slice_s: f64,
}

/// Without a budget: what was asked for or the default.
pub(crate) fn without_budget(request: PaceRequest) -> Pace {
    let (blocks, slice_s) =
        (request.blocks.unwrap_or(request.default_blocks), request.slice_s.unwrap_or(request.default_slice_s));
    Pace { blocks, slice_s, note: None }
}

/// `block_s`: about how many seconds a block of all matrices takes with slices of that length.
///
/// # Errors
/// Not even the shortest sensible run fits.
pub(crate) fn within(budget_s: f64, request: PaceRequest, block_s: impl Fn(f64) -> f64) -> Result<Pace> {
    let planned_s = budget_s * PLANNED_PART;
    let fitting = |slice_s: f64| (planned_s / block_s(slice_s)).floor().min(f64::from(BLOCKS_MAX)) as u32;
    let longest = request.slice_s.unwrap_or(request.default_slice_s);
    let shortest = if request.slice_s.is_some() { longest } else { SLICE_MIN_S.min(longest) };
    let enough = request.blocks.unwrap_or(BLOCKS_ENOUGH);
    let mut slice_s = longest;
    while fitting(slice_s) < enough && slice_s > shortest {
        // Whole hundredths, so that what is printed is what is run.
        slice_s = ((slice_s * SHORTER * 100.0).floor() / 100.0).max(shortest);
    }
    let blocks = request.blocks.map_or_else(|| fitting(slice_s), |asked| asked.min(fitting(slice_s)));
    if blocks < request.blocks.unwrap_or(BLOCKS_MIN).min(BLOCKS_MIN)
        || request.blocks.is_some_and(|asked| blocks < asked)
    {
        let least = f64::from(request.blocks.unwrap_or(BLOCKS_MIN)) * block_s(shortest) / PLANNED_PART;
        return Err(usage(format!(
            "--time-budget {}: the smallest run of this selection takes {}; select fewer cells or workloads",
            minutes(budget_s),
            minutes(least)
        )));
    }
    let expected_s = f64::from(blocks) * block_s(slice_s);
    let note = format!(
        "Time budget of {}: {blocks} blocks of {slice_s} s slices, about {}; no block is begun that would not end in time.",
        minutes(budget_s),
        minutes(expected_s)
    );
    Ok(Pace { blocks, slice_s, note: Some(note) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: PaceRequest = PaceRequest { blocks: None, slice_s: None, default_blocks: 7, default_slice_s: 1.5 };

    /// Twenty visits of half a second and the slice.
    fn block_s(slice_s: f64) -> f64 {
        20.0 * (0.5 + slice_s)
    }

    #[test]
    fn a_time_budget_sets_blocks_first_and_slices_then() {
        let mut last = (0, 0.0);
        for minutes in 1..120 {
            let budget_s = f64::from(minutes) * 60.0;
            let Ok(pace) = within(budget_s, REQUEST, block_s) else {
                assert!(last.0 == 0, "what fits in less time fits in more");
                continue;
            };
            assert!(f64::from(pace.blocks) * block_s(pace.slice_s) <= budget_s, "{pace:?}");
            assert!((BLOCKS_MIN..=BLOCKS_MAX).contains(&pace.blocks));
            assert!((SLICE_MIN_S..=1.5).contains(&pace.slice_s) && pace.slice_s >= last.1);
            last = (pace.blocks, pace.slice_s);
        }
        assert_eq!(last, (BLOCKS_MAX, 1.5));
    }

    #[test]
    fn what_was_asked_for_is_kept_or_refused() {
        let slice = PaceRequest { slice_s: Some(1.0), ..REQUEST };
        assert_eq!(within(300.0, slice, block_s).unwrap().slice_s, 1.0);
        assert!(within(60.0, slice, block_s).is_err());
        let blocks = PaceRequest { blocks: Some(9), ..REQUEST };
        let pace = within(300.0, blocks, block_s).unwrap();
        assert!(pace.blocks == 9 && pace.slice_s < 1.5, "{pace:?}");
        let error = within(30.0, blocks, block_s).unwrap_err();
        assert!(error.is::<crate::UsageError>() && error.to_string().contains("takes 2 min 20 s"), "{error}");
        assert_eq!(without_budget(blocks), Pace { blocks: 9, slice_s: 1.5, note: None });
    }

    #[test]
    fn what_was_chosen_is_said() {
        let note = within(600.0, REQUEST, block_s).unwrap().note.unwrap();
        assert!(note.starts_with("Time budget of 10 min 00 s: 13 blocks of 1.5 s slices, about 8 min 40 s"), "{note}");
    }
}
