//! Usage errors: one line on standard error, and status 2.

use nix::fcntl::{Flock, FlockArg};

use crate::directory::{TINY, TestDirectory, measuring};

#[test]
fn what_cannot_be_is_one_line_and_status_2() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    std::fs::create_dir(directory.path("empty")).unwrap();
    let tiny = |words: &[&'static str]| measuring(&[&TINY[..], words].concat());
    let http = |words: &[&'static str]| measuring(&[&["--servers", "http-server"], words].concat());
    for (words, says) in [
        (measuring(&["--servers", "http-sever"]), "did you mean `http-server`?"),
        (http(&["--workload", "get-128B"]), "did you mean `get-128B-c1`?"),
        (http(&["--against", "ngnix"]), "did you mean `nginx`?"),
        (http(&["--filter", "driver=urnig"]), "did you mean `uring`?"),
        (http(&["--filter", "drivr=uring"]), "did you mean `driver`?"),
        (http(&["--filter", "(driver=uring"]), "expected `)`"),
        (http(&["--filter", "driver=epoll,driver=uring", "--against", "none"]), "is left to run"),
        (http(&["--vary", "drver"]), "did you mean `driver`?"),
        (http(&["--reference", "http-server/epol"]), "did you mean `http-server/epoll`?"),
        (measuring(&["--preset", "stores", "--servers", "http-server"]), "the preset `stores` does not measure it"),
        (tiny(&["--server-cpus", "0-4000"]), "CPU 4000: this machine has "),
        (tiny(&["--fail-on-regression", "5%"]), "needs a --baseline"),
        (tiny(&["--baseline", "no-such-run"]), "neither the directory of a run nor a baseline"),
        (vec!["compare", "empty", "empty"], "neither the directory of a run nor a baseline"),
        (vec!["calibrate", "--server", "kvcahe"], "did you mean `kvcache`?"),
        (vec!["calibrate", "--server", "kvcache", "--workload", "get-P16"], "one request at a time"),
        (vec!["calibrate", "--server", "fileserver"], "there is no program of it that burns"),
        (vec!["report", "empty"], "not the directory of a run"),
        (vec!["merge", "empty", "empty", "--out", "merged"], "not the directory of a run"),
        (vec!["--resume", "empty"], "not the directory of a run"),
        (vec!["--resume", "empty", "--fail-on-regression", "5%"], "needs a --baseline"),
        (vec!["--resume", "empty", "--baseline", "no-such-run"], "neither the directory of a run nor a baseline"),
    ] {
        let ended = directory.run(&words).expect(2);
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
        assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(says), "{words:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{words:?}: {}", ended.stderr);
    }
    // What clap refuses is explained by it in a few lines.
    let unclosed = ["--server-exec", "ssh 'host", "--server-host", "127.0.0.1"];
    for words in
        [&["--preset", "sees"][..], &["--slice", "5x"], &["--resume", "run", "--quick"], &["--no-such-flag"], &unclosed]
    {
        let ended = directory.run(words).expect(2);
        assert!(ended.stderr.starts_with("error: "), "{words:?}: {}", ended.stderr);
    }
}

#[test]
fn two_runs_at_once_are_refused() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    let file = std::fs::File::create(directory.scratch().join("quintet-bench-matrix.lock")).unwrap();
    let held = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
    let words = measuring(&[&TINY[..], &["--out", "run"]].concat());
    let words: Vec<&str> = words.into_iter().filter(|word| *word != "--force").collect();
    let refused = directory.run(&words).expect(1);
    assert!(
        refused.stderr.contains("another bench-matrix runs") && !directory.path("run").exists(),
        "{}",
        refused.stderr
    );
    directory.run(&[&words[..], &["--list"]].concat()).expect(0);
    drop(held);
}
