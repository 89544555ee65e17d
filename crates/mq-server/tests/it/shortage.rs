//! A server that runs out of descriptors.

use std::{thread, time::Duration};

use clap::ValueEnum;
use mq_server::dispatch::DispatchKind;
use procfs::process::{LimitValue, Process};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use testkit::{Server, eventually, open_files::with_open_files};
use wire::mserve::{Header, Status};

use crate::{
    client::{ask, ask_with_status},
    world::World,
};

/// Lets the server open only `free` more descriptors; returns the limit from before.
fn restrict(world: &World, server: &Server, free: usize) -> Rlimit {
    // A server that has answered has opened all that it needs to serve; the answer's own descriptors are closed again.
    assert!(!ask(world, "file").read_to_end().is_empty());
    let open = Process::new(server.process().id()).unwrap().fd().unwrap();
    let taken: Vec<_> = open.map(|descriptor| descriptor.unwrap().fd).collect();
    // The limit is on the number of a descriptor, and the lowest free number is taken first.
    let limit = (0..).filter(|number| !taken.contains(number)).nth(free).unwrap().cast_unsigned().into();
    allow(server, Rlimit { current: Some(limit), maximum: limit_of(server).maximum })
}

fn limit_of(server: &Server) -> Rlimit {
    let limits = Process::new(server.process().id()).unwrap().limits().unwrap().max_open_files;
    let number = |limit| match limit {
        LimitValue::Value(number) => Some(number),
        LimitValue::Unlimited => None,
    };
    Rlimit { current: number(limits.soft_limit), maximum: number(limits.hard_limit) }
}

fn allow(server: &Server, limit: Rlimit) -> Rlimit {
    let pid = Pid::from_raw(server.process().id());
    prlimit(pid, Resource::Nofile, limit).unwrap()
}

fn warnings(server: &Server) -> usize {
    server.stderr().matches("out of file descriptors").count()
}

/// Started with a small limit, as by `ulimit -n`: more clients than there are descriptors for, none of whom reads before all have asked.
#[test]
fn with_few_open_files_everybody_is_served_in_the_end() {
    for limit in [40, 64] {
        for dispatch in DispatchKind::value_variants() {
            let world = World::new();
            let contents = world.file("file", 300_000);
            // No more than a little of the file is on its way to a client that does not read.
            let command = world.command(&["--dispatch", &dispatch.to_string(), "--pipe-size", "64KiB"]);
            let mut server = world.start(with_open_files(&command, limit));
            let mut answers: Vec<_> = (0..limit).map(|_| ask(&world, "file")).collect();
            eventually("some wait", || Ok(warnings(&server) == 1 && world.queued() == Some(0))).unwrap();
            thread::scope(|scope| {
                for answer in &mut answers {
                    scope.spawn(|| assert!(answer.read_to_end() == contents, "{dispatch} {limit}"));
                }
            });
            assert!(ask(&world, "file").read_to_end() == contents, "{dispatch} {limit}: afterwards");
            assert_eq!(server.stop().unwrap().code(), Some(0));
            assert_eq!(warnings(&server), 1, "{dispatch} {limit}: {}", server.stderr());
        }
    }
}

#[test]
fn requests_wait_for_descriptors_and_are_answered_then() {
    for dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 300_000);
        let mut server = world.process(&["--dispatch", &dispatch.to_string()]);
        for free in [0, 1] {
            let old_limit = restrict(&world, &server, free);
            let mut answer = ask(&world, "file");
            eventually("it waits", || Ok(warnings(&server) == 1 && world.queued() == Some(0))).unwrap();
            allow(&server, old_limit);
            assert!(answer.read_to_end() == contents, "{dispatch} {free}");
        }
        assert_eq!(server.stop().unwrap().code(), Some(0));
        assert_eq!(warnings(&server), 1, "{dispatch}: logged once, not at every try: {}", server.stderr());
    }
}

#[test]
fn a_client_that_waits_too_long_for_a_descriptor_is_told() {
    for dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 10);
        let mut server = world.process(&["--dispatch", &dispatch.to_string(), "--stall-timeout", "150ms"]);
        // One descriptor for the FIFO, none for the file.
        let old_limit = restrict(&world, &server, 1);
        let (mut answer, mut status) = ask_with_status(&world, "file");
        assert_eq!(status.read_header(), Header { status: Status::Overloaded, length: 0 }, "{dispatch}");
        assert_eq!(answer.read_to_end(), b"");
        allow(&server, old_limit);
        assert!(ask(&world, "file").read_to_end() == contents);
        assert_eq!(server.stop().unwrap().code(), Some(0));
    }
}

/// Waiting for descriptors costs next to no processor time.
#[test]
fn waiting_for_descriptors_does_not_spin() {
    const WATCHED: Duration = Duration::from_millis(500);
    let world = World::new();
    world.file("file", 10);
    let server = world.process(&[]);
    let _old_limit = restrict(&world, &server, 0);
    let answers: Vec<_> = (0..8).map(|_| ask(&world, "file")).collect();
    eventually("they wait", || Ok(world.queued() == Some(0) && warnings(&server) == 1)).unwrap();
    let before = server.process().cpu().unwrap();
    thread::sleep(WATCHED);
    let used = server.process().cpu().unwrap() - before;
    assert!(used < WATCHED / 2, "{used:?} of {WATCHED:?}");
    drop(answers);
}
