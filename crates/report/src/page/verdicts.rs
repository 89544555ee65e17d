//! Verdicts made from the figures. A difference inside the noise floor is always called "no difference seen".

use maud::{Markup, html};
use results::{Comparison, Effect, FLOOR_UNKNOWN, Flag, Metric, Ratio, Role, Topic};

use super::effects::drawable;
use crate::{
    format::{count, floor, percent, percent_interval, ratio},
    markup::{bounds, joined},
    matrix_view::{Drawable, MatrixView, range},
    picture::series::Group,
};

/// Limit of the paragraphs that a reader takes in before the first picture.
const VERDICTS_MAX: usize = 4;
/// Workloads named in one verdict; the matrix has the rest.
const WORKLOADS_MAX: usize = 3;
/// Choices named in the verdict on choices.
const EFFECTS_MAX: usize = 4;
/// Size of a body from which on it costs more to copy than to hand over by sendfile or splice. The null server answers
/// with as little as can be, but copies what it sends: for small replies a floor, for large ones not.
const LARGE_BYTES: u64 = 16 << 10;
/// Questions a reader asks, the first first.
const QUESTIONS: [(Topic, Metric); 6] = [
    (Topic::BestOverReference, Metric::ServerCpu),
    (Topic::BestOverPeer, Metric::ServerCpu),
    (Topic::BestOverPeer, Metric::Throughput),
    (Topic::BestOverNull, Metric::ServerCpu),
    (Topic::ReferenceOverPeer, Metric::ServerCpu),
    (Topic::ReferenceOverPeer, Metric::Throughput),
];

/// Writes one paragraph per question that the run can answer.
pub(super) fn verdicts(view: &MatrixView<'_>) -> Vec<Markup> {
    let answers = QUESTIONS.into_iter().filter_map(|(topic, metric)| {
        let comparisons = hardest(view, topic, metric);
        let unbeaten = if topic == Topic::BestOverReference { unbeaten(view, &comparisons) } else { Vec::new() };
        let is_answered = !comparisons.is_empty() || !unbeaten.is_empty();
        is_answered.then(|| verdict(view, (topic, metric), &comparisons, &unbeaten))
    });
    answers.take(VERDICTS_MAX).chain(effects_verdict(view)).chain(trust(view)).collect()
}

/// The changes that one choice makes, the largest first.
fn effects_verdict(view: &MatrixView<'_>) -> Option<Markup> {
    let mut effects = drawable(view.summary);
    effects.sort_by(|a, b| b.cpu.median.ln().abs().total_cmp(&a.cpu.median.ln().abs()));
    let (seen, same): (Vec<&Effect>, Vec<&Effect>) = effects.into_iter().partition(|effect| effect.cpu.differs);
    let one = |effect: &&Effect| {
        let Ratio { median, lo, hi, .. } = effect.cpu;
        let direction = if median < 1.0 { "less" } else { "more" };
        html! {
            (level(view, effect)) " instead of " i { (effect.instead_of) } " " (percent(median)) " " (direction) " "
            (bounds(&percent_interval(lo, hi, median)))
        }
    };
    let mut changes: Vec<Markup> = seen.iter().take(EFFECTS_MAX).map(one).collect();
    if !same.is_empty() {
        let names: Vec<Markup> = same.iter().take(EFFECTS_MAX).map(|effect| level(view, effect)).collect();
        let more = same.len().saturating_sub(EFFECTS_MAX);
        changes.push(html! {
            "no difference seen with " (joined(&names, ", "))
            @if more > 0 { " and " (more) " more" }
        });
    }
    let more = seen.len().saturating_sub(EFFECTS_MAX);
    (!changes.is_empty()).then(|| {
        html! {
            b { "One choice changed, all else equal." } " Server CPU per request: " (joined(&changes, "; ")) "."
            @if more > 0 { " " (more) "\u{a0}more below." }
        }
    })
}

/// `<i>uring</i>`, or `driver <i>uring</i>` where several dimensions vary, which may have levels of the same name.
pub(super) fn level(view: &MatrixView<'_>, effect: &Effect) -> Markup {
    let is_alone = view.summary.effects.iter().all(|other| other.factor == effect.factor);
    html! {
        @if !is_alone { (effect.factor) " " }
        i { (effect.level) }
    }
}

/// Reasons to trust the figures or to doubt them: the noise floors, and how many cells have a flag.
fn trust(view: &MatrixView<'_>) -> Option<Markup> {
    let floors = view.workloads().iter().filter_map(|workload| view.noise(&workload.name));
    let (low, high) = range(floors.map(|noise| noise.cpu_floor_percent / 100.0));
    if !low.is_finite() {
        return None;
    }
    let head = html! { b { "How far to trust this." } " " };
    if low >= FLOOR_UNKNOWN {
        return Some(html! {
            (head) "Fewer than three blocks: how far the same server differs from itself is not known, and no difference "
            "is claimed."
        });
    }
    let noise = if floor(low) == floor(high) { floor(low) } else { format!("{} to {}", floor(low), floor(high)) };
    let has = |flag: Flag| {
        let is_raised =
            |(row, column): &(usize, usize)| view.flags(*row, *column).iter().any(|(raised, _)| *raised == flag);
        view.places().filter(is_raised).count()
    };
    let limited = has(Flag::ClientSaturated);
    let doubtful = view.places().filter(|&(row, column)| view.is_doubtful(row, column)).count();
    let verbs = if doubtful == 1 { "deserves doubt, and is hatched" } else { "deserve doubt, and are hatched" };
    Some(html! {
        (head) "The same server against itself differs by " (noise)
        ", depending on the workload: smaller differences are none."
        @if limited > 0 { " In " (count(limited, "cell")) " the generator was the limit, not the server." }
        @if doubtful > 0 { " " (count(doubtful, "cell")) " " (verbs) "." }
        @if view.summary.setup.pinning.shared {
            " Server and generator shared a core: nothing here can be trusted."
        }
    })
}

/// Picks the comparisons of one topic, one per workload: the one that flatters the subject least.
pub(super) fn hardest<'a>(view: &MatrixView<'a>, topic: Topic, metric: Metric) -> Vec<&'a Comparison> {
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
pub(super) fn unbeaten<'a>(view: &MatrixView<'a>, comparisons: &[&Comparison]) -> Vec<&'a str> {
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
    view: &MatrixView<'_>,
    (topic, metric): (Topic, Metric),
    comparisons: &[&Comparison],
    unbeaten: &[&str],
) -> Markup {
    let may_rank = !view.summary.setup.quick && unbeaten.is_empty();
    let mut sentences = Vec::new();
    let mut said: Option<&str> = None;
    for comparison in comparisons.iter().take(WORKLOADS_MAX) {
        sentences.push(sentence(view, said, comparison));
        if comparison.ratio.differs {
            said = Some(&comparison.subject);
        }
    }
    let more = comparisons.len().saturating_sub(WORKLOADS_MAX);
    html! {
        b { (head(view, (topic, metric), comparisons, may_rank)) }
        @for sentence in &sentences { " " (sentence) }
        @if more > 0 { " " (more) "\u{a0}more in the matrix." }
        @if !unbeaten.is_empty() {
            " On " (listed(unbeaten)) " none of ours cost less than " (view.reference_label()) "."
        }
        @if topic == Topic::BestOverNull { (why_below_null(view, comparisons)) }
    }
}

/// The head of a verdict; it ranks only where the run may rank and every comparison carries it.
fn head(
    view: &MatrixView<'_>,
    (topic, metric): (Topic, Metric),
    comparisons: &[&Comparison],
    may_rank: bool,
) -> String {
    let is_throughput = metric == Metric::Throughput;
    let subject = comparisons.first().map_or("", |c| c.subject.as_str());
    let is_one = comparisons.iter().all(|c| c.subject == subject);
    let may_rank = may_rank && is_one && comparisons.iter().all(|c| c.ratio.differs);
    let (name, reference) = (view.label(subject), view.reference_label());
    let head = match (topic, is_throughput) {
        (Topic::BestOverReference, false) if may_rank => return format!("{name} is the cheapest of ours."),
        (Topic::BestOverReference, _) => format!("Beside {reference}"),
        (Topic::BestOverNull, _) => null_head(view, comparisons).to_owned(),
        (Topic::BestOverPeer, _) => "Beside the best peer".to_owned(),
        (Topic::ReferenceOverPeer, _) => format!("{reference} beside the best peer"),
    };
    if is_throughput { format!("{head}, throughput.") } else { format!("{head}.") }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// `said`: the subject, where the sentences before have named it already; it is not named again.
fn sentence(view: &MatrixView<'_>, said: Option<&str>, comparison: &Comparison) -> Markup {
    let noise = comparison.floor_percent;
    html! {
        "On " (comparison.workload)
        @if noise.is_finite() { " (noise " (floor(noise / 100.0)) ")" }
        " "
        @if comparison.ratio.differs { (difference(view, said, comparison)) } @else { (no_difference(view, comparison)) }
        @if is_doubtful(view, comparison) { " (flagged)" }
        "."
    }
}

/// `uring costs 17 % less [−18, −16] server CPU per request than lighttpd`, or, after that, `12 % less […] than nginx`.
fn difference(view: &MatrixView<'_>, said: Option<&str>, comparison: &Comparison) -> Markup {
    let value = &comparison.ratio;
    let object = named(view, &comparison.object);
    let (verb, thing, fewer) = match comparison.metric {
        Metric::ServerCpu => ("costs", "server CPU per request", "less"),
        Metric::Throughput => ("serves", "requests per second", "fewer"),
    };
    let is_said = said == Some(&comparison.subject);
    let lead = html! { @if !is_said { (named(view, &comparison.subject)) " " (verb) " " } };
    if comparison.topic == Topic::BestOverNull || !(0.5..2.0).contains(&value.median) {
        let times = format!("[{}, {}]", ratio(value.lo), ratio(value.hi));
        return html! {
            (lead) (ratio(value.median)) "\u{a0}× " (bounds(&times)) " "
            @if is_said { "that" } @else { "the " (thing) }
            " of " (object)
        };
    }
    let way = if value.median < 1.0 { fewer } else { "more" };
    html! {
        (lead) (percent(value.median)) " " (way) " " (bounds(&percent_interval(value.lo, value.hi, value.median)))
        @if !is_said { " " (thing) }
        " than " (object)
    }
}

fn no_difference(view: &MatrixView<'_>, comparison: &Comparison) -> Markup {
    let (subject, object) = (named(view, &comparison.subject), named(view, &comparison.object));
    let value = &comparison.ratio;
    html! {
        "no difference seen between " (subject) " and " (object) " "
        (bounds(&percent_interval(value.lo, value.hi, value.median)))
    }
}

fn named(view: &MatrixView<'_>, cell: &str) -> Markup {
    let is_null = view.cells().iter().any(|c| c.id == cell && c.role == Role::Null);
    if is_null {
        html! { "the " i { "null server" } }
    } else {
        html! { i { (view.label(cell)) } }
    }
}

fn is_doubtful(view: &MatrixView<'_>, comparison: &Comparison) -> bool {
    let column = view.workloads().iter().position(|w| w.name == comparison.workload);
    let rows = (0..view.cells().len())
        .filter(|&row| [&comparison.subject, &comparison.object].contains(&&view.cells()[row].id));
    column.is_some_and(|column| rows.into_iter().any(|row| view.is_doubtful(row, column)))
}

/// The head of the verdict beside the null server; it follows the sign, where every comparison has the same.
fn null_head(view: &MatrixView<'_>, comparisons: &[&Comparison]) -> &'static str {
    let all = |holds: fn(&Comparison) -> bool| comparisons.iter().all(|comparison| holds(comparison));
    if view.summary.setup.quick || comparisons.is_empty() {
        "Beside the null server"
    } else if all(|comparison| !comparison.ratio.differs) {
        "Not told apart from the null server"
    } else if all(|comparison| comparison.ratio.differs && comparison.ratio.median > 1.0) {
        "Above the null server"
    } else if all(is_below) {
        "Below the null server"
    } else {
        "Beside the null server"
    }
}

fn is_below(comparison: &Comparison) -> bool {
    comparison.ratio.differs && comparison.ratio.median < 1.0
}

/// Reason why something that serves files costs less than something that does not; empty where nothing does.
fn why_below_null(view: &MatrixView<'_>, comparisons: &[&Comparison]) -> &'static str {
    let mut below = comparisons.iter().filter(|comparison| is_below(comparison)).peekable();
    if below.peek().is_none() {
        return "";
    }
    // A null server that has a body to copy is told its size.
    let is_null_with_body = |id: &str| {
        view.cells().iter().any(|cell| cell.id == id && cell.role == Role::Null && cell.command.contains("--body-size"))
    };
    let is_large = |name: &str| {
        view.workloads().iter().any(|workload| workload.name == name && workload.body_bytes >= LARGE_BYTES)
    };
    if below.all(|comparison| is_null_with_body(&comparison.object) && is_large(&comparison.workload)) {
        " The null server copies its answer from memory, so for large bodies sendfile and splice need less."
    } else {
        " The null server is a simple program, not a lower bound."
    }
}
