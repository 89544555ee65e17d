//! Laws of every web server of ours, as processes on every driver. The tests of http-server and of zerocopy include them,
//! each with its own `setup::EXE` beside it.

mod content;
mod http2;
mod http2_clients;
mod http2_floods;
mod http2_layers;
mod http2_renewal;
mod limits;
mod paths;
mod secured;
mod smuggling;
mod state;
mod usage;
mod users;

use std::{path::Path, process::Command};

use anyhow::{Context, anyhow, ensure};
use testkit::{
    DriverKind, Server, check_each,
    http::{Http, Response},
};

use super::setup::EXE;

/// Number of servers that are tested at the same time.
const CONCURRENCY: usize = 7;

/// Warning of a server whose error page or fallback is missing.
const UNSENDABLE: &str = "cannot be sent: ";

/// Flags for files that change while they are tested.
const CHECK_EACH_TIME: &[&str] = &["--revalidate", "0s"];

/// Returns the command of a server with one thread.
fn command(driver: DriverKind, root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(EXE);
    command.args(["--driver", driver.name(), "--listen", "127.0.0.1:0", "--threads", "1"]).args(args).arg(root);
    command
}

/// Tests the law on a server on every driver, which must then still run and drain.
fn on_every_driver(root: &Path, args: &[&str], law: impl Fn(&Server) -> anyhow::Result<()> + Sync) {
    check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| serve(driver, root, args, &law));
}

/// Tests the law on a server on every driver, each with a directory of its own.
fn on_every_driver_alone(args: &[&str], law: impl Fn(&Server, &Path) -> anyhow::Result<()> + Sync) {
    check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| {
        let outer = tempfile::tempdir()?;
        let root = outer.path().join("root");
        std::fs::create_dir(&root)?;
        serve(driver, &root, args, |server| law(server, &root))
    });
}

fn serve(
    driver: DriverKind,
    root: &Path,
    args: &[&str],
    law: impl Fn(&Server) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut server = Server::start_command(command(driver, root, args), 1).with_context(|| driver.name())?;
    law(&server).map_err(|error| anyhow!("{}: {error:#}\n  it said: {}", driver.name(), server.stderr()))?;
    let drained = server.drain().with_context(|| driver.name());
    // All that it has said is read by now; a warning of a missing page is no failure.
    let said = server.stderr();
    let complains = |line: &str| {
        let is_usual = [UNSENDABLE, testkit::ROOT_WARNING].iter().any(|usual| line.contains(usual));
        [" WARN ", "ERROR ", "panicked"].iter().any(|word| line.contains(word)) && !is_usual
    };
    let ended_well = drained.as_ref().is_err_and(|error| format!("{error:#}").contains("it said: "));
    if ended_well && said.contains(UNSENDABLE) && !said.lines().any(complains) { Ok(()) } else { drained }
}

/// Sends one request, with fields that each end with CRLF, on a new connection.
fn ask(server: &Server, method: &str, target: &str, fields: &str) -> anyhow::Result<Response> {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    Http::connect(server.address())?.ask(&request).with_context(|| format!("{method} {target}"))
}

fn get(server: &Server, target: &str) -> anyhow::Result<Response> {
    ask(server, "GET", target, "")
}

/// Checks the status of a GET.
fn expect_status(server: &Server, target: &str, status: u16) -> anyhow::Result<()> {
    let got = get(server, target)?;
    ensure!(got.status == status, "{target}: {} instead of {status}", got.status);
    Ok(())
}

/// Checks a 200 and its body.
fn expect_body(server: &Server, target: &str, body: &str) -> anyhow::Result<()> {
    let got = get(server, target)?;
    ensure!(got.status == 200 && got.body == body.as_bytes(), "{target}: {got:?} instead of {body:?}");
    Ok(())
}

/// Returns a field that must be there.
fn field<'a>(response: &'a Response, name: &str) -> anyhow::Result<&'a str> {
    response.field(name).with_context(|| format!("no {name} in {response:?}"))
}

/// Writes a file, and the directories it is in.
fn write(root: &Path, name: &str, contents: &str) -> anyhow::Result<()> {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().context("no parent")?)?;
    Ok(std::fs::write(path, contents)?)
}
