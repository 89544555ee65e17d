//! A web site as browsers load it: style, modules, WebAssembly, a font, a picture that is compressed, and a film that is sought in. The
//! tests of http-server and of zerocopy include this, each with `EXE` and `ALONE` in its module `tests`.

mod film;

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::{Browser, DriverKind, Server, tls::Certificates};
use web::codec;
use wire::http1::coding::Coding;

use super::tests::{ALONE, EXE};

/// A font that systems with a browser have, as fontconfig depends on it.
const FONT: &str = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
/// Module with one function, `answer`, that returns 42.
const WASM: &[u8] =
    b"\0asm\x01\0\0\0\x01\x05\x01\x60\0\x01\x7f\x03\x02\x01\0\x07\x0a\x01\x06answer\0\0\x0a\x06\x01\x04\0\x41\x2a\x0b";
/// Length of the film, in seconds and frames.
const FRAMES: usize = 40;
/// Bytes that each second of the film is long: all of it is more than what a browser reads ahead.
const SECOND: usize = 300 << 10;

/// Paints one picture for each second, the n-th in its own shade of red, and returns their files' bytes.
const PICTURES: &str = "
    const canvas = Object.assign(document.createElement('canvas'), { width: 32, height: 16 });
    const context = canvas.getContext('2d', { alpha: false });
    const pictures = [];
    for (let second = 0; second < FRAMES; second++) {
        context.fillStyle = `rgb(${40 + 5 * second}, 0, 0)`;
        context.fillRect(0, 0, canvas.width, canvas.height);
        const file = await new Promise(done => canvas.toBlob(done, 'image/webp', 0.9));
        pictures.push([...new Uint8Array(await file.arrayBuffer())]);
    }
    return pictures;";

/// Returns the second that the frame on the screen belongs to.
const SECOND_SHOWN: &str = "(() => {
    const context = new OffscreenCanvas(1, 1).getContext('2d');
    context.drawImage(document.querySelector('video'), 0, 0, 1, 1);
    return Math.round((context.getImageData(0, 0, 1, 1).data[0] - 40) / 5);
})()";

const PAGE: &str = "<!doctype html><title>site</title>
    <link rel=stylesheet href=style.css><link rel=icon href='data:,'>
    <p>text</p><img src=picture.svg><video src=film.webm preload=metadata muted></video>
    <script type=module src=main.mjs></script>";

const STYLE: &str = "@font-face { font-family: own; src: url(own.ttf) } p { color: rgb(1, 2, 3); font-family: own }";

const MODULE: &str = "import { double } from './lib/double.js';
    const { instance } = await WebAssembly.instantiateStreaming(fetch('answer.wasm'));
    document.body.dataset.answer = double(instance.exports.answer());\n";

/// Parts that the page loads beside itself, and the film.
const PARTS: [&str; 6] = ["style.css", "main.mjs", "lib/double.js", "answer.wasm", "own.ttf", "picture.svg"];

fn write_site(browser: &Browser, site: &Path) -> Result<()> {
    let pictures = browser.run_script(&PICTURES.replace("FRAMES", &FRAMES.to_string()))?;
    let pictures: Vec<Vec<u8>> = serde_json::from_value(pictures)?;
    let frames = pictures.iter().map(|picture| film::frame(picture)).collect::<Option<Vec<_>>>();
    let film = film::film(&frames.context("pictures in lossy WebP")?, [32, 16], SECOND);
    let comment = "<!-- a picture that is longer than it is interesting -->".repeat(100);
    let picture = format!("<svg xmlns='http://www.w3.org/2000/svg' width='7' height='5'>{comment}</svg>");
    let compressed = codec::compress(Coding::Brotli, picture.as_bytes())?.context("smaller")?;
    fs::create_dir(site.join("lib"))?;
    for (name, contents) in [
        ("index.html", PAGE.as_bytes()),
        ("style.css", STYLE.as_bytes()),
        ("main.mjs", MODULE.as_bytes()),
        ("lib/double.js", b"export const double = (number) => 2 * number;\n"),
        ("answer.wasm", WASM),
        ("own.ttf", &fs::read(FONT).context(FONT)?),
        ("picture.svg", picture.as_bytes()),
        ("picture.svg.br", &compressed),
        ("film.webm", &film),
    ] {
        fs::write(site.join(name), contents)?;
    }
    Ok(())
}

/// Loads the page, and looks at everything on it.
fn load(browser: &Browser, url: &str, protocol: &str) -> Result<()> {
    browser.open(url)?;
    browser.wait_until("modules and WebAssembly have run", "document.body.dataset.answer === '84'")?;
    let colour = "getComputedStyle(document.querySelector('p')).color";
    ensure!(browser.run_script(&format!("return {colour}"))? == "rgb(1, 2, 3)", "the style applies");
    let faces = "await document.fonts.ready; return [...document.fonts].map(it => it.status)";
    ensure!(browser.run_script(faces)? == json!(["loaded"]), "the font is one");
    ensure!(browser.run_script("return document.images[0].naturalWidth")? == 7, "the picture has its size");
    let film = "document.querySelector('video')";
    browser.wait_until("the length of the film is known", &format!("{film}.duration === {FRAMES}"))?;
    // Forth, back, and into what has been read already.
    for second in [FRAMES - 3, 20, 3] {
        browser.run_script(&format!("{film}.currentTime = {second}.5"))?;
        let is_there = format!("!{film}.seeking && {film}.readyState >= 2 && {SECOND_SHOWN} === {second}");
        browser.wait_until(&format!("second {second} is shown"), &is_there)?;
    }
    let entries = "return performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))
        .map(it => [it.name, it.nextHopProtocol, it.encodedBodySize, it.decodedBodySize])";
    let entries: Vec<(String, String, u64, u64)> = serde_json::from_value(browser.run_script(entries)?)?;
    for part in ["", "film.webm"].iter().chain(&PARTS) {
        let entry = entries.iter().find(|entry| entry.0 == format!("{url}{part}"));
        let entry = entry.with_context(|| format!("no {part} in {entries:?}"))?;
        ensure!(entry.1 == protocol, "{part} came by another protocol than {protocol}: {entry:?}");
        ensure!(*part != "picture.svg" || entry.2 * 4 < entry.3, "it came compressed: {entry:?}");
    }
    ensure!(browser.console_messages()?.is_empty(), "{:?}", browser.console_messages()?);
    Ok(())
}

/// Checks the log of one visit: all that is on the page was sent once and whole, and the film in parts.
fn check_log(log: &Path, version: &str) -> Result<()> {
    let text = fs::read_to_string(log)?;
    let records: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(records.iter().all(|record| record["version"] == version), "{text}");
    for part in [""].iter().chain(&PARTS) {
        let of_part = records.iter().filter(|record| record["target"] == format!("/{part}"));
        let statuses: Vec<_> = of_part.map(|record| &record["status"]).collect();
        ensure!(statuses == [200], "{part}: {statuses:?}");
    }
    let of_film: Vec<_> = records.iter().filter(|record| record["target"] == "/film.webm").collect();
    let statuses: Vec<_> = of_film.iter().filter_map(|record| record["status"].as_u64()).collect();
    // What it has read before it may ask for with a condition.
    let parts = statuses.iter().filter(|&&status| status == 206).count();
    ensure!(parts > 1 && statuses.iter().all(|status| [206, 304].contains(status)), "the film: {statuses:?}");
    let sent = of_film.iter().filter_map(|record| record["body_bytes"].as_u64()).max();
    ensure!(sent.is_some_and(|sent| sent < (FRAMES * SECOND) as u64), "all of it was sent: {text}");
    Ok(())
}

/// On every driver, by HTTP/1.1 and, over TLS, by HTTP/2.
#[test]
fn a_site_loads_and_its_film_can_be_sought_in() -> Result<()> {
    let _alone = ALONE.lock();
    let Some(browser) = Browser::start()? else { return Ok(()) };
    let (site, logs, certificates) = (tempfile::tempdir()?, tempfile::tempdir()?, Certificates::new()?);
    write_site(&browser, site.path())?;
    let plain = ["--listen", "127.0.0.1:0"].map(str::to_owned).to_vec();
    for (scheme, protocol, version, addresses) in
        [("http", "http/1.1", "HTTP/1.1", plain), ("https", "h2", "HTTP/2.0", certificates.flags("server"))]
    {
        for driver in testkit::sample(DriverKind::ALL) {
            let log = logs.path().join(format!("{driver}.{scheme}"));
            let mut command = Command::new(EXE);
            command.args(["--driver", driver.name(), "--threads", "1", "--access-log-format", "json"]).args(&addresses);
            command.arg("--access-log").arg(&log).arg(site.path());
            let mut server = Server::start_command(command, 1)?;
            let visit = load(&browser, &format!("{scheme}://{}/", server.address()), protocol);
            visit.with_context(|| format!("{driver} by {protocol}: {}", server.stderr()))?;
            // Its connections end.
            browser.open("about:blank")?;
            server.drain().with_context(|| driver.name())?;
            check_log(&log, version).with_context(|| format!("{driver} by {protocol}"))?;
        }
    }
    Ok(())
}
