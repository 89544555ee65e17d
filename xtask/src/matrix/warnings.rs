//! What a reader must know before believing the figures: one sentence each.

use super::model::{Arrivals, Flag, Outcome, RELEASE, Summary};
use super::ranks::{coverage_percent, interval_name};

/// Load average above which something else was running.
pub(crate) const LOAD_MAX: f64 = 0.5;
/// A noise floor above this many per cent hides differences that matter.
const FLOOR_PERCENT_MAX: f64 = 5.0;
/// With fewer blocks no difference is claimed.
const BLOCKS_MIN: u32 = 3;

pub(crate) fn of(summary: &Summary) -> Vec<String> {
    let setup = &summary.setup;
    let progress = &summary.progress;
    let mut warnings = Vec::new();
    if setup.quick {
        warnings.push("quick: short visits in few blocks; no ranking".to_owned());
    }
    if setup.profile != RELEASE {
        warnings.push(format!("built with the profile `{}`: the figures are not those of a release", setup.profile));
    }
    if progress.is_partial {
        let (done, planned) = (progress.visits_done, progress.visits_planned);
        warnings.push(format!("partial: {done} of {planned} visits were made"));
    }
    if setup.pinning.shared {
        warnings.push("server and generator share a core: the figures tell little about either".to_owned());
    }
    if setup.host.load1 > LOAD_MAX {
        let load = setup.host.load1;
        warnings.push(format!("the load average was {load:.2} at the start: something else was running"));
    }
    if setup.git.dirty {
        warnings.push(format!("the sources differed from commit {}", setup.git.sha));
    }
    if progress.visits_failed > 0 {
        warnings.push(format!("{} visits failed or had wrong replies; they have no figures", progress.visits_failed));
    }
    match setup.blocks {
        0..BLOCKS_MIN => warnings.push("fewer than three blocks: how much of it is chance is not known".to_owned()),
        blocks if coverage_percent(blocks) < 95.0 => {
            let (name, percent) = (interval_name(blocks), coverage_percent(blocks).floor());
            warnings
                .push(format!("few blocks: intervals are the {name}; with equal servers {percent} % of them hold 1"));
        }
        _ => {}
    }
    warnings.extend(flagged(summary));
    let (known, unknown): (Vec<_>, Vec<_>) = summary
        .noise
        .iter()
        .filter(|noise| noise.cpu_floor_percent > FLOOR_PERCENT_MAX)
        .partition(|noise| noise.is_known());
    let floors: Vec<String> =
        known.iter().map(|noise| format!("{} on {}", noise.cpu_floor_in_words(), noise.workload)).collect();
    if !floors.is_empty() {
        let floors = floors.join(", ");
        warnings.push(format!("the noise floor is {floors}: smaller differences cannot be seen"));
    }
    let unknown: Vec<&str> = unknown.iter().map(|noise| noise.workload.as_str()).collect();
    if setup.blocks >= BLOCKS_MIN && !unknown.is_empty() {
        let names = unknown.join(", ");
        warnings.push(format!(
            "the control has no figures of three blocks on {names}: no difference is claimed there that is not twofold"
        ));
    }
    warnings
}

/// One sentence per flag that was raised; a closed loop that saturates its server does what it is meant to.
fn flagged(summary: &Summary) -> Vec<String> {
    let mut sentences = Vec::new();
    for flag in [Flag::ClientSaturated, Flag::Lag, Flag::Noisy, Flag::ServerSaturated, Flag::NoSteadyState] {
        let mut cells = Vec::new();
        let mut visits = 0;
        for result in &summary.results {
            let Outcome::Measured(figures) = &result.outcome else { continue };
            let is_open = (summary.setup.workloads.iter())
                .any(|workload| workload.name == result.workload && workload.arrivals != Arrivals::Closed);
            if flag == Flag::ServerSaturated && !is_open {
                continue;
            }
            if let Some(count) = figures.flags.iter().find(|count| count.flag == flag) {
                visits += count.visits;
                cells.push(format!("{} {}", result.cell, result.workload));
            }
        }
        if !cells.is_empty() {
            let (name, meaning, shown) = (flag.name(), flag.meaning(), shorten(&cells));
            let visits = if visits == 1 { "1 visit".to_owned() } else { format!("{visits} visits") };
            sentences.push(format!("{name} in {visits} ({meaning}): {shown}"));
        }
    }
    sentences
}

fn shorten(cells: &[String]) -> String {
    const SHOWN_MAX: usize = 6;
    match cells.len().checked_sub(SHOWN_MAX) {
        None | Some(0) => cells.join(", "),
        Some(more) => format!("{} and {more} more", cells[..SHOWN_MAX].join(", ")),
    }
}
