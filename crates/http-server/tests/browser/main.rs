//! Sites and listings in a browser, with their server.

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, process::Command};

    use anyhow::{Result, ensure};
    use parking_lot::Mutex;
    use tempfile::TempDir;
    use testkit::{Browser, Screen, Server};

    const DESKTOP: Screen = Screen { width: 1280, is_phone: false, is_dark: false };
    const PHONE: Screen = Screen { width: 390, is_phone: true, is_dark: true };
    /// A font that most systems with a browser have.
    const FONT: &str = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
    /// Module with one function, `answer`, that returns 42.
    const WASM: &[u8] = b"\0asm\x01\0\0\0\x01\x05\x01\x60\0\x01\x7f\x03\x02\x01\0\x07\x0a\x01\x06answer\0\0\x0a\x06\x01\x04\0\x41\x2a\x0b";

    /// Browsers are large: one at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    fn serve(site: &Path) -> Result<Server> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_http-server"));
        command.args(["--listen", "127.0.0.1:0", "--threads", "1", "--listing", "on", "--root"]).arg(site);
        Server::start_command(command, 1)
    }

    /// Sound of two minutes, all of it silence, and larger than what a browser reads ahead.
    fn silence() -> Vec<u8> {
        const RATE: u32 = 48_000;
        let len = RATE * 2 * 120;
        let mut wav = b"RIFF".to_vec();
        wav.extend((36 + len).to_le_bytes());
        wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
        wav.extend(RATE.to_le_bytes());
        wav.extend((RATE * 2).to_le_bytes());
        wav.extend(b"\x02\0\x10\0data");
        wav.extend(len.to_le_bytes());
        wav.resize(wav.len() + len as usize, 0);
        wav
    }

    fn write_site(site: &TempDir) -> Result<()> {
        let font = Path::new(FONT);
        let face = if font.exists() { "@font-face { font-family: own; src: url(own.ttf) }" } else { "" };
        if font.exists() {
            fs::copy(font, site.path().join("own.ttf"))?;
        }
        for (name, contents) in [
            (
                "index.html",
                "<!doctype html><title>site</title><link rel=stylesheet href=style.css><link rel=icon href='data:,'>\
                 <p>text</p><video src=sound.wav preload=metadata></video><script type=module src=main.mjs></script>"
                    .as_bytes(),
            ),
            ("style.css", format!("{face} p {{ color: rgb(1, 2, 3); font-family: own }}").as_bytes()),
            (
                "main.mjs",
                b"import { double } from './lib/double.js';\n\
                  const { instance } = await WebAssembly.instantiateStreaming(fetch('answer.wasm'));\n\
                  document.body.dataset.answer = double(instance.exports.answer());\n",
            ),
            ("double.js", b"export const double = (number) => 2 * number;\n"),
            ("answer.wasm", WASM),
            ("sound.wav", &silence()),
        ] {
            let name = if name == "double.js" { "lib/double.js" } else { name };
            fs::create_dir_all(site.path().join("lib"))?;
            fs::write(site.path().join(name), contents)?;
        }
        Ok(())
    }

    #[test]
    fn a_site_loads_and_its_sound_can_be_sought_in() -> Result<()> {
        let _alone = ALONE.lock();
        let Some(browser) = Browser::start()? else { return Ok(()) };
        let site = tempfile::tempdir()?;
        write_site(&site)?;
        let server = serve(site.path())?;
        browser.emulate(DESKTOP)?;
        browser.open(&format!("http://{}/", server.address()))?;
        browser.wait_until("modules and WebAssembly have run", "document.body.dataset.answer === '84'")?;
        browser.wait_until(
            "the style applies",
            "getComputedStyle(document.querySelector('p')).color === 'rgb(1, 2, 3)'",
        )?;
        if Path::new(FONT).exists() {
            let faces = "await document.fonts.ready; return [...document.fonts].map(it => it.status)";
            ensure!(browser.run_script(faces)? == serde_json::json!(["loaded"]));
        }
        browser.wait_until("the length of the sound is known", "document.querySelector('video').duration > 119")?;
        browser.run_script("document.querySelector('video').currentTime = 110")?;
        let sought = "document.querySelector('video').currentTime === 110 && !document.querySelector('video').seeking";
        browser.wait_until("it can be sought in", sought)?;
        let part = "const part = await fetch('sound.wav', { headers: { Range: 'bytes=8-11' } });\
                    return [part.status, await part.text()]";
        ensure!(browser.run_script(part)? == serde_json::json!([206, "WAVE"]));
        ensure!(browser.console_messages()?.is_empty(), "{:?}", browser.console_messages()?);
        Ok(())
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
