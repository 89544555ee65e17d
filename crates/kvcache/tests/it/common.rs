//! What tests with a server of their own share.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};
use sys::listen::Address;
use testkit::{Client, Finished, Server, run_to_end};

/// Where a Python with redis-py and pymemcache is.
const PYTHON: &str = "QUINTET_PYTHON";

pub(crate) fn start(args: &[&str]) -> anyhow::Result<Server> {
    let exe = Path::new(env!("CARGO_BIN_EXE_kvcache"));
    Server::start(exe, ["--listen", "127.0.0.1:0"].iter().chain(args))
}

/// Where a server listens.
pub(crate) fn port(server: &Server) -> anyhow::Result<String> {
    match server.address() {
        Address::Tcp(address) => Ok(address.port().to_string()),
        Address::Unix(path) => bail!("{} has no port", path.display()),
    }
}

pub(crate) fn send(client: &mut Client, request: &[&[u8]]) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    wire::resp::client::command(&mut bytes, request);
    client.send(&bytes)
}

/// Splits a line at its blanks, sends it and expects an answer.
pub(crate) fn ask(client: &mut Client, request: &str, answer: &str) -> anyhow::Result<()> {
    let request: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    send(client, &request)?;
    client.expect(answer.as_bytes()).with_context(|| format!("{:?}", String::from_utf8_lossy(&request.join(&b' '))))
}

/// The text of a bulk string.
pub(crate) fn text(client: &mut Client, request: &str) -> anyhow::Result<String> {
    let request: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    send(client, &request)?;
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n") {
        header.extend(client.take(1)?);
    }
    let header = String::from_utf8(header)?;
    let len: usize = header.trim_end().strip_prefix('$').with_context(|| header.clone())?.parse()?;
    let bytes = client.take(len + 2)?;
    Ok(String::from_utf8(bytes[..len].to_vec())?)
}

/// What a line of INFO says.
pub(crate) fn field(text: &str, name: &str) -> anyhow::Result<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(value.with_context(|| format!("no {name} in {text}"))?.to_owned())
}

/// Runs a client to its end, which must be success, and gives what it has said.
pub(crate) fn run(command: Command) -> anyhow::Result<Finished> {
    let shown = format!("{command:?}");
    let finished = run_to_end(command)?;
    ensure!(finished.status.success(), "{shown}: {}: {}{}", finished.status, finished.stdout, finished.stderr);
    Ok(finished)
}

/// A Python with the client libraries, or why there is none has been said.
pub(crate) fn python() -> anyhow::Result<Option<PathBuf>> {
    let why = match std::env::var_os(PYTHON).map(PathBuf::from) {
        None => format!("{PYTHON} names no interpreter with redis and pymemcache"),
        Some(python) => {
            let mut command = Command::new(&python);
            command.args(["-c", "import redis, pymemcache"]);
            match run(command) {
                Ok(_) => return Ok(Some(python)),
                Err(error) => format!("{PYTHON} is of no use: {error}"),
            }
        }
    };
    ensure!(std::env::var_os("QUINTET_PEERS").is_none_or(|value| value != "required"), why);
    eprintln!("skipped: {why}");
    Ok(None)
}
