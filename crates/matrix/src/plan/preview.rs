//! Preview of a run: `--list`, `--dry-run`, and about how long it takes.

use std::fmt::Write as _;

use results::{Cell, Role, Setup, Workload};

use crate::{
    plan::{minutes::minutes, order, subjects::Subject, warm_up},
    run::pair::RoundShape,
};

/// Starting a server and a generator, connecting, stopping and reading /proc, for the estimate of a run's time.
const VISIT_OVERHEAD_S: f64 = 0.25;

/// Planned visits and about how many seconds they take.
pub(crate) fn estimate(subject: &Subject, setup: &Setup) -> (usize, f64) {
    let (visits, seconds) = block(subject, setup, setup.slice_s);
    (visits * setup.blocks as usize, seconds * f64::from(setup.blocks))
}

/// The same of one block, with slices of that length.
pub(crate) fn block(subject: &Subject, setup: &Setup, slice_s: f64) -> (usize, f64) {
    block_with(subject, setup, slice_s, |workload| warm_up::usual_s(setup, workload))
}

/// Seconds that the visits take if no load is steady before its warm-up is over.
fn longest(subject: &Subject, setup: &Setup) -> f64 {
    let (_, seconds) = block_with(subject, setup, setup.slice_s, |workload| warm_up::most_s(setup, workload));
    seconds * f64::from(setup.blocks)
}

fn block_with(subject: &Subject, setup: &Setup, slice_s: f64, warm_up_s: impl Fn(&Workload) -> f64) -> (usize, f64) {
    let mut visits = 0;
    let mut seconds = 0.0;
    for (cell, workload) in
        setup.selected().filter(|(cell, workload)| setup.why_not(&cell.id, &workload.name).is_none())
    {
        let preload_s = if cell.role == Role::Null { 0.0 } else { subject.preload_s(workload) };
        let blocks = if subject.preload_only_checks() { f64::from(setup.blocks) } else { 1.0 };
        let load_s = subject.load_s(workload, slice_s, warm_up_s(workload));
        visits += 1;
        seconds += load_s + VISIT_OVERHEAD_S + preload_s / blocks + turns_s(subject, setup, cell, workload);
    }
    (visits, seconds)
}

/// Seconds of a visit's turns beside the reference, which is started and warmed up for them.
fn turns_s(subject: &Subject, setup: &Setup, cell: &Cell, workload: &Workload) -> f64 {
    let turns = setup.turns.filter(|_| cell.id != setup.reference).and_then(|plan| subject.turns(workload, plan));
    turns.map_or(0.0, |RoundShape { turn, pairs, warm_up_turns }| {
        let preload_s = if subject.preload_only_checks() { 0.0 } else { subject.preload_s(workload) };
        let turn_s = subject.round_s(workload).unwrap_or(0.0).max(turn.as_secs_f64());
        2.0 * turn_s * f64::from(pairs + warm_up_turns) + VISIT_OVERHEAD_S + preload_s
    })
}

/// Text of `--list`.
pub(crate) fn list(subject: &Subject, setup: &Setup) -> String {
    let mut text = String::new();
    for (cell, workload) in setup.selected() {
        let role = match cell.role {
            Role::Ours if cell.id == setup.reference => "reference",
            Role::Ours => "ours",
            Role::Peer => "peer",
            Role::Null => "null",
            Role::Control => "control",
        };
        let state = setup.why_not(&cell.id, &workload.name).map_or_else(String::new, |why| format!("  n/a: {why}"));
        text.push_str(format!("{:<32} {:<10} {:<18}{state}", cell.id, role, workload.name).trim_end());
        text.push('\n');
    }
    text + &total(subject, setup)
}

/// `--list` of every matrix.
pub(crate) fn lists(matrices: &[(&Subject, &Setup)]) -> String {
    let mut text = matrices.iter().map(|(subject, setup)| list(subject, setup)).collect::<Vec<_>>().join("\n");
    if matrices.len() > 1 {
        text += &format!("\n{}\n", all(matrices.iter().copied()));
    }
    text
}

/// Returns visits and time of all matrices in words, repeats of flagged visits apart.
pub(crate) fn all<'a>(matrices: impl Iterator<Item = (&'a Subject, &'a Setup)>) -> String {
    let (visits, seconds, most) = matrices.fold((0, 0.0, 0.0), |sum, (subject, setup)| {
        let (visits, seconds) = estimate(subject, setup);
        (sum.0 + visits, sum.1 + seconds, sum.2 + longest(subject, setup))
    });
    format!("{visits} visits, {}", about(seconds, most))
}

/// Two times in words: loads that are not steady early take up to the second one.
fn about(seconds: f64, most: f64) -> String {
    let (usual, most) = (minutes(seconds), minutes(most));
    if usual == most {
        return format!("about {usual}");
    }
    format!("about {usual}, up to {most} if loads are slow to become steady")
}

/// Text of `--dry-run`: how the plans came about, and every visit in its order: the matrices take turns, block by block.
pub(crate) fn dry_run(matrices: &[(&Subject, &Setup)]) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for (subject, setup) in matrices {
        let _ = writeln!(text, "{}: `{}`", setup.server, setup.command);
        for note in &setup.notes {
            let _ = writeln!(text, "  {note}");
        }
        text += &total(subject, setup);
    }
    let plans: Vec<_> = matrices.iter().map(|(_, setup)| order::shuffled(setup)).collect();
    for block in 0..plans.iter().map(Vec::len).max().unwrap_or(0) {
        for ((_, setup), plan) in matrices.iter().zip(&plans) {
            let Some(slots) = plan.get(block) else { continue };
            let _ = writeln!(text, "{}, block {}/{}", setup.server, block + 1, setup.blocks);
            for (number, slot) in (1..).zip(slots) {
                let _ = writeln!(text, "{number:>5}  {:<32} {}", slot.cell, slot.workload);
            }
        }
    }
    text
}

fn total(subject: &Subject, setup: &Setup) -> String {
    let (visits, seconds) = estimate(subject, setup);
    format!("{visits} visits in {} blocks, {}\n", setup.blocks, about(seconds, longest(subject, setup)))
}

#[cfg(test)]
mod tests {
    use results::NotRun;

    use super::*;
    use crate::plan::subjects;
    use crate::samples;

    #[test]
    fn the_list_names_every_combination_and_the_time() {
        let mut setup = samples::setup();
        setup.not_run = vec![NotRun { cell: "null".into(), workload: "open".into(), reason: "no reason".into() }];
        let text = list(&subjects::SUBJECTS[0], &setup);
        assert_eq!(text.lines().count(), 6 * 2 + 1);
        assert!(text.contains("n/a: no reason") && text.contains("reference"));
        assert!(text.ends_with("33 visits in 3 blocks, about 1 min 14 s\n"), "{text}");
        setup.max_warmup_s = Some(2.0);
        let text = list(&subjects::SUBJECTS[0], &setup);
        let time = "33 visits in 3 blocks, about 1 min 24 s, up to 2 min 04 s if loads are slow to become steady\n";
        assert!(text.ends_with(time), "{text}");
    }

    #[test]
    fn a_dry_run_prints_the_plans_in_the_order_of_the_run() {
        let setup = samples::setup();
        let other = Setup { server: "kvcache".to_owned(), blocks: 1, ..samples::setup() };
        let both = dry_run(&[(&subjects::SUBJECTS[0], &setup), (&subjects::SUBJECTS[1], &other)]);
        let blocks: Vec<&str> = both.lines().filter(|line| line.contains(", block ")).collect();
        assert_eq!(
            blocks,
            ["http-server, block 1/3", "kvcache, block 1/1", "http-server, block 2/3", "http-server, block 3/3"]
        );
        let text = dry_run(&[(&subjects::SUBJECTS[0], &setup)]);
        let shown = text.lines().filter(|line| line.starts_with("   ")).map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[1].to_owned(), words[2].to_owned())
        });
        let planned = order::shuffled(&setup).into_iter().flatten().map(|slot| (slot.cell, slot.workload));
        assert!(shown.eq(planned), "{text}");
    }
}
