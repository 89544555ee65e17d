use report::{csv, terminal::table};
use results::{
    Interval, NotRun, Outcome, Report, SCHEMA, Summary,
    record::{Planned, Visit},
};

use crate::{judge::analysis, plan::order, samples};

fn summary() -> Summary {
    let mut setup = samples::setup();
    let reason = "a, \"b\"".to_owned();
    setup.not_run = vec![NotRun { cell: "null".into(), workload: "open".into(), reason }];
    let planned = Planned { plan: order::shuffled(&setup), setup };
    let mut visits = Vec::new();
    for (block, slots) in (0..).zip(&planned.plan) {
        for (slot, due) in (0..).zip(slots) {
            let cpu_us = if due.cell == "http-server/pool" { 6.0 } else { 4.0 };
            let warmed = (Some(0.5 + f64::from(block) / 10.0), Some(block != 1));
            let mut measured = samples::measured(cpu_us);
            (measured.warmup_s, measured.warmup_steady) = warmed;
            let measured = Some(measured);
            let (cell, workload) = (due.cell.clone(), due.workload.clone());
            visits.push(Visit { block, slot, cell, workload, measured, ..samples::visit() });
        }
    }
    analysis::summarise(&planned, &visits)
}

#[test]
fn csv_has_a_row_per_result_and_every_row_every_column() {
    let mut second = summary();
    second.setup.server = "kvcache".to_owned();
    let text = csv(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary(), second] });
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 6 * 2 * 2);
    let header: Vec<&str> = lines[0].split(',').collect();
    let row: Vec<&str> = lines
        .iter()
        .find(|line| line.starts_with("http-server,http-server/pool,ours,closed"))
        .unwrap()
        .split(',')
        .collect();
    assert_eq!(row.len(), header.len());
    let field = |name| row[header.iter().position(|column| *column == name).unwrap()];
    assert_eq!((field("cpu_us"), field("cpu_ratio"), field("differs")), ("6", "1.5", "true"));
    assert_eq!((field("warmup_s"), field("unsettled_visits")), ("0.6", "1"));
    let not_run = lines.iter().find(|line| line.starts_with("kvcache,null,null,open")).unwrap();
    assert!(not_run.contains("\"a, \"\"b\"\"\""), "{not_run}");
    assert_eq!(not_run.matches(',').count(), header.len(), "one comma is quoted");
}

#[test]
fn the_table_shows_ratios_marks_and_the_floor() {
    let mut summary = summary();
    let text = table(&summary);
    let line =
        |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(line("http-server/epoll")[1..], ["4.00", "µs", "4.00", "µs"]);
    assert_eq!(line("http-server/pool")[1..], ["1.500×", "1.500×"]);
    assert_eq!(line("http-server/uring")[1..], ["1.000×", "~", "1.000×", "~"]);
    assert_eq!(line("null")[3], "n/a");
    assert!(text.contains("1.010×") && !text.contains("ranks nothing") && !text.contains("B/key"));
    summary.setup.quick = true;
    let quick = table(&summary);
    assert!(
        quick.contains("This run ranks nothing (quick: short visits in few blocks).") && !quick.contains('~'),
        "{quick}"
    );
    let bytes = Interval { median: 51.26, lo: 51.0, hi: 52.0 };
    let Outcome::Measured(figures) = &mut summary.results[0].outcome else { panic!("measured") };
    figures.bytes_per_key = Some(bytes);
    assert!(table(&summary).contains("51.3 B/key"));
}
