//! The selection from a matrix that fits on a page: a few columns and a page of rows, by a rule; and in words what was left out.

use results::{Cell, Outcome, Role, Summary, Workload};

/// Workload that there is for a server, whether or not a run has it.
pub struct KnownWorkload {
    pub name: String,
    /// True if a run has it that names none.
    pub is_usual: bool,
    pub is_quick: bool,
}

/// Columns that can be read side by side.
const COLUMNS_MAX: usize = 6;
/// Rows of ours, enough for every driver and a second dimension beside it; beyond that only the reference's neighbours in one
/// dimension are shown.
const OURS_MAX: usize = 20;

/// A part of a matrix, itself a matrix.
pub(super) struct Selection {
    pub(super) summary: Summary,
    /// Measured, and not shown: workloads and back ends.
    pub(super) workloads_left: usize,
    pub(super) cells_left: usize,
    /// Workloads of a default run that this one did not have.
    pub(super) not_run: Vec<String>,
}

impl Selection {
    /// The workloads of a quick run first, then the open loops, then the others, as many as fit, in the matrix's order; the
    /// back ends that differ from the reference in one choice, cheapest first, then peers, the null server and the control.
    pub(super) fn of(whole: &Summary, known: &[KnownWorkload]) -> Self {
        let workloads = workloads(whole, known);
        let mut summary = whole.clone();
        summary.setup.workloads = workloads;
        let names: Vec<String> = summary.setup.workloads.iter().map(|workload| workload.name.clone()).collect();
        summary.results.retain(|result| names.contains(&result.workload));
        summary.noise.retain(|noise| names.contains(&noise.workload));
        let (cells, cells_left) = cells(&summary);
        let ids: Vec<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
        summary.results.retain(|result| ids.contains(&result.cell.as_str()));
        summary.setup.cells = cells;
        let is_missing = |workload: &&KnownWorkload| {
            workload.is_usual && !whole.setup.workloads.iter().any(|other| other.name == workload.name)
        };
        Self {
            workloads_left: whole.setup.workloads.len() - names.len(),
            cells_left,
            not_run: known.iter().filter(is_missing).map(|workload| workload.name.clone()).collect(),
            summary,
        }
    }

    /// Names what is not in the picture and not in the table; empty if nothing.
    pub(super) fn left_out(&self) -> String {
        let mut out = Vec::new();
        let count = |n: usize, noun: &str| format!("{n} more {noun}{}", if n == 1 { "" } else { "s" });
        let left: Vec<String> = [(self.workloads_left, "workload"), (self.cells_left, "back end")]
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, noun)| count(n, noun))
            .collect();
        if !left.is_empty() {
            out.push(format!("The run has {}, which its report shows.", left.join(" and ")));
        }
        if !self.not_run.is_empty() {
            let names: Vec<String> = self.not_run.iter().map(|name| format!("`{name}`")).collect();
            out.push(format!("Not in this run: {}.", names.join(", ")));
        }
        if selects_back_ends(&self.summary.setup.command) {
            out.push("Only the back ends that the command selects were measured.".to_owned());
        }
        out.join(" ")
    }
}

/// True if a command measures less than all back ends: an option that does so, or a pattern without one.
fn selects_back_ends(command: &str) -> bool {
    command.split_whitespace().any(|word| {
        let option = word.split('=').next().unwrap_or(word);
        ["--filter", "--vary", "--fix", "--preset"].contains(&option) || (!word.starts_with('-') && word.contains('/'))
    })
}

fn workloads(whole: &Summary, known: &[KnownWorkload]) -> Vec<Workload> {
    let is_quick = |workload: &Workload| known.iter().any(|other| other.is_quick && other.name == workload.name);
    // A load sweep has only curves, and who misses more has less to do.
    let is_comparable = |workload: &&Workload| !workload.is_load_sweep() && !workload.allows_misses;
    let mut ranked: Vec<(usize, &Workload)> =
        whole.setup.workloads.iter().enumerate().filter(|(_, workload)| is_comparable(workload)).collect();
    ranked.sort_by_key(|(place, workload)| (!is_quick(workload), !workload.is_open(), *place));
    ranked.truncate(COLUMNS_MAX);
    ranked.sort_by_key(|(place, _)| *place);
    ranked.into_iter().map(|(_, workload)| workload.clone()).collect()
}

/// The cells to show, and how many of ours are not among them. Those that were measured under none of the workloads are
/// neither.
fn cells(summary: &Summary) -> (Vec<Cell>, usize) {
    let all = &summary.setup.cells;
    let measured: Vec<&Cell> = all.iter().filter(|cell| results(summary, cell) > 0).collect();
    let with_role = |role: Role| measured.iter().copied().filter(move |cell| cell.role == role);
    let ours: Vec<&Cell> = with_role(Role::Ours).collect();
    let reference = all.iter().find(|cell| cell.id == summary.setup.reference);
    let shown: Vec<&Cell> = match reference {
        Some(reference) if ours.len() > OURS_MAX => nearest(summary, &ours, reference),
        _ => ours.clone(),
    };
    let left = ours.len() - shown.len();
    let groups = [shown, with_role(Role::Peer).collect(), with_role(Role::Null).collect()];
    let sorted = groups.into_iter().flat_map(|mut group: Vec<&Cell>| {
        group.sort_by(|a, b| cost(summary, a).total_cmp(&cost(summary, b)));
        group
    });
    (sorted.chain(with_role(Role::Control)).cloned().collect(), left)
}

/// The reference and those that differ from it in one dimension; if they are still too many, in the one that has the most
/// results.
fn nearest<'a>(summary: &Summary, ours: &[&'a Cell], reference: &Cell) -> Vec<&'a Cell> {
    let near = |cell: &&&Cell| difference(cell, reference).len() <= 1;
    let near: Vec<&Cell> = ours.iter().filter(near).copied().collect();
    if near.len() <= OURS_MAX {
        return near;
    }
    let results_in = |dimension: &str| -> usize {
        near.iter().filter(|cell| difference(cell, reference) == [dimension]).map(|cell| results(summary, cell)).sum()
    };
    let most = reference.factors.keys().max_by_key(|dimension| results_in(dimension));
    let is_kept = |cell: &&&Cell| {
        difference(cell, reference).iter().all(|dimension| Some(*dimension) == most.map(String::as_str))
    };
    near.iter().filter(is_kept).copied().collect()
}

/// The dimensions in which they differ.
fn difference<'a>(cell: &'a Cell, reference: &Cell) -> Vec<&'a str> {
    let differs = |(factor, level): &(&String, &String)| reference.factors.get(*factor) != Some(level);
    cell.factors.iter().filter(differs).map(|(factor, _)| factor.as_str()).collect()
}

fn results(summary: &Summary, cell: &Cell) -> usize {
    let is_measured = |outcome: &Outcome| matches!(outcome, Outcome::Measured(_));
    summary.results.iter().filter(|result| result.cell == cell.id && is_measured(&result.outcome)).count()
}

/// Cost of a request beside the reference: the geometric mean over the workloads. What was not compared is last.
pub(super) fn cost(summary: &Summary, cell: &Cell) -> f64 {
    let ratios = summary.setup.workloads.iter().filter_map(|workload| {
        let ratio = summary.figures(&cell.id, &workload.name)?.cpu_ratio?.median;
        (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
    });
    let logs: Vec<f64> = ratios.collect();
    if logs.is_empty() { f64::INFINITY } else { (logs.iter().sum::<f64>() / logs.len() as f64).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// As if a run had all workloads of the matrix, and a quick run as well.
    fn all_known(whole: &Summary) -> Vec<KnownWorkload> {
        let known = |workload: &Workload| KnownWorkload { name: workload.name.clone(), is_usual: true, is_quick: true };
        whole.setup.workloads.iter().map(known).collect()
    }

    #[test]
    fn few_columns_and_rows_are_all_there() {
        let whole = sample::summary();
        let selection = Selection::of(&whole, &all_known(&whole));
        let compared = whole.setup.workloads.iter().filter(|workload| !workload.is_load_sweep()).count();
        assert_eq!(selection.summary.setup.workloads.len(), compared.min(COLUMNS_MAX));
        assert_eq!((selection.cells_left, selection.summary.setup.cells.len()), (0, whole.setup.cells.len()));
        let costs: Vec<f64> = (selection.summary.setup.cells.iter())
            .filter(|cell| cell.role == Role::Ours)
            .map(|cell| cost(&selection.summary, cell))
            .collect();
        assert!(costs.len() > 2 && costs.is_sorted(), "{costs:?}");
    }

    #[test]
    fn drivers_and_what_varies_beside_them_fit_together() {
        let mut whole = sample::crossed();
        whole.setup.cells.retain(|cell| cell.factors["store"] != "std");
        assert!(whole.setup.cells.len() > 12);
        let selection = Selection::of(&whole, &all_known(&whole));
        assert_eq!((selection.cells_left, selection.summary.setup.cells.len()), (0, whole.setup.cells.len()));
    }

    #[test]
    fn a_large_product_shows_the_neighbours_of_the_reference() {
        let whole = sample::crossed();
        let selection = Selection::of(&whole, &all_known(&whole));
        let ours = |summary: &Summary| summary.setup.cells.iter().filter(|cell| cell.role == Role::Ours).count();
        assert!(ours(&whole) > OURS_MAX && ours(&selection.summary) <= OURS_MAX);
        let reference = whole.setup.cells.iter().find(|cell| cell.id == whole.setup.reference).unwrap();
        let is_near = |cell: &Cell| difference(cell, reference).len() <= 1;
        assert!(selection.summary.setup.cells.iter().filter(|cell| cell.role == Role::Ours).all(is_near));
        assert_eq!(selection.cells_left, ours(&whole) - ours(&selection.summary));
        let words = selection.left_out();
        assert!(words.contains(&format!("{} more back ends", selection.cells_left)), "{words}");
    }

    #[test]
    fn a_partial_run_says_what_it_leaves_out() {
        let mut whole = sample::summary();
        whole.setup.workloads.retain(|workload| workload.name != "pipelined-16");
        let words = Selection::of(&whole, &all_known(&sample::summary())).left_out();
        assert!(words.contains("Not in this run:") && words.contains("`pipelined-16`"), "{words}");
        assert!(!words.contains("Only the back ends"), "{words}");
        whole.setup.command = "cargo xtask bench-matrix --filter 'driver=epoll'".to_owned();
        assert!(
            Selection::of(&whole, &all_known(&sample::summary()))
                .left_out()
                .contains("Only the back ends that the command selects")
        );
    }

    #[test]
    fn commands_that_measure_less_are_known_by_their_words() {
        for command in
            ["--filter=driver=epoll", "--vary driver", "--fix store=std", "--preset drivers", "kvcache/epoll/*"]
        {
            assert!(selects_back_ends(&format!("cargo xtask bench-matrix {command}")), "{command}");
        }
        assert!(!selects_back_ends("cargo xtask bench-matrix --servers kvcache --time-budget 2h --seed 3"));
    }
}
