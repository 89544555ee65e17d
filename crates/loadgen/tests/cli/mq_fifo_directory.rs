//! The directory of FIFOs: whose it may be, and what a run that was killed leaves in it.

use std::{
    fs::{Permissions, create_dir, remove_dir, set_permissions},
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::Path,
    process::Output,
};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::{
    loadgen,
    mq::{text, waiting},
    private_directory,
    support::queue_server::{Act, QueueServer},
};

/// One request over FIFOs in this directory, for which a server waits in another or in none: it is refused before it is asked.
fn ask(server: &QueueServer, directory: &Path, options: &[&str]) -> Output {
    let directory = directory.to_str().expect("a temporary directory's name is text");
    let name = server.name();
    loadgen(&[&["mq", "-n", "1", "--timeout", "30s", "--fifo-dir", directory], options, &[&name, "file.bin"]].concat())
}

fn assert_refused(output: &Output, words: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    for word in words {
        assert!(stderr.starts_with("error: ") && stderr.contains(word), "{word}: {stderr}");
    }
}

#[test]
fn only_a_private_directory_is_taken_unless_a_shared_one_is_asked_for() {
    let server = QueueServer::start(|_, _| Act::say(b"x"));
    let path = Path::new(server.fifos());
    assert_eq!(ask(&server, path, &[]).status.code(), Some(0));
    for mode in [0o755, 0o710, 0o702, 0o777, 0o1777] {
        set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
        let words = ["open to others", &format!("mode {mode:04o}"), "chmod 700", "--shared-fifo-dir"];
        assert_refused(&ask(&server, path, &[]), &words);
        let shared = ask(&server, path, &["--shared-fifo-dir"]);
        assert_eq!(shared.status.code(), Some(0), "{}", text(&shared.stderr));
    }
    assert!(server.left().is_empty());
    assert_eq!(server.received(), 1 + 5, "nothing was asked over what was refused");
}

/// What counts is what was opened.
#[test]
fn a_link_is_as_private_as_the_directory_behind_it() {
    let server = QueueServer::start(|_, _| Act::say(b"x"));
    let place = private_directory();
    let link = place.path().join("link");
    symlink(server.fifos(), &link).expect("a link");
    assert_eq!(ask(&server, &link, &[]).status.code(), Some(0));
    set_permissions(server.fifos(), Permissions::from_mode(0o755)).expect("it is ours");
    assert_refused(&ask(&server, &link, &[]), &["open to others", "mode 0755"]);
}

#[test]
fn what_is_missing_no_directory_or_another_users_is_refused() {
    let server = QueueServer::start(|_, _| Act::say(b"x"));
    let place = private_directory();
    let directory = place.path().join("directory");
    assert_refused(&ask(&server, &directory, &[]), &["no such directory", "mkdir -m 700"]);
    assert_refused(&ask(&server, &directory, &["--shared-fifo-dir"]), &["no such directory"]);
    assert!(!directory.exists(), "the server would not know of it");
    std::fs::write(place.path().join("file"), "").expect("written");
    assert_refused(&ask(&server, &place.path().join("file"), &[]), &["cannot use", "Not a directory"]);
    create_dir(&directory).expect("a directory");
    set_permissions(&directory, Permissions::from_mode(0o700)).expect("it is ours");
    if !geteuid().is_root() {
        eprintln!("skipped: only root can give a directory away");
        return;
    }
    chown(&directory, Some(4711), None).expect("root may");
    let words = ["belongs to user 4711 (mode 0700)", "this is user 0", "mkdir -m 700", "--shared-fifo-dir"];
    assert_refused(&ask(&server, &directory, &[]), &words);
    assert_eq!(std::fs::read_dir(&directory).expect("a directory").count(), 0);
    remove_dir(&directory).expect("nothing is in it");
}

/// Answers only who asks for `answered`.
fn choosy() -> QueueServer {
    QueueServer::start(|_, request| if request.path == b"answered" { Act::say(b"x") } else { Act::default() })
}

fn assert_answered(server: &QueueServer, options: &[&str]) {
    let name = server.name();
    let output = loadgen(&[&["mq", "-n", "1", "--fifo-dir", server.fifos()], options, &[&name, "answered"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn what_a_killed_run_leaves_the_next_one_removes() {
    for (spawn, left_by_clients) in [("thread", 3), ("process", 0)] {
        let server = choosy();
        let mut killed = waiting(&server, spawn);
        kill_process(Pid::from_child(&killed), Signal::KILL).expect("it runs");
        killed.wait().expect("it ends");
        // Clients that are processes see the end of their parent and put their own away; its lock is left.
        let expected = left_by_clients + 1;
        testkit::eventually("the clients end", || Ok(server.left().len() <= expected)).expect("in time");
        // Where others are, nothing is judged.
        assert_answered(&server, &["--shared-fifo-dir"]);
        assert_eq!(server.left().len(), expected, "{spawn}: {:?}", server.left());
        assert_answered(&server, &[]);
        assert!(server.left().is_empty(), "{spawn}: {:?}", server.left());
    }
}

#[test]
fn a_run_that_lives_keeps_what_is_its_own() {
    let server = choosy();
    let living = waiting(&server, "thread");
    let its_own = server.left();
    assert_answered(&server, &[]);
    assert_eq!(server.left(), its_own);
    kill_process(Pid::from_child(&living), Signal::TERM).expect("it runs");
    assert_eq!(living.wait_with_output().expect("it ends").status.code(), Some(130));
    assert!(server.left().is_empty());
}
