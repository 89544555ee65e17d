//! Interactions: does what one choice costs depend on another? Lines that run alike say no.

use std::collections::BTreeSet;

use maud::{Markup, html};
use results::{Cell, Role};

use super::section::{Section, WorkloadPart, affordable, columns_with, per_workload};
use crate::{
    format::duration,
    matrix_view::MatrixView,
    picture::{
        axes::{self, Axis, Tick},
        curves::{self, Curve, Panel},
        series::level_class,
        svg::picture,
    },
};

/// Dimension that stands along the x axis where it varies.
const FIRST: &str = "driver";

pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let (columns, rest) = affordable(view, columns_with(view, |column| !crossings(view, column).is_empty()));
    columns.first()?;
    let parts: Vec<_> = columns
        .iter()
        .map(|&column| WorkloadPart {
            name: view.workloads()[column].name.clone(),
            finding: Markup::default(),
            pictures: pictures(view, column),
        })
        .collect();
    let note = html! {
        "Server CPU per request; a line per level of the second choice, everything else as in the reference. Lines that "
        "run alike: the two choices do not depend on each other. Lines that part or cross: what one of them is worth "
        "depends on the other." (rest)
    };
    Some(Section {
        id: "interaction",
        link: "interactions",
        title: "What depends on what".to_owned(),
        finding: Markup::default(),
        content: per_workload(&parts, &note),
    })
}

/// Most levels that a dimension of ours has.
pub(super) fn levels_max(view: &MatrixView<'_>) -> usize {
    let ours = view.cells().iter().filter(|cell| cell.role == Role::Ours);
    let factors: BTreeSet<&str> = ours.flat_map(|cell| cell.factors.keys().map(String::as_str)).collect();
    factors.into_iter().map(|factor| levels(view, factor).len()).max().unwrap_or(0)
}

/// Two dimensions of which some levels were measured together.
struct Crossing<'a> {
    first: &'a str,
    second: &'a str,
    /// Levels of the first, in the order of the cells.
    along: Vec<&'a str>,
    /// A level of the second, and per level of the first the cost, microseconds.
    lines: Vec<(&'a str, Vec<Option<f64>>)>,
}

fn crossings<'a>(view: &MatrixView<'a>, column: usize) -> Vec<Crossing<'a>> {
    let ours = || view.cells().iter().filter(|cell| cell.role == Role::Ours);
    let factors: BTreeSet<&str> = ours().flat_map(|cell| cell.factors.keys().map(String::as_str)).collect();
    let varies = |factor: &&str| levels(view, factor).len() > 1;
    let factors: Vec<&str> = factors.into_iter().filter(varies).collect();
    let Some(&first) = factors.iter().find(|factor| **factor == FIRST).or_else(|| factors.first()) else {
        return Vec::new();
    };
    let others = factors.into_iter().filter(|factor| *factor != first);
    others.filter_map(|second| crossing(view, column, first, second)).collect()
}

fn levels<'a>(view: &MatrixView<'a>, factor: &str) -> Vec<&'a str> {
    let mut levels = Vec::new();
    for cell in view.cells().iter().filter(|cell| cell.role == Role::Ours) {
        let level = cell.factors.get(factor).map(String::as_str);
        levels.extend(level.filter(|level| !levels.contains(level)));
    }
    levels
}

fn crossing<'a>(view: &MatrixView<'a>, column: usize, first: &'a str, second: &'a str) -> Option<Crossing<'a>> {
    let along = levels(view, first);
    let line = |level: &'a str| {
        let cost = |other: &&str| cost(view, column, (first, other), (second, level));
        (level, along.iter().map(cost).collect::<Vec<_>>())
    };
    let known = |line: &(&str, Vec<Option<f64>>)| line.1.iter().flatten().count() >= 2;
    let lines: Vec<_> = levels(view, second).into_iter().map(line).filter(known).collect();
    (lines.len() >= 2).then_some(Crossing { first, second, along, lines })
}

/// Returns the cost of the cell that has these two levels and is otherwise like the reference.
fn cost(view: &MatrixView<'_>, column: usize, first: (&str, &str), second: (&str, &str)) -> Option<f64> {
    let reference = view.cells().get(view.reference?)?;
    let is_like = |cell: &Cell| {
        let has = |(factor, level): (&str, &str)| cell.factors.get(factor).is_some_and(|other| other == level);
        let others = cell.factors.iter().filter(|(factor, _)| *factor != first.0 && *factor != second.0);
        has(first)
            && has(second)
            && others.into_iter().all(|(factor, level)| reference.factors.get(factor) == Some(level))
    };
    let row =
        (0..view.cells().len()).find(|&row| view.cells()[row].role == Role::Ours && is_like(&view.cells()[row]))?;
    Some(view.cpu(row, column)?.median)
}

fn pictures(view: &MatrixView<'_>, column: usize) -> Markup {
    let crossings = crossings(view, column);
    let name = &view.workloads()[column].name;
    // One axis for all of them, which are compared.
    let costs = || crossings.iter().flat_map(|crossing| &crossing.lines).flat_map(|(_, costs)| costs.iter().flatten());
    let one = |(index, crossing): (usize, &Crossing<'_>)| {
        let panel = panel(view, column, index, crossing, axes::costs(costs().copied()));
        let title = format!("{} by {}, {name}", crossing.second, crossing.first);
        let description = "Server CPU per request over the levels of one choice, a line per level of the other.";
        let drawn = picture(&view.id(format_args!("x{column}-{index}")), &title, description, |width| {
            curves::draw(std::slice::from_ref(&panel), crossing.first, width)
        });
        html! { (curves::key(&panel.curves)) (drawn) }
    };
    html! { @for crossing in crossings.iter().enumerate() { (one(crossing)) } }
}

fn panel(view: &MatrixView<'_>, column: usize, index: usize, crossing: &Crossing<'_>, y: Axis) -> Panel {
    let tick = |(at, level): (usize, &&str)| Tick { at: at as f64, label: (*level).to_owned(), us: None };
    let curve = |(place, (level, costs)): (usize, &(&str, Vec<Option<f64>>))| {
        let known = costs.iter().enumerate().filter_map(|(at, cost)| Some((at, (*cost)?)));
        let points: Vec<(usize, f64)> = known.collect();
        let words = |at: usize, cost: f64| format!("{}, {level}: {}", crossing.along[at], duration(cost));
        let mark = |&(at, cost): &(usize, f64)| ((at as f64, cost), words(at, cost), false);
        Curve {
            class: level_class(place),
            // Not one of a server: switched by itself.
            id: view.id(format_args!("x{column}-{index}-{place}")),
            name: (*level).to_owned(),
            is_reference: false,
            marks: points.iter().map(mark).collect(),
            points: points.into_iter().map(|(at, cost)| (at as f64, cost)).collect(),
        }
    };
    let last = crossing.along.len().saturating_sub(1) as f64;
    Panel {
        title: format!("server CPU per request, by {}", crossing.second),
        x: Axis {
            domain: (-0.3, last + 0.3),
            is_log: false,
            ticks: crossing.along.iter().enumerate().map(tick).collect(),
        },
        y,
        curves: crossing.lines.iter().enumerate().map(curve).collect(),
        shade: None,
        read_out: None,
    }
}
