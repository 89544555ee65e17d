//! Warnings, which a reader must know before believing the figures: one sentence each.

use super::{
    Arrivals, BLOCKS_MIN, Flag, Outcome, RELEASE, Summary,
    ranks::{coverage_percent, interval_name},
    words::{count, times},
};

/// Load average above which something else was running.
pub const LOAD_MAX: f64 = 0.5;
/// A noise floor above this many per cent hides differences that matter.
const FLOOR_PERCENT_MAX: f64 = 5.0;

pub fn of(summary: &Summary) -> Vec<String> {
    let setup = &summary.setup;
    let progress = &summary.progress;
    let mut warnings = Vec::new();
    if setup.quick {
        let meaning = match setup.turns {
            Some(_) => "only what turns side by side tell is ranked",
            None => "no ranking",
        };
        warnings.push(format!("quick: short visits in few blocks; {meaning}"));
    }
    if setup.profile != RELEASE {
        warnings.push(format!("built with the profile `{}`: the figures are not those of a release", setup.profile));
    }
    if progress.is_partial {
        let (done, planned) = (progress.visits_done, count(progress.visits_planned as usize, "visit"));
        warnings.push(format!("partial: {done} of {planned} made"));
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
        let visits = count(progress.visits_failed as usize, "visit");
        warnings.push(format!("{visits} failed or had wrong replies: no figures of such a visit count"));
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
    warnings.extend(of_cells(summary).into_iter().map(|warning| warning.sentence()));
    warnings
}

/// Subject of a warning that has a list of places: from several servers it is one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Flag(Flag),
    NoiseFloor,
    NoControl,
}

/// A warning about some of the cells or workloads.
#[derive(Clone, Debug)]
struct OfCells {
    kind: Kind,
    /// Limit of each, where it has a number of them.
    visits: u32,
    /// The largest noise floor in per cent.
    percent: f64,
    places: Vec<String>,
}

/// A warning in one line, with the places that it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Brief {
    pub words: String,
    pub places: Vec<String>,
}

/// The warnings of all matrices of a run, one for each kind; what holds for some of them only begins with their names.
pub fn brief(summaries: &[&Summary]) -> Vec<Brief> {
    let mut general: Vec<(String, Vec<&str>)> = Vec::new();
    let mut kinds: Vec<OfCells> = Vec::new();
    for summary in summaries {
        let server = summary.setup.server.as_str();
        let own = of_cells(summary);
        let sentences: Vec<String> = own.iter().map(OfCells::sentence).collect();
        for warning in summary.warnings.iter().filter(|warning| !sentences.contains(warning)) {
            match general.iter_mut().find(|(words, _)| words == warning) {
                Some((_, servers)) => servers.push(server),
                None => general.push((warning.clone(), vec![server])),
            }
        }
        for mut warning in own {
            // Of a cell of ours the name begins with the server's, of a peer's or a workload's it does not.
            for place in warning.places.iter_mut().filter(|place| !place.starts_with(&format!("{server}/"))) {
                *place = format!("{server}: {place}");
            }
            match kinds.iter_mut().find(|other| other.kind == warning.kind) {
                Some(other) => other.join(warning),
                None => kinds.push(warning),
            }
        }
    }
    let general = general.into_iter().map(|(words, servers)| {
        let is_of_all = servers.len() == summaries.len();
        let words = if is_of_all { words } else { format!("{}: {words}", servers.join(", ")) };
        Brief { words, places: Vec::new() }
    });
    general.chain(kinds.into_iter().map(OfCells::brief)).collect()
}

impl OfCells {
    fn join(&mut self, other: Self) {
        self.visits += other.visits;
        self.percent = self.percent.max(other.percent);
        self.places.extend(other.places);
    }

    fn sentence(&self) -> String {
        match self.kind {
            Kind::Flag(flag) => {
                format!("{} ({}): {}", marked(self.visits, flag), flag.meaning(), shorten(&self.places))
            }
            Kind::NoiseFloor => {
                format!("the noise floor is {}: smaller differences cannot be seen", self.places.join(", "))
            }
            Kind::NoControl => format!(
                "the control has no figures of three blocks on {}: no difference is claimed there that is not twofold",
                self.places.join(", ")
            ),
        }
    }

    fn brief(self) -> Brief {
        let workloads = count(self.places.len(), "workload");
        let words = match self.kind {
            Kind::Flag(flag) => format!("{}: {}", marked(self.visits, flag), flag.meaning()),
            Kind::NoiseFloor => format!(
                "the noise floor is above {} under {workloads}, at most {}: smaller differences cannot be seen there",
                times(1.0 + FLOOR_PERCENT_MAX / 100.0),
                times(1.0 + self.percent / 100.0)
            ),
            Kind::NoControl => format!(
                "the control has no figures of three blocks under {workloads}: no difference is claimed there that is not \
                 twofold"
            ),
        };
        Brief { words, places: self.places }
    }
}

/// `1 visit was marked noisy`.
fn marked(visits: u32, flag: Flag) -> String {
    let verb = if visits == 1 { "was" } else { "were" };
    format!("{} {verb} marked {}", count(visits as usize, "visit"), flag.name())
}

fn of_cells(summary: &Summary) -> Vec<OfCells> {
    let mut warnings = flagged(summary);
    let (known, unknown): (Vec<_>, Vec<_>) = summary
        .noise
        .iter()
        .filter(|noise| noise.cpu_floor_percent > FLOOR_PERCENT_MAX)
        .partition(|noise| noise.is_known());
    let percent = known.iter().map(|noise| noise.cpu_floor_percent).fold(0.0, f64::max);
    let floors: Vec<String> =
        known.iter().map(|noise| format!("{} on {}", noise.cpu_floor_in_words(), noise.workload)).collect();
    if !floors.is_empty() {
        warnings.push(OfCells { kind: Kind::NoiseFloor, visits: 0, percent, places: floors });
    }
    let unknown: Vec<String> = unknown.iter().map(|noise| noise.workload.clone()).collect();
    if summary.setup.blocks >= BLOCKS_MIN && !unknown.is_empty() {
        warnings.push(OfCells { kind: Kind::NoControl, visits: 0, percent: 0.0, places: unknown });
    }
    warnings
}

/// One per flag that was raised; a closed loop that saturates its server does what it is meant to.
fn flagged(summary: &Summary) -> Vec<OfCells> {
    let mut warnings = Vec::new();
    const TOLD: [Flag; 6] =
        [Flag::ClientSaturated, Flag::Lag, Flag::Noisy, Flag::ServerSaturated, Flag::NoSteadyState, Flag::Unsettled];
    for flag in TOLD {
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
            warnings.push(OfCells { kind: Kind::Flag(flag), visits, percent: 0.0, places: cells });
        }
    }
    warnings
}

fn shorten(cells: &[String]) -> String {
    const SHOWN_MAX: usize = 6;
    match cells.len().checked_sub(SHOWN_MAX) {
        None | Some(0) => cells.join(", "),
        Some(more) => format!("{} and {more} more", cells[..SHOWN_MAX].join(", ")),
    }
}
