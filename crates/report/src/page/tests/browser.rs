//! Laws of the page in a browser: what the script adds, and that nothing is missing without it. One browser for all.

mod accessibility;

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testkit::{Browser, Screen, eventually};

use super::{Summary, page};
use crate::sample;

const DESK: Screen = Screen { width: 1280, is_phone: false, is_dark: false };
const PHONE: Screen = Screen { width: 390, is_phone: true, is_dark: false };
const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';

/// Rows of the table that are shown, as text of the first two columns.
const SHOWN: &str = "return [...document.querySelectorAll('#raw tbody tr:not(.off)')]
    .map(row => row.cells[0].textContent + ' ' + row.cells[1].textContent)";

/// As if the reader had deleted every word.
const EMPTY_FILTER: &str =
    "const it = document.querySelector('#filter'); it.value = ''; it.dispatchEvent(new Event('input'))";

type Law = fn(&World) -> Result<()>;

struct World {
    browser: Browser,
    directory: tempfile::TempDir,
}

impl World {
    /// Opens the report of these matrices, at a place in it.
    fn open(&self, matrices: Vec<Summary>, place: &str) -> Result<()> {
        self.open_folded(matrices, place)?;
        self.browser.run_script("document.querySelectorAll('.fold > details').forEach(it => it.open = true)")?;
        Ok(())
    }

    /// The same as a reader first sees it.
    fn open_folded(&self, matrices: Vec<Summary>, place: &str) -> Result<()> {
        let path = self.directory.path().join("report.html");
        fs::write(&path, page(matrices))?;
        self.go(place)
    }

    fn number(&self, script: &str) -> Result<f64> {
        self.browser.run_script(&format!("return {script}"))?.as_f64().context("no number")
    }

    /// As if the address had been sent to somebody.
    fn go(&self, place: &str) -> Result<()> {
        // Otherwise only the fragment changes, and nothing is loaded.
        self.browser.open("about:blank")?;
        self.browser.open(&format!("file://{}{place}", self.directory.path().join("report.html").display()))
    }

    fn hash(&self) -> Result<String> {
        Ok(serde_json::from_value(self.browser.run_script("return location.hash")?)?)
    }

    fn shown(&self) -> Result<Vec<String>> {
        Ok(serde_json::from_value(self.browser.run_script(SHOWN)?)?)
    }

    fn is_calm(&self) -> Result<()> {
        let complaints = self.browser.console_messages()?;
        ensure!(complaints.is_empty(), "{complaints:?}");
        ensure!(
            self.browser.run_script("return performance.getEntriesByType('resource').length")? == 0,
            "something was loaded"
        );
        Ok(())
    }
}

#[test]
fn in_a_browser_the_report_does_what_it_says() -> Result<()> {
    let Some(browser) = Browser::start()? else { return Ok(()) };
    let world = World { browser, directory: tempfile::tempdir()? };
    let laws: [(&str, Law); 14] = [
        ("filter, order and unit are kept in the address", state_is_kept),
        ("a cell leads to its row", a_cell_opens_its_row),
        ("keys switch curves", keys_switch_curves),
        ("the second matrix has its own state", matrices_are_apart),
        ("what is embedded can be saved", the_data_can_be_saved),
        ("the keyboard reaches everything", the_keyboard_reaches_everything),
        ("Tab stops at everything that can be used", accessibility::tab_stops_at_everything),
        ("keys do what a mouse does", accessibility::keys_do_what_a_mouse_does),
        ("contrasts are those of WCAG AA", accessibility::everything_can_be_seen),
        ("panels of one quantity share their axes", accessibility::panels_share_axes),
        ("nothing is wider than the screen, dark is dark", every_screen_holds_the_page),
        ("the first screen has claim, picture and trust", the_first_screen_is_whole),
        ("a page has a limit of height", pages_are_not_too_high),
        ("scripts off", nothing_is_missing_without_scripts),
    ];
    for (name, law) in laws {
        world.browser.emulate(DESK)?;
        law(&world).context(name)?;
        world.is_calm().context(name)?;
    }
    Ok(())
}

fn state_is_kept(world: &World) -> Result<()> {
    let browser = &world.browser;
    world.open(vec![sample::summary()], "")?;
    ensure!(world.shown()?.len() == 55);
    browser.type_into("#filter", "Uring  driver=tokio 128B-c64")?;
    let own = ["tokio-uring get-128B-c64", "tokio-uring get-128B-c64-open"];
    ensure!(world.shown()? == own, "every word, in any order and case: {:?}", world.shown()?);
    ensure!(browser.text("#fcount")? == "2 of 55 cells", "{}", browser.text("#fcount")?);
    ensure!(browser.count("#heat0-w .colh:not(.none)")? == 2, "a column without a cell steps back");
    browser.run_script(EMPTY_FILTER)?;
    browser.type_into("#filter", "c64-open")?;
    ensure!(world.shown()?.len() == 11, "peers, too: {:?}", world.shown()?);
    browser.click("#raw thead th:nth-child(4)")?;
    browser.click("#raw thead th:nth-child(4)")?;
    browser.click("[data-unit=ms]")?;
    let sorted = world.shown()?;
    ensure!(
        sorted.first().is_some_and(|first| first.starts_with("tokio-uring")),
        "the most expensive first: {sorted:?}"
    );
    let places = "return [...document.querySelectorAll('#heat0-w .row')]
        .map(row => [row.dataset.r, +row.getAttribute('transform').match(/ ([0-9.]+)/)[1]])
        .sort((a, b) => a[1] - b[1]).map(row => row[0])";
    let drawn = browser.run_script(places)?;
    browser.run_script("document.querySelector('#heat0-w .colh').dispatchEvent(new MouseEvent('click'))")?;
    let by_cost = browser.run_script(places)?;
    ensure!(by_cost[0] == "s9" && drawn[0] == "s9", "the null server is the cheapest: {by_cost}");
    let tick = browser.text("#latency [data-us]")?;
    ensure!(tick.ends_with(" ms"), "{tick}");
    let address = world.hash()?;
    world.go(&address)?;
    ensure!(world.shown()? == sorted, "{address}: {:?}", world.shown()?);
    ensure!(browser.run_script(places)? == by_cost, "{address}");
    ensure!(browser.text("#latency [data-us]")? == tick, "{address}");
    browser.run_script(EMPTY_FILTER)?;
    browser.type_into("#filter", "nowhere")?;
    ensure!(world.shown()?.is_empty() && browser.text("#fcount")? == "0 of 55 cells");
    browser.run_script(EMPTY_FILTER)?;
    ensure!(world.shown()?.len() == 55 && browser.text("#fcount")?.is_empty());
    Ok(())
}

fn a_cell_opens_its_row(world: &World) -> Result<()> {
    let browser = &world.browser;
    world.open_folded(vec![sample::summary()], "")?;
    ensure!(browser.run_script("return document.querySelector('#raw-s1-0').checkVisibility()")? == false);
    browser.click("#heat0-w a[href='#raw-s1-0']")?;
    browser.wait_until("it is unfolded", "document.querySelector('#raw-s1-0').checkVisibility()")?;
    ensure!(world.hash()? == "#raw-s1-0");
    let text = browser.text("#raw-s1-0")?;
    ensure!(text.contains("cheaper") && text.contains("0.975×"), "{text}");
    world.go("#raw-s2-1")?;
    browser.wait_until("an address leads there, too", "document.querySelector('#raw-s2-1').checkVisibility()")
}

fn keys_switch_curves(world: &World) -> Result<()> {
    let browser = &world.browser;
    world.open(vec![sample::crossed()], "")?;
    let hidden = "return document.querySelectorAll('#interaction .pic > svg.w:first-of-type g.off').length";
    ensure!(browser.run_script(hidden)? == 0);
    browser.click("#interaction [data-key]")?;
    ensure!(browser.run_script(hidden)? == 2, "a curve and its name: {}", browser.run_script(hidden)?);
    ensure!(browser.count("#interaction [data-key][aria-pressed=false]")? == 1);
    browser.click("#interaction [data-key]")?;
    ensure!(browser.run_script(hidden)? == 0);
    Ok(())
}

fn matrices_are_apart(world: &World) -> Result<()> {
    let browser = &world.browser;
    world.open(vec![sample::summary(), sample::cache()], "#f=http-server/uring&m2-f=driver%3Depoll")?;
    ensure!(!browser.text("#fcount")?.is_empty() && !browser.text("#m2-fcount")?.is_empty());
    let kept = |table: &str| {
        browser.run_script(&format!("return document.querySelector('{table} tbody tr:not(.off) th').textContent"))
    };
    ensure!(kept("#raw")? == "uring" && kept("#m2-raw")? == "epoll");
    Ok(())
}

fn the_data_can_be_saved(world: &World) -> Result<()> {
    let browser = &world.browser;
    world.open(vec![sample::summary()], "")?;
    let content = |name: &str| -> Result<String> {
        let script =
            format!("return fetch(document.querySelector('#dl a[download=\"{name}\"]').href).then(it => it.text())");
        Ok(serde_json::from_value(browser.run_script(&script)?)?)
    };
    let csv = content("figures.csv")?;
    ensure!(csv.lines().count() == 1 + 55 && csv.contains("http-server,uring,get-128B-c64,cheaper"), "{csv}");
    Ok(())
}

fn the_keyboard_reaches_everything(world: &World) -> Result<()> {
    let browser = &world.browser;
    world.open(vec![sample::summary()], "")?;
    let focus_on = |selector: &str| {
        eventually(&format!("{selector} is reached"), || {
            browser.press(TAB)?;
            Ok(browser.run_script(&format!("return document.activeElement.matches({})", json!(selector)))? == true)
        })
    };
    focus_on("nav a")?;
    focus_on("#theme")?;
    focus_on("#filter")?;
    focus_on("#heat0-w .colh")?;
    let outline = browser.run_script("return getComputedStyle(document.activeElement).outlineStyle")?;
    ensure!(outline == "solid", "the focus can be seen: {outline}");
    browser.press(ENTER)?;
    ensure!(world.hash()? == "#s=get-128B-c64", "{}", world.hash()?);
    focus_on("#heat0-w a.cell")?;
    ensure!(
        browser.run_script("return document.querySelector('#tip').hidden")? == false,
        "what has the focus is read out"
    );
    browser.run_script("document.querySelector('#latency').focus(); document.querySelector('[data-unit]').focus()")?;
    focus_on("#load [data-key]")?;
    browser.press(ENTER)?;
    ensure!(browser.count("#load [data-key][aria-pressed=false]")? == 1);
    browser.run_script("document.querySelector('#table .scroll').focus()")?;
    focus_on("#raw th[tabindex]")?;
    browser.press(ENTER)?;
    ensure!(browser.count("#raw th[aria-sort=ascending]")? == 1);
    Ok(())
}

fn every_screen_holds_the_page(world: &World) -> Result<()> {
    let browser = &world.browser;
    let samples = [vec![sample::summary(), sample::cache()], vec![sample::crowded()], vec![sample::crossed()]];
    let mut papers = Vec::new();
    for (index, matrices) in samples.into_iter().enumerate() {
        world.open(matrices, "")?;
        browser.run_script("document.querySelectorAll('details').forEach(it => it.open = true)")?;
        for is_dark in [false, true] {
            for (width, is_phone) in [(320, true), (390, true), (768, false), (1280, false)] {
                let screen = Screen { width, is_phone, is_dark };
                browser.emulate(screen)?;
                ensure!(browser.run_script("return innerWidth")? == width, "{screen:?} had to be widened");
                let reach = browser.run_script("return document.documentElement.scrollWidth")?;
                ensure!(reach.as_u64() <= Some(u64::from(width)), "sample {index} on {screen:?} is {reach} wide");
            }
            papers.push(browser.run_script("return getComputedStyle(document.documentElement).backgroundColor")?);
        }
    }
    ensure!(papers[0] != papers[1], "{papers:?}");
    browser.emulate(Screen { is_dark: true, ..PHONE })?;
    browser.click("#theme")?;
    let chosen = browser.run_script("return getComputedStyle(document.documentElement).backgroundColor")?;
    ensure!(chosen == papers[0], "the reader's choice goes before the system's: {chosen}");
    browser.click("#theme")?;
    browser.run_script("localStorage.clear()")?;
    Ok(())
}

/// Heights of a screen.
const SCREENS: [(Screen, f64); 2] = [(DESK, 800.0), (PHONE, 844.0)];

fn the_first_screen_is_whole(world: &World) -> Result<()> {
    let quick = vec![sample::quick()];
    for (name, matrices) in [("one", vec![sample::summary()]), ("quick", quick), ("five", sample::five())] {
        world.open_folded(matrices, "")?;
        for (screen, height) in SCREENS {
            world.browser.emulate(screen)?;
            for part in ["h1", ".first", ".trust p"] {
                let bottom =
                    world.number(&format!("document.querySelector('{part}').getBoundingClientRect().bottom"))?;
                ensure!(bottom <= height, "{name} on {screen:?}: {part} ends at {bottom}");
            }
        }
    }
    Ok(())
}

fn pages_are_not_too_high(world: &World) -> Result<()> {
    let one = [("usual", sample::summary()), ("crossed", sample::crossed()), ("large", sample::large())];
    let pages = one.into_iter().map(|(name, summary)| (name, vec![summary], 6_000.0));
    for (name, matrices, most) in pages.chain([("five", sample::five(), 15_000.0)]) {
        world.open_folded(matrices, "")?;
        let height = world.number("document.documentElement.scrollHeight")?;
        ensure!(height <= most, "{name}: {height} high");
    }
    Ok(())
}

fn nothing_is_missing_without_scripts(world: &World) -> Result<()> {
    let browser = &world.browser;
    browser.allow_scripts(false)?;
    world.open(vec![sample::summary()], "#raw-s1-0")?;
    for screen in [DESK, PHONE] {
        browser.emulate(screen)?;
        let is_seen = |selector: &str| {
            let seen = format!("return document.querySelector({})?.checkVisibility() === true", json!(selector));
            Ok::<bool, anyhow::Error>(browser.run_script(&seen)? == true)
        };
        for part in ["matrix", "effects", "latency", "load", "within", "histogram", "cpu"] {
            let drawing = if screen.is_phone { "n" } else { "w" };
            let other = if screen.is_phone { "w" } else { "n" };
            ensure!(is_seen(&format!("#{part} .pic > svg.{drawing}"))?, "{part} on {screen:?}");
            ensure!(!is_seen(&format!("#{part} .pic > svg.{other}"))?, "{part} twice on {screen:?}");
        }
        ensure!(is_seen("h1")? && is_seen(".trust p")? && is_seen("#raw")? && is_seen("#env dl")?, "{screen:?}");
        ensure!(is_seen("#raw-s1-0")?, "the address opens the section of the row");
        // What would do nothing is not there.
        for control in ["#filterbar", "#theme", ".units", "#dl a"] {
            ensure!(!is_seen(control)?, "{control} on {screen:?}");
        }
    }
    browser.allow_scripts(true)
}
