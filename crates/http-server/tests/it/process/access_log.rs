//! The access log, and the histogram of durations.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use rustix::process::Signal;
use serde_json::Value;
use sys::listen::Address;
use testkit::{Client, DriverKind, Server, eventually};

use crate::process::setup::{Http, LARGE, PLAIN, Setup, content, get, get_and_close};

const JSON: Setup = Setup { args: &["--threads", "1", "--access-log-format", "json"], ..PLAIN };

/// Starts a server that logs to a file of its own.
fn start(setup: Setup, driver: DriverKind, root: &Path, directory: &Path) -> anyhow::Result<(Server, PathBuf)> {
    let path = directory.join(format!("{driver}.log"));
    let mut command = setup.command(driver, root);
    command.arg("--access-log").arg(&path);
    command.args(["--metrics", &format!("unix:{}", metrics(directory, driver).display())]);
    Ok((Server::start_command(command, 1)?, path))
}

fn metrics(directory: &Path, driver: DriverKind) -> PathBuf {
    directory.join(format!("{driver}.metrics"))
}

fn scrape(directory: &Path, driver: DriverKind) -> anyhow::Result<String> {
    let mut scraper = Client::connect(&Address::Unix(metrics(directory, driver)))?;
    scraper.send(get_and_close("/metrics").as_bytes())?;
    Ok(String::from_utf8(scraper.read_to_end()?)?)
}

fn records(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(path)?;
    text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

#[test]
fn every_request_has_one_record_that_tells_its_outcome() {
    let (content, logs) = (content(20_000), tempfile::tempdir().unwrap());
    JSON.for_each_driver(|driver| {
        let (mut server, path) = start(JSON, driver, content.dir(), logs.path())?;
        let mut client = Http::connect(server.address())?;
        let pipelined = [get("/content"), "HEAD /content HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), get("/%22x%0a")];
        client.send(&pipelined.concat())?;
        let (whole, head, missing) = (client.response("GET")?, client.response("HEAD")?, client.response("GET")?);
        ensure!((whole.status, head.status, missing.status) == (200, 200, 404));
        let part =
            "GET /content?q HTTP/1.1\r\nHost: h\r\nRange: bytes=5-9\r\nReferer: \"r\\\r\nUser-Agent: \u{e9}\"\r\n\r\n";
        ensure!(client.ask(part)?.status == 206);
        client.send("BAD \"\x01\r\n\r\n")?;
        ensure!(client.response("GET")?.status == 400);
        drop(client);
        server.drain()?;
        let records = records(&path)?;
        let said = |name: &str| records.iter().map(|record| record[name].clone()).collect::<Vec<_>>();
        ensure!(said("status") == [200, 200, 404, 206, 400], "{records:?}");
        ensure!(said("method") == ["GET", "HEAD", "GET", "GET", "BAD"], "{records:?}");
        ensure!(said("target") == ["/content", "/content", "/%22x%0a", "/content?q", "\"\x01"], "{records:?}");
        ensure!(said("complete") == [true; 5], "{records:?}");
        let bodies = [20_000, 0, missing.body.len(), 5];
        ensure!(said("body_bytes")[..4] == bodies, "{records:?}");
        ensure!(said("bytes").iter().zip(bodies).all(|(bytes, body)| bytes.as_u64() > Some(body as u64)));
        ensure!(records[3]["referer"] == "\"r\\" && records[3]["user_agent"] == "\u{e9}\"", "{records:?}");
        ensure!(said("client") == ["127.0.0.1"; 5] && records[0]["host"] == "h", "{records:?}");
        Ok(())
    });
}

/// As long as the client has not read, the kernel has not taken all.
#[test]
fn a_duration_ends_when_the_client_has_taken_the_response() {
    let (content, logs) = (content(LARGE), tempfile::tempdir().unwrap());
    JSON.for_each_driver(|driver| {
        let (mut server, path) = start(JSON, driver, content.dir(), logs.path())?;
        let mut slow = Client::connect_with_buffer(server.address(), 16 << 10)?;
        slow.send(get_and_close("/content").as_bytes())?;
        slow.take(100)?;
        let begun = Instant::now();
        ensure!(Http::connect(server.address())?.get("/missing")?.status == 404);
        thread::sleep(Duration::from_millis(150));
        let stalled = begun.elapsed();
        ensure!(slow.read_to_end()?.len() > LARGE, "the whole response");
        let lines = ["_count{class=\"2xx\"} 1", "_count{class=\"4xx\"} 1", "_bucket{le=\"0.1\",class=\"2xx\"} 0"];
        eventually("both durations are counted", || {
            let text = scrape(logs.path(), driver)?;
            let line = |line| format!("http_server_request_duration_seconds{line}");
            Ok(lines.iter().all(|expected| text.lines().any(|found| found == line(expected))))
        })?;
        server.drain()?;
        let records = records(&path)?;
        let record = records.iter().find(|record| record["status"] == 200).context("no record")?;
        let duration = record["duration"].as_f64().context("a number")?;
        ensure!(duration >= stalled.as_secs_f64() && record["complete"] == true, "{record:?}, {stalled:?}");
        let first_byte = record["first_byte"].as_f64().context("a number")?;
        ensure!(first_byte < duration, "the beginning was taken before: {record:?}");
        Ok(())
    });
}

#[test]
fn a_response_that_is_cut_off_is_recorded_with_what_was_sent() {
    let (content, logs) = (content(LARGE), tempfile::tempdir().unwrap());
    JSON.for_each_driver(|driver| {
        let (mut server, path) = start(JSON, driver, content.dir(), logs.path())?;
        let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
        client.send(get("/content").as_bytes())?;
        client.take(100)?;
        client.reset()?;
        eventually("it is recorded", || Ok(!records(&path)?.is_empty()))?;
        server.drain()?;
        let records = records(&path)?;
        let (bytes, body_bytes) = (records[0]["bytes"].as_u64(), records[0]["body_bytes"].as_u64());
        ensure!(records.len() == 1 && records[0]["complete"] == false, "{records:?}");
        ensure!(bytes < Some(LARGE as u64) && body_bytes <= bytes, "{records:?}");
        Ok(())
    });
}

/// Lines that cannot be written are counted, and nobody waits for them.
#[test]
fn a_full_disk_stops_no_response() {
    let (content, directory) = (content(1_000), tempfile::tempdir().unwrap());
    PLAIN.for_each_driver(|driver| {
        let mut command = PLAIN.command(driver, content.dir());
        command.args(["--access-log", "/dev/full"]);
        command.args(["--metrics", &format!("unix:{}", metrics(directory.path(), driver).display())]);
        let mut server = Server::start_command(command, 1)?;
        let mut client = Http::connect(server.address())?;
        for _ in 0..100 {
            ensure!(client.get("/content")?.body == content.bytes());
        }
        eventually("all lines are counted as dropped", || {
            let text = scrape(directory.path(), driver)?;
            Ok(text.lines().any(|line| line == "http_server_access_log_lines_dropped_total 100"))
        })?;
        ensure!(server.stop()?.success(), "{}", server.stderr());
        ensure!(server.stderr().contains("lines dropped: No space left on device"), "{}", server.stderr());
        Ok(())
    });
}

/// As logrotate does it: the file is moved away, and SIGUSR1 follows. Each request is in one of the files, once.
#[test]
fn rotation_under_load_loses_no_record_and_tears_none() {
    const BATCHES: usize = 60;
    const PIPELINED: usize = 50;
    let (content, logs) = (content(100), tempfile::tempdir().unwrap());
    JSON.for_each_driver(|driver| {
        let (mut server, path) = start(JSON, driver, content.dir(), logs.path())?;
        let mut client = Http::connect(server.address())?;
        let mut files = vec![path.clone()];
        for batch in 0..BATCHES {
            let requests: String =
                (0..PIPELINED).map(|n| get(&format!("/content?{}", batch * PIPELINED + n))).collect();
            client.send(&requests)?;
            if batch % 10 == 5 {
                let old = path.with_extension(format!("log.{batch}"));
                std::fs::rename(&path, &old)?;
                files.insert(files.len() - 1, old);
                server.process().signal(Signal::USR1)?;
            }
            for _ in 0..PIPELINED {
                ensure!(client.response("GET")?.status == 200);
            }
            if batch % 10 == 5 {
                eventually("the log is opened again", || Ok(path.exists()))?;
            }
        }
        drop(client);
        server.drain()?;
        let records = files.iter().map(|file| records(file)).collect::<anyhow::Result<Vec<_>>>()?.concat();
        let targets: Vec<_> = records.iter().map(|record| record["target"].as_str().unwrap_or_default()).collect();
        let expected = (0..BATCHES * PIPELINED).map(|n| format!("/content?{n}"));
        ensure!(targets.len() == BATCHES * PIPELINED && expected.eq(targets.iter().copied()), "{}", targets.len());
        Ok(())
    });
}

/// Standard output has the ready line only.
#[test]
fn a_dash_is_standard_error() {
    let (content, setup) =
        (content(3), Setup { args: &["--access-log", "-", "--access-log-format", "common"], ..PLAIN });
    let mut server = setup.start(DriverKind::DEFAULT, content.dir()).unwrap();
    assert_eq!(Http::connect(server.address()).unwrap().get("/content").unwrap().status, 200);
    server.drain().unwrap();
    let stderr = server.stderr();
    let line = stderr.lines().find(|line| line.starts_with("127.0.0.1 - - [")).expect(&stderr);
    assert!(line.ends_with("] \"GET /content HTTP/1.1\" 200 3"), "{line}");
}

#[test]
fn a_record_names_the_user_who_was_let_in() {
    let (content, logs) = (content(100), tempfile::tempdir().unwrap());
    // ada, with the password `secret`.
    std::fs::write(
        logs.path().join("users"),
        "ada:$5$rounds=1000$saltsalt$eKLZU9t9OoPWrqOQsoTIKG0aYkZ5rGOoOQhiIvoSWX2\n",
    )
    .unwrap();
    let users = logs.path().join("users");
    JSON.for_each_driver(|driver| {
        let path = logs.path().join(format!("{driver}.users.log"));
        let mut command = JSON.command(driver, content.dir());
        command.arg("--access-log").arg(&path).arg("--basic-auth").arg(&users);
        let mut server = Server::start_command(command, 1)?;
        let mut client = Http::connect(server.address())?;
        let ask = |pair: &str| format!("GET /content HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {pair}\r\n\r\n");
        for (pair, status) in [("YWRhOnNlY3JldA==", 200), ("YWRhOnNlY3JldAo=", 401), ("YWRhOnNlY3JldA==", 200)] {
            ensure!(client.ask(&ask(pair))?.status == status);
        }
        drop(client);
        server.drain()?;
        let records = records(&path)?;
        let said: Vec<_> = records.iter().map(|record| (&record["status"], &record["user"])).collect();
        let (ada, nobody) = (Value::from("ada"), Value::Null);
        ensure!(said == [(&200.into(), &ada), (&401.into(), &nobody), (&200.into(), &ada)], "{records:?}");
        Ok(())
    });
}

/// A listing, a program and a compressed file are answered by other threads; their records are like any other.
#[test]
fn a_record_is_right_about_answers_of_other_threads() {
    let tree = tempfile::tempdir().unwrap();
    let programs = tree.path().join("programs");
    let root = tree.path().join("root");
    for directory in [&programs, &root] {
        std::fs::create_dir(directory).unwrap();
    }
    std::fs::write(root.join("a.css"), "a { color: red }\n".repeat(1000)).unwrap();
    let script = "#!/bin/sh\nprintf 'Status: 418 Teapot\\nContent-Type: text/plain\\n\\nshort and stout'\n";
    testkit::write_program(&programs.join("teapot"), script).unwrap();
    JSON.for_each_driver(|driver| {
        let path = tree.path().join(format!("{driver}.log"));
        let mut command = JSON.command(driver, &root);
        command.args(["--listing", "on", "--cgi-dir"]).arg(&programs).arg("--access-log").arg(&path);
        let mut server = Server::start_command(command, 1)?;
        let mut client = Http::connect(server.address())?;
        let gzip = "GET /a.css HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n";
        let requests = [
            get("/"),
            get("/cgi-bin/teapot"),
            format!("{gzip}\r\n"),
            format!("{gzip}\r\n"),
            format!("{gzip}Range: bytes=0-9\r\n\r\n"),
            get("/a.css"),
        ];
        let mut lengths = Vec::new();
        for request in &requests {
            lengths.push(client.ask(request)?.body.len() as u64);
        }
        drop(client);
        server.drain()?;
        let records = records(&path)?;
        let said = |name: &str| records.iter().map(|record| record[name].clone()).collect::<Vec<_>>();
        ensure!(said("status") == [200, 418, 200, 200, 206, 200], "{records:?}");
        ensure!(said("body_bytes") == lengths && lengths[1] == 15 && lengths[4] == 10, "{records:?} {lengths:?}");
        let gzip = Value::from("gzip");
        let codings = [Value::Null, Value::Null, gzip.clone(), gzip.clone(), gzip, Value::Null];
        ensure!(said("content_coding") == codings, "{records:?}");
        ensure!(said("complete") == [true; 6], "{records:?}");
        let is_ordered = |record: &Value| {
            let seconds = |name: &str| record[name].as_f64().unwrap_or(f64::NAN);
            0.0 <= seconds("first_byte") && seconds("first_byte") <= seconds("duration")
        };
        ensure!(records.iter().all(is_ordered), "{records:?}");
        Ok(())
    });
}
