//! Laws of the first screen: one claim with its number, one picture, how far to trust it, and what is not claimed.

use results::{Outcome, Remote, Role, StoredCalibration, Summary, Workload};

use super::{
    super::{header, overview},
    Flag, FlagCount, Node, all_text, by_id, figures_mut, has_class, page, parse, render,
};
use crate::{matrix_view::MatrixView, sample};

/// Text of some HTML, with plain spaces.
fn plain(html: &str) -> String {
    let parts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    parts.collect::<String>().replace('\u{a0}', " ")
}

fn headline(summary: &Summary) -> String {
    let html = render(summary);
    let document = parse(&html);
    let heading = document.descendants().find(|node| node.has_tag_name("h1")).unwrap();
    all_text(heading).replace('\u{a0}', " ")
}

fn head(summary: &Summary) -> String {
    plain(&header::html(&MatrixView::alone(summary), &[], &[]).0)
}

#[test]
fn the_headline_is_the_cheapest_peer_under_equal_load() {
    let mut summary = sample::summary();
    let said = headline(&summary);
    assert_eq!(
        said,
        "lighttpd costs 1.175× [1.16, 1.19] the server CPU of epoll under get-128B-c64-open."
            .replace("1.16, 1.19", &bounds(&summary, 7, 4))
    );
    assert!(
        head(&summary).contains("lighttpd beside epoll under 5 workloads: more expensive in "),
        "{}",
        head(&summary)
    );
    // In doubt it is the headline of nothing.
    figures_mut(&mut summary, 7 * 5 + 4).failed = 1;
    assert!(headline(&summary).starts_with("lighttpd costs ") && headline(&summary).ends_with("under get-128B-c64."));
    summary.setup.cells.retain(|cell| cell.role != Role::Peer);
    assert!(headline(&summary).contains("uring and epoll") || headline(&summary).starts_with("uring costs 0.975×"));
}

/// The bounds of a ratio as they are written.
fn bounds(summary: &Summary, row: usize, column: usize) -> String {
    let Outcome::Measured(figures) = &summary.results[row * 5 + column].outcome else { panic!("not run") };
    let ratio = figures.cpu_ratio.unwrap();
    results::words::ratio_interval(ratio.lo, ratio.hi).trim_matches(['[', ']']).to_owned()
}

#[test]
fn what_cannot_rank_names_a_cost_and_no_winner() {
    let mut shared = sample::summary();
    shared.setup.pinning.shared = true;
    let mut short = sample::summary();
    short.setup.blocks = 2;
    for (summary, why) in [
        (sample::quick(), "quick: short visits in few blocks"),
        (shared, "server and generator shared a core"),
        (short, "fewer than three blocks"),
    ] {
        assert!(headline(&summary).starts_with("epoll needs 4."), "{}", headline(&summary));
        let html = render(&summary);
        let document = parse(&html);
        let text = all_text(document.descendants().find(|node| node.has_tag_name("main")).unwrap());
        assert_eq!(text.matches("This run ranks nothing").count(), 1, "one line says so");
        assert!(text.contains(&format!("This run ranks nothing ({why}).")));
        for word in ["cheapest of", " costs ", "no difference seen"] {
            assert!(!text.contains(word), "{word}");
        }
        assert!(!document.descendants().any(|node| has_class(node, "cheap") || has_class(node, "costly")));
    }
}

#[test]
fn trust_names_the_floors_and_every_reason_for_doubt() {
    let mut summary = sample::summary();
    figures_mut(&mut summary, 5).flags = vec![FlagCount { flag: Flag::ClientSaturated, visits: 1 }];
    let said = head(&summary);
    for words in [
        "twice: 1.013× to 1.062×, depending on the workload; smaller differences are none.",
        "2 of 49 cells in doubt, hatched: no claim is made of them.",
        "In 1 cell the generator was the limit, not the server.",
        "In brackets: the 95 % interval.",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    summary.noise.iter_mut().for_each(|noise| noise.cpu_floor_percent = 100.0);
    assert!(head(&summary).contains("Under 5 of 5 workloads the noise floor is unknown"), "{}", head(&summary));
}

#[test]
fn the_line_of_the_host_has_every_condition_once() {
    let mut summary = sample::summary();
    summary.setup.pinning.server_cpus = "2-3".to_owned();
    let line = |all: &[Summary]| plain(&header::host_line(&MatrixView::all(all)));
    assert_eq!(
        line(&[summary.clone()]),
        "2 cores, Linux 6.18.0, loopback · server on CPU 2-3, generator on CPU 1 · 385 visits in 7 randomised blocks"
    );
    let mut other = summary.clone();
    other.setup.remote =
        Some(Remote { prefix: vec!["ssh".to_owned()], host: "10.0.0.1".parse().unwrap(), agents: Vec::new() });
    assert_eq!(
        line(&[summary, other]),
        "2 cores, Linux 6.18.0, loopback or 2 cores, Linux 6.18.0, server at 10.0.0.1 · server on CPU 2-3, generator on CPU 1 · \
         770 visits in 7 randomised blocks"
    );
}

#[test]
fn a_calibration_of_the_machine_is_told_once_for_a_run() {
    let said = |all: &[Summary]| {
        let html = page(all.to_vec());
        let document = parse(&html);
        let main = document.descendants().find(|node| node.has_tag_name("main")).map(all_text).unwrap();
        ["p", "dd"].map(|name| {
            let is_it = |node: &Node<'_, '_>| node.has_tag_name(name) && all_text(*node).starts_with("1 % is seen.");
            (document.descendants().filter(is_it).count(), main.contains("sealed by sha256 ab."))
        })
    };
    let mut summary = sample::summary();
    assert_eq!(said(&[summary.clone()]), [(0, false); 2]);
    summary.setup.calibration = Some(StoredCalibration {
        created_utc: "2026-01-01T00:00:00Z".to_owned(),
        sentence: "1 % is seen.".to_owned(),
        seal: "ab".to_owned(),
    });
    assert_eq!(said(&[summary.clone()]), [(1, true); 2]);
    assert_eq!(said(&[summary.clone(), summary]), [(1, true), (2, true)]);
}

#[test]
fn a_header_names_the_servers_and_every_warning() {
    let mut summary = sample::summary();
    let said = head(&summary);
    for words in [
        "http-server on seven drivers, beside lighttpd, nginx and the null server",
        "every number on this page is made up",
        "2 cells in doubt, hatched in the matrix",
        "64 workers: pool: get-1MiB-c16",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    summary.progress.is_partial = true;
    summary.progress.visits_done = 1;
    assert!(head(&summary).starts_with("Unfinished: 1 of 385 visits made."), "{}", head(&summary));
}

#[test]
fn the_overview_has_a_headline_and_a_row_per_server() {
    let all = [sample::summary(), sample::cache(), sample::quick()];
    assert_eq!(overview::title(&MatrixView::all(&all)), "http-server and kvcache");
    let html = page(all.to_vec());
    let document = parse(&html);
    let run = by_id(&document, "run").unwrap();
    let list = run.descendants().find(|node| has_class(*node, "headlines")).unwrap();
    let lines: Vec<String> = list.children().filter(|node| node.is_element()).map(all_text).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("http-server lighttpd costs 1.175×"), "{lines:?}");
    assert!(
        lines[1].starts_with("kvcache lighttpd costs ") && lines[2].starts_with("http-server epoll needs "),
        "{lines:?}"
    );
    let rows = by_id(&document, "servers-w").unwrap().descendants().filter(|node| has_class(*node, "dot")).count();
    assert_eq!(rows, 3);
}

#[test]
fn what_was_not_run_stands_by_its_reason_and_workload() {
    let mut summary = sample::summary();
    let workloads: Vec<Workload> = summary.setup.workloads.clone();
    for (index, reason) in [(5, "no ring"), (6, "no ring"), (14, "no room")] {
        summary.results[index].outcome = Outcome::NotRun { reason: reason.to_owned() };
    }
    let missing = header::missing(&MatrixView::alone(&summary));
    let found: Vec<_> = missing.iter().map(|one| (one.reason.as_str(), one.places.join("; "))).collect();
    let uring = format!("uring: {}, {}", workloads[0].name, workloads[1].name);
    let expected = [
        ("no ring", uring),
        ("no room", format!("tokio: {}", workloads[4].name)),
        ("64 workers", "pool: get-1MiB-c16".to_owned()),
    ];
    assert_eq!(found, expected);
}
