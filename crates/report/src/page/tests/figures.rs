//! Laws of what the row of a cell in the table says.

use results::{Outcome, Summary};

use super::{all_text, by_id, elements, figures_mut, parse, render};
use crate::sample;

/// The text of an element, with plain spaces.
fn text(html: &str, id: &str) -> String {
    all_text(by_id(&parse(html), id).expect("it is there")).replace('\u{a0}', " ")
}

#[test]
fn the_warm_up_and_unsteady_visits_are_told() {
    let html = render(&sample::summary());
    assert!(text(&html, "raw-s8-4").contains("1.00 1 unsettled"), "{}", text(&html, "raw-s8-4"));
    assert!(!text(&html, "raw-s1-0").contains("unsettled"));
    // A time that was fixed is only told.
    let mut fixed = sample::summary();
    figures_mut(&mut fixed, 44).further.unsettled_visits = None;
    assert!(!text(&render(&fixed), "raw-s8-4").contains("unsettled"));
}

#[test]
fn older_runs_have_no_warm_up_to_tell() {
    let heads = |summary: &Summary| {
        let html = render(summary);
        let document = parse(&html);
        elements(&document, "th").map(all_text).filter(|head| head == "warm-up s").count()
    };
    let mut summary = sample::summary();
    assert_eq!(heads(&summary), 1);
    for result in &mut summary.results {
        if let Outcome::Measured(figures) = &mut result.outcome {
            (figures.further.warmup_s, figures.further.unsettled_visits) = (None, None);
        }
    }
    assert_eq!(heads(&summary), 0);
}
