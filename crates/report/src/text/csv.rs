//! `summary.csv`: one row per matrix, cell and workload.

use csv::Writer;
use results::{Figures, Interval, Outcome, Ratio, Report, Role, Summary};

const COLUMNS: [&str; 37] = [
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
    "syscalls_per_request",
    "run_queue_wait",
    "peak_rss_bytes",
    "instructions_per_request",
    "warmup_s",
    "unsettled_visits",
    "instructions_under_valgrind",
];

/// Writes a summary as CSV. Percentiles are response times in an open loop, service times in a closed one.
pub fn csv(report: &Report) -> String {
    let mut text = Writer::from_writer(Vec::new());
    // Writing rows of equal length to memory cannot fail.
    let _ = text.write_record(COLUMNS);
    for row in report.matrices.iter().flat_map(rows) {
        let _ = text.write_record(row);
    }
    String::from_utf8(text.into_inner().unwrap_or_default()).unwrap_or_default()
}

fn rows(summary: &Summary) -> impl Iterator<Item = Vec<String>> + '_ {
    summary.results.iter().map(|result| {
        let cell = summary.setup.cells.iter().find(|cell| cell.id == result.cell);
        let role = cell.map_or("", |cell| role_name(cell.role));
        let names = [&summary.setup.server, &result.cell, role, &result.workload];
        let mut fields: Vec<String> = names.map(str::to_owned).to_vec();
        match &result.outcome {
            Outcome::NotRun { reason } => fields.push(reason.clone()),
            Outcome::Measured(figures) => fields.extend(figure_fields(figures)),
        }
        fields.resize(COLUMNS.len(), String::new());
        fields
    })
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
    fields.extend([further.syscalls_per_request, further.run_queue_wait].map(number));
    fields.push(further.peak_rss_bytes.map_or_else(String::new, |bytes| bytes.to_string()));
    fields.push(number(further.instructions_per_request));
    fields.push(number(further.warmup_s));
    fields.push(further.unsettled_visits.map_or_else(String::new, |visits| visits.to_string()));
    fields.push(number(further.instructions_under_valgrind));
    fields
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Ours => "ours",
        Role::Peer => "peer",
        Role::Null => "null",
        Role::Control => "control",
    }
}
