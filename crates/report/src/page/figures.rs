//! The raw table: every cell under every workload, every median with its interval.

use std::fmt::Write as _;

use results::{Figures, Interval, LatencyFigures, Outcome, Ratio};

use crate::{
    format::{rate as figure, ratio_exact},
    matrix_view::View,
    picture::svg::escape,
};

/// What a column prints of one cell.
struct Entry {
    text: String,
    interval: String,
    /// What the script sorts by.
    key: Option<f64>,
}

const INSTRUCTIONS: &str = "server instructions/req";

type Column = (&'static str, fn(&Figures) -> Entry);

const COLUMNS: &[Column] = &[
    ("server CPU µs/req", |f| optional(f.cpu_us.as_ref())),
    ("CPU ÷ reference", |f| ratio(f.cpu_ratio.as_ref())),
    ("req/s", |f| interval(&f.throughput_rps)),
    ("req/s ÷ reference", |f| ratio(f.throughput_ratio.as_ref())),
    ("generator CPU µs/req", |f| interval(&f.client_cpu_us)),
    ("both CPUs µs/req", |f| optional(f.total_cpu_us.as_ref())),
    ("both ÷ reference", |f| ratio(f.total_cpu_ratio.as_ref())),
    ("server user µs", |f| plain(f.user_us)),
    ("server kernel µs", |f| plain(f.system_us)),
    (INSTRUCTIONS, |f| plain(f.further.instructions_per_request)),
    ("response p50 µs", |f| quantile(f.response.as_ref(), |l| l.p50)),
    ("response p90 µs", |f| quantile(f.response.as_ref(), |l| l.p90)),
    ("response p99 µs", |f| quantile(f.response.as_ref(), |l| l.p99)),
    ("response p99.9 µs", |f| quantile(f.response.as_ref(), |l| l.p999)),
    ("response max µs", |f| plain(f.response.as_ref().map(|l| l.max))),
    ("service p50 µs", |f| quantile(f.service.as_ref(), |l| l.p50)),
    ("service p90 µs", |f| quantile(f.service.as_ref(), |l| l.p90)),
    ("service p99 µs", |f| quantile(f.service.as_ref(), |l| l.p99)),
    ("service p99.9 µs", |f| quantile(f.service.as_ref(), |l| l.p999)),
    ("service max µs", |f| plain(f.service.as_ref().map(|l| l.max))),
    ("server busy", |f| busy(f.server_busy)),
    ("generator busy", |f| busy(Some(f.client_busy))),
    ("RSS MiB", |f| plain(f.rss_bytes.map(|bytes| bytes as f64 / 1048576.0))),
    ("bytes per key", |f| optional(f.bytes_per_key.as_ref())),
    ("hit ratio", |f| optional(f.hit_ratio.as_ref())),
    ("warm-up s", |f| warm_up(f)),
    ("visits", |f| visits(f)),
];

pub(super) fn html(view: &View<'_>) -> String {
    let mut out = format!(
        "<table id=\"{}\"><thead><tr><th scope=\"col\">server</th><th scope=\"col\">workload</th>",
        view.id("raw")
    );
    let columns = columns(view);
    for (head, _) in &columns {
        let _ = write!(out, "<th scope=\"col\" class=\"r\">{head}</th>");
    }
    out += "<th scope=\"col\">flags</th></tr></thead><tbody>\n";
    for row in 0..view.cells().len() {
        let mut is_first = row > 0;
        for column in 0..view.workloads().len() {
            if let Some(outcome) = view.outcome(row, column) {
                out += &line(view, &columns, (row, column), outcome, is_first);
                is_first = false;
            }
        }
    }
    out + "</tbody></table>"
}

/// Those that are about keys, instructions or warm-ups only where there are some.
fn columns(view: &View<'_>) -> Vec<&'static Column> {
    let has_keys = view.workloads().iter().any(|workload| workload.keys.is_some());
    let any = |is_there: fn(&Figures) -> bool| {
        view.summary.results.iter().any(|result| match &result.outcome {
            Outcome::Measured(figures) => is_there(figures),
            Outcome::NotRun { .. } => false,
        })
    };
    let counts_instructions = any(|figures| figures.further.instructions_per_request.is_some());
    let has_warm_ups = any(|figures| figures.further.warmup_s.is_some());
    let is_shown = |head: &str| match head {
        "bytes per key" | "hit ratio" => has_keys,
        INSTRUCTIONS => counts_instructions,
        "warm-up s" => has_warm_ups,
        _ => true,
    };
    COLUMNS.iter().filter(|(head, _)| is_shown(head)).collect()
}

fn line(
    view: &View<'_>,
    columns: &[&Column],
    (row, column): (usize, usize),
    outcome: &Outcome,
    starts_group: bool,
) -> String {
    let series = &view.series[row];
    let workload = escape(&view.workloads()[column].name);
    let (id, label) = (&series.id, escape(&series.label));
    let class = if starts_group { " class=\"grp\"" } else { "" };
    let mut out = format!(
        "<tr id=\"raw-{id}-{column}\"{class} data-r=\"{id}\" data-wn=\"{workload}\">\
         <th scope=\"row\">{label}</th><td>{workload}</td>"
    );
    match outcome {
        Outcome::NotRun { reason } => {
            let _ = write!(out, "<td colspan=\"{}\" class=\"m\">n/a: {}</td>", columns.len() + 1, escape(reason));
        }
        Outcome::Measured(figures) => {
            for (_, entry) in columns {
                out += &entry(figures).html();
            }
            // All flags, the expected ones too: this is the place where nothing is left out.
            let flags: Vec<String> =
                figures.flags.iter().map(|c| format!("{} ({})", c.flag.name(), c.visits)).collect();
            let _ = write!(out, "<td class=\"f\">{}</td>", flags.join(", "));
        }
    }
    out + "</tr>\n"
}

impl Entry {
    fn missing() -> Self {
        Self { text: "–".to_owned(), interval: String::new(), key: None }
    }

    fn html(&self) -> String {
        let key = self.key.map_or(String::new(), |key| format!(" data-v=\"{key:.6e}\""));
        let interval = if self.interval.is_empty() {
            String::new()
        } else {
            format!(" <span class=\"ci\">{}</span>", self.interval)
        };
        format!("<td class=\"r\"{key}>{}{interval}</td>", self.text)
    }
}

fn plain(value: Option<f64>) -> Entry {
    value.filter(|v| v.is_finite()).map_or_else(Entry::missing, |value| Entry {
        text: figure(value),
        interval: String::new(),
        key: Some(value),
    })
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

fn quantile(latency: Option<&LatencyFigures>, pick: fn(&LatencyFigures) -> Interval) -> Entry {
    optional(latency.map(pick).as_ref())
}

fn ratio(value: Option<&Ratio>) -> Entry {
    let Some(value) = value.filter(|v| [v.median, v.lo, v.hi].iter().all(|v| v.is_finite())) else {
        return Entry::missing();
    };
    let [median, lo, hi] = [value.median, value.lo, value.hi].map(ratio_exact);
    if value.lo == value.hi {
        // The reference over itself: there is nothing to be uncertain about.
        return Entry { text: median, interval: String::new(), key: Some(value.median) };
    }
    let mark = if value.differs { "" } else { "\u{a0}~" };
    Entry { text: median + mark, interval: format!("[{lo}, {hi}]"), key: Some(value.median) }
}

fn busy(value: Option<f64>) -> Entry {
    let entry = plain(value);
    match entry.key {
        Some(fraction) => Entry { text: format!("{:.0}\u{a0}%", fraction * 100.0), ..entry },
        None => entry,
    }
}

fn warm_up(figures: &Figures) -> Entry {
    let entry = plain(figures.further.warmup_s);
    match figures.further.unsettled_visits {
        Some(visits) if visits > 0 && entry.key.is_some() => Entry { interval: format!("{visits} unsettled"), ..entry },
        _ => entry,
    }
}

fn visits(figures: &Figures) -> Entry {
    let retries = figures.attempts.saturating_sub(figures.visits);
    let text = if retries > 0 { format!("{} (+{retries})", figures.visits) } else { figures.visits.to_string() };
    Entry { text, interval: String::new(), key: Some(f64::from(figures.visits)) }
}
