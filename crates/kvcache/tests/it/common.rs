//! Servers, clients and other programs that the tests share.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, bail, ensure};
use sys::listen::Address;
use testkit::{Client, DriverKind, Finished, Server, check_each, eventually, run_to_end};

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_kvcache");

/// Starts a server that listens at one address.
pub(crate) fn start(args: &[&str]) -> anyhow::Result<Server> {
    Server::start(Path::new(EXE), ["--listen", "127.0.0.1:0"].iter().chain(args))
}

/// A server with one address for each protocol.
pub(crate) struct Kv {
    pub(crate) server: Server,
}

impl Kv {
    pub(crate) fn start<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> anyhow::Result<Self> {
        let mut command = Command::new(EXE);
        for flag in ["--listen", "--memcached-listen", "--us-listen"] {
            command.args([flag, "127.0.0.1:0"]);
        }
        command.args(["--threads", "2"]).args(args);
        Ok(Self { server: Server::start_command(command, 3)? })
    }

    pub(crate) fn resp(&self) -> &Address {
        &self.server.addresses()[0]
    }

    pub(crate) fn memcached(&self) -> &Address {
        &self.server.addresses()[1]
    }

    pub(crate) fn us(&self) -> &Address {
        &self.server.addresses()[2]
    }

    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let status = self.server.stop()?;
        ensure!(status.success(), "{status}: {}", self.server.stderr());
        Ok(())
    }
}

pub(crate) fn on_every_driver(test: impl Fn(DriverKind) -> anyhow::Result<()> + Sync) {
    check_each(&testkit::sample(DriverKind::ALL), 2, |&driver| test(driver).with_context(|| driver.to_string()));
}

/// Returns the port that a server listens at.
pub(crate) fn port(server: &Server) -> anyhow::Result<String> {
    port_of(server.address())
}

/// Returns the port of an address.
pub(crate) fn port_of(address: &Address) -> anyhow::Result<String> {
    match address {
        Address::Tcp(address) => Ok(address.port().to_string()),
        Address::Unix(path) => bail!("{} has no port", path.display()),
    }
}

// --- clients ----------------------------------------------------------------------------------

/// Sends bytes and expects exactly this reply.
pub(crate) fn exchange(client: &mut Client, request: &[u8], wanted: &[u8]) -> anyhow::Result<()> {
    client.send(request)?;
    client.expect(wanted).with_context(|| format!("asked {:?}", String::from_utf8_lossy(request)))
}

/// Sends a command of RESP.
pub(crate) fn send(client: &mut Client, request: &[&[u8]]) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    wire::resp::client::command(&mut bytes, request);
    client.send(&bytes)
}

/// Splits a line at its blanks, sends it as a command of RESP and expects a reply.
pub(crate) fn ask(client: &mut Client, request: &str, answer: &str) -> anyhow::Result<()> {
    let request: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    send(client, &request)?;
    client.expect(answer.as_bytes()).with_context(|| format!("{:?}", String::from_utf8_lossy(&request.join(&b' '))))
}

/// Sends a command and returns the text of its bulk string.
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

/// Returns the value of a field of INFO.
pub(crate) fn field(text: &str, name: &str) -> anyhow::Result<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(value.with_context(|| format!("no {name} in {text}"))?.to_owned())
}

/// Returns all metrics of a server, as it counts them now.
pub(crate) fn metrics_page(address: &str) -> anyhow::Result<String> {
    let mut scraper = Client::connect(&address.parse()?)?;
    scraper.send(b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
    Ok(String::from_utf8(scraper.read_to_end()?)?)
}

// --- other programs ---------------------------------------------------------------------------

/// Runs a program to its end, which must be successful, and returns its output.
pub(crate) fn run(command: Command) -> anyhow::Result<Finished> {
    let shown = format!("{command:?}");
    let finished = run_to_end(command)?;
    ensure!(finished.status.success(), "{shown}: {}: {}{}", finished.status, finished.stdout, finished.stderr);
    Ok(finished)
}

/// Server of another project; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct PeerServer(Child);

impl PeerServer {
    /// Starts it and waits until all its addresses accept connections.
    pub(crate) fn start(mut command: Command, addresses: &[&Address]) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self(command.spawn().with_context(|| format!("cannot run {command:?}"))?);
        eventually("it accepts connections", || {
            ensure!(server.0.try_wait()?.is_none(), "{command:?} has ended");
            Ok(addresses.iter().all(|address| Client::connect(address).is_ok()))
        })?;
        Ok(server)
    }
}

impl Drop for PeerServer {
    fn drop(&mut self) {
        // It has ended by itself, or now has to.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a Python interpreter that can import these modules, from QUINTET_PYTHON or the PATH. `None` means that the test
/// is to be skipped.
pub(crate) fn python(modules: &[&str]) -> anyhow::Result<Option<PathBuf>> {
    let named = env::var_os("QUINTET_PYTHON").map(PathBuf::from);
    let Some(python) = named.map_or_else(|| testkit::installed_program("python3"), |path| Ok(Some(path)))? else {
        return Ok(None);
    };
    let mut command = Command::new(&python);
    command.args(["-c", &format!("import {}", modules.join(", "))]);
    let finished = run_to_end(command)?;
    match finished.code() {
        Some(0) => Ok(Some(python)),
        _ if env::var_os("QUINTET_PEERS").is_some_and(|value| value == "required") => {
            bail!("{} cannot import {modules:?}, and QUINTET_PEERS=required", python.display())
        }
        _ => {
            eprintln!("skipped: {} cannot import {modules:?}; QUINTET_PYTHON names another", python.display());
            Ok(None)
        }
    }
}

/// Runs a Python script to its successful end.
pub(crate) fn run_script(python: &Path, script: &str, args: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(python);
    command.arg("-c").arg(script).args(args);
    run(command).map(|_| ())
}
