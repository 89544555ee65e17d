//! The summary as CSV and as a table for a terminal.

use std::fmt::Write as _;

use results::{Figures, Flag, Interval, Noise, Outcome, Ratio, Report, Role, Summary, Workload};

const COLUMNS: [&str; 38] = [
    "matrix",
    "cell",
    "role",
    "workload",
    "not_run",
    "visits",
    "attempts",
    "cpu_us",
    "cpu_us_lo",
    "cpu_us_hi",
    "cpu_ratio",
    "cpu_ratio_lo",
    "cpu_ratio_hi",
    "differs",
    "user_us",
    "system_us",
    "client_cpu_us",
    "total_cpu_us",
    "throughput_rps",
    "throughput_ratio",
    "server_busy",
    "client_busy",
    "rss_bytes",
    "bytes_per_key",
    "hit_ratio",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "flags",
    "p",
    "p_holm",
    "syscalls_per_request",
    "run_queue_wait",
    "peak_rss_bytes",
    "instructions_per_request",
    "warmup_s",
    "unsettled_visits",
];

/// One row per matrix, cell and workload. Percentiles are response times in an open loop, service times in a closed one.
pub fn csv(report: &Report) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for summary in &report.matrices {
        csv_rows(summary, &mut text);
    }
    text
}

fn csv_rows(summary: &Summary, text: &mut String) {
    for result in &summary.results {
        let cell = summary.setup.cells.iter().find(|cell| cell.id == result.cell);
        let role = cell.map_or("", |cell| role_name(cell.role));
        let names = [&summary.setup.server, &result.cell, role, &result.workload];
        let mut fields: Vec<String> = names.map(str::to_owned).to_vec();
        match &result.outcome {
            Outcome::NotRun { reason } => fields.push(reason.clone()),
            Outcome::Measured(figures) => fields.extend(figure_fields(figures)),
        }
        fields.resize(COLUMNS.len(), String::new());
        let quoted: Vec<String> = fields.iter().map(|field| quote(field)).collect();
        text.push_str(&quoted.join(","));
        text.push('\n');
    }
}

fn figure_fields(figures: &Figures) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let interval = |interval: Option<Interval>| {
        [interval.map(|it| it.median), interval.map(|it| it.lo), interval.map(|it| it.hi)].map(number)
    };
    let ratio =
        |ratio: Option<Ratio>| [ratio.map(|it| it.median), ratio.map(|it| it.lo), ratio.map(|it| it.hi)].map(number);
    let median = |interval: Option<Interval>| number(interval.map(|it| it.median));
    let latency = figures.response.as_ref().or(figures.service.as_ref());
    let flags: Vec<&str> = figures.flags.iter().map(|count| count.flag.name()).collect();
    let mut fields = vec![String::new(), figures.visits.to_string(), figures.attempts.to_string()];
    fields.extend(interval(figures.cpu_us));
    fields.extend(ratio(figures.cpu_ratio));
    fields.push(figures.cpu_ratio.map_or_else(String::new, |ratio| ratio.differs.to_string()));
    fields.extend([number(figures.user_us), number(figures.system_us), number(Some(figures.client_cpu_us.median))]);
    fields.extend([median(figures.total_cpu_us), number(Some(figures.throughput_rps.median))]);
    fields.push(number(figures.throughput_ratio.map(|ratio| ratio.median)));
    fields.extend([number(figures.server_busy), number(Some(figures.client_busy))]);
    fields.push(figures.rss_bytes.map_or_else(String::new, |bytes| bytes.to_string()));
    fields.extend([median(figures.bytes_per_key), median(figures.hit_ratio)]);
    fields.extend([
        number(latency.map(|latency| latency.p50.median)),
        number(latency.map(|latency| latency.p99.median)),
        number(latency.map(|latency| latency.p999.median)),
        number(latency.map(|latency| latency.max)),
        flags.join(" "),
    ]);
    let further = &figures.further;
    fields.extend([further.p, further.p_holm, further.syscalls_per_request, further.run_queue_wait].map(number));
    fields.push(further.peak_rss_bytes.map_or_else(String::new, |bytes| bytes.to_string()));
    fields.push(number(further.instructions_per_request));
    fields.push(number(further.warmup_s));
    fields.push(further.unsettled_visits.map_or_else(String::new, |visits| visits.to_string()));
    fields
}

pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::Ours => "ours",
        Role::Peer => "peer",
        Role::Null => "null",
        Role::Control => "control",
    }
}

/// RFC 4180: fields with a comma, a quote or a line break are quoted.
pub fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
}

/// What a terminal shows at the end: ratios, noise floor, and how to read them.
pub fn table(summary: &Summary) -> String {
    let setup = &summary.setup;
    let mut rows = vec![vec!["server CPU per request".to_owned()]];
    let workloads: Vec<&Workload> = setup.workloads.iter().filter(|workload| !workload.is_climb()).collect();
    rows[0].extend(workloads.iter().map(|workload| workload.name.clone()));
    for cell in &setup.cells {
        let mut row = vec![cell.id.clone()];
        row.extend(workloads.iter().map(|workload| table_entry(summary, &cell.id, &workload.name)));
        rows.push(row);
    }
    let mut floor = vec!["noise floor (A/A)".to_owned()];
    floor.extend(summary.noise.iter().map(Noise::cpu_floor_in_words));
    rows.push(floor);
    let mut text = aligned(&rows) + &keeping(summary);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\nRatios to {} in the same block: below 1 is cheaper. `~`: no difference seen above the noise floor. `!`: flagged visits.",
        setup.reference
    );
    if setup.quick {
        text.push_str("quick: no ranking. A run without --quick takes longer slices and more blocks.\n");
    }
    text
}

/// What it took to keep the keys, and how many were found; nothing where there are none.
fn keeping(summary: &Summary) -> String {
    let setup = &summary.setup;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (cell, workload) in setup.selected().filter(|(cell, _)| cell.role != Role::Control) {
        let Some(figures) = summary.figures(&cell.id, &workload.name) else { continue };
        let kept = figures.bytes_per_key.map(|bytes| format!("{:.1} B/key", bytes.median));
        let found = figures.hit_ratio.map(|hits| format!("{:.1} % hits", hits.median * 100.0));
        rows.extend(kept.or(found).map(|words| vec![cell.id.clone(), workload.name.clone(), words]));
    }
    if rows.is_empty() { String::new() } else { format!("\n{}", aligned(&rows)) }
}

fn table_entry(summary: &Summary, cell: &str, workload: &str) -> String {
    let result = summary.results.iter().find(|result| result.cell == cell && result.workload == workload);
    let figures = match result.map(|result| &result.outcome) {
        None => return "-".to_owned(),
        Some(Outcome::NotRun { reason }) if reason.starts_with("failed") => return "failed".to_owned(),
        Some(Outcome::NotRun { .. }) => return "n/a".to_owned(),
        Some(Outcome::Measured(figures)) => figures,
    };
    let mark = if figures.flags.iter().any(|count| is_worth_a_mark(count.flag)) { "!" } else { "" };
    match (figures.cpu_us, figures.cpu_ratio) {
        (Some(cpu), _) if cell == summary.setup.reference => format!("{} µs{mark}", significant(cpu.median)),
        (_, Some(ratio)) => format!("{:.3}{}{mark}", ratio.median, if ratio.differs { "" } else { " ~" }),
        (Some(cpu), None) => format!("{} µs{mark}", significant(cpu.median)),
        (None, None) => "?".to_owned(),
    }
}

fn is_worth_a_mark(flag: Flag) -> bool {
    flag.is_invalid() || flag == Flag::ClientSaturated || flag == Flag::SharedCore
}

/// Three significant digits.
pub fn significant(value: f64) -> String {
    let decimals = (2.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 6.0);
    format!("{value:.*}", decimals as usize)
}

/// First column to the left, the others to the right.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        for (column, (entry, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = if column == 0 { write!(text, "{entry:<width$}") } else { write!(text, "  {entry:>width$}") };
        }
        text.push('\n');
    }
    text
}
