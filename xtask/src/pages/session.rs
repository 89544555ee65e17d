//! A reader's shell: one line after the other, servers beside it.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Duration of a load, whatever the page says.
const LOAD_DURATION: &str = "300ms";
/// Keys of a cache under load, unless the page says how many.
const LOAD_KEYS: &str = "20000";
/// Line on standard output by which a server says that it is ready.
const READY: &str = "listening on ";

/// `cargo run -p P` and `cargo xtask` become the programs that are built already, a run of `bench-matrix` its plan, and
/// `cargo test` a look at whether its packages exist.
const CARGO: &str = r#"#!/bin/bash
set -euo pipefail
case "$1" in
  xtask) shift; if [ "${1-}" = bench-matrix ] && [ $# -gt 1 ]; then set -- "$@" --list --no-build --profile dev; fi; exec "$PROGRAMS/xtask" "$@" ;;
  metadata) exec "$CARGO" "$@" ;;
  test) exec "$CARGO" metadata --no-deps --offline --format-version 1 >/dev/null ;;
  run)
    shift
    while [ $# -gt 0 ]; do
      case "$1" in
        --release) shift ;;
        -p|--bin) program=$2; shift 2 ;;
        --) shift; break ;;
        *) echo "cargo run: $1 is unknown to this test" >&2; exit 2 ;;
      esac
    done
    exec "$PROGRAMS/$program" "$@" ;;
  *) echo "cargo $1 is unknown to this test" >&2; exit 2 ;;
esac
"#;

pub(super) struct Session {
    /// Working directory of every line.
    tree: PathBuf,
    /// Search path for programs, with ours in front.
    path: std::ffi::OsString,
    programs: PathBuf,
    /// Cargo itself, which the shim hides.
    cargo: PathBuf,
    servers: Vec<Server>,
}

struct Server {
    line: String,
    child: Child,
}

impl Session {
    /// A shell in `tree`; `scratch` is a directory for what it needs besides.
    pub(super) fn new(tree: PathBuf, scratch: &Path, programs: &Path) -> Result<Self> {
        let shims = scratch.join("bin");
        fs::create_dir_all(&shims)?;
        let shim = shims.join("cargo");
        fs::write(&shim, CARGO)?;
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|directory| directory.join("cargo")).find(|file| file.exists());
        let cargo = std::env::var_os("CARGO").map(PathBuf::from).or(found).context("no cargo in PATH")?;
        let path = [shims, programs.to_path_buf()].into_iter().chain(std::env::split_paths(&path));
        let path = std::env::join_paths(path)?;
        Ok(Self { tree, path, programs: programs.to_path_buf(), cargo, servers: Vec::new() })
    }

    /// Runs a line to its end, or starts it if it is a server, and returns what it prints on standard output.
    ///
    /// # Errors
    /// The line fails, or the server ends before it is ready.
    pub(super) fn run_line(&mut self, line: &str) -> Result<String> {
        if is_server(line) { self.start(line) } else { self.run_to_end(line) }
    }

    fn run_to_end(&self, line: &str) -> Result<String> {
        let output = self.shell(&shortened(line)).stdin(Stdio::null()).output().context("bash")?;
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            bail!("{}\n{stdout}{stderr}", output.status);
        }
        Ok(stdout.into_owned())
    }

    fn start(&mut self, line: &str) -> Result<String> {
        let command = line.trim_end_matches('&').trim();
        // Its predecessor on the same port has to go; a reader would press Ctrl-C.
        self.stop_servers_like(command)?;
        let mut child = self.shell(&format!("exec {command}")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("standard output")?);
        let mut printed = String::new();
        stdout.read_line(&mut printed)?;
        if !printed.starts_with(READY) {
            let mut stderr = String::new();
            child.stderr.take().context("standard error")?.read_to_string(&mut stderr)?;
            bail!("{}: {stderr}", child.wait()?);
        }
        // Nobody reads on: what a server says later must not block it.
        let mut stderr = child.stderr.take().context("standard error")?;
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        self.servers.push(Server { line: command.to_owned(), child });
        Ok(printed)
    }

    fn shell(&self, line: &str) -> Command {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", line]).current_dir(&self.tree).env("PATH", &self.path);
        shell.env("PROGRAMS", &self.programs).env("CARGO", &self.cargo);
        shell
    }

    /// Stops what runs, by SIGTERM.
    ///
    /// # Errors
    /// A server does not drain.
    pub(super) fn stop_servers(&mut self) -> Result<()> {
        self.servers.drain(..).try_for_each(Server::stop)
    }

    fn stop_servers_like(&mut self, command: &str) -> Result<()> {
        let alike = |server: &mut Server| program(&server.line) == program(command);
        self.servers.extract_if(.., alike).try_for_each(Server::stop)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // A failed page leaves nothing behind; that it failed has been said.
            drop(server.child.kill());
            drop(server.child.wait());
        }
    }
}

impl Server {
    fn stop(mut self) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGTERM)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("after SIGTERM, {status}: {}", self.line);
        }
        Ok(())
    }
}

/// Returns the program that a line runs and its arguments, whether by cargo or by its name.
fn words(line: &str) -> Vec<&str> {
    let words: Vec<_> = line.split_whitespace().collect();
    match words.iter().position(|&word| word == "-p") {
        Some(at) if words[0] == "cargo" => words[at + 1..].iter().copied().filter(|&word| word != "--").collect(),
        _ => words,
    }
}

fn program(line: &str) -> Option<&str> {
    words(line).first().copied()
}

/// True if the line starts a server rather than asking its program for something.
fn is_server(line: &str) -> bool {
    let words = words(line);
    let Some((&program, arguments)) = words.split_first() else { return false };
    let asks = ["--help", "--version", "--list-backends", "import"];
    let is_null_server = program == servers::LOADGEN && arguments.first() == Some(&"null");
    is_null_server || (servers::named(program).is_some() && !arguments.iter().any(|word| asks.contains(word)))
}

/// Shortens a load to a moment. Everything else stays as the page has it.
fn shortened(line: &str) -> String {
    if program(line) != Some(servers::LOADGEN) {
        return line.to_owned();
    }
    let mut short: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        let is_duration = short.last().is_some_and(|&last| last == "-d" || last == "--duration");
        short.push(if is_duration { LOAD_DURATION } else { word });
    }
    if short.contains(&"--preload") && !short.contains(&"--keys") {
        short.extend(["--keys", LOAD_KEYS]);
    }
    short.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_from_questions() {
        assert!(is_server("cargo run --release -p kvcache -- --listen 127.0.0.1:0 &"));
        assert!(is_server("loadgen null --protocol http"));
        assert!(!is_server("cargo run --release -p kvcache -- --list-backends"));
        assert!(!is_server("loadgen http http://127.0.0.1:8080/"));
        assert!(!is_server("curl http://127.0.0.1:8080/"));
    }

    #[test]
    fn a_load_lasts_a_moment() {
        let line = "cargo run --release -p loadgen -- kv --preload -d 5s 127.0.0.1:6379";
        assert!(shortened(line).ends_with("kv --preload -d 300ms 127.0.0.1:6379 --keys 20000"));
        assert_eq!(shortened("sleep -d 5"), "sleep -d 5");
    }
}
