use report::{markdown, quoted_figures, rate};
use results::{
    NotRun, Outcome, Quote, Quotes, Report, Role, SCHEMA, Summary,
    record::{Planned, Visit},
};

use crate::{
    judge::analysis,
    plan::{order, presets::Preset, subjects},
    samples,
};

#[test]
fn quoted_figures_stand_beside_ours_or_a_reason() {
    let mut summary = samples::summary();
    let quote = |cell: &str, mean_ms| Quote {
        cell: cell.into(),
        name: "theirs".into(),
        workload: None,
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
    let text = markdown(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary] });
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
    let mut summary = samples::summary();
    let (cell, name) = ("http-server/uring".to_owned(), "theirs".to_owned());
    let quote = Quote {
        cell,
        name,
        workload: None,
        mean_ms: Some(200.904),
        worst_ms: None,
        total_ms: None,
        rate_rps: Some(2_488.75),
    };
    let source = "Somebody's rates.".to_owned();
    summary.setup.quotes = Some(Quotes { source, workload: "closed".to_owned(), rows: vec![quote] });
    let text = markdown(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary] });
    assert!(text.contains("| requests per second, mean there (quoted) |"), "{text}");
    assert!(text.contains("| theirs | 2,489, 200.90 ms | `http-server/uring` | 250,000 | 4.00 µs |"), "{text}");
}

#[test]
fn quoted_totals_stand_beside_our_totals() {
    let mut summary = samples::summary();
    let (cell, name) = ("http-server/uring".to_owned(), "theirs".to_owned());
    let quote =
        Quote { cell, name, workload: None, mean_ms: None, worst_ms: None, total_ms: Some(5_851.8), rate_rps: None };
    let source = "Somebody's totals.".to_owned();
    summary.setup.quotes = Some(Quotes { source, workload: "closed".to_owned(), rows: vec![quote] });
    let closed = summary.setup.workloads.iter_mut().find(|workload| workload.name == "closed").unwrap();
    (closed.connections, closed.repetitions) = (20, Some(1));
    let text = markdown(&Report { schema: SCHEMA.to_owned(), matrices: vec![summary] });
    assert!(text.contains("| all clients there (quoted) |"), "{text}");
    // 20 requests at 250,000 a second.
    assert!(text.contains("| theirs | 5851.80 ms | `http-server/uring` | 0.0800 ms | 4.00 µs |"), "{text}");
}

/// A matrix of the preset `seeds`: its quoted cells and one more of ours, 4 µs and 250,000 requests a second each.
fn seeds(subject: &subjects::Subject, leave_out: Option<&str>) -> Summary {
    let part = Preset::named("seeds").unwrap().part(subject.server()).unwrap();
    let quotes = crate::plan::presets::quotes(part).unwrap();
    let mut setup = samples::setup();
    setup.server = subject.server().to_owned();
    (setup.host.cpu_model, setup.host.cores) = ("Some CPU".to_owned(), 2);
    setup.workloads = subject.workloads(false);
    setup.workloads.retain(|workload| part.workloads.contains(&workload.name));
    let mut ids: Vec<&str> =
        quotes.rows.iter().map(|row| row.cell.as_str()).filter(|id| leave_out != Some(*id)).collect();
    ids.sort_unstable();
    ids.dedup();
    let cell = |id: &str| {
        let is_ours = id.starts_with(subject.server());
        samples::cell(id, if is_ours { Role::Ours } else { Role::Peer }, None)
    };
    let more = format!("{}/more", subject.server());
    setup.cells = ids.into_iter().chain([more.as_str(), "nginx"]).map(cell).collect();
    setup.reference = setup.cells[0].id.clone();
    if subject.server() == "http-server" {
        let (cell, workload) = ("http-server/pool".to_owned(), "original-c10000".to_owned());
        setup.not_run = vec![NotRun { cell, workload, reason: "a worker per connection".to_owned() }];
    }
    setup.quotes = Some(quotes);
    let planned = Planned { plan: order::shuffled(&setup), setup };
    let visits: Vec<Visit> = (planned.setup.selected())
        .filter(|(cell, workload)| planned.setup.why_not(&cell.id, &workload.name).is_none())
        .map(|(cell, workload)| {
            let (cell, workload) = (cell.id.clone(), workload.name.clone());
            Visit { cell, workload, measured: Some(samples::measured(4.0)), ..samples::visit() }
        })
        .collect();
    analysis::summarise(&planned, &visits)
}

/// The words of the row that has all of these, two spaces or more apart.
fn row<'a>(text: &'a str, having: &[&str]) -> Vec<&'a str> {
    let is_it = |line: &&str| having.iter().all(|words| line.contains(words));
    let lines: Vec<&str> = text.lines().filter(is_it).collect();
    assert_eq!(lines.len(), 1, "{having:?} in {text}");
    lines[0].split("  ").map(str::trim).filter(|words| !words.is_empty()).collect()
}

fn text(server: &str) -> String {
    let subject = subjects::named(server).unwrap();
    quoted_figures(&seeds(subject, None)).unwrap().text()
}

#[test]
fn every_original_has_its_table_in_text_and_markdown() {
    let preset = Preset::named("seeds").unwrap();
    for subject in subjects::SUBJECTS.iter().filter(|subject| preset.part(subject.server()).is_some()) {
        let summary = seeds(subject, None);
        let quotes = summary.setup.quotes.clone().unwrap();
        let table = quoted_figures(&summary).unwrap();
        let (text, markdown) = (table.text(), table.markdown());
        assert!(text.contains("(quoted)") && text.lines().all(|line| line.chars().count() < 200), "{text}");
        assert!(text.replace('\n', " ").contains(&quotes.source), "{text}");
        assert!(
            markdown.contains("Here: Some CPU, 2 cores: the server on CPU 0, the generator on CPU 1."),
            "{markdown}"
        );
        for quote in &quotes.rows {
            let quoted =
                quote.rate_rps.map(rate).or_else(|| quote.total_ms.or(quote.mean_ms).map(|ms| format!("{ms:.2} ms")));
            let having = [
                quote.name.as_str(),
                &quoted.unwrap_or_default(),
                quote.workload.as_deref().unwrap_or(&quotes.workload),
            ];
            let is_row = |line: &&str| having[..2].iter().all(|words| line.contains(words));
            assert!(
                text.lines().any(|line| is_row(&line)) && markdown.lines().any(|line| is_row(&line)),
                "{having:?}: {text}"
            );
        }
        assert!(text.contains(&format!("{}/more", subject.server())) && !text.contains("nginx"), "{text}");
    }
}

#[test]
fn kvcache_and_redis_stand_beside_quotes_under_five_loads() {
    let text = text("kvcache");
    let of = |name, workload, cell| row(&text, &[name, workload, cell])[2..].join(" ");
    assert_eq!(
        of("the original, all requests", "original-get ", "kvcache/epoll"),
        "100,000 kvcache/epoll 250,000 4.00 µs"
    );
    assert_eq!(of("Redis, all requests", "original-get ", "redis"), "120,000 redis 250,000 4.00 µs");
    assert_eq!(
        of("the original, GET", "original-get-P100", "kvcache/epoll"),
        "1,500,000 kvcache/epoll 250,000 4.00 µs"
    );
    assert_eq!(of("Redis, SET", "original-set-P100", "redis"), "650,000 redis 250,000 4.00 µs");
    assert_eq!(
        of("the original, DEL", "original-del-P100", "kvcache/epoll"),
        "1,500,000 kvcache/epoll 250,000 4.00 µs"
    );
    assert_eq!(
        of("the original, workflow", "original-workflow-P100", "kvcache/epoll"),
        "3,000,000 kvcache/epoll 250,000 4.00 µs"
    );
    assert_eq!(text.matches("kvcache/more").count(), 5, "our others under each load, too");
    let subject = subjects::named("kvcache").unwrap();
    let without = seeds(subject, Some("redis"));
    let text = quoted_figures(&without).unwrap().text();
    assert!(row(&text, &["Redis, GET"]).ends_with(&["900,000", "redis", "not measured"]), "{text}");
}

#[test]
fn http_servers_pool_says_why_it_has_fewer_connections() {
    let text = text("http-server");
    let pool = row(&text, &["thread pool (1,170 timeouts"]);
    assert_eq!(pool[2..], ["4,601, 78.96 ms", "http-server/pool", "n/a: a worker per connection"]);
    assert_eq!(row(&text, &["epoll (1,677 timeouts)"])[2..5], ["33,886, 71.94 ms", "http-server/epoll", "250,000"]);
    assert_eq!(row(&text, &["not printed for 1,000"])[2..], ["http-server/pool", "250,000", "4.00 µs"]);
}
