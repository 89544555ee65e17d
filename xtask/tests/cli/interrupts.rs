//! Runs that are ended in the middle, and go on.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::directory::{Ended, TINY, TestDirectory, but, measuring};

fn begun(directory: &TestDirectory, words: &[&str]) -> Child {
    let mut command = directory.command(&measuring(words));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A run of two blocks of which the first visit has been made.
fn with_a_visit(directory: &TestDirectory) -> Child {
    let mut child = begun(directory, &[&but(&TINY, "--blocks", "2")[..], &["--seed", "3", "--out", "run"]].concat());
    // A byte at a time: what is behind the line is for whoever waits for the end.
    let mut said = BufReader::with_capacity(1, child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("[1/6]") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "ended before its first visit");
    }
    child.stderr = Some(said.into_inner());
    child
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

/// True if a process is left whose scratch directory is the test's: a server, the null server or the generator.
fn somebody_is_left_of(directory: &TestDirectory) -> bool {
    let scratch = format!("TMPDIR={}\0", directory.scratch().display());
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let surroundings = processes.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    surroundings.into_iter().any(|variables| String::from_utf8_lossy(&variables).contains(&scratch))
}

/// The processes that a run has started, and whether the generator is among them: then a visit is under way.
fn children_of(run: &Child) -> (Vec<PathBuf>, bool) {
    let parent = format!("\nPPid:\t{}\n", run.id());
    let has_parent =
        |path: &PathBuf| fs::read_to_string(path.join("status")).is_ok_and(|status| status.contains(&parent));
    let children: Vec<PathBuf> =
        fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(has_parent).collect();
    let is_generator =
        |path: &PathBuf| fs::read_to_string(path.join("cmdline")).is_ok_and(|words| words.contains("--server-pid"));
    let is_loaded = children.iter().any(is_generator);
    (children, is_loaded)
}

/// The directories that runs made for while they run.
fn left_behind(directory: &TestDirectory) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory.scratch()).unwrap().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir()).collect()
}

#[test]
fn the_first_interrupt_ends_after_the_visit_and_resumes() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    let child = with_a_visit(&directory);
    send(&child, Signal::SIGINT);
    let ended = Ended::of(child.wait_with_output().unwrap()).expect(130);
    assert!(ended.stderr.contains("continue with: cargo xtask bench-matrix --resume run"), "{}", ended.stderr);
    let made = directory.visits("run").len();
    assert!((1..=3).contains(&made), "{made}");
    assert_eq!(directory.json("run", "summary.json")["matrices"][0]["progress"]["is_partial"], true);
    directory.run(&["--resume", "run", "--no-build", "--force"]).expect(0);
    directory.assert_made_as_planned("run");
    assert_eq!(directory.json("run", "summary.json")["matrices"][0]["progress"]["is_partial"], false);
}

#[test]
fn the_second_interrupt_ends_it_at_once() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    // Longer than anybody would wait for.
    let child = begun(&directory, &[&but(&TINY, "--slice", "40m")[..], &["--out", "run"]].concat());
    let is_loaded = testkit::eventually("a server, whichever is first, is under load", || Ok(children_of(&child).1));
    if is_loaded.is_err() {
        send(&child, Signal::SIGKILL);
    }
    is_loaded.unwrap();
    let (children, _) = children_of(&child);
    send(&child, Signal::SIGINT);
    // Two of the same that are pending at once are one.
    thread::sleep(Duration::from_millis(20));
    send(&child, Signal::SIGINT);
    Ended::of(child.wait_with_output().unwrap()).expect(130);
    assert!(children.len() >= 2 && !children.iter().any(|child| child.exists()), "{children:?}");
    assert!(left_behind(&directory).is_empty(), "{:?}", left_behind(&directory));
    assert!(directory.visits("run").is_empty(), "the visit under way is dropped");
    assert!(directory.path("run/report.html").exists(), "with a report of what there is");
}

#[test]
fn a_killed_run_leaves_no_server_and_resumes() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    let mut child = with_a_visit(&directory);
    send(&child, Signal::SIGKILL);
    child.wait().unwrap();
    testkit::eventually("its children are gone, too", || Ok(!somebody_is_left_of(&directory))).unwrap();
    let scratch = left_behind(&directory);
    // What is in memory is in a place for all runs, and another test's may have removed it already.
    let in_memory = scratch.iter().map(|path| path.join("site/memory"));
    let in_memory: Vec<PathBuf> = in_memory.map(|place| fs::read_link(&place).unwrap_or(place)).collect();
    assert_eq!(scratch.len(), 1, "{scratch:?}");
    // A crash of the machine may tear the last line.
    let visits = OpenOptions::new().append(true).open(directory.path("run/visits.jsonl")).unwrap();
    let whole = visits.metadata().unwrap().len();
    visits.set_len(whole - 10).unwrap();
    directory.run(&["--resume", "run", "--no-build", "--force"]).expect(0);
    directory.assert_made_as_planned("run");
    assert!(
        left_behind(&directory).is_empty() && in_memory.iter().all(|path| !path.exists()),
        "{scratch:?} {in_memory:?}"
    );
}
