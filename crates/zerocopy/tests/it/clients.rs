//! Foreign clients, and the load generator.

use std::{path::Path, process::Command};

use anyhow::{Context, ensure};
use testkit::{Server, installed_program, run_to_end, workspace_program};

use crate::setup::{ALL, EXE, Setup, Site, bytes, number, stats};

/// Number of loads at the same time, each with a program of its own, on machines with few processors.
const LOADED: Setup = Setup { concurrency: 1, ..ALL };

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

#[test]
fn curl_is_served() {
    let Some(curl) = installed_program("curl").unwrap() else { return };
    let curl = |args: &[&str]| run(&curl, &[&["-q", "-sS", "--noproxy", "*", "--max-time", "30"], args].concat());
    let site = Site::new(&[26_510, 3 << 20]);
    ALL.for_each_server(site.path(), |server, combination| {
        let got = site.path().join(format!("{}-{}.got", combination.strategy, combination.driver));
        let output = got.display().to_string();
        for size in [26_510, 3 << 20] {
            let from = url(server, &format!("/{size}"));
            for args in [&["--http1.1"][..], &["--http1.0"], &["-r", "0-"], &["--compressed"]] {
                curl(&[args, &["-o", &output, &from]].concat())?;
                ensure!(std::fs::read(&got)? == bytes(size), "{size} {args:?}: wrong bytes");
            }
            std::fs::write(&got, &bytes(size)[..size / 3])?;
            curl(&["-C", "-", "-o", &output, &from])?;
            ensure!(std::fs::read(&got)? == bytes(size), "{size}: resumed wrongly");
        }
        // As with the original server.
        let reset = curl(&[&url(server, "/cache/reset/26510")])?;
        ensure!(reset == "{\"evicted\":true}\n", "{reset}");
        let added = curl(&["--data-binary", "<p>added", &url(server, "/cache/add/added.html")])?;
        ensure!(added.contains("\"added\":\"/added.html\""), "{added}");
        ensure!(curl(&[&url(server, "/added.html")])? == "<p>added", "what was added");
        // Large enough for curl to wait for `100 Continue`.
        let file = site.path().join((3 << 20).to_string()).display().to_string();
        curl(&["-f", "-T", &file, &url(server, "/cache/add/large")])?;
        curl(&["-o", &output, &url(server, "/large")])?;
        ensure!(std::fs::read(&got)? == bytes(3 << 20), "what was uploaded");
        Ok(())
    });
}

/// HTTP/1.0 with keep-alive, which has a head and so a pipe of its own.
#[test]
fn ab_sees_no_request_fail() {
    let Some(ab) = installed_program("ab").unwrap() else { return };
    let figure = |report: &str, label: &str| -> Option<u64> {
        report.lines().find_map(|line| line.trim().strip_prefix(label)?.split_whitespace().next()?.parse().ok())
    };
    LOADED.for_each_server(Site::new(&[26_510]).path(), |server, combination| {
        // A request while the very first pipe is made is sent the file itself.
        for args in [&["-k"][..], &[]] {
            run(&ab, &[args, &["-q", "-n", "1", &url(server, "/26510")]].concat())?;
        }
        for (args, kept) in [(&["-k"][..], Some(600)), (&[], None)] {
            let url = url(server, "/26510");
            let report = run(&ab, &[args, &["-q", "-n", "600", "-c", "16", &url]].concat())?;
            ensure!(figure(&report, "Complete requests:") == Some(600), "{report}");
            ensure!(figure(&report, "Failed requests:") == Some(0) && !report.contains("Non-2xx"), "{report}");
            ensure!(figure(&report, "Keep-Alive requests:") == kept, "{report}");
        }
        if combination.strategy == "pipe" {
            let stats = stats(server)?;
            ensure!(crate::setup::of_strategy(&stats, "pipe", "requests")? == 1_202.0, "{stats}");
        }
        Ok(())
    });
}

/// Every body is compared with the files, in a pipeline and one by one.
#[test]
fn loadgen_verifies_every_byte() {
    let Some(loadgen) = workspace_program(Path::new(EXE), "loadgen").unwrap() else { return };
    let site = Site::new(&[128, 26_510, 300_000]);
    let directory = site.path().display().to_string();
    LOADED.for_each_server(site.path(), |server, _| {
        for depth in ["1", "8"] {
            let common = ["http", "-n", "600", "-c", "16", "-t", "1", "-P", depth, "--verify", "sha256"];
            let urls = ["/128", "/26510", "/300000"].map(|path| url(server, path));
            let args = [&common[..], &["--format", "csv", "--content-dir", &directory, &urls[0], &urls[1], &urls[2]]];
            run(&loadgen, &args.concat()).with_context(|| format!("depth {depth}"))?;
        }
        ensure!(number(&stats(server)?, "/zombies")? == 0.0, "nothing is left behind");
        Ok(())
    });
}
