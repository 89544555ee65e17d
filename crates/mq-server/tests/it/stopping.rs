//! Requests while a server stops, in every dispatch.

use std::time::Duration;

use clap::ValueEnum;
use mq_server::{Outcome, copy::CopyKind, dispatch::DispatchKind};
use testkit::eventually;
use wire::mserve::Status;

use crate::{
    client::{Fifo, ask, ask_with_status},
    world::{Setup, World},
};

#[test]
fn a_drain_finishes_earlier_requests() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 1 << 20);
        let mut server = Setup::new(dispatch).serve(&world, CopyKind::default());
        let mut answers: Vec<_> = (0..8).map(|_| ask(&world, "file")).collect();
        server.drain();
        answers.iter_mut().for_each(|answer| assert!(answer.read_to_end() == contents, "{dispatch}"));
        assert!(server.end());
        assert_eq!((server.count(Outcome::Sent), world.queued()), (8, None));
    }
}

#[test]
fn requests_not_begun_in_a_drain_go_back_into_the_queue() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 4 << 20);
        let mut setup = Setup::new(dispatch);
        setup.options.drain_timeout = Duration::from_millis(20);
        let mut server = setup.serve(&world, CopyKind::default());
        let (mut begun, mut status) = ask_with_status(&world, "file");
        assert!(begun.read(100) == contents[..100]);
        let waiting: Vec<_> = (0..6).map(|_| Fifo::closed(&world)).collect();
        waiting.iter().for_each(|fifo| world.send(format!("file;{}", fifo.name)));
        eventually("all requests have been taken", || Ok(world.queued() == Some(0))).unwrap();
        server.drain();
        assert!(server.end());
        assert_eq!((world.queued(), server.count(Outcome::Stopping)), (Some(6), 1), "{dispatch}");
        assert_eq!(status.read_header().status, Status::Stopping);
        assert!(begun.read_to_end().len() < contents.len());

        // The next server finds them.
        let server = Setup::new(dispatch).serve(&world, CopyKind::default());
        for fifo in waiting {
            assert!(std::fs::read(fifo.path()).unwrap() == contents);
        }
        server.stop(&world);
    }
}

/// Requests that come during a drain are for the next server.
#[test]
fn a_drain_takes_no_more_requests() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 4 << 20);
        let mut server = Setup::new(dispatch).serve(&world, CopyKind::default());
        let mut begun = ask(&world, "file");
        assert!(begun.read(100) == contents[..100]);
        server.drain();
        let late: Vec<_> = (0..3).map(|_| ask(&world, "file")).collect();
        assert!(begun.read_to_end() == contents[100..]);
        assert!(server.end());
        assert_eq!((world.queued(), server.count(Outcome::Sent)), (Some(3), 1), "{dispatch}");
        drop(late);
    }
}
