//! Laws of single pictures: those of made-up figures are drawn as they were, and a picture has what there is to draw.

use roxmltree::Document;

use super::super::{View, budget, effects, histogram, interaction, load, picture, sample, within};
use crate::matrix::model::{Outcome, Summary};

/// The same figures give the same bytes, here and on any machine.
/// `UPDATE_GOLDEN=1 cargo test -p xtask golden` writes the files again, to be looked at and committed.
#[test]
fn pictures_match_their_golden_drawings() {
    let (summary, crossed) = (sample::summary(), sample::crossed());
    let (view, crossed) = (View::new(&summary, 0, 0), View::new(&crossed, 0, 0));
    let drawings = [
        ("effects", effects::pictures(&view).unwrap()),
        ("matrix", picture(&summary)),
        ("load", load::section(&view).unwrap().content),
        ("budget", budget(&view).unwrap().content),
        ("within", within::section(&view).unwrap().content),
        ("histogram", histogram::section(&view).unwrap().content),
        ("interaction", interaction::section(&crossed).unwrap().content),
    ];
    for (name, drawn) in drawings {
        // The first of several pictures is enough, a line for each element.
        let drawn = drawn.split("<details>").next().unwrap().replace('>', ">\n");
        let golden = format!("{}/src/report/golden/{name}.svg", env!("CARGO_MANIFEST_DIR"));
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

fn within_words(summary: &Summary) -> String {
    within::section(&View::new(summary, 0, 0)).unwrap().content
}

#[test]
fn failures_and_lag_have_a_panel_where_there_are_some_and_only_there() {
    let mut summary = sample::summary();
    let drawn = within_words(&summary);
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
    let drawn = within_words(&summary);
    assert!(!drawn.contains(">failed per second<") && !drawn.contains("how late the generator"), "{drawn}");
    assert!(!drawn.contains(">warm-up<"), "nothing is shaded that was not measured");
}

#[test]
fn a_stall_is_drawn_as_one() {
    let mut summary = sample::summary();
    let whole = within_words(&summary);
    for result in &mut summary.results {
        if let Outcome::Measured(figures) = &mut result.outcome {
            figures.further.windows[9].rps = 0.0;
        }
    }
    assert_ne!(within_words(&summary), whole, "a window without a reply has its place");
}

#[test]
fn the_budget_splits_the_generator_and_counts_calls_where_that_was_measured() {
    let mut summary = sample::summary();
    let words = |summary: &Summary| budget(&View::new(summary, 0, 0)).unwrap().content;
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
