//! Upkeep of a server while it is used.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use anyhow::{Context, ensure};
use serde_json::Value;
use testkit::{DriverKind, Server, Signal, eventually};

use crate::process::setup::{Http, PLAIN, Setup};

/// Requests that a client sends at once: a file, a listing as a page, one as JSON, and a file that is not there.
const TARGETS: [(&str, u16); 4] = [("/file-1", 200), ("/", 200), ("/?format=json", 200), ("/missing", 404)];
const ROUNDS: usize = 12;

const SERVER: Setup =
    Setup { args: &["--threads", "2", "--listing", "on", "--workers", "16", "--revalidate", "0s"], ..PLAIN };

/// Asks for all targets again and again until it is `over`. Returns the number of requests.
fn ask(server: &Server, is_over: &AtomicBool, client: usize) -> anyhow::Result<u64> {
    let (mut http, mut asked) = (Http::connect(server.address())?, 0);
    while !is_over.load(Ordering::Relaxed) {
        let requests = TARGETS.map(|(target, _)| {
            let mark = if target.contains('?') { '&' } else { '?' };
            asked += 1;
            format!("GET {target}{mark}of={client}-{asked} HTTP/1.1\r\nHost: h\r\n\r\n")
        });
        http.send(&requests.concat())?;
        for (target, status) in TARGETS {
            let got = http.response("GET")?;
            ensure!(got.status == status && !got.body.is_empty(), "{target}: {} instead of {status}", got.status);
        }
    }
    Ok(asked)
}

/// Moves the log away, asks for a new one, and has the configuration read again, which is another one; a file comes and goes meanwhile.
fn upkeep(server: &Server, file: &Path, config: &Path, log: &Path) -> anyhow::Result<()> {
    for round in 0..ROUNDS {
        fs::write(file, "new")?;
        configure(config, round)?;
        fs::rename(log, log.with_extension(round.to_string()))?;
        server.process().signal(Signal::USR1)?;
        server.process().hang_up()?;
        eventually("the log is opened again", || Ok(log.exists()))?;
        fs::remove_file(file)?;
        let reloaded = format!("header = [\"X-Round: {round}\"]");
        eventually("the configuration is read", || Ok(server.stderr().contains(&reloaded)))?;
        // Something is to be logged in each.
        let len = fs::metadata(log)?.len();
        eventually("the log grows", || Ok(fs::metadata(log)?.len() > len))?;
    }
    Ok(())
}

fn configure(config: &Path, round: usize) -> anyhow::Result<()> {
    Ok(fs::write(config, format!("header = [\"X-Round: {round}\"]"))?)
}

/// Each request is answered, and recorded once.
#[test]
fn reloads_and_new_logs_lose_nothing_of_a_site_in_use() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path().join("root");
    fs::create_dir(&root).unwrap();
    for number in 0..300 {
        fs::write(root.join(format!("file-{number}")), "contents").unwrap();
    }
    let check = |driver: DriverKind| -> anyhow::Result<()> {
        let [log, config] = ["log", "toml"].map(|end| tree.path().join(format!("{driver}.{end}")));
        configure(&config, ROUNDS)?;
        let mut command = SERVER.command(driver, &root);
        command.args(["--access-log-format", "json", "--access-log"]).arg(&log).arg("--config").arg(&config);
        let mut server = Server::start_command(command, 1)?;
        let (is_over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let load = |client| {
                let (server, is_over, asked) = (&server, &is_over, &asked);
                scope.spawn(move || {
                    asked.fetch_add(ask(server, is_over, client)?, Ordering::Relaxed);
                    anyhow::Ok(())
                })
            };
            let clients: Vec<_> = (0..4).map(load).collect();
            let kept = upkeep(&server, &root.join(format!("new-{driver}")), &config, &log);
            is_over.store(true, Ordering::Relaxed);
            let asked = clients.into_iter().map(|client| client.join().unwrap()).collect::<anyhow::Result<Vec<()>>>();
            asked.and(kept)
        })
        .map_err(|error| error.context(server.stderr()))?;
        server.drain()?;
        let mut targets = Vec::new();
        for round in 0..=ROUNDS {
            let file = if round == ROUNDS { log.clone() } else { log.with_extension(round.to_string()) };
            for line in fs::read_to_string(&file)?.lines() {
                let record: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
                targets.push(record["target"].as_str().context("no target")?.to_owned());
            }
        }
        let records = targets.len() as u64;
        targets.sort_unstable();
        targets.dedup();
        let asked = asked.into_inner();
        ensure!(records == asked && targets.len() as u64 == asked, "{asked} requests, {records} records");
        let reloads = server.stderr().matches("configuration reloaded").count();
        ensure!(reloads == ROUNDS, "{asked} requests, {reloads} reloads: {}", server.stderr());
        Ok(())
    };
    SERVER.for_each_driver(check);
}
