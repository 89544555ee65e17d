//! The web page of the cache in a browser, with its server.

#[cfg(test)]
#[path = "../../../web/tests/browser/mod.rs"]
mod site;

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{Read, Write},
        net::TcpStream,
        path::Path,
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use anyhow::{Context, Result, ensure};
    use parking_lot::{Mutex, MutexGuard};
    use tempfile::TempDir;
    use testkit::{Browser, Screen, Server, eventually};
    use web::codec;
    use wire::http1::coding::Coding;

    const DESKTOP: Screen = Screen { width: 1280, is_phone: false, is_dark: false };
    pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_zerocopy");
    const MARKUP: &str = "<img src=x onerror=alert(1)>.txt";
    const LEFT: char = '\u{e012}';
    const TAB: char = '\u{e004}';

    /// Browsers are large: one at a time.
    pub(crate) static ALONE: Mutex<()> = Mutex::new(());

    struct World {
        browser: Browser,
        server: Server,
        site: TempDir,
        _alone: MutexGuard<'static, ()>,
    }

    impl World {
        /// Starts a server of such files and opens its page; `None` where there is no browser.
        fn open(files: &[(&str, usize)], flags: &[&str]) -> Result<Option<Self>> {
            let alone = ALONE.lock();
            let Some(browser) = Browser::start()? else { return Ok(None) };
            let site = tempfile::tempdir()?;
            for (name, bytes) in files {
                fs::write(site.path().join(name), vec![b'x'; *bytes])?;
            }
            let server = serve(site.path(), "127.0.0.1:0", flags)?;
            browser.emulate(DESKTOP)?;
            browser.open(&format!("http://{}/cache/webui/", server.address()))?;
            Ok(Some(Self { browser, server, site, _alone: alone }))
        }

        fn get(&self, path: &str) -> Result<String> {
            let host = self.server.address().to_string();
            let mut stream = TcpStream::connect(&host)?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        }

        /// Requests a path again and again while `meanwhile` runs.
        fn under_load(&self, path: &str, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                let load = scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        ensure!(self.get(path)?.starts_with("HTTP/1.1 200"), "{path}");
                    }
                    Ok(())
                });
                let outcome = meanwhile();
                is_over.store(true, Ordering::Relaxed);
                outcome.and_then(|()| load.join().expect("the load does not panic"))
            })
        }

        fn is_live(&self) -> Result<()> {
            self.browser.wait_until("the page is live", "document.querySelector('.state.live')")
        }

        fn rows(&self) -> Result<Vec<String>> {
            let names = "return [...document.querySelectorAll('#file-rows th')].map(it => it.textContent)";
            Ok(serde_json::from_value(self.browser.run_script(names)?)?)
        }

        /// Waits until the table lists these files, in any order.
        fn has_rows(&self, names: &[&str]) -> Result<()> {
            eventually(&format!("the table has {names:?}"), || {
                let mut rows = self.rows()?;
                rows.sort();
                Ok(rows == names)
            })
        }

        fn holds(&self, name: &str) -> Result<bool> {
            let answer = self.get("/cache/stats")?;
            let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
            let stats: serde_json::Value = serde_json::from_str(body)?;
            let files = stats["files"].as_array().context("no files")?;
            Ok(files.iter().any(|file| file["uri"] == name))
        }
    }

    fn serve(site: &Path, address: &str, flags: &[&str]) -> Result<Server> {
        let site = site.to_str().context("a path of letters")?;
        let usual = ["--listen", address, "--threads", "1", "--idle-evict", "1h", site];
        Server::start(Path::new(EXE), [&usual[..], flags].concat())
    }

    #[test]
    fn the_charts_move_under_load() -> Result<()> {
        let Some(world) = World::open(&[("page.html", 26_510)], &[])? else { return Ok(()) };
        let browser = &world.browser;
        world.is_live()?;
        world.under_load("/page.html", || {
            let rate = "parseInt(document.querySelector('#rate .now').textContent.replaceAll(',', ''))";
            browser.wait_until("requests are counted", &format!("{rate} > 1"))?;
            browser
                .wait_until("latency has its curves", "document.querySelectorAll('#latency polyline').length >= 4")?;
            browser.wait_until("the mix has an area", "document.querySelector('#mix polygon')")?;
            let points = "document.querySelector('#rate polyline').getAttribute('points')";
            let before = browser.run_script(&format!("return {points}"))?;
            browser.wait_until("the line goes on", &format!("{points} !== {before}"))
        })?;
        world.has_rows(&["/page.html"])?;
        ensure!(browser.text("#verdict")?.contains("1 file is cached"), "{}", browser.text("#verdict")?);
        ensure!(browser.console_messages()?.is_empty(), "{:?}", browser.console_messages()?);
        Ok(())
    }

    /// Page, style, module and picture, each compressed: by the server, or beforehand in either way that the browser accepts.
    #[test]
    fn a_browser_shows_a_page_of_compressed_files() -> Result<()> {
        let Some(world) = World::open(&[], &[])? else { return Ok(()) };
        let padding = "/* padding that compresses well */\n".repeat(200);
        let page = "<!doctype html><link rel=icon href=data:,><link rel=stylesheet href=s.css>
            <script type=module src=m.js></script><img src=p.svg>"
            .to_owned()
            + &"<p>A line of the page\n".repeat(500);
        let style = format!("{padding} body {{ color: rgb(1, 2, 3) }}");
        let module = format!("{padding} document.title = 'run';");
        let picture = format!("<svg xmlns='http://www.w3.org/2000/svg' width='7' height='5'><!-- {padding} --></svg>");
        for (name, contents) in [("x.html", &page), ("s.css", &style), ("m.js", &module), ("p.svg", &picture)] {
            fs::write(world.site.path().join(name), contents)?;
        }
        for (name, coding, contents) in [("s.css.br", Coding::Brotli, &style), ("p.svg.gz", Coding::Gzip, &picture)] {
            let compressed = codec::compress(coding, contents.as_bytes())?.context("smaller")?;
            fs::write(world.site.path().join(name), compressed)?;
        }
        world.browser.open(&format!("http://{}/x.html", world.server.address()))?;
        world.browser.wait_until("the module has run", "document.title === 'run'")?;
        let is_styled = "getComputedStyle(document.body).color === 'rgb(1, 2, 3)'";
        world.browser.wait_until("the style counts", is_styled)?;
        world.browser.wait_until("the picture has its size", "document.images[0].naturalWidth === 7")?;
        let entries = "performance.getEntries().filter(it => it.decodedBodySize > 1000)";
        let compressed = format!("{entries}.filter(it => it.encodedBodySize * 4 < it.decodedBodySize).length === 4");
        world.browser.wait_until("all four came compressed", &compressed)?;
        ensure!(world.browser.console_messages()?.is_empty(), "{:?}", world.browser.console_messages()?);
        Ok(())
    }

    #[test]
    fn a_young_page_does_not_span_a_minute() -> Result<()> {
        let Some(world) = World::open(&[], &[])? else { return Ok(()) };
        let is_tight = "(() => {
            const points = document.querySelector('#rate polyline')?.points, axis = document.querySelector('#rate .base');
            if (!points || points.length < 3) return false;
            const [left, right] = [axis.x1.baseVal.value, axis.x2.baseVal.value];
            return (right - points[0].x) / (right - left) > 0.15;
        })()";
        world.browser.wait_until("three samples take more than a twentieth of the charts", is_tight)?;
        ensure!(world.get("/cache/webui/icon.svg")?.starts_with("HTTP/1.1 200"), "the icon that the page names");
        Ok(())
    }

    #[test]
    fn a_reset_takes_one_file_out_of_the_cache() -> Result<()> {
        let Some(world) = World::open(&[("a.txt", 100), ("b.txt", 100)], &[])? else { return Ok(()) };
        for path in ["/a.txt", "/b.txt"] {
            world.get(path)?;
        }
        world.has_rows(&["/a.txt", "/b.txt"])?;
        world.browser.click("button[aria-label='Reset /a.txt']")?;
        world.has_rows(&["/b.txt"])?;
        ensure!(!world.holds("/a.txt")? && world.holds("/b.txt")?);
        ensure!(world.browser.text("#note")?.contains("/a.txt was removed from the cache"));
        world.get("/a.txt")?;
        world.has_rows(&["/a.txt", "/b.txt"])
    }

    #[test]
    fn a_name_with_markup_is_text_and_can_be_reset() -> Result<()> {
        let Some(world) = World::open(&[(MARKUP, 100)], &[])? else { return Ok(()) };
        world.get("/%3Cimg%20src=x%20onerror=alert(1)%3E.txt")?;
        let shown = format!("/{MARKUP}");
        world.has_rows(&[&shown])?;
        ensure!(world.browser.count("img")? == 0, "the name became an element");
        world.browser.click("#raw-box summary")?;
        world
            .browser
            .wait_until("the JSON is shown", "document.querySelector('#raw-text').textContent.includes('<img')")?;
        // Reading anything fails while a dialog is open.
        ensure!(world.browser.count("img")? == 0, "the JSON became an element");
        world.browser.click("#file-rows button")?;
        world.has_rows(&[])?;
        ensure!(world.browser.console_messages()?.is_empty(), "{:?}", world.browser.console_messages()?);
        Ok(())
    }

    #[test]
    fn nothing_is_wider_than_the_screen_and_dark_is_dark() -> Result<()> {
        let long = "a-name-without-a-place-to-break-".repeat(6);
        let files = [(long.as_str(), 100), ("page.html", 26_510), (MARKUP, 1_000_000)];
        let Some(world) = World::open(&files, &[])? else { return Ok(()) };
        for path in [&format!("/{long}"), "/page.html", "/%3Cimg%20src=x%20onerror=alert(1)%3E.txt"] {
            world.get(path)?;
        }
        world.browser.wait_until("the files are there", "document.querySelectorAll('#file-rows tr').length === 3")?;
        let (browser, mut papers) = (&world.browser, Vec::new());
        for is_dark in [false, true] {
            for (width, is_phone) in [(320, true), (360, true), (768, false), (1280, false)] {
                let screen = Screen { width, is_phone, is_dark };
                browser.emulate(screen)?;
                let fits = "document.querySelector('#rate svg').clientWidth < innerWidth \
                            && document.documentElement.scrollWidth <= innerWidth";
                browser.wait_until(&format!("{screen:?} holds everything"), fits)?;
                ensure!(browser.run_script("return innerWidth")? == width, "{screen:?} had to be widened");
            }
            papers.push(browser.run_script("return getComputedStyle(document.documentElement).backgroundColor")?);
        }
        ensure!(papers[0] != papers[1], "{papers:?}");
        Ok(())
    }

    #[test]
    fn a_token_is_asked_for_and_kept_over_a_reload() -> Result<()> {
        let Some(world) = World::open(&[], &["--admin-token", "secret"])? else { return Ok(()) };
        let browser = &world.browser;
        browser.wait_until("a token is asked for", "!document.querySelector('#access').hidden")?;
        browser.type_into("#token", "wrong\u{e007}")?;
        browser.wait_until(
            "a wrong one is refused",
            "document.querySelector('#access-why').textContent.includes('not accept')",
        )?;
        browser.type_into("#token", "secret\u{e007}")?;
        world.is_live()?;
        browser.open(&format!("http://{}/cache/webui/", world.server.address()))?;
        world.is_live()?;
        browser.wait_until("and not asked for again", "document.querySelector('#access').hidden")
    }

    #[test]
    fn a_lost_server_is_reported_and_found_again() -> Result<()> {
        let Some(mut world) = World::open(&[("a.txt", 100)], &[])? else { return Ok(()) };
        world.is_live()?;
        let address = world.server.address().to_string();
        world.server.stop()?;
        let told = "!document.querySelector('#alert').hidden && \
                    document.querySelector('#alert').textContent.startsWith('No answer from the server')";
        world.browser.wait_until("the page says so", told)?;
        world.server = serve(world.site.path(), &address, &[])?;
        world.is_live()?;
        world.browser.wait_until("and says no more of it", "document.querySelector('#alert').hidden")
    }

    #[test]
    fn files_are_found_and_sorted_with_the_keyboard_alone() -> Result<()> {
        let files = [("small.txt", 10), ("large.txt", 5_000), ("other.html", 1_000)];
        let Some(world) = World::open(&files, &[])? else { return Ok(()) };
        for (name, _) in files {
            world.get(&format!("/{name}"))?;
        }
        let browser = &world.browser;
        world.has_rows(&["/large.txt", "/other.html", "/small.txt"])?;
        let focus_on = |selector: &str| {
            eventually(&format!("{selector} is reached"), || {
                browser.press(TAB)?;
                Ok(browser.run_script(&format!("return document.activeElement.matches('{selector}')"))? == true)
            })
        };
        focus_on("#rate")?;
        browser.wait_until("two samples", "document.querySelector('#rate polyline')?.points.length >= 3")?;
        browser.press(LEFT)?;
        browser.wait_until(
            "a moment before is read out",
            "document.querySelector('#rate .now').textContent.includes('ago')",
        )?;
        focus_on("#search")?;
        "txt".chars().try_for_each(|key| browser.press(key))?;
        world.has_rows(&["/large.txt", "/small.txt"])?;
        focus_on("#file-head th:nth-child(3) button")?;
        browser.press('\u{e007}')?;
        browser.wait_until(
            "sizes fall",
            "document.querySelector('#file-head th:nth-child(3)').ariaSort === 'descending'",
        )?;
        ensure!(world.rows()? == ["/large.txt", "/small.txt"], "{:?}", world.rows()?);
        browser.press('\u{e007}')?;
        browser
            .wait_until("and rise", "document.querySelector('#file-head th:nth-child(3)').ariaSort === 'ascending'")?;
        ensure!(world.rows()? == ["/small.txt", "/large.txt"], "{:?}", world.rows()?);
        Ok(())
    }
}
