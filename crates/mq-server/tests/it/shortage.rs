//! A server that runs out of descriptors.

use std::{fs, time::Duration};

use mq_server::dispatch::DispatchKind;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use testkit::{Server, eventually};
use wire::mserve::{Header, Status};

use crate::{
    client::{ask, ask_with_status},
    world::World,
};

/// Leaves the server so many descriptors to open; returns what it was allowed before.
fn leave(world: &World, server: &Server, free: usize) -> Rlimit {
    // Who has answered has all that it needs to serve, and nothing else once the answer has ended.
    assert!(!ask(world, "file").read_to_end().is_empty());
    let open = format!("/proc/{}/fd", server.process().id());
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u64>().ok();
    let taken: Vec<_> = fs::read_dir(open).unwrap().filter_map(|entry| number(entry.unwrap())).collect();
    // The limit is one of numbers, and the lowest that is free is taken first.
    let limit = (0..).filter(|number| !taken.contains(number)).nth(free).unwrap();
    allow(server, Rlimit { current: Some(limit), maximum: limit_of(server).maximum })
}

fn limit_of(server: &Server) -> Rlimit {
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.process().id())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
    Rlimit { current: numbers.next().unwrap(), maximum: numbers.next().unwrap() }
}

fn allow(server: &Server, limit: Rlimit) -> Rlimit {
    let pid = Pid::from_raw(server.process().id());
    prlimit(pid, Resource::Nofile, limit).unwrap()
}

fn complaints(server: &Server) -> usize {
    server.stderr().matches("out of file descriptors").count()
}

#[test]
fn requests_wait_while_descriptors_have_run_out_and_are_answered_when_there_are_some() {
    for dispatch in DispatchKind::ALL {
        let world = World::new();
        let contents = world.file("file", 300_000);
        let mut server = world.process(&["--dispatch", dispatch.name()]);
        for free in [0, 1] {
            let usual = leave(&world, &server, free);
            let mut answer = ask(&world, "file");
            eventually("it waits", || Ok(complaints(&server) == 1 && world.queued() == Some(0))).unwrap();
            allow(&server, usual);
            assert!(answer.read_to_end() == contents, "{dispatch} {free}");
        }
        assert_eq!(server.stop().unwrap().code(), Some(0));
        assert_eq!(complaints(&server), 1, "{dispatch}: said once, not with every look: {}", server.stderr());
    }
}

#[test]
fn who_has_waited_for_a_descriptor_for_too_long_is_told() {
    for dispatch in DispatchKind::ALL {
        let world = World::new();
        let contents = world.file("file", 10);
        let mut server = world.process(&["--dispatch", dispatch.name(), "--stall-timeout", "150ms"]);
        // One for the FIFO, none for the file.
        let usual = leave(&world, &server, 1);
        let (mut answer, mut status) = ask_with_status(&world, "file");
        assert_eq!(status.read_header(), Header { status: Status::Overloaded, length: 0 }, "{dispatch}");
        assert_eq!(answer.read_to_end(), b"");
        allow(&server, usual);
        assert!(ask(&world, "file").read_to_end() == contents);
        assert_eq!(server.stop().unwrap().code(), Some(0));
    }
}

/// Nobody holds on to what is short: waiting costs next to no processor time.
#[test]
fn waiting_for_descriptors_is_no_busy_loop() {
    const WATCHED: Duration = Duration::from_millis(500);
    let world = World::new();
    world.file("file", 10);
    let server = world.process(&[]);
    let _usual = leave(&world, &server, 0);
    let answers: Vec<_> = (0..8).map(|_| ask(&world, "file")).collect();
    eventually("they wait", || Ok(world.queued() == Some(0) && complaints(&server) == 1)).unwrap();
    let before = server.process().cpu().unwrap();
    std::thread::sleep(WATCHED);
    let used = server.process().cpu().unwrap() - before;
    assert!(used < WATCHED / 2, "{used:?} of {WATCHED:?}");
    drop(answers);
}
