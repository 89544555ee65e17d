//! Laws of a report of several matrices, and of what only caches have.

use results::{Quote, Quotes};

use super::{Flag, FlagCount, Summary, all_text, by_id, elements, figures_mut, has_class, page, parse, render};
use crate::sample;

#[test]
fn every_matrix_is_an_article_with_links_to_the_others() {
    let html = page(vec![sample::summary(), sample::cache()]);
    let document = parse(&html);
    let articles: Vec<_> = elements(&document, "article").collect();
    assert_eq!(articles.iter().map(|one| one.attribute("data-p").unwrap()).collect::<Vec<_>>(), ["", "m2-"]);
    // Folded, where there are several.
    let heading = |id: &str| {
        let section = by_id(&document, id).unwrap().ancestors().find(|node| node.has_tag_name("section")).unwrap();
        all_text(section.descendants().find(|node| node.has_tag_name("h2")).unwrap())
    };
    assert_eq!(heading("matrix"), "Cost relative to epoll");
    assert_eq!(heading("m2-matrix"), "Cost relative to uring");
    for (article, other) in [(articles[0], "#m2-top"), (articles[1], "#top")] {
        assert!(article.descendants().any(|node| node.attribute("href") == Some(other)), "{other}");
    }
    let data = by_id(&document, "data").unwrap();
    let data: serde_json::Value = serde_json::from_str(data.text().unwrap()).unwrap();
    let first_row = format!("s{}", sample::summary().setup.cells.len());
    assert_eq!(data["matrices"][1]["cells"][&first_row], "http-server/epoll");
    assert_eq!(data["matrices"][0]["cells"]["s0"], "http-server/epoll");
    for id in ["m2-raw", "m2-filterbar", "m2-filter", "m2-fcount"] {
        assert!(by_id(&document, id).is_some(), "the script needs {id}");
    }
}

#[test]
fn a_server_that_keeps_nothing_has_no_word_of_keys() {
    let html = render(&sample::summary());
    let document = parse(&html);
    assert!(by_id(&document, "memory").is_none());
    let table = all_text(by_id(&document, "raw").unwrap());
    assert!(!table.contains("bytes per key") && !table.contains("hit ratio"));
}

#[test]
fn memory_and_hits_have_a_table_of_their_own() {
    let html = render(&sample::cache());
    let document = parse(&html);
    let section = by_id(&document, "memory").unwrap();
    let heads: Vec<String> = section.descendants().filter(|node| node.has_tag_name("th")).map(all_text).collect();
    assert!(heads.contains(&"get-128B-c64: bytes per key, 1000000 keys".to_owned()), "{heads:?}");
    assert!(heads.contains(&"pipelined-16: hits, 1000000 keys".to_owned()), "{heads:?}");
    let text = all_text(section).replace('\u{a0}', " ");
    assert!(text.contains("51.0 [50.0, 52.0]") && text.contains("75.0 % [74.0, 76.0]"), "{text}");
    assert!(!text.contains("A 16-byte key"), "{text}");
    assert!(all_text(by_id(&document, "env").unwrap()).contains("# get-128B-c64, pipelined-16"));
}

#[test]
fn rows_not_selected_for_any_column_are_left_out() {
    let mut summary = sample::summary();
    summary.results.retain(|result| result.cell != "http-server/tokio");
    let html = render(&summary);
    let document = parse(&html);
    let rows = |document: &roxmltree::Document<'_>| {
        let drawing = by_id(document, "heat0-w").unwrap();
        drawing.descendants().filter(|node| has_class(*node, "row")).count()
    };
    let whole = render(&sample::summary());
    assert_eq!(rows(&document) + 1, rows(&parse(&whole)));
}

/// Two servers that raised the same flag.
fn two() -> Vec<Summary> {
    let mut two = vec![sample::summary(), sample::cache()];
    two[1].setup.server = "kvcache".to_owned();
    for (summary, visits) in two.iter_mut().zip([5, 7]) {
        figures_mut(summary, 0).flags = vec![FlagCount { flag: Flag::NoSteadyState, visits }];
        summary.warnings = results::warnings::of(summary);
        summary.warnings.push("the same of both".to_owned());
    }
    two[1].warnings.push("of one only".to_owned());
    two
}

#[test]
fn several_servers_share_a_title_and_an_overview() {
    let html = page(two());
    let document = parse(&html);
    let titles: Vec<String> = elements(&document, "h1").map(all_text).collect();
    assert_eq!(titles, ["http-server and kvcache"]);
    let overview = by_id(&document, "run").unwrap();
    let headlines = overview.descendants().find(|node| has_class(*node, "headlines")).unwrap();
    let lines: Vec<_> = headlines.children().filter(|node| node.has_tag_name("li")).collect();
    for (line, (server, target)) in lines.iter().zip([("http-server", "#top"), ("kvcache", "#m2-top")]) {
        let link = line.first_element_child().unwrap();
        assert_eq!((all_text(link).as_str(), link.attribute("href")), (server, Some(target)));
    }
    assert_eq!(lines.len(), 2);
    let back = document.descendants().filter(|node| node.attribute("href") == Some("#run")).count();
    assert_eq!(back, 2, "each page leads back");
    assert!(by_id(&parse(&render(&sample::summary())), "run").is_none(), "one server needs no page before its own");
}

#[test]
fn a_kind_of_warning_is_one_line_whose_cells_unfold() {
    let html = page(two());
    let document = parse(&html);
    let overview = by_id(&document, "run").unwrap();
    let warnings = overview.descendants().find(|node| has_class(*node, "warn")).unwrap();
    let lines: Vec<_> = warnings.children().filter(|node| node.has_tag_name("li")).collect();
    let of = |words: &str| lines.iter().filter(|line| all_text(**line).contains(words)).collect::<Vec<_>>();
    let marked = of("marked no-steady-state");
    assert_eq!(marked.len(), 1);
    let summary = marked[0].descendants().find(|node| node.has_tag_name("summary")).unwrap();
    assert!(
        all_text(summary).replace('\u{a0}', " ").starts_with("12 visits were marked no-steady-state: "),
        "{}",
        all_text(summary)
    );
    let places = marked[0].descendants().filter(|node| node.has_tag_name("li")).count() - 1;
    assert_eq!(places, 2, "a place of each");
    assert_eq!(of("the same of both").len(), 1);
    assert!(all_text(*of("of one only")[0]).starts_with("kvcache: "));
}

/// A run beside an original that printed a rate and a mean for one of our cells, and one that the run does not have.
fn quoting() -> Summary {
    let mut summary = sample::summary();
    let quote = |cell: &str, name: &str, rate_rps| Quote {
        cell: cell.to_owned(),
        name: name.to_owned(),
        workload: None,
        mean_ms: None,
        worst_ms: None,
        total_ms: None,
        rate_rps: Some(rate_rps),
    };
    summary.setup.quotes = Some(Quotes {
        source: "What \"they\" printed <there> & then.".to_owned(),
        workload: summary.setup.workloads[0].name.clone(),
        rows: vec![quote("http-server/epoll", "epoll (3 timeouts)", 33_886.3), quote("http-server/none", "other", 7.0)],
    });
    summary
}

#[test]
fn quoted_figures_say_where_they_are_from() {
    let html = page(vec![quoting(), sample::cache()]);
    let document = parse(&html);
    let section = by_id(&document, "quoted").unwrap();
    let rows: Vec<Vec<String>> = section
        .descendants()
        .filter(|node| node.has_tag_name("tr"))
        .map(|row| row.children().filter(|node| node.is_element()).map(all_text).collect())
        .collect();
    assert_eq!(rows[0][..3], ["there", "requests per second there (quoted)", "here"]);
    assert_eq!(rows[1][..3], ["epoll (3 timeouts)", "33,886", "epoll"]);
    let epoll = sample::summary();
    let measured = epoll.figures("http-server/epoll", &epoll.setup.workloads[0].name).unwrap().throughput_rps.median;
    assert_eq!(rows[1][3], crate::rate(measured));
    assert_eq!(rows[2], ["other", "7.00", "http-server/none", "not measured", ""]);
    let others = rows[3..].iter().filter(|row| row[0].is_empty() && row[1].is_empty()).count();
    assert!(others > 0 && others == rows.len() - 3, "our other back ends stand below, beside nothing: {rows:?}");
    assert!(all_text(section).contains("What \"they\" printed <there> & then."));
    assert!(html.contains("href=\"#quoted\""));
    assert!(by_id(&document, "m2-quoted").is_none(), "the other server of the page quotes nobody");
}
