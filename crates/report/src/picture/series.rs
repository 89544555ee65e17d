//! Looks of a series: its colour and its dashes, the same in every picture of a report.
//!
//! They follow from the order in which servers appear, so that any number of them can be told apart.

use std::fmt::Write as _;

/// Side that a row of the matrix belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    Ours,
    Peer,
    /// The null server, which copies the same bytes from memory.
    Null,
}

/// Colours of our first servers, on light and on dark paper: ink, then those of Okabe and Ito, which colour-blind
/// readers can tell apart.
const COLOURS: [[&str; 2]; 7] = [
    ["#1d1c1a", "#ebe7df"],
    ["#0072b2", "#4a9fd6"],
    ["#009e73", "#1fbd8f"],
    ["#bb5f93", "#dc8fba"],
    ["#d55e00", "#f0793a"],
    ["#bd7d00", "#e8ab2e"],
    ["#2c8fc9", "#8fd0f5"],
];
/// Grey of whatever is not ours, on light and on dark paper.
const GREY: [&str; 2] = ["#77726a", "#a09a8f"];

/// Dashes that go with the colours, so that grey print loses nothing.
const DASHES: [&str; 9] = ["none", "18 3", "7 2.5", "2.5 2", "9 2.5 2 2.5", "4.5 3", "1.2 2.4", "11 3", "6 2 1.5 2"];
const NULL_DASHES: &str = "1 3";

/// Angle between one hue and the next: the golden one, so that no two hues meet however many there are.
const HUE_STEP_DEGREES: f64 = 137.508;

/// One server of the run, as it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Safe as an XML id, a CSS class and a JSON key.
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) group: Group,
    pub(crate) is_reference: bool,
    /// Place in the colours; `None` for grey.
    colour: Option<usize>,
    dashes: String,
}

impl Series {
    pub(crate) fn class(&self) -> String {
        format!("c-{}", self.id)
    }

    /// Style rules that give the series its looks, on light and dark paper alike.
    fn css(&self) -> String {
        let (id, dashes) = (&self.id, &self.dashes);
        let colour = self.colour.map_or_else(|| "grey".to_owned(), |colour| format!("p{colour}"));
        format!(":root{{--{id}:var(--{colour})}}.c-{id}{{--c:var(--{colour});--d:{dashes}}}\n")
    }
}

/// The looks given so far in a report.
#[derive(Debug, Default)]
pub(crate) struct Palette {
    /// Labels of ours and of peers, in the order in which they first appear.
    ours: Vec<String>,
    peers: Vec<String>,
}

impl Palette {
    /// Makes the series at `position` among all of the page; a label that was there before looks the same again.
    pub(crate) fn series(&mut self, position: usize, label: &str, group: Group, is_reference: bool) -> Series {
        let (colour, dashes) = match group {
            Group::Ours => {
                let place = place(&mut self.ours, label);
                (Some(place), dashes(place))
            }
            Group::Peer => (None, dashes(place(&mut self.peers, label) + COLOURS.len())),
            Group::Null => (None, NULL_DASHES.to_owned()),
        };
        Series { id: format!("s{position}"), label: label.to_owned(), group, is_reference, colour, dashes }
    }
}

fn place(labels: &mut Vec<String>, label: &str) -> usize {
    labels.iter().position(|other| other == label).unwrap_or_else(|| {
        labels.push(label.to_owned());
        labels.len() - 1
    })
}

/// The style rules of all series, and of `levels_max` levels of a dimension, which are no servers: `k0`, `k1` and so on.
pub(crate) fn css<'a>(series: impl Iterator<Item = &'a Series>, levels_max: usize) -> String {
    let (mut rules, mut colours) = (String::new(), levels_max);
    for series in series {
        rules += &series.css();
        colours = colours.max(series.colour.map_or(0, |colour| colour + 1));
    }
    for level in 0..levels_max {
        // Writing to a String cannot fail.
        let _ = writeln!(rules, ".k{level}{{--c:var(--p{level});--d:{}}}", dashes(level));
    }
    let variables = |paper: usize| {
        let own = (0..colours).map(|place| format!("--p{place}:{};", colour(place)[paper]));
        own.collect::<String>() + "--grey:" + GREY[paper]
    };
    let (light, dark) = (variables(0), variables(1));
    format!(
        ":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n\
         @media screen{{:root[data-theme=dark]{{{dark}}}}}\n{rules}"
    )
}

/// The class of the level at `index`.
pub(crate) fn level_class(index: usize) -> String {
    format!("k{index}")
}

/// The colour at a place, on light and on dark paper; made up beyond the chosen ones.
fn colour(place: usize) -> [String; 2] {
    if let Some(chosen) = COLOURS.get(place) {
        return chosen.map(str::to_owned);
    }
    let step = place - COLOURS.len();
    let hue = 180.0 + step as f64 * HUE_STEP_DEGREES;
    let [light, dark] = if step.is_multiple_of(2) { [0.48, 0.92] } else { [0.62, 0.70] };
    [from_oklch(light, 0.14, hue), from_oklch(dark, 0.14, hue)]
}

/// A colour by lightness, chroma and hue in degrees, as CSS defines `oklch()`; what no screen can show is clipped.
fn from_oklch(lightness: f64, chroma: f64, hue: f64) -> String {
    let (sin, cos) = hue.to_radians().sin_cos();
    let (a, b) = (chroma * cos, chroma * sin);
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548 * b).powi(3);
    let linear = [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701 * s,
    ];
    let byte = |value: f64| {
        let value = if value <= 0.003_130_8 { 12.92 * value } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 };
        (value.clamp(0.0, 1.0) * 255.0).round() as u8
    };
    let [red, green, blue] = linear.map(byte);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// The dashes at a place; made up beyond the chosen ones.
fn dashes(place: usize) -> String {
    if let Some(chosen) = DASHES.get(place) {
        return (*chosen).to_owned();
    }
    let step = place - DASHES.len();
    let (long, short) = (4 + step % 5 * 3, 1.5 + (step / 5) as f64);
    format!("{long} 2.5 {short} 2.5 {short} 2.5")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PAPERS: [&str; 2] = ["#fdfcf9", "#171614"];
    const MANY: usize = 60;

    fn channels(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0)
    }

    /// Relative luminance of WCAG 2.
    fn luminance(colour: &str) -> f64 {
        let linear = |value: f64| if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) };
        let [red, green, blue] = channels(colour).map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    #[test]
    fn every_colour_stands_out_from_light_and_dark_paper() {
        let grey = GREY.map(str::to_owned);
        for colours in (0..MANY).map(colour).chain([grey]) {
            for (colour, paper) in colours.iter().zip(PAPERS) {
                let (one, other) = (luminance(colour), luminance(paper));
                let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                assert!(contrast >= 3.0, "{colour} on {paper}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn no_two_series_look_alike_however_many_there_are() {
        let mut palette = Palette::default();
        let mut looks = BTreeSet::new();
        for group in [Group::Ours, Group::Peer] {
            for i in 0..MANY {
                let series = palette.series(i, &format!("server {i}"), group, false);
                assert!(looks.insert((series.colour, series.dashes.clone())), "{series:?}");
            }
        }
        let dashes: BTreeSet<String> = (0..MANY).map(dashes).collect();
        let colours: BTreeSet<[String; 2]> = (0..MANY).map(colour).collect();
        assert_eq!((dashes.len(), colours.len()), (MANY, MANY), "not in grey print, and not without dashes");
    }

    #[test]
    fn a_dozen_colours_are_far_apart() {
        for paper in 0..PAPERS.len() {
            let colours: Vec<String> = (0..12).map(|place| colour(place)[paper].clone()).collect();
            for (i, one) in colours.iter().enumerate() {
                for other in &colours[..i] {
                    let squares = channels(one).into_iter().zip(channels(other)).map(|(a, b)| (a - b).powi(2));
                    let distance = squares.sum::<f64>().sqrt();
                    assert!(distance > 0.15, "{one} and {other}: {distance:.3}");
                }
            }
        }
    }

    #[test]
    fn a_label_looks_the_same_in_every_matrix() {
        let mut palette = Palette::default();
        let first = palette.series(0, "a", Group::Ours, true);
        let other = palette.series(1, "b", Group::Ours, false);
        let again = palette.series(2, "a", Group::Ours, false);
        assert_eq!((first.colour, &first.dashes), (again.colour, &again.dashes));
        assert_ne!(first.colour, other.colour);
    }
}
