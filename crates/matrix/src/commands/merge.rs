//! Several runs as one: the blocks of the second follow those of the first.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use results::{
    Arrivals, Cell, Role, Setup, Workload,
    record::{Manifest, Planned, Visit},
};

use crate::store::Counts;

/// Limit of the distance between the loads that two runs offered: each found its own by calibration.
const RATE_TOLERANCE: f64 = 0.1;

/// A run as stored.
pub(crate) type Run = (Manifest, Vec<Visit>);

/// # Errors
/// The runs measured different things, or on different machines.
pub(crate) fn merge(runs: Vec<Run>, is_forced: bool) -> Result<Run> {
    let mut runs = runs.into_iter();
    let Some((mut manifest, mut visits)) = runs.next() else { bail!("nothing to merge") };
    for (other, others_visits) in runs {
        refuse_same_visits(&visits, &others_visits)?;
        let offsets: Vec<(String, u32)> =
            (manifest.matrices.iter()).map(|planned| (planned.setup.server.clone(), planned.setup.blocks)).collect();
        for planned in other.matrices {
            match manifest.matrices.iter_mut().find(|known| known.setup.server == planned.setup.server) {
                Some(known) => append(known, planned, is_forced)?,
                None => manifest.matrices.push(planned),
            }
        }
        visits.extend(others_visits.into_iter().map(|visit| {
            let offset = offsets.iter().find(|(server, _)| *server == visit.matrix).map_or(0, |(_, blocks)| *blocks);
            Visit { block: visit.block + offset, ..visit }
        }));
    }
    Ok((manifest, visits))
}

/// A block that is counted twice narrows every interval, and nothing was learnt.
fn refuse_same_visits(known: &[Visit], others: &[Visit]) -> Result<()> {
    // Wherever merging has put it, a visit is told by when it began, what it visited and how long it took.
    let key = |visit: &Visit| {
        (visit.started_utc.clone(), visit.cell.clone(), visit.workload.clone(), visit.elapsed_s.to_bits())
    };
    let known: BTreeSet<_> = known.iter().map(key).collect();
    match others.iter().find(|visit| known.contains(&key(visit))) {
        Some(Visit { cell, workload, started_utc, .. }) => {
            bail!("the runs share visits (of {cell} under {workload}, {started_utc}): is one of them given twice?")
        }
        None => Ok(()),
    }
}

fn append(known: &mut Planned, other: Planned, is_forced: bool) -> Result<()> {
    let (first, second) = (&known.setup, &other.setup);
    check_same(first, second, is_forced)?;
    let mut cells = first.cells.clone();
    for cell in &second.cells {
        match cells.iter_mut().find(|known| known.id == cell.id) {
            Some(known) => widen(known, cell),
            None => cells.push(cell.clone()),
        }
    }
    cells.sort_by_key(|cell| match cell.role {
        Role::Ours => 0,
        Role::Peer => 1,
        Role::Null => 2,
        Role::Control => 3,
    });
    let mut workloads = first.workloads.clone();
    workloads.extend(
        second
            .workloads
            .iter()
            .filter(|it| !workloads.iter().any(|known| known.name == it.name))
            .cloned()
            .collect::<Vec<_>>(),
    );
    let mut not_run = first.not_run.clone();
    not_run.extend(second.not_run.iter().filter(|it| !not_run.contains(it)).cloned().collect::<Vec<_>>());
    let mut notes = first.notes.clone();
    notes.extend(second.notes.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>());
    notes.push(format!(
        "Blocks {} to {} are those of another run: `{}`, {}.",
        first.blocks + 1,
        first.blocks + second.blocks,
        second.command,
        second.created_utc
    ));
    let blocks = first.blocks + second.blocks;
    known.setup = Setup {
        cells,
        workloads,
        not_run,
        notes,
        blocks,
        quick: first.quick || second.quick,
        time_budget_s: None,
        git: results::Git { dirty: first.git.dirty || second.git.dirty, ..first.git.clone() },
        ..known.setup.clone()
    };
    // A cell counts where a run planned it; elsewhere its visits are not missing.
    known.plan.extend(other.plan);
    Ok(())
}

/// Counts per request are the same in every run: the first that counted a cell is believed.
pub(crate) fn counts(runs: Vec<Counts>) -> Counts {
    let (mut merged, mut known) = (Counts::default(), [BTreeSet::new(), BTreeSet::new()]);
    for Counts { syscalls, instructions } in runs {
        merged.syscalls.extend(syscalls.into_iter().filter(|count| {
            let key = (count.matrix.clone(), count.cell.clone(), count.workload.clone());
            count.per_request.is_some() && known[0].insert(key)
        }));
        merged.instructions.extend(instructions.into_iter().filter(|count| {
            let key = (count.matrix.clone(), count.cell.clone(), count.workload.clone());
            count.per_request.is_some() && known[1].insert(key)
        }));
    }
    merged
}

/// A cell that either run selected for a workload is selected for it.
fn widen(known: &mut Cell, other: &Cell) {
    known.only_under = match (known.only_under.take(), &other.only_under) {
        (Some(mut names), Some(more)) => {
            names.extend(more.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
            Some(names)
        }
        _ => None,
    };
}

fn check_same(first: &Setup, second: &Setup, is_forced: bool) -> Result<()> {
    let server = &first.server;
    if first.git != second.git && !is_forced {
        let (one, other) = (&first.git.sha, &second.git.sha);
        bail!(
            "{server}: one run was made from {one}, another from {other} or with other changes (--force merges all the same)"
        );
    }
    let placement = |setup: &Setup| format!("{:?} {:?}", setup.pinning, setup.remote);
    let longest = |setup: &Setup| setup.max_warmup_s.unwrap_or(setup.warmup_s).to_string();
    let facts: [(&str, String, String); 9] = [
        ("reference", first.reference.clone(), second.reference.clone()),
        ("slice", first.slice_s.to_string(), second.slice_s.to_string()),
        ("warm-up", first.warmup_s.to_string(), second.warmup_s.to_string()),
        ("longest warm-up", longest(first), longest(second)),
        ("profile", first.profile.clone(), second.profile.clone()),
        ("processor", first.host.cpu_model.clone(), second.host.cpu_model.clone()),
        ("kernel", first.host.kernel.clone(), second.host.kernel.clone()),
        ("number of cores", first.host.cores.to_string(), second.host.cores.to_string()),
        ("placement", placement(first), placement(second)),
    ];
    if let Some((what, one, other)) = facts.iter().find(|(_, one, other)| one != other) {
        bail!("{server}: the runs cannot be merged: another {what} ({one}, {other})");
    }
    for cell in &second.cells {
        if let Some(known) = first.cells.iter().find(|known| known.id == cell.id && known.command != cell.command) {
            bail!(
                "{server}: the runs cannot be merged: {} was started as `{}` and as `{}`",
                cell.id,
                known.command,
                cell.command
            );
        }
    }
    for workload in &second.workloads {
        let known = first.workloads.iter().find(|known| known.name == workload.name);
        if known.is_some_and(|known| !is_same_load(known, workload)) {
            bail!("{server}: the runs cannot be merged: {} is another load", workload.name);
        }
    }
    Ok(())
}

fn is_same_load(first: &Workload, second: &Workload) -> bool {
    let fixed =
        |workload: &Workload| Workload { arrivals: Arrivals::Closed, command: String::new(), ..workload.clone() };
    let is_near = match (first.arrivals, second.arrivals) {
        (Arrivals::Closed, Arrivals::Closed) | (Arrivals::LoadSweep, Arrivals::LoadSweep) => true,
        (Arrivals::Open { rate_rps: one, .. }, Arrivals::Open { rate_rps: other, .. }) => {
            (one - other).abs() <= RATE_TOLERANCE * one.max(other)
        }
        _ => false,
    };
    is_near && fixed(first) == fixed(second)
}

#[cfg(test)]
mod tests {
    use results::SCHEMA;

    use super::*;
    use crate::{
        judge::analysis,
        plan::order,
        run::{instructions::InstructionCount, syscalls::Count},
        samples,
    };

    fn run(seed: u64, change: impl Fn(&mut Setup)) -> Run {
        let mut setup = Setup { seed, ..samples::setup() };
        change(&mut setup);
        let planned = Planned { plan: order::shuffled(&setup), setup };
        let mut visits = Vec::new();
        for (block, slots) in (0..).zip(&planned.plan) {
            for (slot, due) in (0..).zip(slots) {
                let (cell, workload) = (due.cell.clone(), due.workload.clone());
                let measured = Some(samples::measured(4.0 + f64::from(block)));
                let matrix = planned.setup.server.clone();
                // No two runs take exactly as long.
                let elapsed_s = 2.0 + seed as f64 / 1e6;
                visits.push(Visit { matrix, block, slot, cell, workload, measured, elapsed_s, ..samples::visit() });
            }
        }
        (Manifest { schema: SCHEMA.to_owned(), matrices: vec![planned] }, visits)
    }

    #[test]
    fn blocks_follow_one_another_and_every_visit_keeps_its_slot() {
        let (first, second) = (run(1, |_| ()), run(2, |_| ()));
        let (manifest, visits) = merge(vec![first.clone(), second.clone()], false).unwrap();
        let planned = &manifest.matrices[0];
        assert_eq!((planned.setup.blocks, planned.plan.len()), (6, 6));
        assert_eq!(planned.plan[3..], second.0.matrices[0].plan[..]);
        for visit in &visits {
            let slot = &planned.plan[visit.block as usize][visit.slot as usize];
            assert_eq!((&slot.cell, &slot.workload), (&visit.cell, &visit.workload));
        }
        let summary = analysis::summarise(planned, &visits);
        assert!(!summary.progress.is_partial && summary.progress.blocks_complete == 6);
        let figures = summary.figures("http-server/epoll", "closed").unwrap();
        assert_eq!((figures.visits, figures.cpu_us.unwrap().median), (6, 5.0));
    }

    #[test]
    fn counted_calls_of_the_first_run_that_has_them_are_kept() {
        let count = |cell: &str, calls: Option<f64>| Count {
            matrix: "http-server".to_owned(),
            cell: cell.to_owned(),
            workload: "closed".to_owned(),
            per_request: calls.map(|calls| [("recvfrom".to_owned(), calls)].into()),
            failure: None,
        };
        let instructions = |cell: &str, per_request| InstructionCount {
            matrix: "http-server".to_owned(),
            cell: cell.to_owned(),
            workload: "closed".to_owned(),
            per_request,
            failure: None,
        };
        let run = |counts: &[(&str, Option<f64>)]| Counts {
            syscalls: counts.iter().map(|(cell, number)| count(cell, *number)).collect(),
            instructions: counts.iter().map(|(cell, number)| instructions(cell, *number)).collect(),
        };
        let runs = vec![run(&[("a", None), ("b", Some(1.0))]), run(&[("a", Some(2.0)), ("b", Some(3.0))])];
        assert_eq!(counts(runs), run(&[("b", Some(1.0)), ("a", Some(2.0))]));
    }

    #[test]
    fn a_run_is_not_counted_twice() {
        let (first, second) = (run(1, |_| ()), run(2, |_| ()));
        for forced in [false, true] {
            let error = merge(vec![first.clone(), second.clone(), first.clone()], forced).unwrap_err().to_string();
            assert!(error.contains("given twice"), "{error}");
        }
        let both = merge(vec![first, second.clone()], false).unwrap();
        assert!(merge(vec![both, second], false).is_err(), "nor one that is in another, in blocks of other numbers");
    }

    #[test]
    fn a_merged_run_has_the_cells_of_both() {
        let less = run(1, |setup| {
            setup.cells.remove(1);
            setup.workloads.pop();
        });
        let other = run(3, |setup| "kvcache".clone_into(&mut setup.server));
        let (manifest, visits) = merge(vec![less, run(2, |_| ()), other], false).unwrap();
        assert_eq!(manifest.matrices.len(), 2);
        let summary = analysis::summarise(&manifest.matrices[0], &manifest.by_matrix(visits)[0]);
        assert_eq!(summary.figures("http-server/uring", "open").unwrap().visits, 3);
        assert_eq!(summary.figures("http-server/epoll", "closed").unwrap().visits, 6);
        assert!(!summary.progress.is_partial);
        let roles: Vec<Role> = summary.setup.cells.iter().map(|cell| cell.role).collect();
        assert_eq!(roles.iter().position(|role| *role == Role::Control), Some(roles.len() - 1));
    }

    #[test]
    fn what_was_measured_differently_is_refused() {
        let refused =
            |change: fn(&mut Setup)| merge(vec![run(1, |_| ()), run(2, change)], false).unwrap_err().to_string();
        assert!(refused(|setup| "abc".clone_into(&mut setup.git.sha)).contains("--force"));
        assert!(refused(|setup| setup.slice_s = 0.5).contains("another slice"));
        assert!(refused(|setup| setup.max_warmup_s = Some(2.0)).contains("another longest warm-up (0.5, 2)"));
        assert!(refused(|setup| "x".clone_into(&mut setup.cells[0].command)).contains("was started as"));
        assert!(refused(|setup| setup.workloads[0].connections = 1).contains("another load"));
        let rate = |rate_rps| {
            move |setup: &mut Setup| {
                setup.workloads[1].arrivals = Arrivals::Open { rate_rps, fraction: 0.5, capacity_rps: 2.0 * rate_rps };
            }
        };
        assert!(merge(vec![run(1, |_| ()), run(2, rate(1.09e5))], false).is_ok(), "each run calibrates anew");
        assert!(merge(vec![run(1, |_| ()), run(2, rate(1.2e5))], false).is_err());
        assert!(merge(vec![run(1, |_| ()), run(2, |setup| "abc".clone_into(&mut setup.git.sha))], true).is_ok());
    }
}
