//! `visits.csv`: one row per figure of each visit that counts, so that any tool can group and plot them.

use csv::Writer;
use results::{
    Flag,
    record::{Latency, Manifest, Visit},
};

use crate::plan::order::counting;

const HEADER: [&str; 9] = ["matrix", "cell", "workload", "block", "attempt", "valid", "flags", "metric", "value"];

/// `visits`: those of each matrix.
pub(crate) fn rows(manifest: &Manifest, visits: &[Vec<Visit>]) -> String {
    let mut text = Writer::from_writer(Vec::new());
    // Writing rows of equal length to memory cannot fail.
    let _ = text.write_record(HEADER);
    for (planned, visits) in manifest.matrices.iter().zip(visits) {
        for (block, slots) in (0..).zip(&planned.plan) {
            for (slot, _) in (0..).zip(slots) {
                let attempts: Vec<&Visit> =
                    visits.iter().filter(|visit| (visit.block, visit.slot) == (block, slot)).collect();
                if let Some(visit) = counting(&attempts) {
                    of_visit(visit, &mut text);
                }
            }
        }
    }
    String::from_utf8(text.into_inner().unwrap_or_default()).unwrap_or_default()
}

fn of_visit(visit: &Visit, text: &mut Writer<Vec<u8>>) {
    let flags: Vec<&str> = visit.flags.iter().copied().map(Flag::name).collect();
    let names = [&visit.matrix, &visit.cell, &visit.workload].map(String::as_str);
    let (block, attempt, valid) = (visit.block.to_string(), visit.attempt.to_string(), visit.valid.to_string());
    let flags = flags.join(" ");
    for (metric, value) in metrics(visit) {
        let value = value.to_string();
        let rest = [block.as_str(), &attempt, &valid, &flags, &metric, &value];
        let _ = text.write_record(names.iter().chain(&rest));
    }
}

/// Every figure of a visit by name; what was not measured is absent.
fn metrics(visit: &Visit) -> Vec<(String, f64)> {
    let mut metrics: Vec<(String, f64)> = Vec::new();
    let mut put = |name: &str, value: Option<f64>| metrics.extend(value.map(|value| (name.to_owned(), value)));
    put("elapsed_s", Some(visit.elapsed_s));
    put("ready_s", visit.ready_s);
    put("steal", Some(visit.host.steal));
    put("foreign", Some(visit.host.foreign));
    put("load1", Some(visit.host.load1));
    let Some(measured) = &visit.measured else { return metrics };
    put("duration_s", Some(measured.duration_s));
    put("requests", Some(measured.requests as f64));
    put("ok", Some(measured.ok as f64));
    put("reconnects", Some(measured.reconnects as f64));
    put("bytes_in", Some(measured.bytes_in as f64));
    put("bytes_out", Some(measured.bytes_out as f64));
    put("throughput_rps", Some(measured.throughput_rps));
    put("client_cpu_us", Some(measured.client_cpu_us));
    put("client_busy", Some(measured.client_busy));
    put("bytes_per_key", measured.bytes_per_key);
    put("hit_ratio", measured.hit_ratio);
    if let Some(server) = &measured.server {
        put("server_cpu_us", Some(server.cpu_us));
        put("server_user_us", Some(server.user_us));
        put("server_system_us", Some(server.system_us));
        put("server_busy", Some(server.busy));
        put("server_rss_bytes", Some(server.rss_bytes as f64));
        put("server_switches_voluntary", Some(server.context_switches_voluntary as f64));
        put("server_switches_involuntary", Some(server.context_switches_involuntary as f64));
        put("server_instructions", server.instructions);
    }
    if let Some(turns) = &measured.turns {
        put("turns_cpu_ratio", Some(turns.cpu_log.exp()));
        put("turns_p99_ratio", Some(turns.p99_log.exp()));
        put("turns_pairs", Some(f64::from(turns.pairs)));
        put("turns_rejected", Some(f64::from(turns.rejected)));
    }
    put("head_bytes", measured.head_bytes);
    put("lag_p99_us", measured.lag_p99_us);
    put("warmup_s", measured.warmup_s);
    if let Some(process) = &measured.process {
        put("process_elapsed_s", Some(process.elapsed_s));
        put("process_cpu_s", Some(process.cpu_s));
        put("process_user_s", Some(process.user_s));
        put("process_system_s", Some(process.system_s));
        put("process_run_queue_wait_s", Some(process.run_queue_wait_s));
        put("process_switches_voluntary", Some(process.switches_voluntary as f64));
        put("process_switches_involuntary", Some(process.switches_involuntary as f64));
        put("process_minor_faults", Some(process.minor_faults as f64));
        put("process_major_faults", Some(process.major_faults as f64));
        put("process_peak_rss_bytes", Some(process.peak_rss_bytes as f64));
    }
    for (class, count) in &measured.errors {
        put(&format!("errors_{class}"), Some(*count as f64));
    }
    for (kind, latency) in [("response", &measured.response), ("service", &measured.service)] {
        for (quantile, value) in latency.iter().flat_map(quantiles) {
            put(&format!("{kind}_{quantile}_us"), Some(value));
        }
    }
    metrics
}

fn quantiles(latency: &Latency) -> [(&'static str, f64); 6] {
    let Latency { mean, p50, p90, p99, p999, max, .. } = *latency;
    [("mean", mean), ("p50", p50), ("p90", p90), ("p99", p99), ("p999", p999), ("max", max)]
}

#[cfg(test)]
mod tests {
    use results::{self, record::Planned};

    use crate::{plan::order, samples, tidy::*};

    #[test]
    fn every_row_is_a_figure_of_the_attempt_that_counts() {
        let setup = samples::setup();
        let planned = Planned { plan: order::shuffled(&setup), setup };
        let slot = &planned.plan[0][0];
        let (cell, workload) = (slot.cell.clone(), slot.workload.clone());
        let first = Visit { valid: false, flags: vec![Flag::Noisy], cell, workload, ..samples::visit() };
        let second = Visit { attempt: 2, valid: true, flags: Vec::new(), ..first.clone() };
        let manifest = Manifest { schema: results::SCHEMA.to_owned(), matrices: vec![planned] };
        let text = rows(&manifest, &[vec![first, second]]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert!(lines.iter().all(|fields| fields.len() == lines[0].len()), "{text}");
        assert!(lines[1..].iter().all(|fields| fields[4] == "2" && fields[5] == "true"));
        let value = |metric: &str| lines.iter().find(|fields| fields[7] == metric).map(|fields| fields[8]);
        assert_eq!(value("server_cpu_us"), Some("4"));
        assert_eq!(value("throughput_rps"), Some("250000"));
        assert_eq!(value("hit_ratio"), None);
    }
}
