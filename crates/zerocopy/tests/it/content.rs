//! Listings, programs and bodies for nobody, which the front end has for every server.

use anyhow::ensure;
use testkit::http::Http;

use crate::setup::{ALL, Combination, STRATEGIES, Setup};

/// Every driver, with one strategy: none of this is sent by one.
const LISTING: Setup = Setup { strategies: &[STRATEGIES[0]], args: &["--threads", "1", "--listing", "on"], ..ALL };

#[test]
fn directories_are_listed_and_programs_are_run() {
    let tree = tempfile::tempdir().unwrap();
    let programs = tree.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    std::fs::write(tree.path().join("a.txt"), "0123456789").unwrap();
    let script = "#!/bin/sh\necho 'Content-Type: text/plain'; echo; cat; echo \"$QUERY_STRING\"\n";
    testkit::write_program(&programs.join("hello"), script).unwrap();
    LISTING.for_each_combination(|combination| {
        let mut command = LISTING.command(combination, tree.path());
        command.arg("--cgi-dir").arg(&programs);
        let mut server = testkit::Server::start_command(command, 1)?;
        let mut client = Http::connect(server.address())?;
        let listing = client.get("/")?;
        let shown = String::from_utf8_lossy(&listing.body).into_owned();
        ensure!(shown.contains("href=\"a.txt\"") && !shown.contains("programs"), "{shown}");
        let post = "POST /cgi-bin/hello?query HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
        ensure!(client.ask(post)?.body == b"helloquery\n");
        ensure!(client.get("/programs/hello")?.status == 404);
        let chunked = "GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        ensure!(client.ask(&format!("{chunked}3\r\nabc\r\n0\r\n\r\n"))?.body == b"0123456789");
        ensure!(client.ask(&format!("{chunked}3\r\nabcd\r\n"))?.status == 400);
        client.expect_end()?;
        server.drain()
    });
}

/// A file that a rewrite leads to has a key of its own.
#[test]
fn a_reset_reaches_files_that_rewrites_lead_to() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("old.txt"), "before").unwrap();
    std::fs::write(tree.path().join("new.txt"), "before").unwrap();
    crate::setup::settle();
    let setup = Setup { args: &["--threads", "1", "--revalidate", "1h"], ..LISTING };
    let mut command =
        setup.command(Combination { strategy: "sendfile", driver: testkit::DriverKind::DEFAULT }, tree.path());
    command.args(["--redirect", "/new.txt=/elsewhere", "--rewrite", "/old.txt=/new.txt"]);
    let mut server = testkit::Server::start_command(command, 1).unwrap();
    let mut client = Http::connect(server.address()).unwrap();
    assert_eq!(client.get("/old.txt").unwrap().body, b"before");
    let next = tree.path().join("next");
    std::fs::write(&next, "after").unwrap();
    std::fs::rename(&next, tree.path().join("new.txt")).unwrap();
    assert_eq!(client.get("/old.txt").unwrap().body, b"before");
    let reset =
        client.ask("POST /cache/reset/new.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert_eq!(String::from_utf8_lossy(&reset.body).trim(), "{\"evicted\":true}");
    assert_eq!(client.get("/old.txt").unwrap().body, b"after");
    server.drain().unwrap();
}

/// Each host has files and administration of its own, and the log says whose request it was.
#[test]
fn hosts_are_told_apart_and_requests_are_logged() {
    let tree = tempfile::tempdir().unwrap();
    for host in ["a", "b"] {
        std::fs::create_dir(tree.path().join(host)).unwrap();
        std::fs::write(tree.path().join(host).join("file.txt"), host).unwrap();
    }
    LISTING.for_each_combination(|combination| {
        let (config, log) =
            [".toml", ".log"].map(|end| tree.path().join(format!("{}{end}", combination.driver))).into();
        let root = |name: &str| tree.path().join(name).display().to_string();
        let hosts = ["a", "b"].map(|name| format!("[[host]]\nnames = [\"{name}.example\"]\nroot = {:?}\n", root(name)));
        std::fs::write(&config, hosts.concat())?;
        let mut command = std::process::Command::new(crate::setup::EXE);
        command.args(["--driver", combination.driver.name(), "--strategy", "auto", "--threads", "1"]);
        command
            .args(["--listen", "127.0.0.1:0", "--access-log-format", "json", "--admin-token", "t", "--config"])
            .arg(&config);
        let mut server = testkit::Server::start_command(
            {
                command.arg("--access-log").arg(&log);
                command
            },
            1,
        )?;
        let mut client = Http::connect(server.address())?;
        let mut ask = |request: &str, host: &str| {
            client.ask(&format!(
                "{request} HTTP/1.1\r\nHost: {host}.example\r\nAuthorization: Bearer t\r\nContent-Length: 0\r\n\r\n"
            ))
        };
        for host in ["a", "b", "a"] {
            ensure!(ask("GET /file.txt", host)?.body == host.as_bytes(), "{host}");
        }
        ensure!(ask("POST /cache/reset/file.txt", "a")?.body.starts_with(b"{\"evicted\":true}"));
        let stats: Vec<serde_json::Value> = ["a", "b"]
            .into_iter()
            .map(|host| Ok(serde_json::from_slice(&ask("GET /cache/stats", host)?.body)?))
            .collect::<anyhow::Result<_>>()?;
        ensure!(stats[0]["files_total"] == 0 && stats[1]["files_total"] == 1, "{stats:?}");
        drop(client);
        server.drain()?;
        let log = std::fs::read_to_string(&log)?;
        let lines: Vec<serde_json::Value> = log.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let said: Vec<_> = lines.iter().map(|line| (&line["status"], &line["bytes"])).collect();
        ensure!(lines.len() == 6 && said.iter().all(|(status, _)| **status == 200), "{log}");
        Ok(())
    });
}
