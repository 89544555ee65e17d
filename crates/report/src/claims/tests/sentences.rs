//! Every kind of sentence, read back and compared with the figures.

use results::{Arrivals, Difference, Flag, Interval, Ratio, Role};

use crate::format::elapsed;

use super::{
    Law, ensure,
    oracle::{Oracle, close},
};

/// Kinds that must have been said once in many reports.
pub(super) const KINDS: [&str; 22] = [
    "cost",
    "same",
    "needs",
    "nothing",
    "cheapest",
    "cheapest of several",
    "tally",
    "matrix",
    "effect",
    "no effect",
    "p99",
    "kept up",
    "kept up with all",
    "kernel",
    "unranked",
    "noise",
    "noise unknown",
    "wide floors",
    "doubt",
    "limited",
    "unfinished",
    "intervals",
];

type Kind = Result<&'static str, String>;

/// Reads a sentence and returns its kind.
pub(super) fn check(sentence: &str, oracles: &[Oracle<'_>]) -> Kind {
    let sentence = sentence.replace('\u{a0}', " ");
    let about =
        Sentence { words: sentence.strip_suffix('.').ok_or_else(|| format!("no full stop: {sentence}"))?, oracles };
    let read = (about.of_run())
        .or_else(|| about.nothing())
        .or_else(|| about.effect())
        .or_else(|| about.cost())
        .or_else(|| about.needs())
        .or_else(|| about.cheapest())
        .or_else(|| about.counts())
        .or_else(|| about.p99())
        .or_else(|| about.kept_up())
        .or_else(|| about.kernel());
    read.unwrap_or_else(|| Err("nobody checks this".to_owned())).map_err(|why| format!("{sentence}: {why}"))
}

/// The line that a cell says when it is pointed at.
pub(super) fn read_out(words: &str, label: &str, workload: &str, oracle: &Oracle<'_>) -> Law {
    let standing = oracle.standing(label, workload);
    let last = words.rsplit("; ").next().unwrap_or_default();
    // Without anything claimed the last part is the cost, or the name where there is none.
    let is_plain = last.ends_with("µs per request") || last == words;
    let last = if is_plain { "" } else { last };
    ensure(standing.matches(last), || format!("{words}: {standing:?}"))?;
    let is_other = oracle.reference().is_some_and(|reference| reference.label != label);
    let Some((figure, rest)) = words.split_once(": ").and_then(|(_, rest)| rest.split_once("× [")) else {
        let has_ratio = is_other && oracle.raw_ratio(label, workload).is_some();
        return ensure(!has_ratio, || format!("{words} hides its ratio"));
    };
    let ratio = oracle.raw_ratio(label, workload).ok_or_else(|| format!("{words}: there is no ratio"))?;
    let bounds = rest.split(']').next().unwrap_or_default();
    ensure(is_ratio(figure, bounds, &ratio), || format!("{words}: {ratio:?}"))
}

struct Sentence<'a> {
    words: &'a str,
    oracles: &'a [Oracle<'a>],
}

/// `17 of 20 cells` → 17 and the rest.
fn number(words: &str) -> Option<(usize, &str)> {
    let (digits, rest) = words.split_once(' ')?;
    Some((digits.replace(',', "").parse().ok()?, rest))
}

fn is_ratio(figure: &str, bounds: &str, ratio: &Ratio) -> bool {
    let Some((lo, hi)) = bounds.split_once(", ") else { return false };
    close(figure, ratio.median) && close(lo, ratio.lo) && close(hi, ratio.hi)
}

fn is_interval(figure: &str, bounds: &str, value: &Interval) -> bool {
    let Some((lo, hi)) = bounds.split_once(", ") else { return false };
    close(figure, value.median) && close(lo, value.lo) && close(hi, value.hi)
}

fn told(kind: &'static str, holds: bool, why: impl std::fmt::Debug) -> Option<Kind> {
    Some(if holds { Ok(kind) } else { Err(format!("{why:?}")) })
}

impl<'a> Sentence<'a> {
    /// The matrix that has a cell of this label.
    fn matrix(&self, label: &str) -> Option<&'a Oracle<'a>> {
        self.oracles.iter().find(|oracle| oracle.cell(label).is_some())
    }

    fn cost(&self) -> Option<Kind> {
        if let Some(rest) = self.words.strip_prefix("No difference seen between ") {
            let (subject, rest) = rest.split_once(" and ")?;
            let (reference, rest) = rest.split_once(" under ")?;
            let (workload, rest) = rest.split_once(": ")?;
            let (figure, rest) = rest.split_once("× [")?;
            let (bounds, why) = rest.split_once("], ")?;
            let oracle = self.matrix(subject)?;
            let ratio = oracle.ratio(subject, workload)?;
            let reason = Oracle::reason(&ratio, oracle.floor(workload));
            let is_unseen = !Oracle::differs(&ratio, oracle.floor(workload));
            let holds = oracle.is_ranked()
                && is_unseen
                && is_ratio(figure, bounds, &ratio)
                && why == reason
                && oracle.reference()?.label == reference;
            return told("same", holds && self.is_of_headline(oracle, subject, workload), (ratio, reason));
        }
        let (subject, rest) = self.words.split_once(" costs ")?;
        let (figure, rest) = rest.split_once("× [")?;
        let (bounds, rest) = rest.split_once("] the server CPU of ")?;
        let (reference, workload) = rest.split_once(" under ")?;
        let oracle = self.matrix(subject)?;
        let ratio = oracle.ratio(subject, workload);
        let holds = ratio.is_some_and(|ratio| is_ratio(figure, bounds, &ratio))
            && oracle.claimed(subject, workload).is_some()
            && oracle.reference()?.label == reference;
        told("cost", holds && self.is_of_headline(oracle, subject, workload), ratio)
    }

    /// True if nobody of the same role is cheaper: the first peer of the table is the first of the headline.
    fn is_of_headline(&self, oracle: &Oracle<'_>, subject: &str, workload: &str) -> bool {
        let Some(own) = oracle.cell(subject) else { return false };
        let reference = &oracle.summary.setup.reference;
        let rivals = oracle.summary.setup.cells.iter().filter(|it| it.role == own.role && it.id != *reference);
        let least =
            rivals.filter_map(|it| Some(oracle.ratio(&it.label, workload)?.median)).fold(f64::INFINITY, f64::min);
        oracle.ratio(subject, workload).is_some_and(|ratio| ratio.median <= least) && own.role != Role::Control
    }

    fn needs(&self) -> Option<Kind> {
        let (label, rest) = self.words.split_once(" needs ")?;
        let (figure, rest) = rest.split_once(" µs [")?;
        let (bounds, workload) = rest.split_once("] of server CPU per request under ")?;
        let oracle = self.matrix(label)?;
        let cpu = oracle.figures(label, workload)?.cpu_us?;
        let holds = is_interval(figure, bounds, &cpu) && !oracle.is_doubtful(label, workload);
        told("needs", holds, cpu)
    }

    fn nothing(&self) -> Option<Kind> {
        let server = self.words.strip_prefix("No figures of ")?;
        let oracle = self.oracles.iter().find(|oracle| oracle.summary.setup.server == server)?;
        // Of ours, that is: sound, under a workload whose costs may be compared.
        let workloads = || oracle.summary.setup.workloads.iter();
        let comparable = || workloads().filter(|it| !it.allows_misses && it.arrivals != Arrivals::LoadSweep);
        let is_told = |label: &str| {
            comparable().any(|it| {
                let has_cpu = oracle.figures(label, &it.name).is_some_and(|figures| figures.cpu_us.is_some());
                has_cpu && !oracle.is_doubtful(label, &it.name)
            })
        };
        told("nothing", !oracle.ours().any(|cell| is_told(&cell.label)), "there are some")
    }

    fn cheapest(&self) -> Option<Kind> {
        let (names, of, workload, kind) = if let Some(rest) = self.words.strip_prefix("Cheapest of ") {
            let (of, rest) = number(rest)?;
            let (workload, names) = rest.strip_prefix("under ")?.split_once(", not told apart: ")?;
            (names.split(", ").collect::<Vec<_>>(), of, workload, "cheapest of several")
        } else {
            let (name, rest) = self.words.split_once(" is the cheapest of ")?;
            let (of, rest) = number(rest)?;
            (vec![name], of, rest.strip_prefix("under ")?, "cheapest")
        };
        let oracle = self.matrix(names[0])?;
        let ratios: Vec<(&str, Ratio)> =
            oracle.ours().filter_map(|it| Some((it.label.as_str(), oracle.ratio(&it.label, workload)?))).collect();
        let least = ratios.iter().map(|(_, ratio)| ratio.median).fold(f64::INFINITY, f64::min);
        let (_, first) = *ratios.iter().find(|(name, ratio)| *name == names[0] && ratio.median == least)?;
        // Whoever is not named is more expensive beyond intervals and noise.
        let mut expected: Vec<&str> = (ratios.iter())
            .filter(|(_, other)| {
                let is_beyond = other.lo > first.hi && other.median > first.median * (1.0 + oracle.floor(workload));
                !(is_beyond && first.blocks >= 3 && other.blocks >= 3)
            })
            .map(|(name, _)| *name)
            .collect();
        let mut named = names.clone();
        named.sort_unstable();
        expected.sort_unstable();
        told(kind, oracle.is_ranked() && named == expected && of == ratios.len(), (named, expected))
    }

    fn counts(&self) -> Option<Kind> {
        let (head, counts) = self.words.split_once(": ")?;
        let (subject, rest) = head.split_once(" beside ")?;
        let cells: Vec<&str>;
        let (oracle, total, kind);
        if let Some((reference, workloads)) = rest.split_once(" under ") {
            oracle = self.matrix(subject)?;
            (cells, total, kind) = (vec![subject], number(workloads)?.0, "tally");
            if oracle.reference().is_some_and(|it| it.label != reference) {
                return told(kind, false, "another reference");
            }
        } else {
            let number_of_cells = number(subject)?.0;
            oracle = self.matrix(rest).or_else(|| self.oracles.first().filter(|_| rest == "the reference"))?;
            if rest == "the reference" && self.oracles.len() > 1 {
                // Which matrix has none cannot be read from the sentence.
                return Some(Ok("matrix"));
            }
            let others = oracle.summary.setup.cells.iter().filter(|it| it.role != Role::Control);
            let others = others.filter(|it| it.id != oracle.summary.setup.reference);
            (cells, total, kind) = (others.map(|it| it.label.as_str()).collect(), number_of_cells, "matrix");
        }
        let mut found = [("cheaper", 0), ("more expensive", 0), ("no difference seen", 0), ("no claim", 0)];
        let workloads = oracle.summary.setup.workloads.iter().filter(|it| it.arrivals != Arrivals::LoadSweep);
        for workload in workloads {
            for label in &cells {
                let id = &oracle.cell(label)?.id;
                let is_there = oracle.summary.results.iter().any(|it| it.cell == *id && it.workload == workload.name);
                let place = match (oracle.ratio(label, &workload.name), oracle.claimed(label, &workload.name)) {
                    (_, Some(Difference::Lower)) => 0,
                    (_, Some(_)) => 1,
                    (Some(_), None) => 2,
                    (None, None) => 3,
                };
                found[place].1 += usize::from(is_there);
            }
        }
        let expected: Vec<String> =
            found.iter().filter(|(_, cells)| *cells > 0).map(|(words, cells)| format!("{words} in {cells}")).collect();
        let sum: usize = found.iter().map(|(_, cells)| cells).sum();
        told(kind, oracle.is_ranked() && counts == expected.join(", ") && sum == total, expected)
    }

    fn effect(&self) -> Option<Kind> {
        let (words, is_same) = match self.words.strip_prefix("No difference seen with ") {
            Some(rest) => (rest, true),
            None => (self.words, false),
        };
        let (choice, rest) = words.split_once(" instead of ")?;
        let (factor, level) = choice.split_once(' ').map_or((None, choice), |(factor, level)| (Some(factor), level));
        let all = self.oracles.iter().flat_map(|oracle| oracle.summary.effects.iter().map(move |it| (oracle, it)));
        let (oracle, effect) = all.into_iter().find(|(_, effect)| effect.level == level)?;
        let is_named = factor.is_none_or(|factor| factor == effect.factor);
        let floor = effect.floor_percent / 100.0;
        let differs = Oracle::differs(&effect.cpu, floor);
        let (other, figure, bounds, tail) = if is_same {
            let (other, rest) = rest.split_once(": ")?;
            let (figure, rest) = rest.split_once("× [")?;
            let (bounds, tail) = rest.split_once("], ")?;
            (other, figure, bounds, tail == Oracle::reason(&effect.cpu, floor))
        } else {
            let (other, rest) = rest.split_once(" costs ")?;
            let (figure, rest) = rest.split_once("× [")?;
            let (bounds, tail) = rest.split_once("] ")?;
            (other, figure, bounds, tail == "the server CPU, all else equal")
        };
        let holds = oracle.is_ranked()
            && is_named
            && differs != is_same
            && other == effect.instead_of
            && is_ratio(figure, bounds, &effect.cpu)
            && tail;
        told(if is_same { "no effect" } else { "effect" }, holds, effect)
    }

    fn p99(&self) -> Option<Kind> {
        let (quantity, rest) = self.words.strip_prefix("p99 of the ")?.split_once(" time of ")?;
        let (label, rest) = rest.split_once(" under ")?;
        let (workload, rest) = rest.split_once(": ")?;
        let (figure, bounds) = rest.strip_suffix(']')?.split_once(" µs [")?;
        let oracle = self.matrix(label)?;
        let figures = oracle.figures(label, workload)?;
        let is_open = matches!(oracle.workload(workload)?.arrivals, Arrivals::Open { .. });
        let latency = if is_open { figures.response.as_ref()? } else { figures.service.as_ref()? };
        let holds = (quantity == "response") == is_open
            && is_interval(figure, bounds, &latency.p99)
            && !oracle.is_doubtful(label, workload);
        told("p99", holds, latency.p99)
    }

    fn kept_up(&self) -> Option<Kind> {
        let (label, rest) = self.words.split_once(" kept up with ")?;
        let (figure, rest) = rest.split_once(" requests/s under ")?;
        let (workload, is_all) = match rest.split_once(", the most that was offered") {
            Some((workload, _)) => (workload, true),
            None => (rest.strip_suffix(" and not with more")?, false),
        };
        let oracle = self.matrix(label)?;
        let points = &oracle.figures(label, workload)?.sweep;
        let served = points.iter().position(|point| !point.is_served).unwrap_or(points.len());
        let holds = close(figure, points[..served].last()?.offered_rps)
            && is_all == (served == points.len())
            && !oracle.is_doubtful(label, workload);
        told(if is_all { "kept up with all" } else { "kept up" }, holds, points)
    }

    fn kernel(&self) -> Option<Kind> {
        let (figure, rest) = self.words.strip_prefix("The kernel takes ")?.split_once(" % of it for ")?;
        let (label, workload) = rest.split_once(" under ")?;
        let figures = self.matrix(label)?.figures(label, workload)?;
        let (system, user) = (figures.system_us?, figures.user_us?);
        let percent = 100.0 * system / (system + user);
        told("kernel", figure.parse().is_ok_and(|read: f64| (read - percent).abs() <= 0.5), percent)
    }

    /// Sentences about a run as a whole; of several servers either about one of them or about all.
    fn of_run(&self) -> Option<Kind> {
        let groups = self.oracles.iter().map(std::slice::from_ref).chain([self.oracles]);
        let mut wrong = None;
        for oracles in groups {
            match of_run(self.words, oracles)? {
                Ok(kind) => return Some(Ok(kind)),
                Err(why) => wrong = Some(Err(why)),
            }
        }
        wrong
    }
}

fn of_run(words: &str, oracles: &[Oracle<'_>]) -> Option<Kind> {
    let setups = || oracles.iter().map(|oracle| &oracle.summary.setup);
    if let Some(why) = words.strip_prefix("This run ranks nothing (") {
        let holds = match why.strip_suffix(')')? {
            "quick: short visits in few blocks" => setups().any(|it| it.quick),
            "server and generator shared a core" => setups().any(|it| it.pinning.shared),
            "what was measured was not built as a release" => setups().any(|it| it.profile != "release"),
            "fewer than three blocks" => setups().any(|it| it.blocks < 3),
            _ => false,
        };
        return told("unranked", holds, "it may");
    }
    if let Some(rest) = words.strip_prefix("Unfinished: ") {
        let partial = || oracles.iter().map(|it| &it.summary.progress).filter(|it| it.is_partial);
        let (done, planned) =
            (partial().map(|it| it.visits_done).sum::<u32>(), partial().map(|it| it.visits_planned).sum::<u32>());
        let plural = if planned == 1 { "" } else { "s" };
        return told("unfinished", rest == format!("{done} of {planned} visit{plural} made"), (done, planned));
    }
    let floors: Vec<f64> = (oracles.iter())
        .flat_map(|oracle| {
            let workloads = oracle.summary.setup.workloads.iter().filter(|it| it.arrivals != Arrivals::LoadSweep);
            workloads.map(|it| oracle.floor(&it.name))
        })
        .collect();
    let known = || floors.iter().copied().filter(|floor| *floor < 1.0);
    if let Some(rest) = words.strip_prefix("Noise floor, from measuring the same server twice: ") {
        let (least, greatest) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
        let range = format!("{:.3}×", 1.0 + least);
        let expected = if least == greatest {
            format!("{range}; smaller differences are none")
        } else {
            format!("{range} to {:.3}×, depending on the workload; smaller differences are none", 1.0 + greatest)
        };
        return told("noise", rest == expected, expected);
    }
    if let Some(rest) = words.strip_prefix("A noise floor of 1.050× would have taken about ") {
        let wide = oracles.iter().flat_map(|oracle| {
            let workloads = oracle.summary.setup.workloads.iter().filter(|it| it.arrivals != Arrivals::LoadSweep);
            workloads.filter_map(|it| {
                let noise = oracle.summary.noise.iter().find(|noise| noise.workload == it.name)?;
                let (floor, spent) = (noise.cpu_floor_percent / 100.0, noise.elapsed_s);
                let wanted = elapsed(spent * floor * floor / 0.0025).replace('\u{a0}', " ");
                let spent_words = elapsed(spent).replace('\u{a0}', " ");
                let is_wide = floor > 0.05 && floor < 1.0 && spent > 0.0;
                is_wide.then(|| format!("{wanted} instead of {spent_words} under {}", it.name))
            })
        });
        let expected = wide.collect::<Vec<_>>().join(", ");
        return told("wide floors", rest == expected, expected);
    }
    if words.contains("the noise floor is unknown: less than twofold") {
        let (unknown, rest) = number(words.strip_prefix("Under ")?)?;
        let (of, _) = number(rest.strip_prefix("of ")?)?;
        return told("noise unknown", (unknown, of) == (floors.len() - known().count(), floors.len()), floors);
    }
    let places = || {
        oracles.iter().flat_map(|oracle| {
            let cells = oracle.summary.setup.cells.iter().filter(|it| it.role != Role::Control);
            cells.flat_map(move |cell| {
                let workloads = oracle.summary.setup.workloads.iter().filter(|it| it.arrivals != Arrivals::LoadSweep);
                workloads.map(move |it| (oracle, cell.label.as_str(), it.name.as_str()))
            })
        })
    };
    if words.contains(" in doubt, hatched: no claim is made of ") {
        let (cells, rest) = number(words)?;
        let (of, _) = number(rest.strip_prefix("of ")?)?;
        let doubtful = places().filter(|(oracle, label, workload)| oracle.is_doubtful(label, workload)).count();
        let measured = places().filter(|(oracle, label, workload)| oracle.figures(label, workload).is_some()).count();
        return told("doubt", (cells, of) == (doubtful, measured), (doubtful, measured));
    }
    if words.contains("the generator was the limit, not the server") {
        let (cells, _) = number(words.strip_prefix("In ")?)?;
        let is_limited = |(oracle, label, workload): &(&Oracle<'_>, &str, &str)| {
            let figures = oracle.figures(label, workload);
            figures.is_some_and(|it| it.flags.iter().any(|count| count.flag == Flag::ClientSaturated))
        };
        let limited = places().filter(is_limited).count();
        return told("limited", cells == limited, limited);
    }
    let rest = words.strip_prefix("In brackets: the ")?;
    let holds = setups().any(|it| match it.blocks {
        1 => rest == "figure of the only block (no interval)",
        2 => rest == "range of 2 blocks (a 50 % interval)",
        3 => rest == "range of 3 blocks (a 75 % interval)",
        5 => rest == "range of 5 blocks (a 93 % interval)",
        _ => rest == "95 % interval",
    });
    told("intervals", holds, "another number of blocks")
}
