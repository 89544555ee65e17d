//! What a gate says: a verdict on each workload, one on all of them, and the comment that tells it.

use std::{cmp::Ordering, fmt::Write as _, path::PathBuf};

use report::significant;
use results::words::{agreement, ratio_interval, times};
use serde::{Deserialize, Serialize};

use crate::{
    commands::calibrate::RESOLUTION,
    judge::paired::{Decision, Known},
};

const SCHEMA: &str = "gate/1";

/// When a workload is decided.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Rule {
    /// Slowdown that is allowed, as a fraction; `None` where differences are only told.
    pub(super) threshold: Option<f64>,
}

/// Verdict on a workload, or on all: the last of these that holds for one of them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// Certainly cheaper.
    Cheaper,
    /// Certainly not slower by as much as is allowed, or by 1 % where nothing is said.
    Passed,
    Unknown,
    /// Certainly slower by more than that.
    Regressed,
}

impl Rule {
    pub(super) fn judge(self, known: Option<Known>) -> Verdict {
        let Some(known) = known else { return Verdict::Unknown };
        let Known { centre, half_width } = known;
        let limit = self.threshold.unwrap_or(0.0).ln_1p();
        match (self.threshold, known.decision(RESOLUTION)) {
            (_, Decision::Less) => Verdict::Cheaper,
            _ if centre - half_width > limit => Verdict::Regressed,
            (Some(_), _) if centre + half_width < limit => Verdict::Passed,
            (None, Decision::Alike) => Verdict::Passed,
            _ => Verdict::Unknown,
        }
    }
}

/// Two programs under a workload.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Comparison {
    pub(super) workload: String,
    pub(super) title: String,
    pub(super) verdict: Verdict,
    /// Logarithm of CPU time per request, change over base.
    pub(super) cpu: Option<Known>,
    /// The same of the 99th percentile of latency.
    pub(super) p99: Option<Known>,
    pub(super) base_us: f64,
    pub(super) change_us: f64,
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    /// The second witness, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instructions: Option<Instructions>,
}

/// Instructions of two programs per request.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Instructions {
    Counted { base: f64, change: f64 },
    NotCounted { reason: String },
}

impl Comparison {
    /// For who waits.
    pub(super) fn line(&self) -> String {
        let Self { workload, verdict, rounds, seconds, .. } = self;
        let ratio = self.cpu.map_or_else(String::new, in_words);
        let witness = self.witness().map_or_else(String::new, |words| format!("; instructions: {words}"));
        format!("{workload}: {} {ratio} after {rounds} rounds, {seconds:.0} s{witness}", verdict.word())
    }

    /// Says what the second witness said.
    fn witness(&self) -> Option<String> {
        Some(match self.instructions.as_ref()? {
            Instructions::Counted { base, change } => {
                let direction = self.cpu.map_or(Ordering::Equal, |known| match known.decision(RESOLUTION) {
                    Decision::More => Ordering::Greater,
                    Decision::Less => Ordering::Less,
                    Decision::Alike | Decision::Undecided => Ordering::Equal,
                });
                let counts = format!("{base:.0} → {change:.0}");
                format!("{} ({counts}): {}", times(change / base), agreement(direction, change / base))
            }
            Instructions::NotCounted { reason } => format!("n/a: {reason}"),
        })
    }
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Cheaper => "cheaper",
            Self::Passed => "not slower",
            Self::Unknown => "not known",
            Self::Regressed => "slower",
        }
    }
}

/// `1.012× [1.005, 1.019]`.
fn in_words(known: Known) -> String {
    let Known { centre, half_width } = known;
    format!("{} {}", times(centre.exp()), ratio_interval((centre - half_width).exp(), (centre + half_width).exp()))
}

/// `gate.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Outcome {
    schema: String,
    created_utc: String,
    server: String,
    /// Base and change.
    programs: [PathBuf; 2],
    rule: Rule,
    pub(super) verdict: Verdict,
    comparisons: Vec<Comparison>,
}

impl Outcome {
    pub(super) fn new(
        server: &str,
        programs: &[PathBuf; 2],
        rule: Rule,
        comparisons: Vec<Comparison>,
        created_utc: String,
    ) -> Self {
        let verdict = comparisons.iter().map(|comparison| comparison.verdict).max().unwrap_or(Verdict::Unknown);
        let (server, programs) = (server.to_owned(), programs.clone());
        Self { schema: SCHEMA.to_owned(), created_utc, server, programs, rule, verdict, comparisons }
    }

    /// A comment for a change: the verdict first.
    pub(super) fn markdown(&self) -> String {
        let allowed = |threshold: f64| format!("{}\u{a0}%", (threshold * 1e4).round() / 100.0);
        let of = |verdict: Verdict| {
            let own = self.comparisons.iter().filter(|comparison| comparison.verdict == verdict);
            own.map(|comparison| format!("`{}`", comparison.workload)).collect::<Vec<_>>().join(", ")
        };
        let limit = self.rule.threshold.map_or_else(String::new, |it| format!(" by more than {}", allowed(it)));
        let verdict = match self.verdict {
            Verdict::Regressed => format!("**{} became slower{limit}** under {}.", self.server, of(Verdict::Regressed)),
            Verdict::Unknown if self.comparisons.is_empty() => "**Nothing was compared.**".to_owned(),
            Verdict::Unknown => {
                format!("**Not known:** under {} time was over before it could be told.", of(Verdict::Unknown))
            }
            Verdict::Cheaper => format!("**{} became cheaper** under every workload.", self.server),
            Verdict::Passed => {
                let limit = self.rule.threshold.unwrap_or(RESOLUTION);
                format!("**{} did not become slower** by {} or more.", self.server, allowed(limit))
            }
        };
        let mut text = format!(
            "{verdict}\n\n| workload | CPU per request, change over base | µs | 99th percentile | |\n|---|---|---|---|---|\n"
        );
        for comparison in &self.comparisons {
            let known = |known: Option<Known>| known.map_or_else(|| "n/a".to_owned(), in_words);
            let Comparison { workload, cpu, p99, base_us, change_us, verdict, .. } = comparison;
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| `{workload}` | {} | {} → {} | {} | {} |",
                known(*cpu),
                significant(*base_us),
                significant(*change_us),
                known(*p99),
                verdict.word()
            );
        }
        let witness = |comparison: &Comparison| Some(format!("- `{}`: {}", comparison.workload, comparison.witness()?));
        let witnesses: Vec<String> = self.comparisons.iter().filter_map(witness).collect();
        if !witnesses.is_empty() {
            let _ = writeln!(
                text,
                "\nInstructions of the program per request, change over base, counted under valgrind (without the kernel's), and what \
                 they make of the difference of CPU time:\n\n{}",
                witnesses.join("\n")
            );
        }
        let rounds: usize = self.comparisons.iter().map(|comparison| comparison.rounds).sum();
        let seconds: f64 = self.comparisons.iter().map(|comparison| comparison.seconds).sum();
        let _ = writeln!(
            text,
            "\nBoth programs ran at once on one machine and were loaded in turn for 50 ms at a time: {rounds} rounds of two fresh processes in {seconds:.0} s. The \
             intervals in brackets hold the true ratio with 99 % probability whenever one looks. `cargo xtask bench-matrix --program`, {}.",
            self.created_utc
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(centre: f64, half_width: f64) -> Option<Known> {
        Some(Known { centre: centre.ln_1p(), half_width })
    }

    #[test]
    fn a_threshold_fails_only_what_is_certainly_beyond_it() {
        let (gate, tell) = (Rule { threshold: Some(0.02) }, Rule { threshold: None });
        for (rule, known, verdict) in [
            (gate, known(0.03, 0.005), Verdict::Regressed),
            (gate, known(0.022, 0.005), Verdict::Unknown),
            (gate, known(0.01, 0.005), Verdict::Passed),
            (gate, known(0.0, 0.05), Verdict::Unknown),
            (gate, known(-0.03, 0.005), Verdict::Cheaper),
            (gate, None, Verdict::Unknown),
            (tell, known(0.012, 0.005), Verdict::Regressed),
            (tell, known(0.002, 0.005), Verdict::Passed),
            (tell, known(0.006, 0.009), Verdict::Unknown),
        ] {
            assert_eq!(rule.judge(known), verdict, "{rule:?} {known:?}");
        }
    }

    fn outcome(verdicts: &[Verdict]) -> Outcome {
        let comparison = |(at, verdict): (usize, &Verdict)| Comparison {
            workload: format!("get-{at}"),
            title: String::new(),
            verdict: *verdict,
            cpu: known(0.03, 0.005),
            p99: None,
            base_us: 4.0,
            change_us: 4.12,
            rounds: 7,
            seconds: 30.0,
            instructions: None,
        };
        let comparisons = verdicts.iter().enumerate().map(comparison).collect();
        let programs = ["base", "change"].map(PathBuf::from);
        Outcome::new("kvcache", &programs, Rule { threshold: Some(0.02) }, comparisons, "2026-01-01".to_owned())
    }

    #[test]
    fn a_comment_has_one_verdict_the_worst_and_every_workload() {
        let text = outcome(&[Verdict::Cheaper, Verdict::Regressed, Verdict::Unknown]).markdown();
        assert!(text.starts_with("**kvcache became slower by more than 2\u{a0}%** under `get-1`.\n"), "{text}");
        let line = text.lines().find(|line| line.contains("`get-1`") && line.starts_with('|')).unwrap();
        assert_eq!(line, "| `get-1` | 1.030× [1.025, 1.035] | 4.00 → 4.12 | n/a | slower |");
        assert!(outcome(&[Verdict::Passed, Verdict::Unknown]).markdown().starts_with("**Not known:** under `get-1`"));
        assert!(outcome(&[Verdict::Passed]).markdown().contains("did not become slower** by 2\u{a0}% or more"));
        assert!(outcome(&[Verdict::Cheaper; 2]).markdown().contains("became cheaper** under every"));
        assert!(outcome(&[]).markdown().starts_with("**Nothing was compared.**"));
    }

    #[test]
    fn the_second_witness_has_a_line_for_each_workload_that_it_was_asked_about() {
        let mut outcome = outcome(&[Verdict::Regressed; 3]);
        assert!(!outcome.markdown().contains("valgrind"));
        outcome.comparisons[0].instructions = Some(Instructions::Counted { base: 2_000.0, change: 2_080.0 });
        outcome.comparisons[1].instructions = Some(Instructions::NotCounted { reason: "no valgrind".to_owned() });
        let text = outcome.markdown();
        assert!(text.contains("\n\n- `get-0`: 1.040× (2000 → 2080): agree\n- `get-1`: n/a: no valgrind\n\n"), "{text}");
        assert!(!text.contains("- `get-2`"), "{text}");
    }
}
