//! `loadgen mq`: the owner and mode of its directory of FIFOs, and the leftovers of killed runs in it.

use std::{
    fs::{Permissions, create_dir, remove_dir, set_permissions},
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::Path,
    process::Output,
};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::{
    mq::{text, waiting},
    support::{
        loadgen, private_directory,
        queue_server::{Act, QueueServer},
    },
};

/// Sends one request over FIFOs in this directory. The server waits in another directory, so the request must be refused before it is sent.
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
fn a_shared_directory_needs_an_option() {
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

/// The directory that was opened is the one that is checked.
#[test]
fn a_link_is_judged_by_its_directory() {
    let server = QueueServer::start(|_, _| Act::say(b"x"));
    let place = private_directory();
    let link = place.path().join("link");
    symlink(server.fifos(), &link).expect("a link");
    assert_eq!(ask(&server, &link, &[]).status.code(), Some(0));
    set_permissions(server.fifos(), Permissions::from_mode(0o755)).expect("it is ours");
    assert_refused(&ask(&server, &link, &[]), &["open to others", "mode 0755"]);
}

#[test]
fn missing_and_foreign_directories_are_refused() {
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

/// Starts a server that answers only requests for `answered`.
fn choosy() -> QueueServer {
    QueueServer::start(|_, request| if request.path == b"answered" { Act::say(b"x") } else { Act::default() })
}

fn assert_answered(server: &QueueServer, options: &[&str]) {
    let name = server.name();
    let output = loadgen(&[&["mq", "-n", "1", "--fifo-dir", server.fifos()], options, &[&name, "answered"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn the_next_run_removes_what_a_killed_one_left() {
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
fn the_fifos_of_a_living_run_are_kept() {
    let server = choosy();
    let living = waiting(&server, "thread");
    let its_own = server.left();
    assert_answered(&server, &[]);
    assert_eq!(server.left(), its_own);
    kill_process(Pid::from_child(&living), Signal::TERM).expect("it runs");
    assert_eq!(living.wait_with_output().expect("it ends").status.code(), Some(130));
    assert!(server.left().is_empty());
}
