//! The matrix: server CPU per request over the reference's, one tinted cell per server and workload.

use std::ops::Range;

use maud::{Markup, html};
use results::{Difference, Flag, Noise, Outcome, Ratio, words};

use super::{
    row_labels::{gutter, more_height},
    series::Group,
    svg::{Anchor, Canvas, Drawing, Rect, Width, fit, picture, text_width},
};
use crate::{
    format::{compact, count, significant, thousands},
    matrix_view::{MatrixView, is_compared, offered_rps},
};

/// Columns that fit side by side on a phone; more workloads make a second picture below the first.
const COLUMNS_MAX: usize = 5;
/// Beside a column's head, and from line to line in it.
const HEAD_GAP: f64 = 8.0;
const HEAD_LEADING: f64 = 15.5;
/// Room that a column needs on a phone, with its head and the letters of flags.
const FIGURE_WIDTH: f64 = 49.0;
const MORE_EXPENSIVE: &str = "more expensive";
/// The steps of the legend.
const LEGEND: [f64; 8] = [0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 4.0];

/// Columns of each drawing: as many drawings as needed, of about equal width.
fn parts(view: &MatrixView<'_>) -> Vec<Range<usize>> {
    // The load sweeps come last.
    let count = view.workloads().iter().take_while(|workload| is_compared(workload)).count();
    let parts = count.div_ceil(COLUMNS_MAX).max(1);
    (0..parts).map(|part| part * count / parts..(part + 1) * count / parts).collect()
}

/// Draws everything for a file of its own, which has nothing to lead to.
pub(crate) fn drawings(view: &MatrixView<'_>, width: Width) -> Vec<Drawing> {
    let parts = parts(view);
    let last = parts.len();
    let heat = |columns| HeatMap { is_linked: false, ..HeatMap::new(view, columns, width) };
    parts.into_iter().enumerate().map(|(part, columns)| heat(columns).draw(part + 1 == last)).collect()
}

pub(crate) fn pictures(view: &MatrixView<'_>) -> Markup {
    let parts = parts(view);
    let title = format!("Server CPU per request relative to {}", view.reference_label());
    let one = |(part, columns): (usize, &Range<usize>)| {
        let rows = rows(view, columns).count();
        let description = format!(
            "Table of ratios: {} under {}. The same numbers are in the table below.",
            count(rows, "cell"),
            count(columns.len(), "workload")
        );
        picture(&view.id(format_args!("heat{part}")), &title, &description, |width| {
            HeatMap::new(view, columns.clone(), width).draw(part + 1 == parts.len())
        })
    };
    html! { @for part in parts.iter().enumerate() { (one(part)) } }
}

/// Parts a workload's name at a hyphen in two of about the same length where it is too long for one line.
fn split_name(name: &str, room: f64) -> (String, Option<String>) {
    if text_width(name, 11.5) <= room {
        return (name.to_owned(), None);
    }
    let places = name.match_indices('-').map(|(at, _)| at + 1);
    match places.min_by_key(|at| at.abs_diff(name.len() / 2)) {
        Some(at) => (name[..at].to_owned(), Some(name[at..].to_owned())),
        None => (name.to_owned(), None),
    }
}

/// The rows that were selected for one of the columns.
fn rows<'b>(view: &'b MatrixView<'_>, columns: &Range<usize>) -> impl Iterator<Item = usize> + use<'b> {
    let columns = columns.clone();
    view.compared().filter(move |&row| columns.clone().any(|column| view.outcome(row, column).is_some()))
}

struct HeatMap<'a> {
    view: &'a MatrixView<'a>,
    columns: Range<usize>,
    width: Width,
    letters: Vec<(Flag, char)>,
    /// A cell leads to its section.
    is_linked: bool,
    /// Room for the row labels.
    gutter: f64,
    head: f64,
    row_height: f64,
    column_width: f64,
}

impl<'a> HeatMap<'a> {
    fn new(view: &'a MatrixView<'a>, columns: Range<usize>, width: Width) -> Self {
        let labels = || rows(view, &columns).map(|row| view.series[row].label.as_str());
        let count = columns.len().max(1) as f64;
        // On a phone what the figures leave.
        let most = width.pick(220.0, (width.units() - count * FIGURE_WIDTH).clamp(88.0, 150.0));
        let gutter = gutter(labels(), width.pick(112.0, 76.0), most);
        let column_width = (width.units() - gutter) / count;
        let room = column_width - HEAD_GAP;
        let has_long_name = columns.clone().any(|column| split_name(&view.workloads()[column].name, room).1.is_some());
        let more_head = if has_long_name && !width.is_narrow() { HEAD_LEADING } else { 0.0 };
        Self {
            view,
            width,
            letters: view.flag_letters(),
            is_linked: true,
            gutter,
            head: width.pick(62.0, 66.0) + more_head,
            row_height: width.pick(33.0, 29.0) + more_height(labels(), gutter),
            column_width,
            columns,
        }
    }

    fn draw(&self, has_legend: bool) -> Drawing {
        let mut canvas = Canvas::default();
        for column in self.columns.clone() {
            self.column_head(&mut canvas, column);
        }
        let (top, row_height) = (self.head.to_string(), self.row_height.to_string());
        let mut y = self.head;
        canvas.group(&[("class", "rows"), ("data-top", &top), ("data-rh", &row_height)], |canvas| {
            for row in self.rows() {
                self.row(canvas, row, y);
                y += self.row_height;
            }
        });
        // Below the last matrix its legend, below the others room for the next one.
        y = if has_legend { self.legend(&mut canvas, y + 10.0) + 4.0 } else { y + 24.0 };
        Drawing { height: y, canvas }
    }

    fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        rows(self.view, &self.columns)
    }

    fn column_head(&self, canvas: &mut Canvas, column: usize) {
        let workload = &self.view.workloads()[column];
        let local = column - self.columns.start;
        let left = self.gutter + local as f64 * self.column_width;
        let middle = left + self.column_width / 2.0;
        let noise = self.view.noise(&workload.name).map(Noise::cpu_floor_in_words);
        let load = offered_rps(workload);
        let lines: Vec<String> = match self.width {
            Width::Wide => {
                let (first, second) = split_name(&workload.name, self.column_width - HEAD_GAP);
                let load = load.map_or_else(|| "closed loop".to_owned(), |rps| format!("at {} /s", thousands(rps)));
                let noise = noise.map(|noise| format!("noise {noise}"));
                [Some(first), second, Some(load), noise].into_iter().flatten().collect()
            }
            Width::Narrow => vec![
                workload.short[0].clone(),
                workload.short[1].clone(),
                load.map_or_else(|| "closed".to_owned(), |rps| format!("{}/s", compact(rps))),
                noise.unwrap_or_default(),
            ],
        };
        let (index, place) = (local.to_string(), column.to_string());
        canvas.group(&[("class", "colh"), ("data-col", &index), ("data-w", &place)], |canvas| {
            canvas.rect(Rect::new(left, 0.0, self.column_width, self.head - 4.0), "hit");
            let is_wide = !self.width.is_narrow();
            let is_split = split_name(&workload.name, self.column_width - HEAD_GAP).1.is_some();
            let names = if is_wide && is_split { 2 } else { 1 };
            let room = self.column_width - self.width.pick(HEAD_GAP, 2.0);
            for (i, line) in lines.iter().enumerate() {
                let (class, size) = match i {
                    _ if i >= names => ("s m", 10.5),
                    _ if names == 1 && text_width(line, 13.5) <= room => ("t b", 13.5),
                    _ => ("s b", 11.5),
                };
                let y = 15.0 + i as f64 * self.width.pick(HEAD_LEADING, 14.0);
                canvas.text(middle, y, class, Anchor::Middle, &fit(line, size, room));
            }
        });
    }

    fn row(&self, canvas: &mut Canvas, row: usize, y: f64) {
        let series = &self.view.series[row];
        let ratios: Vec<String> = self.columns.clone().map(|c| self.sort_key(row, c)).collect();
        let (ratios, place) = (ratios.join(","), format!("translate(0 {y})"));
        let class = match series.group {
            _ if series.is_reference => "b",
            Group::Ours => "",
            Group::Peer | Group::Null => "i",
        };
        canvas.group(
            &[("class", "row"), ("data-r", &series.id), ("data-v", &ratios), ("transform", &place)],
            |canvas| {
                canvas.row_label(self.gutter - 10.0, self.row_height / 2.0, class, &series.label);
                for column in self.columns.clone() {
                    self.cell(canvas, row, column);
                }
            },
        );
    }

    fn sort_key(&self, row: usize, column: usize) -> String {
        self.view.ratio(row, column).map_or(String::new(), |r| format!("{:.4}", r.median))
    }

    fn cell(&self, canvas: &mut Canvas, row: usize, column: usize) {
        let Some(outcome) = self.view.outcome(row, column) else { return };
        let left = self.gutter + (column - self.columns.start) as f64 * self.column_width;
        let area = Rect::new(left + 1.5, 0.0, self.column_width - 3.0, self.row_height - 3.0);
        let (words, index) = (self.view.read_out(row, column), column.to_string());
        let link = format!("#{}", self.view.cell_id(row, column));
        let attributes = [("href", link.as_str()), ("class", "cell"), ("data-w", &index), ("aria-label", &words)];
        let letters = self.letters(row, column);
        // On a phone the figure makes room for the letters.
        let letters_width = self.width.pick(0.0, letters.chars().count() as f64 * 8.0);
        let (element, attributes) = match self.is_linked {
            // On a phone nothing points: the row of the table says it.
            true if self.width.is_narrow() => ("a", &attributes[..3]),
            true => ("a", &attributes[..]),
            false => ("g", &attributes[1..2]),
        };
        let cost = self.view.cpu(row, column).map(|cpu| cpu.median);
        let is_doubtful = self.view.is_doubtful(row, column);
        canvas.element(element, attributes, |canvas| match (outcome, self.view.ratio(row, column), cost) {
            (Outcome::NotRun { reason }, ..) => self.missing(canvas, area, &format!("n/a: {reason}")),
            (Outcome::Measured(_), _, None) => {
                self.hatch(canvas, area, is_doubtful);
                self.missing(canvas, area, "n/a: no server CPU");
            }
            (Outcome::Measured(_), _, Some(cost)) if self.view.series[row].is_reference => {
                self.reference(canvas, area, cost, is_doubtful, letters_width);
            }
            // Nothing to divide by: its own microseconds.
            (Outcome::Measured(_), None, Some(cost)) => {
                self.hatch(canvas, area, is_doubtful);
                self.missing(canvas, area, &format!("{}\u{a0}µs", significant(cost)));
            }
            (Outcome::Measured(_), Some(ratio), _) => {
                self.ratio(canvas, area, (&ratio, self.view.difference(row, column)), is_doubtful, letters_width);
            }
        });
        if !letters.is_empty() {
            canvas.text(area.x + area.width - 2.5, 10.0, "xs b", Anchor::End, &letters);
        }
    }

    fn hatch(&self, canvas: &mut Canvas, area: Rect, is_doubtful: bool) {
        if is_doubtful {
            canvas.rect_with(area, "flagged", &[("fill", "url(#hatch)")]);
        }
    }

    fn missing(&self, canvas: &mut Canvas, area: Rect, reason: &str) {
        canvas.rect(area, "na");
        let words = match self.width {
            Width::Narrow if reason.starts_with("n/a") => "n/a".to_owned(),
            Width::Wide | Width::Narrow => fit(reason, 10.5, area.width - 4.0),
        };
        canvas.text(area.x + area.width / 2.0, self.row_height / 2.0 + 3.0, "s m", Anchor::Middle, &words);
    }

    /// The reference prints its own cost: everything else in the column is a multiple of it.
    fn reference(&self, canvas: &mut Canvas, area: Rect, cost: f64, is_doubtful: bool, letters_width: f64) {
        canvas.rect(area, "ref");
        self.hatch(canvas, area, is_doubtful);
        let cost = significant(cost);
        let words = self.width.pick(format!("{cost}\u{a0}µs"), cost);
        let middle = area.x + (area.width - letters_width) / 2.0;
        canvas.text(middle, self.row_height / 2.0 + 4.0, "t num b", Anchor::Middle, &words);
    }

    /// A ratio with a tint where a difference is claimed.
    fn ratio(
        &self,
        canvas: &mut Canvas,
        area: Rect,
        (value, difference): (&Ratio, Option<Difference>),
        is_doubtful: bool,
        letters_width: f64,
    ) {
        match difference {
            Some(_) => canvas.rect_with(area, tint(value.median), &[("fill-opacity", &opacity(value.median))]),
            None => canvas.rect(area, "neutral"),
        }
        self.hatch(canvas, area, is_doubtful);
        let class = if difference.is_some() { "t num" } else { "t num m" };
        let baseline = self.row_height / 2.0 + 4.0;
        let (left, width) = (area.x - 1.5, self.column_width);
        let interval = words::ratio_interval(value.lo, value.hi);
        let figure = self.width.pick(words::times(value.median), words::ratio(value.median));
        let (figure_width, interval_width) = (text_width(&figure, 12.5), text_width(&interval, 11.0));
        let total = figure_width + interval_width + 5.0;
        if total <= width - 5.0 {
            let end = left + (width - total) / 2.0 + figure_width;
            canvas.text(end, baseline, class, Anchor::End, &figure);
            canvas.text(end + 5.0, baseline - 0.5, "s num soft", Anchor::Start, &interval);
            return;
        }
        let middle = left + (width - letters_width) / 2.0;
        if text_width(&interval, 10.5) > width - 3.0 {
            // On a phone the row of the table has it.
            canvas.text(middle, baseline - 1.0, class, Anchor::Middle, &figure);
            return;
        }
        canvas.text(middle, baseline - 6.0, class, Anchor::Middle, &figure);
        canvas.text(middle, baseline + 7.0, "xs num soft", Anchor::Middle, &interval);
    }

    /// The letters of the cell's flags; on a phone two places at most, `a+` for more.
    fn letters(&self, row: usize, column: usize) -> String {
        let flags = self.view.flags(row, column);
        let is_set = |flag: Flag| flags.iter().any(|(f, _)| *f == flag);
        let letters: Vec<char> = self.letters.iter().filter(|(f, _)| is_set(*f)).map(|(_, letter)| *letter).collect();
        match letters.as_slice() {
            [first, _, _, ..] if self.width.is_narrow() => format!("{first}+"),
            all => all.iter().collect(),
        }
    }

    /// A strip of the colour scale in ratio units. Returns the y below it.
    fn legend(&self, canvas: &mut Canvas, y: f64) -> f64 {
        if !self.view.is_ranked() {
            return y - 8.0;
        }
        let room = self.width.units() - self.gutter - text_width(MORE_EXPENSIVE, 10.5) - 6.0;
        let step = (room / LEGEND.len() as f64).min(self.width.pick(36.0, 27.0));
        let left = self.gutter;
        for (i, &value) in LEGEND.iter().enumerate() {
            let x = left + i as f64 * step;
            let area = Rect::new(x, y, step - 2.0, 9.0);
            if value == 1.0 {
                canvas.rect(area, "neutral");
            } else {
                canvas.rect_with(area, tint(value), &[("fill-opacity", &opacity(value))]);
            }
            canvas.text(x + step / 2.0 - 1.0, y + 21.0, "xs m", Anchor::Middle, &format!("{value}×"));
        }
        canvas.text(left - 10.0, y + 8.0, "xs m", Anchor::End, "cheaper");
        let end = left + LEGEND.len() as f64 * step + 4.0;
        canvas.text(end, y + 8.0, "xs m", Anchor::Start, MORE_EXPENSIVE);
        let words = "in doubt";
        let place = self.width.units() - text_width(words, 10.5) - 32.0;
        if !self.letters.is_empty() && place > end + text_width(MORE_EXPENSIVE, 10.5) + 12.0 {
            let area = Rect::new(place, y, 20.0, 9.0);
            canvas.rect(area, "neutral");
            canvas.rect_with(area, "flagged", &[("fill", "url(#hatch)")]);
            canvas.text(place + 26.0, y + 8.0, "xs m", Anchor::Start, words);
        }
        y + 24.0
    }
}

fn tint(ratio: f64) -> &'static str {
    if ratio > 1.0 { "costly" } else { "cheap" }
}

/// Grows with the distance from 1 and is full at a factor of four.
fn opacity(ratio: f64) -> String {
    let amount = (ratio.log2().abs() / 2.0).min(1.0).powf(0.75);
    format!("{:.2}", 0.08 + 0.64 * amount)
}
