//! Main effects: what one choice changes when everything else stays equal. A dot and its interval per level.

use maud::{Markup, html};
use results::{Effect, ranks::interval_name};

use super::section::{Section, figure};
use crate::{
    claims,
    matrix_view::MatrixView,
    picture::{
        svg::picture,
        whiskers::{self, Row, RowGroup},
    },
};

/// `None` when no choice was varied.
pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let effects = view.effects();
    if effects.is_empty() {
        return None;
    }
    let note = html! {
        "Each dot: the median paired ratio of server CPU per request over all workloads and blocks when one choice "
        "changes, all else equal. Whisker: " (interval_name(view.summary.setup.blocks))
        ". Log axis, so twice and half are equally far from 1×. Shaded: the noise floor. Open dot: no difference claimed."
    };
    let claims = claims::effects(view);
    Some(Section {
        id: "effects",
        link: "effects",
        title: "What each choice changes".to_owned(),
        finding: html! { @if let Some(largest) = claims.first() { (largest.html()) } },
        content: html! {
            (figure(&pictures(view, &effects), &note))
            @if claims.len() > 1 { ul.foot { @for claim in &claims { li { (claim.html()) } } } }
        },
    })
}

fn pictures(view: &MatrixView<'_>, effects: &[&Effect]) -> Markup {
    let description = "Ratio of server CPU per request when one choice changes and everything else stays equal.";
    let groups = groups(view, effects);
    picture(&view.id("eff"), "Main effects", description, |width| whiskers::draw(&groups, width))
}

/// The factors in the order given, each with its levels; by cost where the run may rank.
fn groups(view: &MatrixView<'_>, effects: &[&Effect]) -> Vec<RowGroup> {
    let mut groups: Vec<RowGroup> = Vec::new();
    let mut sorted = effects.to_vec();
    if view.is_ranked() {
        sorted.sort_by(|a, b| a.cpu.median.total_cmp(&b.cpu.median));
    }
    for effect in effects {
        let heading = heading(effect);
        if !groups.iter().any(|group| group.heading == heading) {
            groups.push(RowGroup { heading, rows: Vec::new() });
        }
    }
    for effect in sorted {
        let heading = heading(effect);
        for group in groups.iter_mut().filter(|group| group.heading == heading) {
            group.rows.push(row(view, effect));
        }
    }
    groups
}

fn heading(effect: &Effect) -> String {
    format!("{}, instead of {}", effect.factor, effect.instead_of)
}

fn row(view: &MatrixView<'_>, effect: &Effect) -> Row {
    let is_claimed = view.is_ranked() && effect.cpu.differs;
    let words = if view.is_ranked() { claims::effect_of(view, effect).text() } else { effect.level.clone() };
    Row {
        label: effect.level.clone(),
        ratio: effect.cpu,
        floor: effect.floor_percent / 100.0,
        words,
        is_claimed,
        is_reference: false,
    }
}
