//! Laws for readers with weak eyes, or without a mouse.

use anyhow::{Result, ensure};
use results::{Cell, CellResult, Interval, Outcome, Summary};
use testkit::Screen;

use super::{DESK, PHONE, World};
use crate::sample;

const SPACE: char = '\u{e00d}';
const ESCAPE: char = '\u{e00c}';
const RIGHT: char = '\u{e014}';
const DOWN: char = '\u{e015}';
const CONTRAST: &str = include_str!("contrast.js");
/// Marks of the pictures that a figure is read from. Grid lines, ghosts and tints say nothing that is not said beside them.
const MARKS: &str = ".ln, .whisk, .dot, .pt, .zero, .edge, .floor, .thin, .sys, .usr, .csys, .cusr, .unsplit, .cmix";

pub(super) fn everything_can_be_seen(world: &World) -> Result<()> {
    for (name, matrices, screens) in
        [("usual", vec![sample::summary()], &[DESK, PHONE][..]), ("crossed", vec![sample::crossed()], &[DESK])]
    {
        world.open(matrices, "")?;
        world.browser.run_script("document.querySelectorAll('details').forEach(it => it.open = true)")?;
        for screen in screens.iter().flat_map(|screen| [false, true].map(|is_dark| Screen { is_dark, ..*screen })) {
            world.browser.emulate(screen)?;
            let script = format!("const MARKS = {MARKS:?};\n{CONTRAST}");
            let (count, weak): (u32, Vec<String>) = serde_json::from_value(world.browser.run_script(&script)?)?;
            ensure!(count > 2_000, "{name} on {screen:?}: only {count} contrasts");
            ensure!(weak.is_empty(), "{name} on {screen:?}: {weak:#?}");
        }
    }
    Ok(())
}

/// Script that lists the shown controls, and the first rows of tables and matrices, at which Tab does not stop or does so unseen. A picture
/// with marks is one stop.
const STOPS: &str = "
    const marks = [...document.querySelectorAll('svg:has([data-t])')].filter((it) => it.checkVisibility()).map((it) => it.querySelector('[data-t]'));
    const controls = [...document.querySelectorAll('a[href], button, input, summary, .scroll, .colh, #raw thead th, [data-key], [data-plot], [data-unit]')]
        .filter((it) => it.checkVisibility() && !it.closest('tbody tr:nth-child(n+4), .row:nth-child(n+4)'));
    const stops = [...marks, ...controls];
    const isReached = (it) => {
        it.focus({ focusVisible: true });
        const { outlineStyle, outlineWidth } = getComputedStyle(it);
        return it.tabIndex === 0 && document.activeElement === it && outlineStyle === 'solid' && parseFloat(outlineWidth) >= 2;
    };
    return [marks.length, controls.length, stops.filter((it) => !isReached(it)).map((it) => it.outerHTML.slice(0, 100))]";

pub(super) fn tab_stops_at_everything(world: &World) -> Result<()> {
    world.open(vec![sample::summary()], "")?;
    let found = world.browser.run_script(STOPS)?;
    let (marks, controls, missed): (u32, u32, Vec<String>) = serde_json::from_value(found)?;
    ensure!(marks > 3 && controls > 80, "{marks} pictures with marks, {controls} controls");
    ensure!(missed.is_empty(), "Tab does not stop at {missed:#?}");
    Ok(())
}

pub(super) fn keys_do_what_a_mouse_does(world: &World) -> Result<()> {
    let browser = &world.browser;
    world.open(vec![sample::summary()], "")?;
    let focus = |selector: &str| browser.run_script(&format!("document.querySelector({selector:?}).focus()"));
    let tip = || -> Result<Option<String>> {
        Ok(serde_json::from_value(
            browser
                .run_script("const it = document.querySelector('#tip'); return it.hidden ? null : it.textContent")?,
        )?)
    };
    let words = |index: u32| {
        browser.run_script(&format!("return document.querySelectorAll('#effects svg.w [data-t]')[{index}].dataset.t"))
    };
    focus("#effects svg.w [data-t]")?;
    ensure!(tip()?.map(Into::into) == Some(words(0)?), "{:?}", tip()?);
    browser.press(RIGHT)?;
    ensure!(tip()?.map(Into::into) == Some(words(1)?), "arrows go on to the next mark: {:?}", tip()?);
    browser.press(ESCAPE)?;
    ensure!(tip()?.is_none(), "Escape closes what is read out: {:?}", tip()?);
    focus("#load svg.w [data-plot]")?;
    let first = tip()?;
    ensure!(first.as_ref().is_some_and(|words| words.contains("p50")), "{first:?}");
    browser.press(RIGHT)?;
    let second = tip()?;
    browser.press(DOWN)?;
    ensure!(
        second != first && tip()? != second && tip()?.is_some(),
        "points, then curves: {first:?} {second:?} {:?}",
        tip()?
    );
    browser.press(ESCAPE)?;
    ensure!(tip()?.is_none() && browser.count("circle.mark")? == 0, "the mark goes with its words");
    focus("#load [data-key]")?;
    browser.press(SPACE)?;
    ensure!(browser.count("#load [data-key][aria-pressed=false]")? == 1, "Space is a click");
    focus(".trust summary")?;
    let is_open = "document.activeElement.parentElement.open";
    ensure!(browser.run_script(&format!("return {is_open}"))? == false);
    browser.press(SPACE)?;
    browser.wait_until("Space unfolds", is_open)?;
    browser.type_into("#filter", "uring")?;
    ensure!(world.shown()?.len() < 55);
    browser.press(ESCAPE)?;
    ensure!(world.shown()?.len() == 55 && world.hash()?.is_empty(), "Escape empties the filter: {}", world.hash()?);
    Ok(())
}

/// Panels of a page that show the same quantity under the same workload, and their axes.
const AXES: &str = "return [...document.querySelectorAll('article')].flatMap((A, at) => {
        const plots = [...A.querySelectorAll('svg.w [data-plot]')].map((it) => JSON.parse(it.dataset.plot))
            .map(({ f, w, x, y }) => [`${at} ${f.replace(/^load.*/, 'load')} ${w}`, JSON.stringify([x.slice(0, 2), y.slice(0, 2)])]);
        const crossings = [...A.querySelectorAll('[id*=interaction] figure')].flatMap((figure, w) => [...figure.querySelectorAll('svg.w')]
            .map((it) => [`${at} interaction ${w}`, [...it.querySelectorAll('text[text-anchor=end].num')].map((t) => t.textContent).join()]));
        return [...plots, ...crossings];
    })";

/// A third choice beside driver and store, which costs more than either.
fn crossed_twice() -> Summary {
    let mut summary = sample::crossed();
    summary.setup.cells.iter_mut().for_each(|cell| drop(cell.factors.insert("zip".to_owned(), "off".to_owned())));
    for cell in summary.setup.cells.clone().iter().filter(|cell| cell.factors["store"] == "packed") {
        let id = format!("{}/zip", cell.id);
        for result in summary.results.clone().iter().filter(|result| result.cell == cell.id) {
            let mut result = CellResult { cell: id.clone(), ..result.clone() };
            if let Outcome::Measured(figures) = &mut result.outcome {
                let three = |it: Interval| Interval { median: it.median * 3.0, lo: it.lo * 3.0, hi: it.hi * 3.0 };
                figures.cpu_us = figures.cpu_us.map(three);
            }
            summary.results.push(result);
        }
        let mut zipped = Cell { label: format!("{}/zip", cell.label), id, ..cell.clone() };
        zipped.factors.insert("zip".to_owned(), "on".to_owned());
        summary.setup.cells.push(zipped);
    }
    summary
}

pub(super) fn panels_share_axes(world: &World) -> Result<()> {
    let mut compared = 0;
    for matrices in [vec![sample::summary(), sample::cache()], vec![crossed_twice()]] {
        world.open(matrices, "")?;
        let panels: Vec<(String, String)> = serde_json::from_value(world.browser.run_script(AXES)?)?;
        let crossings = panels.iter().filter(|(quantity, _)| quantity.contains("interaction")).count();
        ensure!(crossings != 1, "one crossing shares nothing");
        for (index, (quantity, axes)) in panels.iter().enumerate() {
            let others = panels[index + 1..].iter().filter(|(other, _)| other == quantity);
            for (_, other) in others {
                ensure!(axes == other, "{quantity}: {axes} and {other}");
                compared += 1;
            }
        }
    }
    ensure!(compared > 50, "only {compared} pairs of panels");
    Ok(())
}
