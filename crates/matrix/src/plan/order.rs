//! Which visits must be made, in which order, and which of them are still missing.

use results::{
    Setup,
    record::{Manifest, Planned, Slot, Visit},
};

/// One shuffled pass over every cell and workload per block. A complete block pairs each cell with the reference under
/// the same state of the machine; shuffling keeps slow drift from favouring whoever comes first.
pub(crate) fn shuffled(setup: &Setup) -> Vec<Vec<Slot>> {
    // Each matrix has an order of its own.
    let mut random = fastrand::Rng::with_seed(
        setup.server.bytes().fold(setup.seed, |seed, byte| seed.rotate_left(8) ^ u64::from(byte)),
    );
    let slots: Vec<Slot> = setup
        .selected()
        .filter(|(cell, workload)| setup.why_not(&cell.id, &workload.name).is_none())
        .map(|(cell, workload)| Slot { cell: cell.id.clone(), workload: workload.name.clone() })
        .collect();
    (0..setup.blocks)
        .map(|_| {
            let mut block = slots.clone();
            random.shuffle(&mut block);
            block
        })
        .collect()
}

/// A visit to make: slot index in its block, and which attempt it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Due {
    pub(crate) slot: u32,
    pub(crate) attempt: u32,
}

/// The next visit of a block: slots without any attempt in plan order, then, round by round, those without a valid one.
pub(crate) fn next(block: u32, slots: usize, visits: &[Visit], retries_max: u32) -> Option<Due> {
    let mut attempts = vec![0_u32; slots];
    let mut is_settled = vec![false; slots];
    for visit in visits.iter().filter(|visit| visit.block == block) {
        let slot = visit.slot as usize;
        if slot < slots {
            attempts[slot] = attempts[slot].max(visit.attempt);
            is_settled[slot] |= visit.valid;
        }
    }
    let due = (0..slots).filter(|&slot| !is_settled[slot] && attempts[slot] <= retries_max);
    let slot = due.min_by_key(|&slot| attempts[slot])?;
    Some(Due { slot: u32::try_from(slot).ok()?, attempt: attempts[slot] + 1 })
}

/// A block of one matrix, as a place in a run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct BlockOfMatrix {
    pub(crate) block: usize,
    pub(crate) matrix: usize,
}

/// The next visit of a run at `from` or behind it: block by block, and of each block the matrices in turn. The same
/// visits in the file give the same next one, whoever made them: that is what resuming rests on.
pub(crate) fn next_of_run(
    manifest: &Manifest,
    visits: &[Vec<Visit>],
    from: BlockOfMatrix,
) -> Option<(BlockOfMatrix, Due)> {
    let blocks = manifest.matrices.iter().map(|planned| planned.plan.len()).max().unwrap_or(0);
    let matrices = manifest.matrices.len();
    let turns = (from.block..blocks).flat_map(|block| (0..matrices).map(move |matrix| BlockOfMatrix { block, matrix }));
    turns.filter(|turn| (turn.block, turn.matrix) >= (from.block, from.matrix)).find_map(|turn| {
        let (planned, visits) = (&manifest.matrices[turn.matrix], &visits[turn.matrix]);
        let slots = planned.plan.get(turn.block)?.len();
        let retries_max = if has_time_to_repeat(planned, visits) { planned.setup.retries_max } else { 0 };
        Some((turn, next(u32::try_from(turn.block).ok()?, slots, visits, retries_max)?))
    })
}

/// True if a repeat still fits: the visits to come are expected to take as long as those made.
pub(crate) fn has_time_to_repeat(planned: &Planned, visits: &[Visit]) -> bool {
    let Some(budget_s) = planned.setup.retry_budget_s else { return true };
    let slots: usize = planned.plan.iter().map(Vec::len).sum();
    let to_come = slots.saturating_sub(visits.iter().filter(|visit| visit.attempt == 1).count());
    let spent_s: f64 = visits.iter().map(|visit| visit.elapsed_s).sum();
    let mean_s = spent_s / visits.len().max(1) as f64;
    spent_s + mean_s * (to_come + 1) as f64 <= budget_s
}

/// The visit that counts among the attempts at one slot: the valid one, else the last that has usable figures, else the
/// last.
pub(crate) fn counting<'a>(attempts: &[&'a Visit]) -> Option<&'a Visit> {
    attempts.iter().copied().max_by_key(|visit| (visit.valid, visit.is_usable(), visit.attempt))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use results::{Flag, NotRun};

    use super::*;
    use crate::samples;

    #[test]
    fn a_block_has_every_combination_once_in_the_seeds_order() {
        let mut setup = samples::setup();
        setup.blocks = 4;
        let reason = "why".to_owned();
        setup.not_run = vec![NotRun { cell: "null".into(), workload: setup.workloads[0].name.clone(), reason }];
        let plan = shuffled(&setup);
        assert_eq!(plan.len(), 4);
        let combinations = setup.cells.len() * setup.workloads.len() - 1;
        for block in &plan {
            let distinct: BTreeSet<_> = block.iter().map(|slot| (&slot.cell, &slot.workload)).collect();
            assert_eq!((block.len(), distinct.len()), (combinations, combinations));
            assert!(!distinct.contains(&(&"null".to_owned(), &setup.workloads[0].name)));
        }
        assert_ne!(plan[0], plan[1]);
        assert_eq!(plan, shuffled(&setup));
        setup.seed += 1;
        assert_ne!(plan, shuffled(&setup));
    }

    #[test]
    fn a_cell_is_visited_under_the_workloads_it_is_selected_for() {
        let mut setup = samples::setup();
        setup.cells[1].only_under = Some(vec!["open".to_owned()]);
        let plan = shuffled(&setup);
        assert_eq!(plan[0].len(), setup.cells.len() * setup.workloads.len() - 1);
        assert!(!plan[0].iter().any(|slot| slot.cell == setup.cells[1].id && slot.workload == "closed"));
    }

    #[test]
    fn invalid_visits_are_repeated_at_the_blocks_end_within_limits() {
        let mut visits = Vec::new();
        let mut order = Vec::new();
        while let Some(due) = next(0, 3, &visits, 2) {
            // Slot 1 never succeeds, slot 2 does at the second attempt.
            let valid = due.slot == 0 || (due.slot == 2 && due.attempt == 2);
            visits.push(Visit { slot: due.slot, attempt: due.attempt, valid, ..samples::visit() });
            order.push((due.slot, due.attempt));
        }
        assert_eq!(order, [(0, 1), (1, 1), (2, 1), (1, 2), (2, 2), (1, 3)]);
    }

    #[test]
    fn a_resumed_block_makes_exactly_the_missing_visits() {
        let done = |slot| Visit { block: 1, slot, attempt: 1, valid: true, ..samples::visit() };
        let visits = [done(0), done(2)];
        assert_eq!(next(1, 3, &visits, 2), Some(Due { slot: 1, attempt: 1 }));
        assert_eq!(next(0, 3, &visits, 2), Some(Due { slot: 0, attempt: 1 }), "another block");
        assert_eq!(next(1, 1, &visits, 2), None);
    }

    #[test]
    fn repeats_stop_when_the_visits_to_come_need_the_time() {
        let mut setup = samples::setup();
        let fits = |setup: &Setup, visits: usize| {
            let planned = Planned { plan: shuffled(setup), setup: setup.clone() };
            has_time_to_repeat(&planned, &vec![samples::visit(); visits])
        };
        assert!(fits(&setup, 1_000), "no budget is no limit");
        // 36 visits of 2 s, and one repeat.
        setup.retry_budget_s = Some(74.0);
        assert!(fits(&setup, 12) && fits(&setup, 36));
        assert!(!fits(&setup, 37), "it was made");
        setup.retry_budget_s = Some(73.0);
        assert!(!fits(&setup, 12));
    }

    #[test]
    fn valid_attempts_count_before_flagged_before_failed_ones() {
        let attempt = |attempt, flags: &[Flag]| {
            let valid = !flags.iter().copied().any(Flag::is_invalid);
            Visit { attempt, valid, flags: flags.to_vec(), ..samples::visit() }
        };
        let (valid, noisy, failed) = (attempt(1, &[]), attempt(2, &[Flag::Noisy]), attempt(3, &[Flag::Errors]));
        assert_eq!(counting(&[&failed, &valid, &noisy]), Some(&valid));
        assert_eq!(counting(&[&failed, &noisy]), Some(&noisy));
        assert_eq!(counting(&[&failed]), Some(&failed));
        assert_eq!(counting(&[]), None);
    }
}
