//! The gate: exit status, comment and figures of two builds that are compared.

use std::fs;

use crate::directory::{Ended, TestDirectory, measuring, server_script};

/// Two programs that answer as http-server does, that burn so much CPU time for each request.
fn compared(directory: &TestDirectory, [base, change]: [&str; 2], words: &[&str]) -> Ended {
    let script = |name: &str, burn: &str| server_script(directory, name, burn).display().to_string();
    let base = format!("base={}", script("base", base));
    let change = format!("change={}", script("change", change));
    let fixed = ["--servers", "http-server", "--workload", "get-128B-c64", "--turns", "1", "--program", &base];
    directory.run(&measuring(&[&fixed[..], &["--program", &change], words].concat()))
}

#[test]
fn a_gate_ends_with_the_status_of_its_verdict() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    let limit = ["--fail-on-regression", "50%"];
    // A round is not enough to know anything, and there is no time for a second one.
    let short = ["--time-budget", "1ms"];
    let burns = ["1us", "1us"];
    let unknown = compared(&directory, burns, &[&limit[..], &short, &["--out", "unknown"]].concat()).expect(0);
    assert!(unknown.stdout.starts_with("**Not known:** under `get-128B-c64`"), "{}", unknown.stdout);
    let gate = directory.json("unknown", "gate.json");
    assert_eq!((&gate["verdict"], &gate["comparisons"][0]["rounds"]), (&"unknown".into(), &1.into()), "{gate}");
    assert_eq!(fs::read_to_string(directory.path("unknown").join("comment.md")).unwrap(), unknown.stdout);
    let strict = [&limit[..], &short, &["--strict", "--out", "strict"]].concat();
    compared(&directory, burns, &strict).expect(3);
    let slower = [&limit[..], &["--out", "slower"]].concat();
    let slower = compared(&directory, ["1us", "200us"], &slower).expect(4);
    assert!(slower.stdout.starts_with("**http-server became slower by more than 50\u{a0}%**"), "{}", slower.stdout);
    assert_eq!(directory.json("slower", "gate.json")["verdict"], "regressed");
}

#[test]
fn a_gate_that_cannot_compare_says_why_with_status_2() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    let base = format!("base={}", server_script(&directory, "base", "1us").display());
    let change = base.replacen("base", "change", 1);
    let both = ["--program", &base, "--program", &change];
    for (words, says) in [
        (&["--program", &base][..], "one base=PATH and one change=PATH"),
        (&["--program", &base, "--program", "change=/does/not/exist"], "/does/not/exist is no file"),
        (&[&both[..], &["--blocks", "2"]].concat(), "--program base=PATH and --blocks exclude each other"),
        (&[&both[..], &["--turns", "0"]].concat(), "at least 1 pair"),
        (&[&both[..], &["--workload", "get-128B"]].concat(), "did you mean `get-128B-c1`?"),
        (&[&both[..], &["--workload", "get-128B-c64-open"]].concat(), "no workload is left"),
        (&[&both[..], &["--fail-on-regression", "0%"]].concat(), "expected a percentage"),
    ] {
        let ended = directory.run(&measuring(&[&["--servers", "http-server"], words].concat())).expect(2);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(says), "{words:?}: {}", ended.stderr);
    }
}
