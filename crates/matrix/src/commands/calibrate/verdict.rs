//! Verdict on the judgements, once the labels are open.

use std::fmt::Write as _;

use report::{RocCurve, terminal::aligned};
use results::{Git, Host};
use serde::{Deserialize, Serialize};

use super::{Judged, Judgement, keeper::Label};
use crate::judge::{
    paired::{Decision, PairMetric, ROUNDS_MIN},
    proportion::Proportion,
    stats::median,
};

const SCHEMA: &str = "calibration/1";
/// Times at which it is counted how much was seen, in seconds.
const LOOKS_S: [f64; 7] = [15.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0];
/// Rounding of percentages in fractions.
const SAME_EFFECT: f64 = 1e-9;

/// Circumstances of a calibration.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct About {
    pub(super) created_utc: String,
    pub(super) host: Host,
    pub(super) git: Git,
    pub(super) profile: String,
    /// Digest of the labels, told before the first pair.
    pub(super) seal: String,
    /// Servers that were compared, in words.
    #[serde(default = "null_servers")]
    pub(super) servers: String,
    /// CPU time of a request to the server that all are compared with, and the part of it that is burnt.
    pub(super) cost_ns: f64,
    #[serde(default)]
    pub(super) burn_ns: f64,
    pub(super) budget_s: f64,
    pub(super) connections: String,
}

/// Servers where none is named.
pub(super) fn null_servers() -> String {
    "null servers".to_owned()
}

/// `calibration.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Calibration {
    schema: String,
    pub(super) about: About,
    pub(super) sentence: String,
    /// Equal servers that were called different.
    pub(super) false_alarms: Vec<Alarms>,
    pub(super) rows: Vec<Row>,
    /// Rounds after which the curves of `roc.svg` compare all pairs.
    roc_rounds: usize,
    roc: Vec<Curve>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Alarms {
    metric: PairMetric,
    pub(super) called_different: Proportion,
    /// Their intervals that held 1.
    covered: Proportion,
}

/// Outcome of one size of effect, in both directions.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Row {
    metric: PairMetric,
    /// As a fraction, without its sign.
    effect: f64,
    /// In the right direction, within the budget.
    pub(super) seen: Proportion,
    wrong_direction: Proportion,
    called_alike: Proportion,
    /// Intervals that held the true ratio when they were judged.
    covered: Proportion,
    median_s: f64,
    median_rounds: f64,
    by_time: Vec<SeenBy>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
struct SeenBy {
    seconds: f64,
    seen: Proportion,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Curve {
    effect: f64,
    /// Shares of false alarms and of effects seen.
    points: Vec<(f64, f64)>,
}

/// A judgement beside its label.
struct Case<'a> {
    judged: &'a Judged,
    scores: &'a [f64],
    /// Signed, as a fraction; 0 for equal servers.
    effect: f64,
    /// The same as it was measured, where it can be known in no other way.
    truth: f64,
}

impl Case<'_> {
    fn is_seen(&self) -> bool {
        let right = if self.effect > 0.0 { Decision::More } else { Decision::Less };
        self.judged.decision == right
    }

    fn is_covered(&self) -> bool {
        let truth = self.truth.ln_1p();
        self.judged.known.is_none_or(|known| (known.centre - truth).abs() <= known.half_width)
    }
}

impl Calibration {
    pub(super) fn new(about: About, labels: &[Label], judged: &[Judgement]) -> Self {
        let of = |metric| cases(labels, judged, metric);
        let (cpu, p99) = (of(PairMetric::Cpu), of(PairMetric::P99));
        let mut rows = rows(PairMetric::Cpu, &cpu, about.budget_s);
        rows.extend(self::rows(PairMetric::P99, &p99, about.budget_s));
        let false_alarms = vec![alarms(PairMetric::Cpu, &cpu), alarms(PairMetric::P99, &p99)];
        // All pairs have so many rounds; those that were decided early have no more.
        let rounds = cpu.iter().map(|case| case.scores.len()).min().unwrap_or(0);
        let roc =
            sizes(&cpu).into_iter().map(|effect| Curve { effect, points: points(&cpu, effect, rounds) }).collect();
        let sentence = sentence(&rows, &false_alarms, &about);
        let roc_rounds = rounds + ROUNDS_MIN - 1;
        Self { schema: SCHEMA.to_owned(), about, sentence, false_alarms, rows, roc_rounds, roc }
    }

    pub(super) fn curves(&self) -> Vec<RocCurve> {
        let curve = |curve: &Curve| RocCurve { name: in_percent(curve.effect), points: curve.points.clone() };
        self.roc.iter().map(curve).collect()
    }

    pub(super) fn roc_title(&self) -> String {
        format!("Effects on CPU per request seen over false alarms, after {} rounds", self.roc_rounds)
    }

    /// As Markdown.
    pub(super) fn text(&self) -> String {
        let About { created_utc, host, git, profile, seal, servers, cost_ns, burn_ns, budget_s, connections } =
            &self.about;
        let mut text = format!("{}\n\n", self.sentence);
        let heads = ["figure", "effect", "seen", "wrong way", "called alike", "interval held it", "median time"];
        let mut table = vec![heads.map(str::to_owned).to_vec()];
        table.extend(self.rows.iter().map(|row| {
            let name = metric_name(row.metric).to_owned();
            let effect = if row.metric == PairMetric::Cpu { "±" } else { "+" }.to_owned() + &in_percent(row.effect);
            let time = format!("{:.0}\u{a0}s, {:.0} rounds", row.median_s, row.median_rounds);
            let [wrong, alike] = [row.wrong_direction, row.called_alike].map(|it| it.holds.to_string());
            vec![name, effect, row.seen.in_words(), wrong, alike, row.covered.in_words(), time]
        }));
        table.extend(self.false_alarms.iter().map(|alarms| {
            let none = String::new;
            let seen = format!("different: {}", alarms.called_different.in_words());
            vec![
                metric_name(alarms.metric).to_owned(),
                "none".to_owned(),
                seen,
                none(),
                none(),
                alarms.covered.in_words(),
                none(),
            ]
        }));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "```text\n{}```\n", aligned(&table));
        let _ = writeln!(text, "{}", self.by_time());
        let _ = writeln!(
            text,
            "Intervals in brackets are of the shares (Wilson, 95 %). The servers are {servers}. An effect is a share of {:.2} µs of CPU time per request, of which {:.2} µs are burnt, \
             or a pause of one request in 2,000 that moved the 99th percentile so far in a pilot; {connections} connections, a closed loop; at most {budget_s:.0} s for each pair, {profile} build, commit {}, {created_utc}, {}, {} cores. \
             Labels sealed before the first pair: sha256 {seal}.",
            cost_ns / 1e3,
            burn_ns / 1e3,
            git.sha,
            host.kernel,
            host.cores,
        );
        text
    }

    fn by_time(&self) -> String {
        let mut table = vec![vec!["seen within".to_owned()]];
        let looks = self.rows.first().map(|row| row.by_time.as_slice()).unwrap_or_default();
        table[0].extend(looks.iter().map(|look| format!("{:.0}\u{a0}s", look.seconds)));
        table.extend(self.rows.iter().map(|row| {
            let name = format!("{} {}", metric_name(row.metric), in_percent(row.effect));
            let share = |look: &SeenBy| format!("{} of {}", look.seen.holds, look.seen.of);
            std::iter::once(name).chain(row.by_time.iter().map(share)).collect()
        }));
        format!("```text\n{}```\n", aligned(&table))
    }
}

fn metric_name(metric: PairMetric) -> &'static str {
    match metric {
        PairMetric::Cpu => "CPU per request",
        PairMetric::P99 => "99th percentile",
    }
}

fn in_percent(effect: f64) -> String {
    format!("{}\u{a0}%", (effect * 1e4).round() / 100.0)
}

/// The judgements by one figure of the pairs that had an effect on it or none at all.
fn cases<'a>(labels: &[Label], judged: &'a [Judgement], metric: PairMetric) -> Vec<Case<'a>> {
    let case = |judgement: &'a Judgement| {
        let (effect, truth) = match (*labels.get(judgement.trial as usize)?, metric) {
            (Label::None, _) => (0.0, 0.0),
            (Label::Cpu { effect }, PairMetric::Cpu) => (effect, effect),
            (Label::P99(tail), PairMetric::P99) => (tail.effect, tail.moved),
            (Label::Cpu { .. } | Label::P99(_), _) => return None,
        };
        Some(match metric {
            PairMetric::Cpu => Case { judged: &judgement.cpu, scores: &judgement.scores, effect, truth },
            PairMetric::P99 => Case { judged: &judgement.p99, scores: &[], effect, truth },
        })
    };
    judged.iter().filter_map(case).collect()
}

/// The sizes of effects, from small to large.
fn sizes(cases: &[Case<'_>]) -> Vec<f64> {
    let mut sizes: Vec<f64> = cases.iter().map(|case| case.effect.abs()).filter(|size| *size > 0.0).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    sizes.dedup_by(|one, other| (*one - *other).abs() < SAME_EFFECT);
    sizes
}

fn of_size<'a>(cases: &'a [Case<'a>], size: f64) -> impl Iterator<Item = &'a Case<'a>> + Clone {
    cases.iter().filter(move |case| (case.effect.abs() - size).abs() < SAME_EFFECT)
}

fn rows(metric: PairMetric, cases: &[Case<'_>], budget_s: f64) -> Vec<Row> {
    let row = |effect: f64| {
        let own = of_size(cases, effect);
        let looks = LOOKS_S.into_iter().filter(|look| *look < budget_s).chain([budget_s]);
        let seen_by = |seconds: f64| {
            // What took a round longer than the budget counts as seen in the last column.
            let is_in_time = |case: &Case<'_>| seconds >= budget_s || case.judged.after_s <= seconds;
            let seen = Proportion::count(own.clone().map(|case| case.is_seen() && is_in_time(case)));
            SeenBy { seconds, seen }
        };
        let over = |pick: fn(&Judged) -> f64| median(&own.clone().map(|case| pick(case.judged)).collect::<Vec<f64>>());
        Row {
            metric,
            effect,
            seen: Proportion::count(own.clone().map(Case::is_seen)),
            wrong_direction: Proportion::count(
                own.clone().map(|case| case.judged.decision.is_difference() && !case.is_seen()),
            ),
            called_alike: Proportion::count(own.clone().map(|case| case.judged.decision == Decision::Alike)),
            covered: Proportion::count(own.clone().map(Case::is_covered)),
            median_s: over(|judged| judged.after_s),
            median_rounds: over(|judged| judged.after_rounds as f64),
            by_time: looks.map(seen_by).collect(),
        }
    };
    sizes(cases).into_iter().map(row).collect()
}

fn alarms(metric: PairMetric, cases: &[Case<'_>]) -> Alarms {
    let equal = of_size(cases, 0.0);
    Alarms {
        metric,
        called_different: Proportion::count(equal.clone().map(|case| case.judged.decision.is_difference())),
        covered: Proportion::count(equal.map(Case::is_covered)),
    }
}

/// A point for each threshold of the score after the first `rounds` that have one: the higher, the fewer alarms of either kind.
fn points(cases: &[Case<'_>], size: f64, rounds: usize) -> Vec<(f64, f64)> {
    let Some(last) = rounds.checked_sub(1) else { return Vec::new() };
    let alarms: Vec<f64> = of_size(cases, 0.0).map(|case| case.scores[last].abs()).collect();
    let seen: Vec<f64> = of_size(cases, size).map(|case| case.scores[last] * case.effect.signum()).collect();
    if alarms.is_empty() {
        return Vec::new();
    }
    let mut thresholds: Vec<f64> = alarms.iter().chain(&seen).copied().filter(|score| *score > 0.0).collect();
    thresholds.sort_unstable_by(|one, other| other.total_cmp(one));
    let share =
        |scores: &[f64], threshold: f64| Proportion::count(scores.iter().map(|score| *score >= threshold)).share();
    let point = |threshold: f64| (share(&alarms, threshold), share(&seen, threshold));
    std::iter::once((0.0, 0.0)).chain(thresholds.into_iter().map(point)).collect()
}

/// What a reader of a report is to know.
fn sentence(rows: &[Row], alarms: &[Alarms], about: &About) -> String {
    let of_cost = rows.iter().filter(|row| row.metric == PairMetric::Cpu);
    let share = |row: &Row| format!("{} {} times", in_percent(row.effect), row.seen.in_words());
    let shares: Vec<String> = of_cost.map(share).collect();
    let within = match about.budget_s {
        budget_s if budget_s < 120.0 => format!("{budget_s:.0}\u{a0}s"),
        budget_s => format!("{:.0}\u{a0}minutes", budget_s / 60.0),
    };
    let false_alarms = alarms.iter().find(|alarms| alarms.metric == PairMetric::Cpu);
    let false_alarms = false_alarms.map(|alarms| alarms.called_different.in_words()).unwrap_or_default();
    format!(
        "On this machine, in {within} for each pair ({}) at most, differences of CPU per request were seen blind: {}; equal servers were called different {false_alarms} times.",
        about.servers,
        shares.join(", ")
    )
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;

    pub(in super::super) fn about() -> About {
        About {
            created_utc: "2026-01-01T00:00:00Z".to_owned(),
            host: Host::default(),
            git: Git { sha: "0123456".to_owned(), dirty: false },
            profile: "release".to_owned(),
            seal: "ab".to_owned(),
            servers: null_servers(),
            cost_ns: 6_000.0,
            burn_ns: 3_000.0,
            budget_s: 60.0,
            connections: "64".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::keeper::Tail, samples::about, *};
    use crate::judge::paired::Known;

    fn judged(decision: Decision, after_s: f64, centre: f64) -> Judged {
        Judged { decision, after_s, after_rounds: 6, known: Some(Known { centre, half_width: 0.004 }) }
    }

    fn judgement(trial: u32, cpu: Judged, score: f64) -> Judgement {
        let p99 = judged(Decision::Alike, 10.0, 0.0);
        let scores = vec![score, score * 1.1];
        Judgement { trial, rounds: 6, seconds: 20.0, cpu, p99, scores, pairs_kept: 180, pairs_rejected: 0 }
    }

    /// Effects of 1 % in both directions, one of them missed, another seen the wrong way round, and three equal pairs.
    fn calibration() -> Calibration {
        let (one, more, less) = (Label::Cpu { effect: 0.01 }, Decision::More, Decision::Less);
        let minus = Label::Cpu { effect: -0.01 };
        // Of which a pilot has measured almost nothing.
        let tail = Label::P99(Tail { effect: 0.5, pause_us: 200.0, moved: 0.003 });
        let labels = [one, minus, one, minus, Label::None, Label::None, Label::None, tail];
        let judged = [
            judgement(0, judged(more, 10.0, 0.0105), 1.2),
            judgement(1, judged(less, 20.0, -0.012), -1.1),
            judgement(2, judged(Decision::Alike, 40.0, 0.002), 0.2),
            judgement(3, judged(more, 50.0, 0.006), 1.0),
            judgement(4, judged(Decision::Alike, 30.0, 0.001), 0.3),
            judgement(5, judged(more, 30.0, 0.006), 1.5),
            judgement(6, judged(Decision::Undecided, 60.0, 0.001), 0.1),
            judgement(7, judged(Decision::Alike, 30.0, 0.0), 0.0),
        ];
        Calibration::new(about(), &labels, &judged)
    }

    #[test]
    fn effects_are_counted_by_what_was_said_of_them() {
        let calibration = calibration();
        let row = &calibration.rows[0];
        let of_four = |holds| Proportion { holds, of: 4 };
        assert_eq!((row.metric, row.effect), (PairMetric::Cpu, 0.01));
        assert_eq!((row.seen, row.wrong_direction, row.called_alike), (of_four(2), of_four(1), of_four(1)));
        assert_eq!(row.covered, of_four(2));
        let by_time: Vec<(f64, u32)> = row.by_time.iter().map(|look| (look.seconds, look.seen.holds)).collect();
        assert_eq!(by_time, [(15.0, 1), (30.0, 2), (60.0, 2)]);
        // The tail is judged by its own figure, and not as an equal pair.
        let tail = &calibration.rows[1];
        assert_eq!(
            (tail.metric, tail.seen, tail.called_alike.holds, tail.covered.holds),
            (PairMetric::P99, Proportion { holds: 0, of: 1 }, 1, 1)
        );
        let alarms = calibration.false_alarms[0];
        assert_eq!(
            (alarms.called_different, alarms.covered),
            (Proportion { holds: 1, of: 3 }, Proportion { holds: 2, of: 3 })
        );
    }

    #[test]
    fn the_curve_rises_from_no_alarm_to_all_that_have_the_right_sign() {
        let calibration = calibration();
        let points = &calibration.roc[0].points;
        assert_eq!(points.first(), Some(&(0.0, 0.0)));
        // One equal pair scored highest of all.
        assert_eq!(points[1], (1.0 / 3.0, 0.0));
        assert_eq!(points.last(), Some(&(1.0, 0.75)));
        assert!(points.windows(2).all(|two| two[0].0 <= two[1].0 && two[0].1 <= two[1].1), "{points:?}");
        assert_eq!(calibration.curves()[0].name, "1\u{a0}%");
    }

    #[test]
    fn the_sentence_and_the_tables_have_the_counts_and_their_intervals() {
        let text = calibration().text();
        assert!(text.starts_with("On this machine, in 60\u{a0}s for each pair (null servers) at most"), "{text}");
        assert!(text.contains("a share of 6.00 µs of CPU time per request, of which 3.00 µs are burnt"), "{text}");
        assert!(text.contains("1\u{a0}% 2 of 4 [15\u{a0}%, 85\u{a0}%] times"), "{text}");
        assert!(text.contains("called different 1 of 3 [6\u{a0}%, 79\u{a0}%] times"), "{text}");
        let line = text.lines().find(|line| line.contains("±1\u{a0}%")).unwrap();
        assert!(line.contains("30\u{a0}s, 6 rounds"), "{line}");
    }
}
