//! What a reader must know before believing the figures: one sentence each.

use super::model::{Arrivals, Flag, Outcome, RELEASE, Summary};

/// Load average above which something else was running.
pub(crate) const LOAD_MAX: f64 = 0.5;
/// A noise floor above this many per cent hides differences that matter.
const FLOOR_PERCENT_MAX: f64 = 5.0;

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
    warnings.extend(flagged(summary));
    let loud = summary.noise.iter().filter(|noise| noise.cpu_floor_percent > FLOOR_PERCENT_MAX);
    let floors: Vec<String> =
        loud.map(|noise| format!("±{:.1} % on {}", noise.cpu_floor_percent, noise.workload)).collect();
    if !floors.is_empty() {
        let floors = floors.join(", ");
        warnings.push(format!("the noise floor is {floors}: smaller differences cannot be seen"));
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
