//! A browser for each test, driven over [WebDriver](https://www.w3.org/TR/webdriver2/).

use std::{
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader},
    path::Path,
    process::{self, Child, Command, Stdio},
};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use ureq::Agent;

use crate::{HANG, eventually, installed_program};

/// Key of a reference to an element in WebDriver's JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const READY: &str = "was started successfully on port ";
/// Prefix of the temporary directories of browsers; the id of the test's process follows.
const LEFTOVERS: &str = "testkit-browser-";

/// A screen that the browser emulates.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Width in CSS pixels.
    pub width: u32,
    pub is_phone: bool,
    /// True if the system prefers a dark colour scheme.
    pub is_dark: bool,
}

/// A headless Chromium; closed when this is dropped.
pub struct Browser {
    agent: Agent,
    session: String,
    driver: Child,
    /// Directory for the files of driver and browser, such as the profile. `None` once it has been removed.
    directory: Option<TempDir>,
}

impl Browser {
    /// Starts a browser. `None` where none is installed, which standard error then says.
    ///
    /// # Errors
    /// One is installed and does not start.
    pub fn start() -> Result<Option<Self>> {
        let (Some(driver), Some(chromium)) = (installed_program("chromedriver")?, installed_program("chromium")?)
        else {
            return Ok(None);
        };
        clear_leftovers()?;
        let directory = tempfile::Builder::new().prefix(&format!("{LEFTOVERS}{}-", process::id())).tempdir()?;
        // The driver must not outlive a test that is killed. The browser ends with its pipe to the driver.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(driver);
        command.arg("--port=0").env("TMPDIR", directory.path()).env("HOME", directory.path());
        let mut driver = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let port = driver.stdout.take().and_then(|stdout| {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.filter_map(|line| Some(line.split_once(READY)?.1.trim_end_matches('.').to_owned())).next()
        });
        let agent: Agent =
            Agent::config_builder().http_status_as_error(false).timeout_global(Some(HANG)).build().into();
        let mut browser = Self { agent, session: String::new(), driver, directory: Some(directory) };
        let service = format!("http://127.0.0.1:{}", port.context("chromedriver has not started")?);
        let options = json!({
            "binary": chromium,
            // In a container a browser may make no sandboxes and has little shared memory.
            "args": ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"],
        });
        // Certificates of tests are signed by nobody whom it knows.
        let wanted = json!({"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}, "acceptInsecureCerts": true});
        browser.session.clone_from(&service);
        let session = browser.post("session", &json!({"capabilities": {"alwaysMatch": wanted}}))?;
        let id = session["sessionId"].as_str().context("no session")?;
        browser.session = format!("{service}/session/{id}");
        Ok(Some(browser))
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let mut answer = self.agent.post(format!("{}/{path}", self.session)).send(body.to_string())?;
        value(path, serde_json::from_str(&answer.body_mut().read_to_string()?)?)
    }

    fn command(&self, name: &str, parameters: &Value) -> Result<Value> {
        self.post("goog/cdp/execute", &json!({"cmd": name, "params": parameters}))
    }

    /// Emulates a screen.
    ///
    /// # Errors
    /// The browser fails.
    pub fn emulate(&self, Screen { width, is_phone, is_dark }: Screen) -> Result<()> {
        let metrics = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": is_phone});
        self.command("Emulation.setDeviceMetricsOverride", &metrics)?;
        let scheme = if is_dark { "dark" } else { "light" };
        // Otherwise the page would still be scrolling when something on it is clicked.
        let still = json!({"name": "prefers-reduced-motion", "value": "reduce"});
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}, still]);
        self.command("Emulation.setEmulatedMedia", &json!({"media": "screen", "features": features}))?;
        Ok(())
    }

    /// Allows or forbids scripts, from the next page on.
    ///
    /// # Errors
    /// The browser fails.
    pub fn allow_scripts(&self, allowed: bool) -> Result<()> {
        self.command("Emulation.setScriptExecutionDisabled", &json!({"value": !allowed})).map(drop)
    }

    /// Opens a page, and waits until it has loaded.
    ///
    /// # Errors
    /// The browser fails.
    pub fn open(&self, url: &str) -> Result<()> {
        self.post("url", &json!({"url": url})).map(drop)
    }

    /// Runs a function body in the page and returns its value; a promise is awaited.
    ///
    /// # Errors
    /// The script throws.
    pub fn run_script(&self, script: &str) -> Result<Value> {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression holds in the page.
    ///
    /// # Errors
    /// It does not hold within [`HANG`]; the error has `what` and the text of the page.
    pub fn wait_until(&self, what: &str, expression: &str) -> Result<()> {
        let holds = || Ok(self.run_script(&format!("return Boolean({expression})"))? == true);
        eventually(what, holds).with_context(|| format!("the page says: {:?}", self.text("main")))
    }

    /// Returns the text of the first element that matches, hidden or not.
    ///
    /// # Errors
    /// No element matches.
    pub fn text(&self, selector: &str) -> Result<String> {
        let text = self.run_script(&format!("return document.querySelector({})?.textContent", json!(selector)))?;
        text.as_str().map(str::to_owned).ok_or_else(|| anyhow!("no {selector}"))
    }

    /// Counts the elements that match.
    ///
    /// # Errors
    /// The browser fails.
    pub fn count(&self, selector: &str) -> Result<u64> {
        let count = self.run_script(&format!("return document.querySelectorAll({}).length", json!(selector)))?;
        count.as_u64().context("no number")
    }

    /// Clicks an element, which must be visible and not covered.
    ///
    /// # Errors
    /// It is missing, hidden or covered.
    pub fn click(&self, selector: &str) -> Result<()> {
        self.post(&format!("element/{}/click", self.element(selector)?), &json!({})).map(drop)
    }

    /// Types text into an element, after the text it has.
    ///
    /// # Errors
    /// The element cannot be typed into.
    pub fn type_into(&self, selector: &str, text: &str) -> Result<()> {
        self.post(&format!("element/{}/value", self.element(selector)?), &json!({"text": text})).map(drop)
    }

    /// Presses a key in the element that has the focus.
    ///
    /// # Errors
    /// The browser fails.
    pub fn press(&self, key: char) -> Result<()> {
        let strokes = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.post("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})).map(drop)
    }

    fn element(&self, selector: &str) -> Result<String> {
        let element = self.post("element", &json!({"using": "css selector", "value": selector}))?;
        element[ELEMENT].as_str().map(str::to_owned).with_context(|| format!("no {selector}"))
    }

    /// Returns the errors and warnings of the console, such as failed scripts and violations of the page's policy.
    ///
    /// # Errors
    /// The browser fails.
    pub fn console_messages(&self) -> Result<Vec<String>> {
        let entries = self.post("se/log", &json!({"type": "browser"}))?;
        let messages = entries.as_array().into_iter().flatten().filter_map(|entry| entry["message"].as_str());
        // Every browser requests a favicon, and few servers have one.
        Ok(messages.filter(|message| !message.contains("/favicon.ico")).map(str::to_owned).collect())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser, if there is a session.
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let Some(directory) = self.directory.take() else { return };
        // The browser's last processes may still be writing.
        let path = directory.keep();
        let removed = eventually("the files of the browser are removed", || Ok(remove(&path).is_ok()));
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes the directories of browsers whose tests were killed.
fn clear_leftovers() -> Result<()> {
    for entry in fs::read_dir(std::env::temp_dir())? {
        let path = entry?.path();
        let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix(LEFTOVERS));
        let Some((process, _)) = name.and_then(|name| name.split_once('-')) else { continue };
        if !Path::new("/proc").join(process).exists() {
            // Another test may be removing it at the same time.
            let _ = remove(&path);
        }
    }
    Ok(())
}

fn value(what: &str, mut answer: Value) -> Result<Value> {
    let value = answer["value"].take();
    match value["error"].as_str() {
        Some(error) => bail!("{what}: {error}: {}", value["message"].as_str().unwrap_or_default()),
        None => Ok(value),
    }
}
