//! A server that has given up what it does not need, and serves.

use std::{fs, os::unix::fs::symlink};

use anyhow::{Context, ensure};
use testkit::{Server, Signal, eventually, expect_failure};

use crate::process::setup::{Http, PLAIN};

/// Files that come into its directory later are served, those that a link leads out to are not, and its log can be moved away.
#[test]
fn a_confined_server_serves_its_directory_and_writes_its_log() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(tree.path().join("secret"), "secret").unwrap();
    symlink(tree.path().join("secret"), root.join("link")).unwrap();
    PLAIN.for_each_driver(|driver| {
        let logs = tree.path().join(format!("logs-{driver}"));
        fs::create_dir(&logs)?;
        let log = logs.join("access.log");
        let mut command = PLAIN.command(driver, &root);
        command.args(["--sandbox", "on", "--access-log"]).arg(&log);
        let mut server = Server::start_command(command, 1)?;
        let name = format!("late-{driver}.txt");
        fs::write(root.join(&name), "late")?;
        let mut client = Http::connect(server.address())?;
        let late = client.get(&format!("/{name}"))?;
        ensure!(late.status == 200 && late.body == b"late", "{late:?}");
        ensure!(client.get("/link")?.status == 404, "a file outside");
        fs::rename(&log, logs.join("old"))?;
        server.process().signal(Signal::USR1)?;
        eventually("the log is opened anew", || Ok(log.exists())).with_context(|| server.stderr())?;
        drop(client);
        server.drain()
    });
}

#[test]
fn programs_and_a_sandbox_exclude_each_other() {
    let tree = tempfile::tempdir().unwrap();
    let mut command = PLAIN.command(testkit::DriverKind::DEFAULT, tree.path());
    command.args(["--sandbox", "on", "--cgi-dir"]).arg(tree.path());
    let said = expect_failure(command, 2).stderr;
    assert!(said.contains("--sandbox on and --cgi-dir exclude each other"), "{said}");
    let mut command = PLAIN.command(testkit::DriverKind::DEFAULT, tree.path());
    let programs = tree.path().join("programs");
    fs::create_dir(&programs).unwrap();
    command.args(["--sandbox", "auto", "--cgi-dir"]).arg(programs);
    let mut server = Server::start_command(command, 1).unwrap();
    server.wait_for_stderr("--sandbox auto: not confined: --cgi-dir").unwrap();
    assert!(server.stop().unwrap().success());
}
