//! The table of all figures: every cell under every workload, every median with its interval.

use maud::{Markup, html};
use results::{Figures, Interval, LatencyFigures, Outcome, Ratio, Role, ranks::interval_name, words};

use super::{
    section::{Section, scrolling},
    visits::{VISITS_PAGE, anchor},
};
use crate::{format::rate as figure, matrix_view::MatrixView};

/// Entry of one column for one cell.
struct Entry {
    /// The script sorts by the number that it begins with.
    text: String,
    interval: String,
}

const HEAD: &str = "head bytes";
const INSTRUCTIONS: &str = "server instructions/req";

type Column = (&'static str, fn(&Figures) -> Entry);

const COLUMNS: &[Column] = &[
    ("server CPU µs/req", |f| optional(f.cpu_us.as_ref())),
    ("CPU, × reference", |f| ratio(f.cpu_ratio.as_ref())),
    ("req/s", |f| interval(&f.throughput_rps)),
    ("req/s, × reference", |f| ratio(f.throughput_ratio.as_ref())),
    ("generator CPU µs/req", |f| plain(Some(f.client_cpu_us.median))),
    ("both CPUs µs/req", |f| plain(f.total_cpu_us.map(|cpu| cpu.median))),
    ("both, × reference", |f| ratio(f.total_cpu_ratio.as_ref())),
    ("server user µs", |f| plain(f.user_us)),
    ("server kernel µs", |f| plain(f.system_us)),
    (INSTRUCTIONS, |f| plain(f.further.instructions_per_request)),
    ("p50 µs", |f| quantile(f, |l| l.p50)),
    ("p90 µs", |f| plain(latency(f).map(|l| l.p90.median))),
    ("p99 µs", |f| quantile(f, |l| l.p99)),
    ("p99.9 µs", |f| plain(latency(f).map(|l| l.p999.median))),
    ("max µs", |f| plain(latency(f).map(|l| l.max))),
    ("server busy", |f| busy(f.server_busy)),
    ("generator busy", |f| busy(Some(f.client_busy))),
    ("RSS MiB", |f| plain(f.rss_bytes.map(|bytes| bytes as f64 / 1048576.0))),
    ("bytes per key", |f| optional(f.bytes_per_key.as_ref())),
    ("hit ratio", |f| optional(f.hit_ratio.as_ref())),
    (HEAD, |f| plain(f.further.head_bytes)),
    ("warm-up s", |f| warm_up(f)),
    ("visits", |f| visits(f)),
];

pub(super) fn section(view: &MatrixView<'_>) -> Section {
    Section {
        id: "table",
        link: "table",
        title: "All figures".to_owned(),
        finding: Markup::default(),
        content: html! {
            (scrolling("all figures", &table(view)))
            p.small.note {
                "Medians over blocks, in brackets the " (interval_name(view.summary.setup.blocks))
                ". ×: multiples of " (view.reference_label()) ". Latencies of an open loop are response times, from the "
                "scheduled send; of a closed one service times, from the actual send. n/a: not measured there. Visits: those that counted, and in brackets the retries of "
                "invalid ones. Flags: by number of visits." @if is_traced(view) { " Raw visits: the lines of visits.jsonl that the figures were made from, block by block, by the beginning of their SHA-256 digest." }
            }
        },
    }
}

fn table(view: &MatrixView<'_>) -> Markup {
    let (columns, traced) = (columns(view), is_traced(view));
    let control = (0..view.cells().len()).filter(|&row| view.cells()[row].role == Role::Control);
    let lines = view
        .compared()
        .chain(control)
        .enumerate()
        .flat_map(|(place, row)| lines(view, (&columns, traced), row, place > 0));
    html! {
        table id=(view.id("raw")) {
            thead { tr {
                th scope="col" { "server" } th scope="col" { "workload" } th scope="col" { "server CPU beside the reference" }
                @for (head, _) in &columns { th scope="col" class="r" { (head) } }
                th scope="col" { "flags" }
                @if traced { th scope="col" { "raw visits" } }
            } }
            tbody { "\n" @for line in lines { (line) } }
        }
    }
}

/// Returns the number of links that a row has at most.
fn links_of_a_row(view: &MatrixView<'_>) -> usize {
    let all = view.summary.results.len() * view.summary.setup.blocks as usize;
    if all > LINKS_MAX { 1 } else { usize::MAX }
}

/// True if the figures can be traced to lines of `visits.jsonl`.
fn is_traced(view: &MatrixView<'_>) -> bool {
    view.summary.results.iter().any(|result| match &result.outcome {
        Outcome::Measured(figures) => figures.per_block.iter().any(|block| block.source.is_some()),
        Outcome::NotRun { .. } => false,
    })
}

/// Most links to visits that a table has; of more a row has its first one, behind which the others stand in `visits.html`.
const LINKS_MAX: usize = 800;

/// Links to the visits that the figures of a cell come from, by block, at most so many.
fn sources(figures: &Figures, most: usize) -> Markup {
    let sources = figures.per_block.iter().filter_map(|block| Some((block.block, block.source.as_ref()?)));
    html! {
        @for (block, source) in sources.take(most) { a href={ (VISITS_PAGE) "#" (anchor(&source.sha256)) } { (block) } " " }
    }
}

/// The lines of one server; the first of each but the first server starts a group.
fn lines(view: &MatrixView<'_>, columns: (&[&Column], bool), row: usize, has_gap: bool) -> Vec<Markup> {
    let outcomes = (0..view.workloads().len()).filter_map(|column| Some((column, view.outcome(row, column)?)));
    let line = |(i, (column, outcome))| line(view, columns, (row, column), outcome, has_gap && i == 0);
    outcomes.enumerate().map(line).collect()
}

/// Returns the columns; those that are about keys, instructions or warm-ups only where there are some.
fn columns(view: &MatrixView<'_>) -> Vec<&'static Column> {
    let has_keys = view.workloads().iter().any(|workload| workload.keys.is_some());
    let any = |is_there: fn(&Figures) -> bool| {
        view.summary.results.iter().any(|result| match &result.outcome {
            Outcome::Measured(figures) => is_there(figures),
            Outcome::NotRun { .. } => false,
        })
    };
    let counts_instructions = any(|figures| figures.further.instructions_per_request.is_some());
    let has_heads = any(|figures| figures.further.head_bytes.is_some());
    let has_warm_ups = any(|figures| figures.further.warmup_s.is_some());
    let is_shown = |head: &str| match head {
        "bytes per key" | "hit ratio" => has_keys,
        INSTRUCTIONS => counts_instructions,
        HEAD => has_heads,
        "warm-up s" => has_warm_ups,
        _ => true,
    };
    COLUMNS.iter().filter(|(head, _)| is_shown(head)).collect()
}

fn line(
    view: &MatrixView<'_>,
    (columns, traced): (&[&Column], bool),
    (row, column): (usize, usize),
    outcome: &Outcome,
    starts_group: bool,
) -> Markup {
    let series = &view.series[row];
    let workload = &view.workloads()[column].name;
    // All flags, the expected ones too: this is the place where nothing is left out.
    let flags = |figures: &Figures| {
        let flags = figures.flags.iter().map(|count| format!("{} ({})", count.flag.name(), count.visits));
        flags.collect::<Vec<_>>().join(", ")
    };
    html! {
        tr id={ "raw-" (series.id) "-" (column) } class=[starts_group.then_some("grp")] {
            th scope="row" { (series.label) } td { (workload) } td { (view.standing(row, column)) }
            @match outcome {
                Outcome::NotRun { .. } => td colspan=(columns.len() + 1 + usize::from(traced)) class="m" {},
                Outcome::Measured(figures) => {
                    @for (_, entry) in columns { (entry(figures).html()) }
                    td.f { (flags(figures)) }
                    @if traced { td { (sources(figures, links_of_a_row(view))) } }
                }
            }
        }
        "\n"
    }
}

impl Entry {
    fn missing() -> Self {
        Self { text: "n/a".to_owned(), interval: String::new() }
    }

    fn html(&self) -> Markup {
        html! { td { (self.text) @if !self.interval.is_empty() { " " i { (self.interval) } } } }
    }
}

fn plain(value: Option<f64>) -> Entry {
    value
        .filter(|v| v.is_finite())
        .map_or_else(Entry::missing, |value| Entry { text: figure(value), interval: String::new() })
}

fn interval(value: &Interval) -> Entry {
    let bounds = if value.lo.is_finite() && value.hi.is_finite() {
        format!("[{}, {}]", figure(value.lo), figure(value.hi))
    } else {
        String::new()
    };
    Entry { interval: bounds, ..plain(Some(value.median)) }
}

fn optional(value: Option<&Interval>) -> Entry {
    value.map_or_else(Entry::missing, interval)
}

/// The response time of an open loop, the service time of a closed one.
fn latency(figures: &Figures) -> Option<&LatencyFigures> {
    figures.response.as_ref().or(figures.service.as_ref())
}

fn quantile(figures: &Figures, pick: fn(&LatencyFigures) -> Interval) -> Entry {
    optional(latency(figures).map(pick).as_ref())
}

fn ratio(value: Option<&Ratio>) -> Entry {
    let Some(value) = value.filter(|v| [v.median, v.lo, v.hi].iter().all(|v| v.is_finite())) else {
        return Entry::missing();
    };
    // Of the reference over itself there is nothing to be uncertain about.
    let is_exact = value.lo == value.hi;
    let interval = if is_exact { String::new() } else { words::ratio_interval(value.lo, value.hi) };
    Entry { text: words::times(value.median), interval }
}

fn busy(value: Option<f64>) -> Entry {
    let percent = |fraction: f64| Entry { text: format!("{:.0}\u{a0}%", fraction * 100.0), interval: String::new() };
    value.filter(|fraction| fraction.is_finite()).map_or_else(Entry::missing, percent)
}

fn warm_up(figures: &Figures) -> Entry {
    let entry = plain(figures.further.warmup_s);
    match figures.further.unsettled_visits {
        Some(visits) if visits > 0 && figures.further.warmup_s.is_some() => {
            Entry { interval: format!("{visits} unsettled"), ..entry }
        }
        _ => entry,
    }
}

fn visits(figures: &Figures) -> Entry {
    let retries = figures.attempts.saturating_sub(figures.visits);
    let text = if retries > 0 { format!("{} (+{retries})", figures.visits) } else { figures.visits.to_string() };
    Entry { text, interval: String::new() }
}
