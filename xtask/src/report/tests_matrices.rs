//! Laws of a report of several matrices, and of what only caches have.

use super::super::sample;
use super::{all_text, by_id, elements, has_class, page, parse, render};

#[test]
fn every_matrix_is_an_article_with_its_own_reference_and_links_to_the_others() {
    let html = page(vec![sample::summary(), sample::cache()]);
    let document = parse(&html);
    let articles: Vec<_> = elements(&document, "article").collect();
    assert_eq!(articles.iter().map(|one| one.attribute("data-p").unwrap()).collect::<Vec<_>>(), ["", "m2-"]);
    let heading = |id: &str| all_text(by_id(&document, id).unwrap().first_element_child().unwrap());
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
    assert!(text.contains("A 16-byte key with 128 bytes takes from 51.0 bytes (epoll) to"), "{text}");
    assert!(all_text(by_id(&document, "env").unwrap()).contains("# get-128B-c64, pipelined-16"));
}

#[test]
fn rows_that_were_not_selected_for_any_column_of_a_picture_are_left_out_of_it() {
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
