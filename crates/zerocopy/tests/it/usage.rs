//! Command line, and messages of a server that cannot serve.

use std::process::Command;

use anyhow::ensure;
use testkit::{DriverKind, Finished, Server, http::Http, run_to_end};

use crate::setup::{ALL, EXE, STRATEGIES, Setup};

/// Runs to the end. The exit status must be `code`, standard output empty, and the error one line.
fn fails(command: Command, code: i32) -> Finished {
    let finished = run_to_end(command).unwrap();
    let errors = finished.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!((finished.code(), &*finished.stdout, errors), (Some(code), "", 1), "{finished:?}");
    finished
}

#[test]
fn without_an_argument_the_current_directory_is_served() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "0123456789").unwrap();
    let mut command = Command::new(EXE);
    command.current_dir(dir.path()).env("ZEROCOPY_LISTEN", "127.0.0.1:0");
    let mut server = Server::start_command(command, 1).unwrap();
    assert_eq!(Http::connect(server.address()).unwrap().get("/a.txt").unwrap().body, b"0123456789");
    let listing = Http::connect(server.address()).unwrap().get("/").unwrap();
    assert!(listing.status == 200 && String::from_utf8_lossy(&listing.body).contains("href=\"a.txt\""), "{listing:?}");
    server.drain().unwrap();
    let said = server.stderr();
    let to_try = format!("try: curl http://{0}/\ntry: open http://{0}/cache/webui/ in a browser\n", server.address());
    assert!(said.contains(&to_try), "{said}");
}

#[test]
fn every_strategy_is_listed_with_a_description() {
    let mut command = Command::new(EXE);
    command.args(["--list-backends", "--format", "json"]);
    let finished = run_to_end(command).unwrap();
    let listed: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    let strategy = listed["dimensions"].as_array().unwrap().iter().find(|dimension| dimension["name"] == "strategy");
    let choices = strategy.unwrap()["choices"].as_array().unwrap();
    let names: Vec<_> = choices.iter().map(|choice| choice["name"].as_str().unwrap()).collect();
    assert_eq!(names, STRATEGIES);
    assert!(choices.iter().all(|choice| choice["description"].as_str().unwrap().len() > 10), "{choices:?}");
}

#[test]
fn what_cannot_be_served_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    for (name, why) in [("missing", "No such file or directory"), ("file", "Not a directory")] {
        ALL.for_each_combination(|combination| {
            let said = fails(ALL.command(combination, &dir.path().join(name)), 1).stderr;
            ensure!(said.lines().count() == 1 && said.contains(why), "{said}");
            Ok(())
        });
    }
}

#[test]
fn bad_usage_is_status_2() {
    for args in [
        &["--no-such-flag"][..],
        &["--strategy", "splice"],
        &["--pipe-size", "1KiB"],
        &["--pipe-budget", "much"],
        &["--pipe-budget", "0"],
        &["--mapped-bytes", "0"],
        &["--idle-evict", "-1"],
        &["--idle-evict", "0"],
        &["--admin-token", ""],
        &["one", "two"],
    ] {
        let mut command = Command::new(EXE);
        command.args(args);
        fails(command, 2);
    }
}

/// Media types are those of the file; an extension that it does not have is of the usual type, or bytes.
#[test]
fn media_types_come_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.one", "a.two", "a.html"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    let map = dir.path().join("map");
    std::fs::write(&map, "# comment\napplication/x-first one two\ntext/x-second html\n").unwrap();
    let setup = Setup { drivers: &[DriverKind::DEFAULT], ..ALL };
    setup.for_each_combination(|combination| {
        let mut command = setup.command(combination, dir.path());
        command.arg("--mime-file").arg(&map);
        let mut server = Server::start_command(command, 1)?;
        let mut client = Http::connect(server.address())?;
        for (name, want) in
            [("a.one", "application/x-first"), ("a.two", "application/x-first"), ("a.html", "text/x-second")]
        {
            let got = client.get(&format!("/{name}"))?;
            ensure!(got.field("content-type").is_some_and(|got| got.starts_with(want)), "{name}: {got:?}");
        }
        server.drain()
    });
}
