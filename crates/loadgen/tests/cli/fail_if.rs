//! `--fail-if`: conditions on figures that fail a run, or a report.

use std::process::Output;

use super::support::{
    loadgen,
    socket_server::{Act, Server, ok, reply},
};

/// Runs ten requests with these conditions, of which the server answers the last with an error.
fn run(conditions: &[&str]) -> Output {
    let server = Server::start(|number| match number {
        9 => Act::Say(reply("503 Service Unavailable", "", 1, "x")),
        _ => Act::Say(ok("x")),
    });
    let url = server.url();
    let mut arguments = vec!["http", "-c", "1", "-t", "1", "-n", "10"];
    conditions.iter().for_each(|condition| arguments.extend(["--fail-if", condition]));
    arguments.push(&url);
    loadgen(&arguments)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_condition_that_holds_has_an_exit_status_of_its_own() {
    let failed = run(&["p99>1000s", "failed>5%", "throughput_rps<1M"]);
    assert_eq!(failed.status.code(), Some(4), "{}", stderr(&failed));
    let told: Vec<_> =
        stderr(&failed).lines().filter(|line| line.starts_with("--fail-if")).map(str::to_owned).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0] == "--fail-if failed>5%: it is 10.000 %" && told[1].contains("throughput_rps<1M"), "{told:?}");
    assert!(!failed.stdout.is_empty(), "the result is printed all the same");
}

#[test]
fn a_limit_of_failures_takes_the_place_of_their_status() {
    assert_eq!(run(&["p99>1000s"]).status.code(), Some(3), "failures have their status");
    assert_eq!(run(&["failed>10%"]).status.code(), Some(0), "unless so many are allowed");
    assert_eq!(run(&["errors.status>0"]).status.code(), Some(4));
}

#[test]
fn a_condition_on_nothing_is_refused_before_the_run() {
    for (condition, why) in [
        ("p98>5ms", "`p98` is no figure of a result"),
        ("p99>5", "a time with its unit"),
        ("p99>1.1x", "a multiple is for report --compare"),
    ] {
        let output = loadgen(&["http", "--fail-if", condition, "http://127.0.0.1:1/"]);
        assert!(output.status.code() == Some(2) && stderr(&output).contains(why), "{}", stderr(&output));
    }
    // A figure that this run does not have is no reason to pass.
    let output = run(&["lag_us.p99>1s", "failed>50%"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("lag_us.p99>1s: the result has no such figure"), "{}", stderr(&output));
}

#[test]
fn stored_results_are_judged_by_themselves_and_by_what_has_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    for (name, body) in [("before", "x"), ("after", "xxxxxxxxxx")] {
        let server = Server::start(move |_| Act::Say(ok(body)));
        let run = loadgen(&["http", "-c", "1", "-t", "1", "-n", "10", "--out", &path(name), &server.url()]);
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    }
    let judge = |options: &[&str]| {
        let output = loadgen(&[&["report"], options, &[path("before").as_str(), path("after").as_str()]].concat());
        (output.status.code(), stderr(&output))
    };
    assert_eq!(judge(&["--fail-if", "failed>0%"]).0, Some(0));
    let (code, told) = judge(&["--fail-if", "ok>=10"]);
    assert!(code == Some(4) && told.lines().count() == 2 && told.contains("after)"), "{told}");
    // Nine bytes more for each of ten replies.
    assert_eq!(judge(&["--compare", "--fail-if", "bytes_in>1.5x"]).0, Some(0));
    let (code, told) = judge(&["--compare", "--fail-if", "bytes_in>1.1x"]);
    assert!(code == Some(4) && told.contains("bytes_in>1.1x: it is 1.") && told.contains("instead of"), "{told}");
    assert_eq!(judge(&["--fail-if", "bytes_in>1.1x"]).0, Some(2), "there is nothing to compare");
}
