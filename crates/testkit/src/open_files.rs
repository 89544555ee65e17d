//! Laws of every server where few files may be open.

use std::{
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, anyhow, ensure};

use crate::{ConnectionModel, DriverKind, Server, check_each, eventually, sample};

/// Hard limits of open files, and connections that are served at the same time with each.
const LIMITS: [(usize, usize); 4] = [(256, 120), (512, 300), (1024, 600), (4096, 2400)];

/// Returns the same command, which may not open more than `limit` files, nor raise the limit.
pub fn with_open_files(command: &Command, limit: usize) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args());
    shell
}

/// Waits for the turn of a test that opens thousands of files: the tests of one program share its limit.
pub fn many_files() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Exchange of one client: what it sends, and how the answer to that begins. What follows is not read.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    pub request: &'a [u8],
    pub answer: &'a [u8],
}

/// Checks on every driver, with every one of the limits, that most of the descriptors are for connections, that the log
/// says at the start what there is, and now and then that connections are refused. `fill` fills caches beforehand.
pub fn connections_come_first(
    command: impl Fn(DriverKind) -> Command + Sync,
    exchange: Exchange<'_>,
    fill: impl Fn(&Server) -> anyhow::Result<()> + Sync,
) {
    let _turn = many_files();
    for (limit, connections) in LIMITS {
        check_each(&sample(DriverKind::ALL), 2, |&driver| {
            let mut server = Server::start_command(with_open_files(&command(driver), limit), 1)?;
            let check = || {
                let said = format!("{limit} open files allow ");
                eventually("the log says what the limit allows", || Ok(server.stderr().contains(&said)))?;
                fill(&server)?;
                serves(&server, driver, exchange, connections)?;
                refuses(&server, exchange, 2 * limit)
            };
            check()
                .map_err(|error| anyhow!("{driver}, {limit} open files: {error:#}\n  it said: {}", server.stderr()))?;
            let status = server.stop()?;
            ensure!(status.success(), "{status}: {}", server.stderr());
            Ok(())
        });
    }
}

fn serves(server: &Server, driver: DriverKind, exchange: Exchange<'_>, connections: usize) -> anyhow::Result<()> {
    let mut crowd = Vec::new();
    for _ in 0..connections {
        let mut client = server.connect()?;
        client.send(exchange.request)?; // `pool` closes the silent ones while others wait.
        crowd.push(client);
    }
    for (i, client) in crowd.iter_mut().enumerate() {
        client.expect(exchange.answer).with_context(|| format!("connection {i}"))?;
    }
    ensure!(!server.stderr().contains("refused"), "connections are refused");
    ensure!(
        driver.descriptor().connection == ConnectionModel::Worker || server.process().descriptors()? >= connections,
        "not all of them are open"
    );
    Ok(())
}

fn refuses(server: &Server, exchange: Exchange<'_>, connections: usize) -> anyhow::Result<()> {
    let crowd: Vec<_> = (0..connections).map(|_| server.connect()).collect::<anyhow::Result<_>>()?;
    eventually("the log says that connections are refused", || Ok(server.stderr().contains("are refused")))?;
    drop(crowd);
    eventually("there is room again", || {
        let mut client = server.connect()?;
        Ok(client.send(exchange.request).is_ok() && client.expect(exchange.answer).is_ok())
    })?;
    let lines = server.stderr().matches("are refused").count();
    ensure!(lines <= 3, "that connections are refused stands in the log {lines} times");
    Ok(())
}
