//! Laws of single pictures: those of made-up figures are drawn as they were, and a picture has what there is to draw.

use results::{Outcome, Summary};
use roxmltree::Document;

use super::super::{cpu_budget, effects, figures, histogram, interaction, load_sweep, timeline};
use crate::{matrix_view::MatrixView, picture, sample};

/// Equal figures give equal bytes, here and on any machine.
/// `UPDATE_GOLDEN=1 cargo test -p report golden` writes the files again, to be looked at and committed.
#[test]
fn pictures_match_their_golden_drawings() {
    let (summary, crossed) = (sample::summary(), sample::crossed());
    let (view, crossed) = (MatrixView::alone(&summary), MatrixView::alone(&crossed));
    let drawings = [
        ("effects", without_note(&effects::section(&view).unwrap().content.0)),
        ("matrix", picture(&summary)),
        ("load", load_sweep::section(&view).unwrap().content.0),
        ("budget", cpu_budget::section(&view).unwrap().content.0),
        ("within", timeline::section(&view).unwrap().content.0),
        ("histogram", histogram::section(&view).unwrap().content.0),
        ("interaction", interaction::section(&crossed).unwrap().content.0),
    ];
    for (name, drawn) in drawings {
        // The first of several pictures is enough, a line for each element.
        let drawn = drawn.split("<details>").next().unwrap().replace('>', ">\n");
        let golden = format!("{}/src/page/tests/golden/{name}.svg", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &drawn).unwrap();
        }
        let wanted = std::fs::read_to_string(&golden).unwrap_or_default();
        assert!(drawn == wanted, "{name} changed; look at it, then run the test with UPDATE_GOLDEN=1");
    }
}

#[test]
fn the_picture_for_the_readme_is_well_formed_and_leads_nowhere() {
    for summary in [sample::summary(), sample::crowded(), sample::cache()] {
        let svg = picture(&summary);
        let document = Document::parse(&svg).unwrap();
        assert!(!document.descendants().any(|n| n.has_attribute("href") || n.has_tag_name("script")));
        let (own, used) = (svg.matches("http:").count(), svg.matches("http://www.w3.org/2000/svg").count());
        assert_eq!((own, used), (1, 1), "only the name space");
        // Every class that is drawn with is in the file's own style sheet.
        for class in document.descendants().filter_map(|n| n.attribute("class")).flat_map(|list| list.split(' ')) {
            let known = ["num", "rows", "row", "colh", "cell", "flagged", "tick"];
            assert!(known.contains(&class) || svg.contains(&format!(".{class}{{")), "{class}");
        }
    }
}

/// The pictures of a figure.
fn without_note(figure: &str) -> String {
    let pictures = figure.split_once("<div class=\"pic\">").unwrap().1;
    pictures.split_once("</div>").unwrap().0.to_owned()
}

fn timeline_of(summary: &Summary) -> String {
    timeline::section(&MatrixView::alone(summary)).unwrap().content.0
}

#[test]
fn failures_and_lag_have_a_panel_only_where_there_are_some() {
    let mut summary = sample::small();
    let drawn = timeline_of(&summary);
    assert!(drawn.contains(">failed per second<") && drawn.contains(">how late the generator was at most<"), "{drawn}");
    assert!(drawn.contains(">warm-up<"));
    for result in &mut summary.results {
        if let Outcome::Measured(figures) = &mut result.outcome {
            for window in &mut figures.further.windows {
                (window.errors_rps, window.lag_us) = (0.0, 0.0);
            }
            figures.further.windows.retain(|window| window.s >= 0.0);
        }
    }
    let drawn = timeline_of(&summary);
    assert!(!drawn.contains(">failed per second<") && !drawn.contains("how late the generator"), "{drawn}");
    assert!(!drawn.contains(">warm-up<"), "nothing is shaded that was not measured");
}

#[test]
fn a_stall_is_drawn_as_one() {
    let mut summary = sample::small();
    let whole = timeline_of(&summary);
    for result in &mut summary.results {
        if let Outcome::Measured(figures) = &mut result.outcome {
            figures.further.windows[9].rps = 0.0;
        }
    }
    let stalled = timeline_of(&summary);
    assert_ne!(stalled, whole);
    // From window to window the curves of the wide drawing go 29 units to the right.
    let corners = |drawn: &str| drawn.matches("l29 ").count();
    assert!(corners(&whole) > 300);
    assert!(corners(&stalled) >= corners(&whole), "a window without a reply has its place");
}

#[test]
fn a_doubtful_reference_is_hatched_and_names_its_flags() {
    let mut summary = sample::summary();
    super::figures_mut(&mut summary, 0).flags = vec![results::FlagCount { flag: results::Flag::Noisy, visits: 1 }];
    let html = super::render(&summary);
    let document = super::parse(&html);
    let cell = document.descendants().find(|n| n.attribute("href") == Some("#raw-s0-0")).unwrap();
    assert!(cell.descendants().any(|n| n.attribute("fill") == Some("url(#hatch)")));
    assert_eq!(cell.attribute("aria-label"), Some("epoll, get-128B-c64: 4.00 µs per request; in doubt: flagged noisy"));
}

/// The script sorts by the place in the drawing, and looks figures up by the place among all workloads.
#[test]
fn cells_and_heads_know_their_place_among_all_workloads() {
    let html = super::render(&sample::crowded());
    let document = super::parse(&html);
    let drawing = super::by_id(&document, "heat1-w").expect("ten workloads make two drawings");
    let cells: Vec<_> = drawing.descendants().filter(|n| super::has_class(*n, "cell")).collect();
    assert!(cells.iter().any(|cell| cell.attribute("data-w") == Some("9")));
    for cell in cells {
        let place = cell.attribute("data-w").expect("a column");
        assert!(cell.attribute("href").expect("a link").ends_with(&format!("-{place}")));
    }
    let heads: Vec<_> = drawing.descendants().filter(|n| super::has_class(*n, "colh")).collect();
    let places: Vec<_> = heads.iter().map(|head| (head.attribute("data-col"), head.attribute("data-w"))).collect();
    let expected = [("0", "5"), ("1", "6"), ("2", "7"), ("3", "8"), ("4", "9")];
    assert_eq!(places, expected.map(|(local, place)| (Some(local), Some(place))));
}

#[test]
fn the_budget_shows_splits_and_calls_where_measured() {
    let mut summary = sample::small();
    let words = |summary: &Summary| cpu_budget::section(&MatrixView::alone(summary)).unwrap().content.0;
    let full = words(&summary);
    for wanted in ["generator, kernel", "generator, user", ">system calls<", "class=\"cusr\""] {
        assert!(full.contains(wanted), "{wanted}");
    }
    for result in &mut summary.results {
        if let Outcome::Measured(figures) = &mut result.outcome {
            (figures.client_user_us, figures.client_system_us) = (None, None);
            figures.further.syscalls_per_request = None;
        }
    }
    let less = words(&summary);
    assert!(!less.contains("generator, user") && !less.contains(">system calls<") && less.contains(">generator<"));
}

#[test]
fn instructions_are_a_column_where_they_were_counted() {
    let mut summary = sample::summary();
    let has_column = |summary: &Summary| {
        figures::section(&MatrixView::alone(summary)).content.0.contains("server instructions/req</th>")
    };
    assert!(!has_column(&summary));
    let counted = summary.results.iter_mut().find_map(|result| match &mut result.outcome {
        Outcome::Measured(figures) => Some(figures),
        Outcome::NotRun { .. } => None,
    });
    counted.expect("something was measured").further.instructions_per_request = Some(12_345.0);
    assert!(has_column(&summary) && figures::section(&MatrixView::alone(&summary)).content.0.contains("12,345"));
}
