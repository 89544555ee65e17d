//! `summary.md`: tables to paste into a document, one or two per matrix.

use std::fmt::Write as _;

use super::model::{Arrivals, Cell, Figures, Report, Role, Summary, Workload};
use crate::report::{compact_digits, rate, short, significant};

pub(crate) fn tables(report: &Report) -> String {
    let mut text = String::new();
    for summary in &report.matrices {
        costs(summary, &mut text);
        keeping(summary, &mut text);
        quoted(summary, &mut text);
    }
    text
}

/// Server CPU per request and, in brackets, throughput, or the open loop's p99.
fn costs(summary: &Summary, text: &mut String) {
    let setup = &summary.setup;
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "## {}\n\nServer CPU per request in µs, in brackets verified requests per second (open loop: p99 of the response time). \
         Medians of {} blocks of {} s slices; `{}`, {}.\n",
        setup.server,
        setup.blocks,
        short(setup.slice_s),
        setup.command,
        setup.created_utc
    );
    if setup.quick {
        text.push_str("Quick: no ranking.\n\n");
    }
    table(summary, &setup.workloads.iter().collect::<Vec<_>>(), text, cost);
    let measured = summary.noise.iter().filter(|noise| noise.cpu_aa.is_some());
    let floors = measured.map(|noise| format!("{} ±{:.1} %", noise.workload, noise.cpu_floor_percent));
    let _ = writeln!(text, "\nNoise floor (A/A): {}.\n", floors.collect::<Vec<_>>().join(", "));
}

/// Memory per key and hit ratios, where there are some.
fn keeping(summary: &Summary, text: &mut String) {
    let kept = |workload: &&Workload| {
        let cells = &summary.setup.cells;
        cells.iter().filter_map(|cell| summary.figures(&cell.id, &workload.name)).any(|figures| keep(figures).is_some())
    };
    let workloads: Vec<&Workload> = summary.setup.workloads.iter().filter(kept).collect();
    if workloads.is_empty() {
        return;
    }
    text.push_str(
        "Resident bytes that a key and its value add; where keys are evicted, the share of gets that hit.\n\n",
    );
    table(summary, &workloads, text, |_, figures| keep(figures));
    text.push('\n');
}

/// Our round trips beside those that somebody else printed for the same combinations, and below them the others of ours.
fn quoted(summary: &Summary, text: &mut String) {
    let Some(quotes) = &summary.setup.quotes else { return };
    let has_rates = quotes.rows.iter().any(|quote| quote.rate_rps.is_some());
    let has_totals = quotes.rows.iter().any(|quote| quote.total_ms.is_some());
    let figures = match (has_rates, has_totals) {
        (true, _) => "requests per second, mean",
        (false, true) => "all clients",
        (false, false) => "mean, worst",
    };
    let shown = |rps: Option<f64>, mean_ms: Option<f64>, worst_ms: Option<f64>, total_ms: Option<f64>| {
        // Two decimals, as the quoted ones have, but never fewer than three digits.
        let ms = |ms: f64| if ms < 0.0995 { format!("{} ms", significant(ms)) } else { format!("{ms:.2} ms") };
        let (mean_ms, worst_ms) = (mean_ms.filter(|_| !has_totals), worst_ms.filter(|_| !has_rates && !has_totals));
        let total_ms = total_ms.filter(|_| has_totals);
        [rps.filter(|_| has_rates).map(rate), mean_ms.map(ms), worst_ms.map(ms), total_ms.map(ms)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    };
    let _ = writeln!(
        text,
        "{}\n\n| there | {figures} there (quoted) | here | {figures} here | server CPU per request |\n|---|---|---|---|---|",
        quotes.source
    );
    // Of a workload that is a number of requests, not a slice of time.
    let workload = summary.setup.workloads.iter().find(|workload| workload.name == quotes.workload);
    let requests =
        workload.and_then(|workload| Some(f64::from(workload.repetitions?) * f64::from(workload.connections)));
    let quote_of = |cell: &Cell| quotes.rows.iter().find(|quote| quote.cell == cell.id);
    let ours = |cell: &&Cell| cell.role == Role::Ours;
    let (with, without): (Vec<&Cell>, Vec<&Cell>) =
        summary.setup.cells.iter().filter(ours).partition(|cell| quote_of(cell).is_some());
    for cell in with.into_iter().chain(without) {
        let (there, times) = quote_of(cell).map_or_else(Default::default, |quote| {
            (quote.name.clone(), shown(quote.rate_rps, quote.mean_ms, quote.worst_ms, quote.total_ms))
        });
        let here = summary.figures(&cell.id, &quotes.workload).map_or_else(
            || (not_run(summary, cell, &quotes.workload), String::new()),
            |figures| {
                let service = figures.service.as_ref();
                let (mean, worst) =
                    (service.map(|trips| trips.mean.median / 1e3), service.map(|trips| trips.max / 1e3));
                let rps = figures.throughput_rps.median;
                let here = shown(Some(rps), mean, worst, requests.map(|requests| requests / rps * 1e3));
                let cpu = figures.cpu_us.map(|cpu| format!("{} µs", significant(cpu.median)));
                (here, cpu.unwrap_or_default())
            },
        );
        let _ = writeln!(text, "| {there} | {times} | {} | {} | {} |", name(cell), here.0, here.1);
    }
    text.push('\n');
}

fn not_run(summary: &Summary, cell: &Cell, workload: &str) -> String {
    summary.setup.why_not(&cell.id, workload).map_or_else(String::new, |why| format!("n/a: {why}"))
}

type Entry = fn(&Workload, &Figures) -> Option<String>;

fn table(summary: &Summary, workloads: &[&Workload], text: &mut String, entry: Entry) {
    let heads = workloads.iter().map(|workload| format!(" {}, {} |", workload.short[0], workload.short[1]));
    let _ = writeln!(text, "| |{}", heads.collect::<String>());
    let _ = writeln!(text, "|---|{}", "---|".repeat(workloads.len()));
    for cell in summary.setup.cells.iter().filter(|cell| cell.role != Role::Control) {
        let entries: Vec<Option<String>> = (workloads.iter())
            .map(|workload| summary.figures(&cell.id, &workload.name).and_then(|figures| entry(workload, figures)))
            .collect();
        if entries.iter().any(Option::is_some) {
            let entries = entries.into_iter().map(|entry| format!(" {} |", entry.unwrap_or_default()));
            let _ = writeln!(text, "| {} |{}", name(cell), entries.collect::<String>());
        }
    }
}

fn name(cell: &Cell) -> String {
    match cell.role {
        Role::Ours | Role::Control => format!("`{}`", cell.label),
        Role::Null => format!("*{}*", cell.label),
        Role::Peer => {
            let number = cell.version.as_deref().and_then(version_number).unwrap_or_default();
            format!("*{}*", format!("{} {number}", cell.label).trim_end())
        }
    }
}

/// The first word of a version line that begins with a digit, behind a `v=` or a slash if need be.
pub(crate) fn version_number(line: &str) -> Option<&str> {
    let mut words = line.split([' ', '=', '/']);
    words.find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
}

fn cost(workload: &Workload, figures: &Figures) -> Option<String> {
    let cpu = significant(figures.cpu_us?.median);
    let p99 = figures.response.as_ref().map(|response| format!("p99 {} µs", significant(response.p99.median)));
    let beside = match workload.arrivals {
        Arrivals::Closed | Arrivals::Climb => Some(compact_digits(figures.throughput_rps.median)),
        Arrivals::Open { .. } => p99,
    };
    Some(beside.map_or_else(|| cpu.clone(), |beside| format!("{cpu} ({beside})")))
}

fn keep(figures: &Figures) -> Option<String> {
    let bytes = figures.bytes_per_key.map(|bytes| format!("{:.1}", bytes.median));
    bytes.or_else(|| figures.hit_ratio.map(|hits| format!("{:.1} %", hits.median * 100.0)))
}

#[cfg(test)]
mod tests {
    use super::super::model::{NotRun, Outcome, Quote, Quotes, SCHEMA};
    use super::super::record::{Planned, Visit};
    use super::super::{analysis, plan, samples};
    use super::*;

    fn summary() -> Summary {
        let mut setup = samples::setup();
        setup.cells[3].version = Some("Redis server v=7.0.15 sha=0".to_owned());
        let planned = Planned { plan: plan::shuffled(&setup), setup };
        let visits: Vec<Visit> = (planned.setup.selected())
            .map(|(cell, workload)| {
                let mut measured = samples::measured(4.0);
                measured.bytes_per_key = (workload.name == "closed").then_some(50.04);
                let (cell, workload) = (cell.id.clone(), workload.name.clone());
                Visit { cell, workload, measured: Some(measured), ..samples::visit() }
            })
            .collect();
        analysis::summarise(&planned, &visits)
    }

    #[test]
    fn a_row_per_server_and_none_for_the_control() {
        let text = tables(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary()] });
        let row = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        assert_eq!(row("| `http-server/epoll`"), "| `http-server/epoll` | 4.00 (250\u{a0}k) | 4.00 |");
        assert!(row("| *nginx/sendfile-on").starts_with("| *nginx/sendfile-on 7.0.15* |"));
        assert!(!text.contains("control"));
        assert!(text.contains("| 50.0 |") && text.contains("Noise floor"));
    }

    #[test]
    fn a_rate_of_any_size_keeps_its_digits() {
        let mut summary = summary();
        for result in &mut summary.results {
            if let Outcome::Measured(figures) = &mut result.outcome {
                figures.throughput_rps.median = 2.345;
            }
        }
        let text = tables(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary] });
        assert!(text.contains("4.00 (2.35)") && !text.contains("(0"), "{text}");
    }

    #[test]
    fn quoted_figures_stand_beside_ours_and_combinations_that_we_do_not_have_say_why() {
        let mut summary = summary();
        let quote = |cell: &str, mean_ms| Quote {
            cell: cell.into(),
            name: "theirs".into(),
            mean_ms: Some(mean_ms),
            total_ms: None,
            worst_ms: Some(26.26),
            rate_rps: None,
        };
        summary.setup.quotes = Some(Quotes {
            source: "Somebody's table.".to_owned(),
            workload: "closed".to_owned(),
            rows: vec![quote("http-server/uring", 0.51), quote("http-server/pool", 1.1)],
        });
        let reason = "does not exist".to_owned();
        summary.setup.not_run =
            vec![NotRun { cell: "http-server/pool".into(), workload: "closed".into(), reason: reason.clone() }];
        for result in summary.results.iter_mut().filter(|result| result.cell == "http-server/pool") {
            result.outcome = Outcome::NotRun { reason: reason.clone() };
        }
        let text = tables(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary] });
        let table = text.split("Somebody's table.").nth(1).unwrap();
        let row = |start: &str| table.lines().find(|line| line.contains(start)).unwrap().to_owned();
        assert!(row("uring").starts_with("| theirs | 0.51 ms, 26.26 ms | `http-server/uring` |"), "{table}");
        assert!(row("uring").ends_with("| 4.00 µs |"), "{table}");
        assert!(row("pool").contains("| n/a: does not exist |"), "{table}");
        assert!(row("epoll").starts_with("|  |  | `http-server/epoll` |"), "{table}");
        assert!(!table.contains("nginx"));
    }

    #[test]
    fn quoted_rates_stand_beside_our_rates() {
        let mut summary = summary();
        let (cell, name) = ("http-server/uring".to_owned(), "theirs".to_owned());
        let quote =
            Quote { cell, name, mean_ms: Some(200.904), worst_ms: None, total_ms: None, rate_rps: Some(2_488.75) };
        let source = "Somebody's rates.".to_owned();
        summary.setup.quotes = Some(Quotes { source, workload: "closed".to_owned(), rows: vec![quote] });
        let text = tables(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary] });
        assert!(text.contains("| requests per second, mean there (quoted) |"), "{text}");
        assert!(text.contains("| theirs | 2,489, 200.90 ms | `http-server/uring` | 250,000 | 4.00 µs |"), "{text}");
    }

    #[test]
    fn quoted_totals_stand_beside_what_all_our_requests_took_together() {
        let mut summary = summary();
        let (cell, name) = ("http-server/uring".to_owned(), "theirs".to_owned());
        let quote = Quote { cell, name, mean_ms: None, worst_ms: None, total_ms: Some(5_851.8), rate_rps: None };
        let source = "Somebody's totals.".to_owned();
        summary.setup.quotes = Some(Quotes { source, workload: "closed".to_owned(), rows: vec![quote] });
        let closed = summary.setup.workloads.iter_mut().find(|workload| workload.name == "closed").unwrap();
        (closed.connections, closed.repetitions) = (20, Some(1));
        let text = tables(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary] });
        assert!(text.contains("| all clients there (quoted) |"), "{text}");
        // 20 requests at 250,000 a second.
        assert!(text.contains("| theirs | 5851.80 ms | `http-server/uring` | 0.0800 ms | 4.00 µs |"), "{text}");
    }

    #[test]
    fn nothing_is_said_of_memory_where_nothing_was_stored() {
        let mut summary = summary();
        summary.results.clear();
        let text = tables(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary] });
        assert!(!text.contains("Resident bytes"), "{text}");
    }

    #[test]
    fn versions_are_numbers() {
        for (line, number) in
            [("memcached 1.6.18", "1.6.18"), ("nginx/1.22.1", "1.22.1"), ("lighttpd/1.4.69 (ssl)", "1.4.69")]
        {
            assert_eq!(version_number(line), Some(number));
        }
        assert_eq!(version_number("unknown"), None);
    }
}
