//! Sentences made from the figures. A difference inside the noise floor is always called "no difference seen".
//!
//! Everything returned is escaped HTML.

use results::{Comparison, Drift, Effect, FLOOR_UNKNOWN, Flag, Metric, Ratio, Role, Topic};

use crate::{
    format::{count, duration, floor, percent, percent_interval, ratio, significant, thousands},
    matrix_view::{Drawable, View, is_open, offered_rps},
    page::null_server,
    picture::{series::Group, svg::escape},
};

/// Sentences a reader takes in before the first picture.
const VERDICTS_MAX: usize = 4;
/// Workloads named in one verdict; the matrix has the rest.
const WORKLOADS_MAX: usize = 3;
/// Choices named in the verdict of the main effects.
const EFFECTS_MAX: usize = 4;
/// What a reader asks first, first.
const QUESTIONS: [(Topic, Metric); 6] = [
    (Topic::BestOverReference, Metric::ServerCpu),
    (Topic::BestOverPeer, Metric::ServerCpu),
    (Topic::BestOverPeer, Metric::Throughput),
    (Topic::BestOverNull, Metric::ServerCpu),
    (Topic::ReferenceOverPeer, Metric::ServerCpu),
    (Topic::ReferenceOverPeer, Metric::Throughput),
];

/// One paragraph per question that the run can answer.
pub(super) fn verdicts(view: &View<'_>) -> Vec<String> {
    let answers = QUESTIONS.into_iter().filter_map(|(topic, metric)| {
        let comparisons = hardest(view, topic, metric);
        let unbeaten = if topic == Topic::BestOverReference { unbeaten(view, &comparisons) } else { Vec::new() };
        let is_answered = !comparisons.is_empty() || !unbeaten.is_empty();
        is_answered.then(|| verdict(view, (topic, metric), &comparisons, &unbeaten))
    });
    answers.take(VERDICTS_MAX).chain(effects_verdict(view)).chain(trust(view)).collect()
}

/// What one choice changes: the largest changes first.
fn effects_verdict(view: &View<'_>) -> Option<String> {
    let mut effects = crate::page::effects::drawable(view.summary);
    effects.sort_by(|a, b| b.cpu.median.ln().abs().total_cmp(&a.cpu.median.ln().abs()));
    let (seen, same): (Vec<&Effect>, Vec<&Effect>) = effects.into_iter().partition(|effect| effect.cpu.differs);
    let one = |effect: &&Effect| {
        let Ratio { median, lo, hi, .. } = effect.cpu;
        let direction = if median < 1.0 { "less" } else { "more" };
        let (level, other) = (level(view, effect), escape(&effect.instead_of));
        let interval = ci(&percent_interval(lo, hi, median));
        format!("{level} instead of <i>{other}</i> {} {direction} {interval}", percent(median))
    };
    let mut changes: Vec<String> = seen.iter().take(EFFECTS_MAX).map(one).collect();
    if !same.is_empty() {
        let names: Vec<String> = same.iter().take(EFFECTS_MAX).map(|effect| level(view, effect)).collect();
        let more = same.len().saturating_sub(EFFECTS_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        changes.push(format!("no difference seen with {}{more}", names.join(", ")));
    }
    let more = seen.len().saturating_sub(EFFECTS_MAX);
    let more = if more > 0 { format!(" {more}\u{a0}more below.") } else { String::new() };
    let head = "<b>One choice changed, all else equal.</b> Server CPU per request:";
    (!changes.is_empty()).then(|| format!("{head} {}.{more}", changes.join("; ")))
}

/// `<i>uring</i>`, or `driver <i>uring</i>` where several dimensions vary, which may have levels of the same name.
pub(super) fn level(view: &View<'_>, effect: &Effect) -> String {
    let is_alone = view.summary.effects.iter().all(|other| other.factor == effect.factor);
    let factor = if is_alone { String::new() } else { format!("{} ", escape(&effect.factor)) };
    format!("{factor}<i>{}</i>", escape(&effect.level))
}

/// How far the figures can be trusted: the noise floors, and how many cells have a flag.
fn trust(view: &View<'_>) -> Option<String> {
    let floors = view.workloads().iter().filter_map(|workload| view.noise(&workload.name));
    let (low, high) = range(floors.map(|noise| noise.cpu_floor_percent / 100.0));
    if !low.is_finite() {
        return None;
    }
    if low >= FLOOR_UNKNOWN {
        return Some(
            "<b>How far to trust this.</b> Fewer than three blocks: how far the same server differs from itself is \
                     not known, and no difference is claimed."
                .to_owned(),
        );
    }
    let noise = if floor(low) == floor(high) { floor(low) } else { format!("{} to {}", floor(low), floor(high)) };
    let mut out = format!(
        "<b>How far to trust this.</b> The same server against itself differs by {noise}, depending on the workload: \
         smaller differences are none."
    );
    let has = |flag: Flag| {
        let is_raised =
            |(row, column): &(usize, usize)| view.flags(*row, *column).iter().any(|(raised, _)| *raised == flag);
        view.places().filter(is_raised).count()
    };
    let limited = has(Flag::ClientSaturated);
    if limited > 0 {
        out += &format!(" In {} the generator was the limit, not the server.", count(limited, "cell"));
    }
    let doubtful = view.places().filter(|&(row, column)| view.is_doubtful(row, column)).count();
    if doubtful > 0 {
        let verbs = if doubtful == 1 { "deserves doubt, and is hatched" } else { "deserve doubt, and are hatched" };
        out += &format!(" {} {verbs}.", count(doubtful, "cell"));
    }
    if view.summary.setup.pinning.shared {
        out += " Server and generator shared a core: nothing here can be trusted.";
    }
    Some(out)
}

/// The comparisons of one topic, one per workload: the one that flatters the subject least.
pub(super) fn hardest<'a>(view: &View<'a>, topic: Topic, metric: Metric) -> Vec<&'a Comparison> {
    let mut out: Vec<&Comparison> = Vec::new();
    let wanted = |c: &&Comparison| c.topic == topic && c.metric == metric && c.ratio.is_drawable();
    for comparison in view.summary.comparisons.iter().filter(wanted) {
        let is_harder = |other: &Comparison| match metric {
            Metric::ServerCpu => comparison.ratio.median > other.ratio.median,
            Metric::Throughput => comparison.ratio.median < other.ratio.median,
        };
        match out.iter_mut().find(|other| other.workload == comparison.workload) {
            Some(other) if is_harder(other) => *other = comparison,
            Some(_) => {}
            None => out.push(comparison),
        }
    }
    out
}

/// The workloads under which the reference was measured beside others of ours and none cost less: there is no
/// comparison of the best with the reference, because it is the best.
pub(super) fn unbeaten<'a>(view: &View<'a>, comparisons: &[&Comparison]) -> Vec<&'a str> {
    let is_unbeaten = |column: usize| {
        let rivals = view.compared().filter(|&row| view.series[row].group == Group::Ours && row != view.reference);
        let has_rivals = rivals.into_iter().any(|row| view.ratio(row, column).is_some());
        let is_comparable = !view.workloads()[column].allows_misses;
        is_comparable && has_rivals && !comparisons.iter().any(|c| c.workload == view.workloads()[column].name)
    };
    let columns = (0..view.workloads().len()).filter(|&column| is_unbeaten(column));
    columns.map(|column| view.workloads()[column].name.as_str()).collect()
}

fn verdict(
    view: &View<'_>,
    (topic, metric): (Topic, Metric),
    comparisons: &[&Comparison],
    unbeaten: &[&str],
) -> String {
    let may_rank = !view.summary.setup.quick && unbeaten.is_empty();
    let mut out = format!("<b>{}</b>", verdict_head(view, (topic, metric), comparisons, may_rank));
    let mut said: Option<&str> = None;
    for comparison in comparisons.iter().take(WORKLOADS_MAX) {
        out += &verdict_sentence(view, said, comparison);
        if comparison.ratio.differs {
            said = Some(&comparison.subject);
        }
    }
    let more = comparisons.len().saturating_sub(WORKLOADS_MAX);
    if more > 0 {
        out += &format!(" {more}\u{a0}more in the matrix.");
    }
    if !unbeaten.is_empty() {
        let names: Vec<String> = unbeaten.iter().map(|name| escape(name)).collect();
        out += &format!(" On {} none of ours cost less than {}.", listed(&names), reference(view));
    }
    if topic == Topic::BestOverNull {
        out += null_server::why_below(view, comparisons);
    }
    out
}

/// A head that ranks only where the run may rank and every comparison carries it.
fn verdict_head(
    view: &View<'_>,
    (topic, metric): (Topic, Metric),
    comparisons: &[&Comparison],
    may_rank: bool,
) -> String {
    let is_throughput = metric == Metric::Throughput;
    let subject = comparisons.first().map_or("", |c| c.subject.as_str());
    let is_one = comparisons.iter().all(|c| c.subject == subject);
    let may_rank = may_rank && is_one && comparisons.iter().all(|c| c.ratio.differs);
    let name = escape(view.label(subject));
    let head = match (topic, is_throughput) {
        (Topic::BestOverReference, false) if may_rank => return format!("{name} is the cheapest of ours."),
        (Topic::BestOverReference, _) => format!("Beside {}", reference(view)),
        (Topic::BestOverNull, _) => null_server::head(view, comparisons).to_owned(),
        (Topic::BestOverPeer, _) => "Beside the best peer".to_owned(),
        (Topic::ReferenceOverPeer, _) => format!("{} beside the best peer", reference(view)),
    };
    if is_throughput { format!("{head}, throughput.") } else { format!("{head}.") }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// What the sentences before have said already (`said`: who, and of what) is not said again.
fn verdict_sentence(view: &View<'_>, said: Option<&str>, comparison: &Comparison) -> String {
    let words =
        if comparison.ratio.differs { difference(view, said, comparison) } else { no_difference(view, comparison) };
    let noise = comparison.floor_percent;
    let noise = if noise.is_finite() { format!(" (noise {})", floor(noise / 100.0)) } else { String::new() };
    let doubt = if is_doubtful(view, comparison) { " (flagged)" } else { "" };
    format!(" On {}{noise} {words}{doubt}.", escape(&comparison.workload))
}

/// `uring costs 17 % less [−18, −16] server CPU per request than lighttpd`, or, after that, `12 % less […] than nginx`.
fn difference(view: &View<'_>, said: Option<&str>, comparison: &Comparison) -> String {
    let value = &comparison.ratio;
    let object = named(view, &comparison.object);
    let (verb, thing, fewer) = match comparison.metric {
        Metric::ServerCpu => ("costs", "server CPU per request", "less"),
        Metric::Throughput => ("serves", "requests per second", "fewer"),
    };
    let is_said = said == Some(&comparison.subject);
    let lead = if is_said { String::new() } else { format!("{} {verb} ", named(view, &comparison.subject)) };
    if comparison.topic == Topic::BestOverNull || !(0.5..2.0).contains(&value.median) {
        let times = ci(&format!("[{}, {}]", ratio(value.lo), ratio(value.hi)));
        let thing = if is_said { "that".to_owned() } else { format!("the {thing}") };
        return format!("{lead}{}\u{a0}× {times} {thing} of {object}", ratio(value.median));
    }
    let way = if value.median < 1.0 { fewer } else { "more" };
    let interval = ci(&percent_interval(value.lo, value.hi, value.median));
    let thing = if is_said { String::new() } else { format!(" {thing}") };
    format!("{lead}{} {way} {interval}{thing} than {object}", percent(value.median))
}

fn no_difference(view: &View<'_>, comparison: &Comparison) -> String {
    let (subject, object) = (named(view, &comparison.subject), named(view, &comparison.object));
    let value = &comparison.ratio;
    let interval = ci(&percent_interval(value.lo, value.hi, value.median));
    format!("no difference seen between {subject} and {object} {interval}")
}

fn named(view: &View<'_>, cell: &str) -> String {
    let is_null = view.cells().iter().any(|c| c.id == cell && c.role == Role::Null);
    if is_null {
        return "the <i>null server</i>".to_owned();
    }
    format!("<i>{}</i>", escape(view.label(cell)))
}

fn is_doubtful(view: &View<'_>, comparison: &Comparison) -> bool {
    let column = view.workloads().iter().position(|w| w.name == comparison.workload);
    let rows = (0..view.cells().len())
        .filter(|&row| [&comparison.subject, &comparison.object].contains(&&view.cells()[row].id));
    column.is_some_and(|column| rows.into_iter().any(|row| view.is_doubtful(row, column)))
}

fn reference(view: &View<'_>) -> String {
    escape(view.reference_label())
}

pub(super) fn ci(words: &str) -> String {
    format!("<span class=\"ci\">{words}</span>")
}

/// Where the servers differ most and where least.
pub(super) fn matrix_finding(view: &View<'_>) -> String {
    let mut spans: Vec<(f64, usize, Vec<Ratio>)> = Vec::new();
    // Who misses more has less to do.
    for column in (0..view.workloads().len()).filter(|&column| !view.workloads()[column].allows_misses) {
        let served = view.compared().filter(|&row| view.series[row].group != Group::Floor);
        let ratios: Vec<Ratio> = served.filter_map(|row| view.ratio(row, column)).collect();
        let (low, high) = range(ratios.iter().map(|r| r.median));
        if ratios.len() > 1 {
            spans.push((high / low, column, ratios));
        }
    }
    spans.sort_by(|a, b| b.0.total_cmp(&a.0));
    let name = |column: usize| escape(&view.workloads()[column].name);
    let words = |ratios: &[Ratio]| {
        let (low, high) = range(ratios.iter().map(|r| r.median));
        format!("{} to {}\u{a0}× {}", ratio(low), ratio(high), reference(view))
    };
    match spans.as_slice() {
        [] => "No two servers were measured under the same workload.".to_owned(),
        [(_, column, ratios)] if ratios.iter().any(|r| r.differs) => {
            format!("On {}: {}.", name(*column), words(ratios))
        }
        all if all.iter().all(|(.., ratios)| !ratios.iter().any(|r| r.differs)) => {
            format!("No difference from {} was seen anywhere.", reference(view))
        }
        [(_, most, wide), .., (_, least, near)] => {
            let near_words = if near.iter().any(|r| r.differs) { words(near) } else { "no difference seen".to_owned() };
            let (most, least) = (name(*most), name(*least));
            format!("The servers lie furthest apart on {most} ({}), closest on {least} ({near_words}).", words(wide))
        }
        [(_, column, _)] => format!("No difference was seen on {}.", name(*column)),
    }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

/// The largest main effect, and the levels that change nothing.
pub(super) fn effects_finding(effects: &[&Effect]) -> String {
    let seen = effects.iter().filter(|e| e.cpu.differs);
    let largest = seen.max_by(|a, b| a.cpu.median.ln().abs().total_cmp(&b.cpu.median.ln().abs()));
    let is_alone = effects.iter().all(|e| e.factor == effects[0].factor);
    let named = |e: &Effect| if is_alone { escape(&e.level) } else { escape(&format!("{} {}", e.factor, e.level)) };
    let same: Vec<String> = effects.iter().filter(|e| !e.cpu.differs).map(|e| named(e)).collect();
    let mut out = largest.map_or(String::new(), |e| {
        let (level, other) = (named(e), escape(&e.instead_of));
        format!(
            "The largest change: {level} instead of {other}, ×\u{a0}{} server CPU per request. ",
            ratio(e.cpu.median)
        )
    });
    if !same.is_empty() {
        out += &format!("No difference seen: {}.", same.join(", "));
    }
    out.trim_end().to_owned()
}

/// The range of p99 over the servers.
pub(super) fn latency_finding(view: &View<'_>, column: usize) -> String {
    let workload = &view.workloads()[column];
    let p99 = |row| {
        let figures = view.figures(row, column)?;
        let latency = if is_open(workload) { figures.response.as_ref() } else { figures.service.as_ref() };
        latency.map(|l| l.p99.median).filter(Drawable::is_drawable)
    };
    let mut servers: Vec<(f64, usize)> =
        view.compared().filter(|&r| view.series[r].group != Group::Floor).filter_map(|r| Some((p99(r)?, r))).collect();
    servers.sort_by(|a, b| a.0.total_cmp(&b.0));
    let place = match offered_rps(workload) {
        Some(rps) => format!("At {} requests/s", thousands(rps)),
        None => "Closed loop, so service time and not user latency".to_owned(),
    };
    let label = |row: usize| escape(&view.series[row].label);
    match servers.as_slice() {
        [] => format!("{place}."),
        [(only, row)] => format!("{place}: p99 of {} is {}.", label(*row), duration(*only)),
        [(low, first), .., (high, last)] => {
            let (low, high) = (duration(*low), duration(*high));
            format!("{place}: p99 from {low} ({}) to {high} ({}).", label(*first), label(*last))
        }
    }
}

/// What the null server and the reference cost, and what share of the latter is the kernel's.
pub(super) fn budget_finding(view: &View<'_>, column: usize) -> String {
    let Some(own) = view.cpu(view.reference, column) else { return String::new() };
    let null = view.compared().find(|&row| view.series[row].group == Group::Floor);
    let name = reference(view);
    let cost = significant(own.median);
    let mut out = match null.and_then(|row| view.cpu(row, column)) {
        Some(floor) => {
            let floor = significant(floor.median);
            format!("The null server pays {floor}\u{a0}µs for the same bytes, {name} {cost}\u{a0}µs.")
        }
        None => format!("{name} needs {cost}\u{a0}µs of server CPU per request."),
    };
    let figures = view.figures(view.reference, column);
    if let Some((system, user)) = figures.and_then(|f| f.system_us.zip(f.user_us)).filter(|(s, u)| s + u > 0.0) {
        out += &format!(" Kernel share of {name}: {:.0}\u{a0}%.", 100.0 * system / (system + user));
    }
    out
}

/// How far the controls wandered.
pub(super) fn drift_finding(view: &View<'_>, drift: &Drift) -> String {
    let values = |list: &[results::BlockValue]| -> Vec<f64> {
        list.iter().map(|v| v.value).filter(Drawable::is_drawable).collect()
    };
    let (null, control) = (values(&drift.null_cpu_us), values(&drift.aa_ratio));
    let mut out = Vec::new();
    if null.len() > 1 {
        let (low, high) = range(null.into_iter());
        out.push(format!("the null server moved by {} between its best and its worst block", percent(high / low)));
    }
    if !control.is_empty() {
        let (low, high) = range(control.into_iter());
        out.push(format!("the A/A ratio lay between {low:.3} and {high:.3}"));
    }
    let noise = view.noise(&drift.workload).map(|n| floor(n.cpu_floor_percent / 100.0));
    let noise = noise.map_or(String::new(), |noise| format!(" (noise floor {noise})"));
    format!("On {}: {}{noise}.", escape(&drift.workload), out.join("; "))
}
