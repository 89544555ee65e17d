//! Foreign clients, and the load generator.

use std::{path::Path, process::Command};

use anyhow::{Context, ensure};
use testkit::{Server, installed_program, run_to_end, workspace_program};

use crate::process::setup::{EXE, Http, PLAIN, Setup, content};

/// Number of loads at the same time, each with a program of its own, on machines with few processors.
const LOADED: Setup = Setup { concurrency: 1, ..PLAIN };

/// Runs a client to its successful end. Returns its output.
fn run(program: &Path, args: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(args);
    let finished = run_to_end(command)?;
    ensure!(finished.code() == Some(0), "{} {args:?}: {finished:?}", program.display());
    Ok(finished.stdout)
}

fn url(server: &Server, path: &str) -> String {
    format!("http://{}{path}", server.address())
}

/// The number behind `label` in the report of a load generator.
fn figure(report: &str, label: &str) -> Option<u64> {
    report.lines().find_map(|line| line.trim().strip_prefix(label)?.split_whitespace().next()?.parse().ok())
}

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("small.txt"), "s".repeat(128)).unwrap();
    std::fs::write(tree.path().join("middle.txt"), "m".repeat(26_510)).unwrap();
    tree
}

#[test]
fn curl_is_served() {
    let Some(curl) = installed_program("curl").unwrap() else { return };
    let curl = |args: &[&str]| run(&curl, &[&["-q", "-sS", "--noproxy", "*", "--max-time", "30"], args].concat());
    let tree = tree();
    PLAIN.for_each_server(tree.path(), |server, driver| {
        let (small, middle) = (url(server, "/small.txt"), url(server, "/middle.txt"));
        let head = curl(&["-I", &small])?;
        ensure!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("Content-Length: 128\r\n"), "{head}");
        ensure!(curl(&["-i", "--http1.0", &small])?.contains("Connection: close\r\n"), "1.0 closes");
        let bodies = curl(&["-w", "[%{num_connects} %{http_code}]", &small, &middle, &small])?;
        let want = ["s".repeat(128) + "[1 200]", "m".repeat(26_510) + "[0 200]", "s".repeat(128) + "[0 200]"].concat();
        ensure!(bodies == want, "three files, one connection: {} bytes", bodies.len());
        let etag = tree.path().join(format!("{driver}.etag")).display().to_string();
        curl(&["-o", "/dev/null", "--etag-save", &etag, &small])?;
        ensure!(curl(&["-w", "%{http_code}", "--etag-compare", &etag, &small])? == "304", "the entity tag is known");
        let file = tree.path().join("middle.txt").display().to_string();
        ensure!(curl(&["-w", "%{http_code}", "-z", &file, &middle])? == "304", "nothing newer than the file itself");
        let missing = curl(&["-o", "/dev/null", "-w", "%{http_code}", "--path-as-is", &url(server, "/../small.txt")])?;
        ensure!(missing == "400", "{missing}");
        ensure!(curl(&["-w", "%{http_code}", "-o", "/dev/null", "-d", "x=y", &small])? == "405", "nothing is posted");
        Ok(())
    });
}

/// Parts, several of them, and a download that goes on where it was broken off.
#[test]
fn curl_gets_parts() {
    let Some(curl) = installed_program("curl").unwrap() else { return };
    let curl = |args: &[&str]| run(&curl, &[&["-q", "-sS", "--noproxy", "*", "--max-time", "30"], args].concat());
    let content = content(3 << 20);
    std::fs::write(content.dir().join("digits.txt"), "0123456789abcdef").unwrap();
    PLAIN.for_each_server(content.dir(), |server, driver| {
        let digits = url(server, "/digits.txt");
        ensure!(curl(&["-r", "0-4", "-w", " %{http_code}", &digits])? == "01234 206");
        ensure!(curl(&["-r", "-5", &digits])? == "bcdef");
        let several = curl(&["-r", "0-4,10-14", &digits])?;
        let begins: Vec<&str> = several.split("\r\n\r\n").skip(1).map(|part| &part[..5]).collect();
        ensure!(begins == ["01234", "abcde"], "{several}");
        ensure!(several.matches("Content-Range: bytes ").count() == 2, "{several}");
        ensure!(curl(&["-r", "99-", "-o", "/dev/null", "-w", "%{http_code}", &digits])? == "416");
        let partial = content.dir().join(format!("{driver}.part"));
        std::fs::write(&partial, &content.bytes()[..1_000_000])?;
        curl(&["-C", "-", "-o", &partial.display().to_string(), &url(server, "/content")])?;
        ensure!(std::fs::read(&partial)? == content.bytes(), "the rest does not fit the beginning");
        Ok(())
    });
}

#[test]
fn media_types_come_from_the_map_first() {
    let tree = tree();
    std::fs::write(tree.path().join("page.html"), "<p>").unwrap();
    let map = tree.path().join("mime.types");
    std::fs::write(&map, "types {\n text/x-log\n  log txt;\n}\n").unwrap();
    PLAIN.for_each_driver(|driver| {
        let mut command = PLAIN.command(driver, tree.path());
        command.arg("--mime-file").arg(&map);
        let mut server = Server::start_command(command, 1)?;
        let mut http = Http::connect(server.address())?;
        for (target, media_type) in
            [("/small.txt", "text/x-log; charset=utf-8"), ("/page.html", "text/html; charset=utf-8")]
        {
            let got = http.get(target)?;
            ensure!(got.field("content-type") == Some(media_type), "{target}: {:?}", got.fields);
        }
        server.drain()
    });
}

#[test]
fn curl_is_served_over_a_unix_socket() {
    let Some(curl) = installed_program("curl").unwrap() else { return };
    let content = content(3 << 20);
    PLAIN.for_each_driver(|driver| {
        let socket = content.dir().join(format!("{driver}.sock")).display().to_string();
        let got = content.dir().join(format!("{driver}.got"));
        let mut command = Command::new(EXE);
        command.args(["--driver", driver.name(), "--listen", &format!("unix:{socket}"), "-d"]).arg(content.dir());
        let mut server = Server::start_command(command, 1)?;
        let output = got.display().to_string();
        run(&curl, &["-q", "-sS", "--unix-socket", &socket, "-o", &output, "http://localhost/content"])?;
        ensure!(std::fs::read(&got)? == content.bytes(), "wrong bytes");
        server.drain()
    });
}

#[test]
fn wrk_meets_no_error() {
    let Some(wrk) = installed_program("wrk").unwrap() else { return };
    let tree = tree();
    LOADED.for_each_server(tree.path(), |server, _| {
        for path in ["/small.txt", "/middle.txt"] {
            let report = run(&wrk, &["-t1", "-c32", "-d1s", &url(server, path)])?;
            let requests = report.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok());
            ensure!(requests.is_some_and(|requests: u64| requests > 0), "{report}");
            ensure!(!report.contains("Socket errors") && !report.contains("Non-2xx"), "{report}");
        }
        Ok(())
    });
}

#[test]
fn ab_sees_no_request_fail() {
    let Some(ab) = installed_program("ab").unwrap() else { return };
    let tree = tree();
    LOADED.for_each_server(tree.path(), |server, _| {
        for (args, kept) in [(&["-k"][..], Some(2_000)), (&[], None)] {
            let url = url(server, "/small.txt");
            let args = [args, &["-q", "-n", "2000", "-c", "16", &url]].concat();
            let report = run(&ab, &args)?;
            ensure!(figure(&report, "Complete requests:") == Some(2_000), "{report}");
            ensure!(figure(&report, "Failed requests:") == Some(0) && !report.contains("Non-2xx"), "{report}");
            ensure!(figure(&report, "Keep-Alive requests:") == kept, "{report}");
        }
        Ok(())
    });
}

/// Every body is compared with the files, in a pipeline and one by one.
#[test]
fn loadgen_verifies_every_byte() {
    let Some(loadgen) = workspace_program(Path::new(EXE), "loadgen").unwrap() else { return };
    let tree = tree();
    let directory = tree.path().display().to_string();
    LOADED.for_each_server(tree.path(), |server, _| {
        for depth in ["1", "8"] {
            let common = ["http", "-n", "2000", "-c", "16", "-t", "1", "-P", depth, "--verify", "sha256"];
            let urls = [url(server, "/small.txt"), url(server, "/middle.txt")];
            let args = [&common[..], &["--format", "csv", "--content-dir", &directory, &urls[0], &urls[1]]].concat();
            run(&loadgen, &args).with_context(|| format!("depth {depth}"))?;
        }
        Ok(())
    });
}
