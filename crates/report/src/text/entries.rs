//! Entries of Markdown tables: one notation for all of them.

use results::{
    Arrivals, Outcome, Ratio,
    words::{ratio_interval, times},
};

use crate::{
    format::{compact_digits, significant},
    matrix_view::{Drawable, MatrixView},
};

/// Reasons that a table gives below it, by the letter that stands in it.
#[derive(Debug, Default)]
pub(super) struct Reasons(Vec<String>);

impl Reasons {
    /// `n/a (a)`
    pub(super) fn entry(&mut self, head: &str, reason: String) -> String {
        let place = self.0.iter().position(|other| *other == reason).unwrap_or_else(|| {
            self.0.push(reason);
            self.0.len() - 1
        });
        format!("{head}\u{a0}({})", letter(place))
    }

    /// `(a) 64 workers; (b) 1 visit failed. `; empty without any.
    pub(super) fn words(&self) -> String {
        let reasons = self.0.iter().enumerate().map(|(place, reason)| format!("({}) {reason}", letter(place)));
        let words = reasons.collect::<Vec<_>>().join("; ");
        if words.is_empty() { words } else { format!("{words}. ") }
    }
}

/// `a` … `z`, `a1` …
fn letter(place: usize) -> String {
    let letter = char::from(b'a' + u8::try_from(place % 26).unwrap_or(0));
    if place < 26 { letter.to_string() } else { format!("{letter}{}", place / 26) }
}

/// Explains the marks of [`entry`].
pub(super) fn marks(view: &MatrixView<'_>) -> &'static str {
    if view.is_ranked() { " “~”: no difference seen." } else { "" }
}

/// `**0.975×**<br>[0.964, 0.986]<br>250 k/s`; of the reference, and where there is no ratio, in µs; else why there is none.
pub(super) fn entry(view: &MatrixView<'_>, row: usize, column: usize, reasons: &mut Reasons) -> String {
    let Some(figures) = view.figures(row, column) else { return not_measured(view, row, column, reasons) };
    let p99 = figures.response.as_ref().map(|response| format!("p99 {} µs", significant(response.p99.median)));
    let beside = match view.workloads()[column].arrivals {
        Arrivals::Closed | Arrivals::LoadSweep => Some(figures.throughput_rps.median)
            .filter(Drawable::is_drawable)
            .map(|rate| format!("{}/s", compact_digits(rate))),
        Arrivals::Open { .. } => p99,
    };
    let beside = beside.map_or(String::new(), |beside| format!("<br>{}", beside.replace(' ', "\u{a0}")));
    let ratio = view.ratio(row, column).filter(|_| Some(row) != view.reference);
    let cost = match (ratio, view.cpu(row, column)) {
        (Some(ratio), _) => {
            let mark = if view.is_same(row, column) { "~\u{a0}" } else { "" };
            format!("{mark}**{}**<br>{}", times(ratio.median), bracketed(&ratio))
        }
        (None, Some(cpu)) => {
            let [median, lo, hi] = [cpu.median, cpu.lo, cpu.hi].map(significant);
            format!("**{median}\u{a0}µs**<br>[{lo},\u{a0}{hi}]")
        }
        (None, None) => return not_measured(view, row, column, reasons),
    };
    let cost = match view.unjudged(row, column) {
        Some(silence) => reasons.entry(&cost, silence.words(view.reference_label())),
        None => cost,
    };
    cost + &beside
}

/// `n/a (a)`: a cell without a cost.
pub(super) fn not_measured(view: &MatrixView<'_>, row: usize, column: usize, reasons: &mut Reasons) -> String {
    match view.outcome(row, column) {
        None => reasons.entry("n/a", "not selected".to_owned()),
        Some(Outcome::NotRun { reason }) => reasons.entry("n/a", plain(reason)),
        Some(Outcome::Measured(_)) => reasons.entry("n/a", "no server CPU".to_owned()),
    }
}

/// `[0.964, 0.986]`, in one line.
pub(super) fn bracketed(ratio: &Ratio) -> String {
    ratio_interval(ratio.lo, ratio.hi).replace(' ', "\u{a0}")
}

/// A text that ends no column and no line of a table.
fn plain(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}
