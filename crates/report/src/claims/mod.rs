//! Claims: every sentence that an output makes of the figures, as data. Each is rendered in one place, here, so that a test
//! can compare what is written with the figures.
//!
//! A run that [cannot rank](results::Summary::why_unranked) compares nothing, and a [cell in doubt](silence) is compared
//! with nothing.

mod choice;
pub(crate) mod silence;
#[cfg(test)]
mod tests;

use maud::{Markup, html};
use results::{
    Difference, FLOOR_WANTED, Interval, Ratio, Unranked, Unseen,
    ranks::interval_name,
    words::{count, ratio_interval, times},
};

pub(crate) use self::choice::{
    Subject, bytes_per_key, cheapest, dearest, effect_of, effects, headline, kept_up, kernel_share, latency, least_p99,
    matrix, needs, picture_column, stamps, subject, tally, trust, wide_floors,
};
use crate::{
    format::{elapsed, rate, significant},
    markup::bounds,
};

/// One sentence. Names are those of the figures' cells, servers and workloads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Claim<'a> {
    /// A cell beside the reference under one workload: server CPU per request.
    Cost {
        subject: &'a str,
        reference: &'a str,
        workload: &'a str,
        ratio: Ratio,
        floor: f64,
    },
    /// Server CPU per request of one cell, compared with nothing.
    Needs {
        cell: &'a str,
        workload: &'a str,
        cpu: Interval,
    },
    /// Nothing of the server has figures.
    Nothing {
        server: &'a str,
    },
    /// The cheapest of `of` cells of ours; several where intervals and noise floor do not separate them.
    Cheapest {
        workload: &'a str,
        of: usize,
        names: Vec<&'a str>,
    },
    /// The cell of `of` that costs most, beside the reference.
    Dearest {
        subject: &'a str,
        reference: &'a str,
        workload: &'a str,
        of: usize,
        ratio: Ratio,
    },
    /// The least p99 of the response time of `of` cells of ours, and the greatest; several names where intervals do not separate
    /// them from the least, which is that of the first.
    LeastP99 {
        workload: &'a str,
        of: usize,
        names: Vec<&'a str>,
        least: Interval,
        last: (&'a str, Interval),
    },
    /// A cell beside the reference over all workloads.
    Tally {
        subject: &'a str,
        reference: &'a str,
        counts: Counts,
    },
    /// All cells of a matrix beside the reference.
    Matrix {
        reference: &'a str,
        counts: Counts,
    },
    /// Effect of one choice, all else equal: server CPU per request over all workloads.
    Effect {
        factor: Option<&'a str>,
        level: &'a str,
        instead_of: &'a str,
        ratio: Ratio,
        floor: f64,
    },
    /// A figure of one cell, compared with nothing.
    Figure {
        quantity: Quantity,
        cell: &'a str,
        workload: &'a str,
        value: Interval,
    },
    /// The highest offered load that a cell kept up with in a load sweep; `is_all` where that was the highest of all.
    KeptUp {
        cell: &'a str,
        workload: &'a str,
        offered_rps: f64,
        is_all: bool,
    },
    /// Part of the server's CPU time that the kernel takes.
    KernelShare {
        cell: &'a str,
        workload: &'a str,
        share: f64,
    },
    /// The run compares nothing.
    Unranked {
        reason: Unranked,
    },
    /// Least and greatest noise floor of the workloads that have one.
    Noise {
        least: f64,
        greatest: f64,
    },
    /// Workloads whose noise floor is higher than a table should have, with the time that their visits took and the time that it
    /// would have taken, in seconds.
    WideFloors {
        of: Vec<(&'a str, f64, f64)>,
    },
    /// Workloads whose noise floor no control tells.
    NoiseUnknown {
        workloads: usize,
        of: usize,
    },
    /// Measured cells that make no claim, of all that were measured.
    Doubt {
        cells: usize,
        of: usize,
    },
    /// Cells in which the generator was the limit.
    Limited {
        cells: usize,
    },
    Unfinished {
        done: u32,
        planned: u32,
    },
    Intervals {
        blocks: u32,
    },
}

/// Cells by what is said of them; `silent` are those of which nothing can be said.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) lower: usize,
    pub(crate) higher: usize,
    pub(crate) same: usize,
    pub(crate) silent: usize,
}

/// A figure that is told without a comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Quantity {
    /// Microseconds.
    ResponseP99,
    /// Microseconds.
    ServiceP99,
    BytesPerKey,
}

impl Claim<'_> {
    /// The sentence as HTML.
    pub(crate) fn html(&self) -> Markup {
        html! { span.claim { (self.words()) } }
    }

    /// The sentence as plain text.
    pub(crate) fn text(&self) -> String {
        let html = self.words().0;
        let parts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        let text: String = parts.collect();
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
            .iter()
            .fold(text, |text, (escaped, plain)| text.replace(escaped, plain))
    }

    fn words(&self) -> Markup {
        match self {
            Self::Cost { subject, reference, workload, ratio, floor } => {
                cost((subject, reference, workload), ratio, *floor)
            }
            Self::Needs { cell, workload, cpu } => html! {
                i { (cell) } " needs " (interval(cpu, "\u{a0}µs")) " of server CPU per request under " (workload) "."
            },
            Self::Nothing { server } => html! { "No figures of " (server) "." },
            Self::Cheapest { workload, of, names } => match names.as_slice() {
                [only] => html! { i { (only) } " is the cheapest of " (of) " under " (workload) "." },
                all => html! {
                    "Cheapest of " (of) " under " (workload) ", not told apart: " (all.join(", ")) "."
                },
            },
            Self::Dearest { subject, reference, workload, of, ratio } => html! {
                i { (subject) } " costs the most of " (of) " under " (workload) ", " (ratio_html(ratio)) " as much as "
                i { (reference) } "."
            },
            Self::LeastP99 { workload, of, names, least, last: (last, greatest) } => html! {
                "Least p99 of the response time of " (of) " under " (workload) ": " (names.join(", "))
                @if names.len() > 1 { ", not told apart" }
                "; " i { (names.first().unwrap_or(&"")) } " has " (interval(least, "\u{a0}µs"))
                ", " i { (last) } " the greatest, " (interval(greatest, "\u{a0}µs")) "."
            },
            Self::Tally { subject, reference, counts } => html! {
                i { (subject) } " beside " i { (reference) } " under " (workloads(counts.total())) ": " (counts.words()) "."
            },
            Self::Matrix { reference, counts } => html! {
                (count(counts.total(), "cell")) " beside " i { (reference) } ": " (counts.words()) "."
            },
            Self::Effect { factor, level, instead_of, ratio, floor } => {
                let choice = html! { @if let Some(factor) = factor { (factor) " " } i { (level) } };
                effect(&choice, instead_of, ratio, *floor)
            }
            Self::Figure { quantity, cell, workload, value } => html! {
                (quantity.name()) " of " i { (cell) } " under " (workload) ": " (interval(value, quantity.unit())) "."
            },
            Self::KeptUp { cell, workload, offered_rps, is_all } => html! {
                i { (cell) } " kept up with " (rate(*offered_rps)) "\u{a0}requests/s under " (workload)
                @if *is_all { ", the most that was offered." } @else { " and not with more." }
            },
            Self::KernelShare { cell, workload, share } => html! {
                "The kernel takes " (format!("{:.0}", share * 100.0)) "\u{a0}% of it for " i { (cell) } " under " (workload) "."
            },
            Self::Unranked { reason } => html! { b { "This run ranks nothing" } " (" (reason.reason()) ")." },
            Self::Noise { least, greatest } => noise(*least, *greatest),
            Self::WideFloors { of } => html! {
                "A noise floor of " (times(1.0 + FLOOR_WANTED)) " would have taken about "
                @for (index, (workload, spent_s, wanted_s)) in of.iter().enumerate() {
                    @if index > 0 { ", " }
                    (elapsed(*wanted_s)) " instead of " (elapsed(*spent_s)) " under " (workload)
                }
                "."
            },
            Self::NoiseUnknown { workloads: unknown, of } => html! {
                "Under " (unknown) " of " (workloads(*of)) " the noise floor is unknown: less than twofold is no difference."
            },
            Self::Doubt { cells, of } => html! {
                b { (cells) " of " (count(*of, "cell")) } " in doubt, hatched: no claim is made of "
                @if *cells == 1 { "it." } @else { "them." }
            },
            Self::Limited { cells } => html! {
                "In " (count(*cells, "cell")) " the generator was the limit, not the server."
            },
            Self::Unfinished { done, planned } => html! {
                b { "Unfinished" } ": " (done) " of " (count(*planned as usize, "visit")) " made."
            },
            Self::Intervals { blocks } => html! { "In brackets: the " (interval_name(*blocks)) "." },
        }
    }
}

impl Counts {
    pub(crate) fn total(&self) -> usize {
        self.lower + self.higher + self.same + self.silent
    }

    /// `cheaper in 9, more expensive in 1, no difference seen in 2, no claim in 1`; what there is none of is left out.
    fn words(&self) -> String {
        let parts = [
            ("cheaper", self.lower),
            ("more expensive", self.higher),
            ("no difference seen", self.same),
            ("no claim", self.silent),
        ];
        let parts =
            parts.into_iter().filter(|(_, cells)| *cells > 0).map(|(words, cells)| format!("{words} in {cells}"));
        parts.collect::<Vec<_>>().join(", ")
    }
}

impl Quantity {
    fn name(self) -> &'static str {
        match self {
            Self::ResponseP99 => "p99 of the response time",
            Self::ServiceP99 => "p99 of the service time",
            Self::BytesPerKey => "Memory per key",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::ResponseP99 | Self::ServiceP99 => "\u{a0}µs",
            Self::BytesPerKey => "\u{a0}bytes",
        }
    }
}

/// `1 workload`.
fn workloads(number: usize) -> String {
    count(number, "workload")
}

/// `4.00 µs [3.96, 4.04]`.
fn interval(value: &Interval, unit: &str) -> Markup {
    let [median, lo, hi] = [value.median, value.lo, value.hi].map(significant);
    html! { b { (median) (unit) } " " (bounds(&format!("[{lo}, {hi}]"))) }
}

/// `1.275× [1.26, 1.29]`.
pub(crate) fn ratio_html(ratio: &Ratio) -> Markup {
    html! { b { (times(ratio.median)) } " " (bounds(&ratio_interval(ratio.lo, ratio.hi))) }
}

fn cost((subject, reference, workload): (&str, &str, &str), ratio: &Ratio, floor: f64) -> Markup {
    let (subject, reference, value) = (html! { i { (subject) } }, html! { i { (reference) } }, ratio_html(ratio));
    match ratio.difference(floor) {
        Difference::Lower | Difference::Higher => html! {
            (subject) " costs " (value) " the server CPU of " (reference) " under " (workload) "."
        },
        Difference::Unseen(why) => html! {
            "No difference seen between " (subject) " and " (reference) " under " (workload) ": " (value) ", "
            (unseen(why, ratio.blocks, floor)) "."
        },
    }
}

fn effect(choice: &Markup, instead_of: &str, ratio: &Ratio, floor: f64) -> Markup {
    match ratio.difference(floor) {
        Difference::Lower | Difference::Higher => html! {
            (choice) " instead of " i { (instead_of) } " costs " (ratio_html(ratio)) " the server CPU, all else equal."
        },
        Difference::Unseen(why) => html! {
            "No difference seen with " (choice) " instead of " i { (instead_of) } ": " (ratio_html(ratio)) ", "
            (unseen(why, ratio.blocks, floor)) "."
        },
    }
}

/// Reason that a ratio is not called a difference: `the interval holds 1`.
pub(crate) fn unseen(why: Unseen, blocks: u32, floor: f64) -> String {
    match why {
        Unseen::FewBlocks => format!("of only {}", count(blocks as usize, "block")),
        Unseen::HoldsOne => "the interval holds 1".to_owned(),
        Unseen::FloorUnknown => "the noise floor is unknown".to_owned(),
        Unseen::InsideFloor => format!("inside the noise floor of {}", times(1.0 + floor)),
    }
}

/// Meaning of a ratio: `cheaper`, `more expensive`, `no difference seen: the interval holds 1`.
pub(crate) fn standing(ratio: &Ratio, floor: f64) -> String {
    match ratio.difference(floor) {
        Difference::Lower => "cheaper".to_owned(),
        Difference::Higher => "more expensive".to_owned(),
        Difference::Unseen(why) => format!("no difference seen: {}", unseen(why, ratio.blocks, floor)),
    }
}

fn noise(least: f64, greatest: f64) -> Markup {
    let [least, greatest] = [least, greatest].map(|floor| times(1.0 + floor));
    html! {
        "Noise floor, from measuring the same server twice: " b { (least) @if greatest != least { " to " (greatest) } }
        @if greatest != least { ", depending on the workload" }
        "; smaller differences are none."
    }
}
