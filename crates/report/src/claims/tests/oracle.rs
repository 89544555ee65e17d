//! The rules once more, from the raw summary: what may be claimed of a cell.

use results::{Arrivals, Cell, Difference, Figures, Flag, Outcome, Ratio, Role, Summary, Workload};

use super::{Law, ensure};

pub(super) struct Oracle<'a> {
    pub(super) summary: &'a Summary,
}

/// Words that must stand beside a cell.
#[derive(Debug)]
pub(super) enum Standing {
    Nothing,
    Exactly(String),
    /// A reason to claim nothing; the words begin like this.
    Because(&'static str),
}

impl Standing {
    pub(super) fn matches(&self, words: &str) -> bool {
        match self {
            Self::Nothing => words.is_empty(),
            Self::Exactly(expected) => words == expected,
            Self::Because(beginning) => words.starts_with(beginning),
        }
    }
}

impl<'a> Oracle<'a> {
    pub(super) fn new(summary: &'a Summary) -> Self {
        Self { summary }
    }

    pub(super) fn cell(&self, label: &str) -> Option<&'a Cell> {
        self.summary.setup.cells.iter().find(|cell| cell.label == label)
    }

    pub(super) fn workload(&self, name: &str) -> Option<&'a Workload> {
        self.summary.setup.workloads.iter().find(|workload| workload.name == name)
    }

    pub(super) fn figures(&self, label: &str, workload: &str) -> Option<&'a Figures> {
        self.summary.figures(&self.cell(label)?.id, workload)
    }

    pub(super) fn reference(&self) -> Option<&'a Cell> {
        self.summary.setup.cells.iter().find(|cell| cell.id == self.summary.setup.reference)
    }

    pub(super) fn is_ranked(&self) -> bool {
        let setup = &self.summary.setup;
        !setup.quick && !setup.pinning.shared && setup.profile == "release" && setup.blocks >= 3
    }

    /// As a fraction; 1 where it is not known.
    pub(super) fn floor(&self, workload: &str) -> f64 {
        let noise = self.summary.noise.iter().find(|noise| noise.workload == workload);
        noise.map_or(1.0, |noise| noise.cpu_floor_percent / 100.0)
    }

    pub(super) fn is_doubtful(&self, label: &str, workload: &str) -> bool {
        let is_open = self.workload(workload).is_some_and(|it| matches!(it.arrivals, Arrivals::Open { .. }));
        let casts_doubt = |flag: Flag| match flag {
            Flag::Errors | Flag::Failed | Flag::Lag | Flag::Noisy => true,
            Flag::ClientSaturated | Flag::ServerSaturated => is_open,
            Flag::SharedCore | Flag::NoSteadyState | Flag::Unsettled => false,
        };
        self.figures(label, workload)
            .is_some_and(|it| it.failed > 0 || it.flags.iter().any(|count| casts_doubt(count.flag)))
    }

    fn is_sound(&self, label: &str, workload: &str) -> bool {
        self.figures(label, workload).is_some_and(|it| it.cpu_us.is_some()) && !self.is_doubtful(label, workload)
    }

    pub(super) fn raw_ratio(&self, label: &str, workload: &str) -> Option<Ratio> {
        self.figures(label, workload)?.cpu_ratio
    }

    /// The ratio of a cell that may be compared.
    pub(super) fn ratio(&self, label: &str, workload: &str) -> Option<Ratio> {
        let reference = &self.reference()?.label;
        let may_compare = self.is_sound(label, workload)
            && self.is_sound(reference, workload)
            && !self.workload(workload)?.allows_misses;
        self.raw_ratio(label, workload).filter(|_| may_compare)
    }

    /// True if a cell that is not in doubt may not be compared.
    pub(super) fn is_uncompared(&self, label: &str, workload: &str) -> bool {
        !self.is_doubtful(label, workload) && self.ratio(label, workload).is_none()
    }

    pub(super) fn differs(ratio: &Ratio, floor: f64) -> bool {
        let outside = ratio.median > 1.0 + floor || ratio.median < 1.0 / (1.0 + floor);
        ratio.blocks >= 3 && outside && (ratio.lo > 1.0) == (ratio.hi > 1.0) && ratio.lo != 1.0 && ratio.hi != 1.0
    }

    /// The difference that words and colours must show.
    pub(super) fn claimed(&self, label: &str, workload: &str) -> Option<Difference> {
        let is_other = self.reference().is_some_and(|reference| reference.label != label);
        let ratio = self.ratio(label, workload).filter(|_| self.is_ranked() && is_other)?;
        let direction = if ratio.median < 1.0 { Difference::Lower } else { Difference::Higher };
        Self::differs(&ratio, self.floor(workload)).then_some(direction)
    }

    pub(super) fn standing(&self, label: &str, workload: &str) -> Standing {
        let result = |cell: &Cell| {
            let mut all = self.summary.results.iter();
            all.find(|it| it.cell == cell.id && it.workload == workload).map(|it| &it.outcome)
        };
        match self.cell(label).and_then(result) {
            Some(Outcome::NotRun { reason }) => return Standing::Exactly(format!("n/a: {reason}")),
            _ if self.is_doubtful(label, workload) => return Standing::Because("in doubt: "),
            Some(Outcome::Measured(figures)) if figures.cpu_us.is_none() => return Standing::Because("n/a: "),
            _ => {}
        }
        let Some(ratio) = self.ratio(label, workload) else { return Standing::Because("not compared: ") };
        let is_reference = self.reference().is_some_and(|reference| reference.label == label);
        if is_reference || !self.is_ranked() {
            return Standing::Nothing;
        }
        let floor = self.floor(workload);
        match self.claimed(label, workload) {
            Some(Difference::Lower) => Standing::Exactly("cheaper".to_owned()),
            Some(_) => Standing::Exactly("more expensive".to_owned()),
            None => Standing::Exactly(format!("no difference seen: {}", Self::reason(&ratio, floor))),
        }
    }

    /// Returns why a ratio is no difference.
    pub(super) fn reason(ratio: &Ratio, floor: f64) -> String {
        if ratio.blocks < 3 {
            format!("of only {} block{}", ratio.blocks, if ratio.blocks == 1 { "" } else { "s" })
        } else if ratio.lo <= 1.0 && 1.0 <= ratio.hi {
            "the interval holds 1".to_owned()
        } else if floor >= 1.0 {
            "the noise floor is unknown".to_owned()
        } else {
            format!("inside the noise floor of {:.3}×", 1.0 + floor)
        }
    }

    /// True if the words of a mark tell of a difference: those of a cell, or of an effect.
    pub(super) fn is_claim(&self, words: &str) -> bool {
        let effect = self.summary.effects.iter().find(|effect| words.contains(&effect.level));
        if let Some(effect) = effect {
            return self.is_ranked() && Self::differs(&effect.cpu, effect.floor_percent / 100.0);
        }
        let Some((label, rest)) = words.split_once(", ") else { return false };
        let workload = rest.split([':', ';']).next().unwrap_or_default();
        // The control and the visits of a cell are told otherwise.
        self.cell(label).is_none() || self.claimed(label, workload).is_some()
    }

    /// True if rows stand by cost, or, where the run may not rank, as they were planned.
    pub(super) fn is_in_order(&self, labels: &[String]) -> bool {
        let cost = |label: &String| {
            let comparable = self.summary.setup.workloads.iter().filter(|workload| !workload.allows_misses);
            let logs: Vec<f64> =
                comparable.filter_map(|it| Some(self.raw_ratio(label, &it.name)?.median.ln())).collect();
            if logs.is_empty() { f64::INFINITY } else { logs.iter().sum::<f64>() / logs.len() as f64 }
        };
        if self.is_ranked() {
            return labels.windows(2).all(|pair| cost(&pair[0]) <= cost(&pair[1]));
        }
        let place = |label: &String| self.summary.setup.cells.iter().position(|cell| cell.label == *label);
        labels.windows(2).all(|pair| place(&pair[0]) < place(&pair[1]))
    }

    /// An entry of a table without intervals: `0.975×`, `1.004×~`, `4.00µs`, `n/a`.
    pub(super) fn entry(&self, label: &str, workload: &str, entry: &str) -> Law {
        let wrong = || format!("{label} {workload}: {entry}");
        let is_reference = self.reference().is_some_and(|reference| reference.label == label);
        let figures = self.figures(label, workload);
        let Some(figures) = figures else {
            return ensure(["-", "n/a", "failed"].contains(&entry), wrong);
        };
        match (figures.cpu_ratio.filter(|_| !is_reference), figures.cpu_us) {
            (Some(ratio), _) => {
                let is_same = entry.ends_with('~');
                let (figure, _) = entry.split_once('×').ok_or_else(wrong)?;
                ensure(close(figure, ratio.median), wrong)?;
                let is_compared = self.is_ranked() && self.ratio(label, workload).is_some();
                ensure(is_same == (is_compared && self.claimed(label, workload).is_none()), wrong)
            }
            (None, Some(cpu)) => ensure(entry.strip_suffix("µs").is_some_and(|it| close(it, cpu.median)), wrong),
            (None, None) => ensure(["n/a", "no-CPU"].contains(&entry), wrong),
        }
    }

    pub(super) fn ours(&self) -> impl Iterator<Item = &'a Cell> {
        self.summary.setup.cells.iter().filter(|cell| cell.role == Role::Ours)
    }
}

/// True if `words` are `value`, rounded to the digits that they have, three at least.
pub(super) fn close(words: &str, value: f64) -> bool {
    let digits = words.replace(',', "");
    let Ok(read) = digits.parse::<f64>() else { return false };
    let decimals = digits.split_once('.').map_or(0, |(_, behind)| behind.len());
    let significant = digits.trim_start_matches(['0', '.']).chars().filter(char::is_ascii_digit).count();
    let unit = 10_f64.powi(-(i32::try_from(decimals).unwrap_or(0)));
    (read - value).abs() <= unit * 0.501 + value.abs() * 1e-9 && (significant >= 3 || decimals >= 12)
}
