//! Sites and listings in a browser, with their server.

#[cfg(test)]
#[path = "../../../web/tests/browser/mod.rs"]
mod site;

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, process::Command};

    use anyhow::{Result, ensure};
    use parking_lot::Mutex;
    use testkit::{Browser, Screen, Server};

    const DESKTOP: Screen = Screen { width: 1280, is_phone: false, is_dark: false };
    const PHONE: Screen = Screen { width: 390, is_phone: true, is_dark: true };
    pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_http-server");

    /// Browsers are large: one at a time.
    pub(crate) static ALONE: Mutex<()> = Mutex::new(());

    fn serve(site: &Path) -> Result<Server> {
        let mut command = Command::new(EXE);
        command.args(["--listen", "127.0.0.1:0", "--threads", "1", "--listing", "on", "--root"]).arg(site);
        Server::start_command(command, 1)
    }

    #[test]
    fn a_listing_is_usable_on_any_screen() -> Result<()> {
        let _alone = ALONE.lock();
        let Some(browser) = Browser::start()? else { return Ok(()) };
        let site = tempfile::tempdir()?;
        let long = format!("{}.txt", "a-long-name".repeat(15));
        for name in ["file10.txt", "file9.txt", "<img src=x onerror=alert(1)>.txt", "it's \"quoted\" & \n.txt", &long] {
            fs::write(site.path().join(name), name.repeat(200))?;
        }
        fs::create_dir_all(site.path().join("folder/within & <b>"))?;
        let server = serve(site.path())?;
        let names = "return [...document.querySelectorAll('tbody a')].map(it => it.textContent)";
        for screen in [DESKTOP, PHONE] {
            browser.emulate(screen)?;
            browser.open(&format!("http://{}/", server.address()))?;
            let got = browser.run_script(names)?;
            ensure!(got.as_array().is_some_and(|names| names.len() == 6 && names[0] == "folder/"), "{got}");
            let overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
            ensure!(browser.run_script(overflow)? == 0, "nothing is wider than the screen");
            browser.click("th:nth-child(2) a")?;
            browser.wait_until("sizes fall", "document.querySelector('th:nth-child(2)').ariaSort === 'descending'")?;
            browser.click("tbody .d a")?;
            browser.wait_until("the folder is shown", "document.querySelector('h1').textContent === 'folder'")?;
            browser.click("tbody .d a")?;
            browser.wait_until(
                "and one with a strange name",
                "document.querySelector('h1').textContent === 'within & <b>'",
            )?;
            browser.click("nav li:first-child a")?;
            browser.wait_until("and the way back leads to the top", "location.pathname === '/'")?;
        }
        let fetched = "return (await (await fetch('?format=json')).json()).entries.length";
        // The page's own policy allows no requests by scripts; a page of the site may make them.
        fs::write(site.path().join("page.html"), "<!doctype html><link rel=icon href='data:,'><title>t</title>")?;
        browser.open(&format!("http://{}/page.html", server.address()))?;
        ensure!(browser.run_script(fetched.replace("'?", "'/?").as_str())?.as_u64() >= Some(6));
        ensure!(browser.console_messages()?.is_empty(), "{:?}", browser.console_messages()?);
        Ok(())
    }
}
