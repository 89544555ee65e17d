//! Arguments that make no sense, and warnings at the start.

use std::process::Command;

use testkit::{Client, expect_failure};

use crate::common::{EXE, Kv, exchange, metrics_page, start};

/// Returns kvcache with these arguments, at a free port.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(EXE);
    command.args(["--listen", "127.0.0.1:0"]).args(args);
    command
}

#[test]
fn bad_values_are_refused_with_a_reason() {
    for (args, why) in [
        (&["--shards", "0"][..], "not a number from 1 to 65536"),
        (&["--shards", "99999999999"], "not a number from 1 to 65536"),
        (&["--maxmemory", "lots"], "not a size, like 4096, 64KiB, 10MB or 1GiB"),
        (&["--compression-threshold", "x"], "not a size, like 4096, 64KiB, 10MB or 1GiB"),
        (&["--requirepass", ""], "empty; without a password, leave the flag out"),
    ] {
        let finished = expect_failure(command(args), 2);
        assert!(finished.stderr.contains(why), "{args:?}: {finished:?}");
        assert_eq!(finished.stdout, "", "{args:?}");
    }
    let mut from_variable = Command::new(EXE);
    from_variable.env("SERVER_PORT", "http");
    let finished = expect_failure(from_variable, 2);
    assert!(finished.stderr.contains("SERVER_PORT=http is not a port, such as 6379"), "{finished:?}");
}

#[test]
fn a_snapshot_that_cannot_be_saved_is_refused_at_start() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing").join("keys");
    for (path, why) in [(missing.as_path(), "No such file or directory"), (directory.path(), "s a directory")] {
        let finished = expect_failure(command(&["--snapshot", path.to_str().unwrap()]), 1);
        let text = format!("error: --snapshot: snapshots cannot be saved to {}: ", path.display());
        assert!(finished.stderr.starts_with(&text) && finished.stderr.contains(why), "{finished:?}");
        assert_eq!(finished.stderr.matches(why).count(), 1, "{finished:?}");
        assert_eq!(finished.stdout, "", "it has not begun to listen");
    }
}

#[test]
fn a_limit_too_small_for_any_entry_is_warned_of() {
    for store in ["packed", "hashbrown", "std", "partitioned"] {
        let run = |limit: &str| {
            let mut server = start(&["--threads", "2", "--store", store, "--maxmemory", limit]).unwrap();
            let mut client = Client::connect(server.address()).unwrap();
            let reply = client.send(b"SET 0123456789abcdef 0123456789ab\r\n").and_then(|()| client.take(4)).unwrap();
            drop(client);
            // All that it has to say has been said once it is gone.
            server.terminate().unwrap();
            server.wait().unwrap();
            (reply, server.stderr().split_once("shards need ").map(|(_, rest)| rest.to_owned()))
        };
        let (reply, warned) = run("1kb");
        assert_eq!(reply, b"-OOM", "{store}");
        let warned = warned.expect("a warning");
        let needed: u64 = warned.split(' ').next().unwrap().parse().unwrap();
        let (reply, warned) = run(&needed.to_string());
        assert_eq!((&reply[..], warned), (&b"+OK\r"[..], None), "{store}: {needed} bytes");
        let (_, warned) = run(&(needed - 64).to_string());
        assert!(warned.is_some(), "{store}: {needed} bytes");
    }
}

#[test]
fn the_suggested_command_works_as_printed() {
    let Some(_) = testkit::installed_program("redis-cli").unwrap() else { return };
    let kv = Kv::start::<&str>([]).unwrap();
    exchange(&mut Client::connect(kv.resp()).unwrap(), b"SET a 1\r\n", b"+OK\r\n").unwrap();
    // A line may be read in two parts.
    let suggestion = || {
        let stderr = kv.server.stderr();
        let (whole, _) = stderr.rsplit_once('\n')?;
        whole.lines().find_map(|line| line.strip_prefix("try: ")).map(str::to_owned)
    };
    testkit::eventually("a suggestion", || Ok(suggestion().is_some())).unwrap();
    let line = suggestion().expect("a suggestion");
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "PONG\n", "{line}");
    kv.stop().unwrap();
}

#[test]
fn a_check_of_the_configuration_finds_what_the_start_would_miss() {
    for (flags, why) in [
        (["--snapshot", "/nonexistent/dir/keys"], "--snapshot: cannot open /nonexistent/dir"),
        (["--events", "/nonexistent/log"], "--events: cannot open /nonexistent"),
    ] {
        let mut command = Command::new(EXE);
        command.arg("--check-config").args(flags);
        let said = expect_failure(command, 2).stderr;
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn dashboards_and_alerts_ask_for_metrics_that_are_there() {
    let directory = tempfile::tempdir().unwrap();
    let metrics = format!("unix:{}", directory.path().join("metrics").display());
    let kv = Kv::start(["--metrics", &metrics]).unwrap();
    let mut client = Client::connect(kv.resp()).unwrap();
    exchange(
        &mut client,
        b"SET a 1\r\nGET a\r\nINCR none x\r\n",
        b"+OK\r\n$1\r\n1\r\n-ERR wrong number of arguments for 'incr' command\r\n",
    )
    .unwrap();
    testkit::check_queries("kvcache", &metrics_page(&metrics).unwrap()).unwrap();
    drop(client);
    kv.stop().unwrap();
}
