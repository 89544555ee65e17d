//! Laws of everything that is said of the figures: reports at random, and every sentence, colour and order of the page, of the
//! Markdown and of the terminal compared with the figures, by rules written once more here.
//!
//! `REPORT_SUMMARIES=20000 cargo test -p report every_sentence` tries more of them.

mod answers;
mod oracle;
mod sentences;

use results::{Difference, Report, Role, Summary};
use roxmltree::{Document, Node, ParsingOptions};

use self::oracle::Oracle;
use crate::sample;

/// Reports that are tried unless the environment says otherwise.
const REPORTS: u64 = 100;

type Law = Result<(), String>;

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Law {
    if holds { Ok(()) } else { Err(why()) }
}

#[test]
fn every_sentence_colour_and_order_follows_from_the_figures() {
    let reports = std::env::var("REPORT_SUMMARIES").ok().and_then(|count| count.parse().ok()).unwrap_or(REPORTS);
    let mut said = std::collections::BTreeMap::<&str, u64>::new();
    let mut answered = [0; 2];
    for seed in 0..reports {
        let report = sample::random::report(seed);
        page(&report, &mut said).unwrap_or_else(|why| panic!("report {seed}, page: {why}"));
        for summary in &report.matrices {
            terminal(summary).unwrap_or_else(|why| panic!("report {seed}, terminal: {why}"));
            let oracle = Oracle::new(summary);
            answers::of_matrix(&oracle, &mut answered).unwrap_or_else(|why| panic!("report {seed}, answer: {why}"));
        }
        markdown(&report).unwrap_or_else(|why| panic!("report {seed}, Markdown: {why}"));
    }
    // A law about a sentence that is never said holds for nothing.
    let kinds: Vec<&str> = sentences::KINDS.into_iter().filter(|kind| !said.contains_key(kind)).collect();
    assert!(kinds.is_empty() || reports < REPORTS, "never said: {kinds:?}; said: {said:?}");
    assert!(reports < REPORTS || answered.iter().all(|count| *count > 0), "answers never given: {answered:?}");
}

fn page(report: &Report, said: &mut std::collections::BTreeMap<&'static str, u64>) -> Law {
    let html = crate::render(report);
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&html, options).map_err(|error| error.to_string())?;
    let oracles: Vec<Oracle<'_>> = report.matrices.iter().map(Oracle::new).collect();
    for node in document.descendants().filter(|node| has_class(*node, "claim")) {
        let kind = sentences::check(&plain(node), &oracles)?;
        *said.entry(kind).or_default() += 1;
    }
    for article in document.descendants().filter(|node| node.has_tag_name("article")) {
        let place = article.attribute("data-p").unwrap_or_default().trim_matches(['m', '-']).parse().unwrap_or(1_usize);
        of_matrix(article, &oracles[place - 1])?;
    }
    // Outside sentences that are checked nothing of a header compares.
    let headers = document.descendants().filter(|node| node.has_tag_name("header"));
    for text in headers.flat_map(|header| header.descendants()).filter(|node| node.is_text()) {
        let is_checked = text.ancestors().any(|node| has_class(node, "claim") || node.has_tag_name("svg"));
        let is_read_out = text.ancestors().any(|node| has_class(node, "warn"));
        let words = text.text().unwrap_or_default();
        ensure(is_checked || is_read_out || !words.contains('×'), || format!("not checked: {words}"))?;
    }
    let body = document.descendants().find(|node| node.has_tag_name("main")).ok_or("no main")?;
    grammar(&plain(body))
}

/// Colours, order and read-outs of one matrix.
fn of_matrix(article: Node<'_, '_>, oracle: &Oracle<'_>) -> Law {
    let summary = oracle.summary;
    let cells = || article.descendants().filter(|node| has_class(*node, "cell"));
    for cell in cells() {
        // The narrow drawing has no room for words: its cells are those of the wide one.
        let twin = cells()
            .find(|other| other.attribute("href") == cell.attribute("href") && other.has_attribute("aria-label"));
        let words = twin.and_then(|twin| twin.attribute("aria-label")).unwrap_or_default().replace('\u{a0}', " ");
        let (label, rest) = words.split_once(", ").ok_or_else(|| format!("no name: {words}"))?;
        let workload = rest.split([':', ';']).next().unwrap_or_default();
        let has = |class| cell.descendants().any(|node| has_class(node, class));
        let colour = match (has("cheap"), has("costly")) {
            (true, _) => Some(Difference::Lower),
            (_, true) => Some(Difference::Higher),
            _ => None,
        };
        let is_hatched = cell.descendants().any(|node| node.attribute("fill") == Some("url(#hatch)"));
        ensure(is_hatched == oracle.is_doubtful(label, workload), || format!("{words}: hatched {is_hatched}"))?;
        let expected = oracle.claimed(label, workload);
        ensure(colour == expected, || format!("{words} is drawn as {colour:?} and is {expected:?}"))?;
        sentences::read_out(&words, label, workload, oracle)?;
    }
    let first = |name: &str| article.descendants().find(|node| has_class(*node, name));
    if let Some(drawing) = first("rows") {
        let labels: Vec<String> = (drawing.children().filter(|node| has_class(*node, "row")))
            .filter_map(|row| row.children().find(|node| node.is_element()).map(plain))
            .collect();
        ensure(oracle.is_in_order(&labels), || format!("rows in the order {labels:?}"))?;
    }
    for dot in article.descendants().filter(|node| has_class(*node, "dot") && node.parent_element().is_some()) {
        let Some(words) = dot.parent_element().and_then(|group| group.attribute("data-t")) else { continue };
        let is_claimed = !has_class(dot, "open") && !has_class(dot, "ink");
        let words = words.replace('\u{a0}', " ");
        ensure(is_claimed == oracle.is_claim(&words), || format!("dot of {words}: claimed {is_claimed}"))?;
    }
    let rows = article.descendants().filter(|node| node.has_tag_name("tr") && node.has_attribute("id"));
    for row in rows {
        let entries: Vec<String> = row.children().filter(Node::is_element).map(plain).collect();
        let standing = oracle.standing(&entries[0], &entries[1]);
        ensure(standing.matches(&entries[2]), || format!("{entries:?} is {standing:?}"))?;
    }
    let _ = summary;
    Ok(())
}

fn terminal(summary: &Summary) -> Law {
    let text = crate::terminal::table(summary);
    let oracle = Oracle::new(summary);
    let lines: Vec<&str> = text.lines().collect();
    let workloads: Vec<&str> = lines[0].split_whitespace().skip(4).collect();
    for line in lines.iter().filter(|line| line.contains("/id ")) {
        let mut words = line.replace(" µs", "µs").replace(" ~", "~").replace(" ?", "?").replace("no CPU", "no-CPU");
        if words.contains("B/key") || words.contains("% hits") {
            continue;
        }
        words = words.replace("/id", "");
        let entries: Vec<&str> = words.split_whitespace().collect();
        for (workload, entry) in workloads.iter().zip(&entries[1..]) {
            let entry = entry.trim_end_matches('!');
            let figure = entry.trim_end_matches('?');
            oracle.entry(entries[0], workload, figure)?;
            let is_uncompared = figure.contains('×') && oracle.is_uncompared(entries[0], workload);
            ensure((figure != entry) == is_uncompared, || format!("{} {workload}: {entry}", entries[0]))?;
        }
    }
    let claims = lines.iter().skip_while(|line| !line.is_empty()).filter(|line| line.ends_with('.'));
    for line in claims.filter(|line| !line.starts_with('×') && !line.starts_with("A run")) {
        sentences::check(line, std::slice::from_ref(&oracle))?;
    }
    grammar(&text)
}

fn markdown(report: &Report) -> Law {
    let text = crate::markdown(report).replace('\u{a0}', " ");
    let parts: Vec<&str> = text.split("## ").skip(1).collect();
    for (part, summary) in parts.iter().zip(&report.matrices) {
        let oracle = Oracle::new(summary);
        let headline = part.lines().nth(2).unwrap_or_default();
        sentences::check(headline, std::slice::from_ref(&oracle))?;
        let compared: Vec<_> = summary.setup.workloads.iter().filter(|it| !it.is_load_sweep()).collect();
        for line in part.lines().filter(|line| line.starts_with("| ")).skip(1).take(compared_rows(summary)) {
            let entries: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let label = entries[0].trim_matches(['`', '*']).split(' ').next().unwrap_or_default();
            for (workload, entry) in compared.iter().zip(&entries[1..]) {
                let cost = entry.split("<br>").next().unwrap_or_default();
                let figure = cost.replace("~ ", "~").replace("**", "");
                let figure = figure.replace(" µs", "µs");
                let mut words = figure.split(' ');
                let first = words.next().unwrap_or_default();
                let first = first.strip_prefix('~').map_or_else(|| first.to_owned(), |rest| format!("{rest}~"));
                oracle.entry(label, &workload.name, &first)?;
            }
        }
    }
    grammar(&text)
}

fn compared_rows(summary: &Summary) -> usize {
    summary.setup.cells.iter().filter(|cell| cell.role != Role::Control).count()
}

/// One thing has no plural.
fn grammar(text: &str) -> Law {
    let text = text.replace('\u{a0}', " ");
    for noun in ["visits", "cells", "workloads", "blocks", "attempts", "cores", "warnings", "servers", "reasons"] {
        let wrong = format!("1 {noun}");
        for (at, _) in text.match_indices(&wrong) {
            let before = text[..at].chars().next_back();
            let is_part = before.is_some_and(|c| c.is_ascii_digit() || ".,".contains(c));
            ensure(is_part, || format!("“{wrong}” in {}", &text[at..text.len().min(at + 60)]))?;
        }
    }
    Ok(())
}

fn plain(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(|it| it.is_text()).filter_map(|it| it.text());
    texts.collect::<String>().replace('\u{a0}', " ")
}

fn has_class(node: Node<'_, '_>, class: &str) -> bool {
    node.attribute("class").is_some_and(|list| list.split(' ').any(|one| one == class))
}
