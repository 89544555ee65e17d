//! Misbehaving clients, in every dispatch.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    time::Duration,
};

use clap::ValueEnum;
use mq_server::{Outcome, copy::CopyKind, dispatch::DispatchKind};
use rustix::fs::{CWD, FileType, Mode, mkfifoat, mknodat};
use wire::mserve::{Header, Status};

use crate::{
    client::{Fifo, ask, ask_with_status, fetch},
    world::{NEVER, Setup, World},
};

/// A timeout short enough for a test to wait for.
const SHORT: Duration = Duration::from_millis(150);

#[test]
fn bad_requests_are_counted_by_reason_and_good_ones_served() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 5_000);
        populate(&world);
        let server = Setup::new(dispatch).serve(&world, CopyKind::default());
        let (long_path, long_name) = ("p".repeat(5_000), "n".repeat(300));
        let reader = Fifo::open(&world);
        let to = |path: &str| format!("{path};{}", reader.name);
        let from = |fifo: &str| format!("file;{fifo}");
        let outside = world.root().with_file_name("outside");
        for (messages, outcome) in [
            (vec![String::new(), "\0".into(), "\0file;x".into()], Outcome::Empty),
            (
                vec![
                    "file".into(),
                    ";".into(),
                    "file;".into(),
                    ";x".into(),
                    "a;b;c;d".into(),
                    from("../x"),
                    from("/x"),
                ],
                Outcome::Malformed,
            ),
            (vec![to(&long_path), from(&long_name)], Outcome::Oversized),
            (vec![from("none")], Outcome::FifoMissing),
            (vec![from("link"), from("dangling")], Outcome::FifoLink),
            (vec![from("regular"), from("directory"), from("socket")], Outcome::FifoNotAFifo),
            (vec![to("none"), to("link-outside"), to("link-absolute"), to("file/x")], Outcome::FileMissing),
            (
                vec![to("../outside"), to("/etc/hostname"), to("a/../../outside"), to(outside.to_str().unwrap())],
                Outcome::OutsideRoot,
            ),
            (vec![to("."), to("a"), to("fifo"), to("socket")], Outcome::FileNotRegular),
        ] {
            let before = server.count(outcome);
            messages.iter().for_each(|message| world.send(message));
            server.counts_to(outcome, before + messages.len() as u64);
        }
        if let Ok(()) = mknodat(CWD, world.fifo_dir().join("device"), FileType::CharacterDevice, Mode::RWXU, NULL) {
            world.send("file;device");
            server.counts_to(Outcome::FifoNotAFifo, 4);
        }
        assert_eq!(fs::read(world.fifo_dir().join("regular")).unwrap(), b"untouched");
        assert!(fetch(&world, "file").unwrap() == contents, "{dispatch}");
        server.stop(&world);
    }
}

/// Device number of /dev/null.
const NULL: u64 = 1 << 8 | 3;

fn populate(world: &World) {
    let (root, fifos) = (world.root(), world.fifo_dir());
    fs::create_dir(root.join("a")).unwrap();
    fs::write(root.with_file_name("outside"), "secret").unwrap();
    symlink("../outside", root.join("link-outside")).unwrap();
    symlink("/etc/hostname", root.join("link-absolute")).unwrap();
    make_fifo(&root.join("fifo"));
    fs::write(fifos.join("regular"), "untouched").unwrap();
    fs::create_dir(fifos.join("directory")).unwrap();
    make_fifo(&fifos.join("target"));
    symlink("target", fifos.join("link")).unwrap();
    symlink("none", fifos.join("dangling")).unwrap();
    for directory in [&root, &fifos] {
        UnixListener::bind(directory.join("socket")).unwrap();
    }
}

fn make_fifo(path: &Path) {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
}

#[test]
fn a_refused_client_sees_only_the_end() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let server = Setup::new(dispatch).serve(&world, CopyKind::default());
        assert_eq!(ask(&world, "none").read_to_end(), b"");
        assert_eq!(fetch(&world, "none").unwrap(), b"");
        server.stop(&world);
    }
}

/// Number of bad clients of each kind: more than there are threads.
const BAD: usize = 9;

/// The bad ones stay for as long as the test runs, so the good ones cannot have waited for their end.
#[test]
fn good_jobs_finish_while_bad_ones_wait() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 1 << 20);
        world.file("large", 4 << 20);
        let mut setup = Setup::new(dispatch);
        setup.options.drain_timeout = Duration::ZERO;
        let mut server = setup.serve(&world, CopyKind::default());
        let never_read: Vec<_> = (0..BAD).map(|_| ask(&world, "large")).collect();
        let never_opened: Vec<_> = (0..BAD).map(|_| Fifo::closed(&world)).collect();
        never_opened.iter().for_each(|fifo| world.send(format!("file;{}", fifo.name)));
        // This one takes a byte at a time.
        let mut slow = ask(&world, "large");
        for _ in 0..5 {
            assert_eq!(slow.read(1).len(), 1);
            assert!(fetch(&world, "file").unwrap() == contents, "{dispatch}");
        }
        // A client sees the end of its answer before that is counted.
        server.counts_to(Outcome::Sent, 5);
        assert_eq!(server.count(Outcome::NoReader), 0);
        server.drain();
        assert!(server.end());
        drop(never_read);
    }
}

#[test]
fn an_idle_client_is_given_up_and_told() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        world.file("file", 4 << 20);
        let mut setup = Setup::new(dispatch);
        setup.options.stall_timeout = SHORT;
        let server = setup.serve(&world, CopyKind::default());
        let (closed, mut status) = (Fifo::closed(&world), Fifo::open(&world));
        world.send(format!("file;{};{}", closed.name, status.name));
        assert_eq!(status.read_header(), Header { status: Status::NoReader, length: 0 });
        server.counts_to(Outcome::NoReader, 1);
        let (mut answer, mut status) = ask_with_status(&world, "file");
        let header = status.read_header();
        assert_eq!(header.status, Status::TimedOut);
        assert_eq!(answer.read_to_end().len() as u64, header.length, "what was written is there, then the end");
        server.counts_to(Outcome::Stalled, 1);
        // A client with a status FIFO that it does not read costs nothing either.
        let unread = Fifo::closed(&world);
        world.send(format!("none;{};{}", Fifo::open(&world).name, unread.name));
        server.stop(&world);
    }
}

#[test]
fn a_slow_reader_has_until_the_deadline() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        world.file("file", 4 << 20);
        let mut setup = Setup::new(dispatch);
        setup.options.request_timeout = SHORT;
        let server = setup.serve(&world, CopyKind::default());
        let (mut answer, mut status) = ask_with_status(&world, "file");
        while server.count(Outcome::Deadline) == 0 {
            answer.read(4096);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(status.read_header().status, Status::TimedOut);
        server.stop(&world);
    }
}

#[test]
fn a_reader_that_dies_costs_only_its_own_transfer() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 4 << 20);
        let server = Setup::new(dispatch).serve(&world, CopyKind::default());
        let (mut dies, mut lives) = (ask(&world, "file"), ask(&world, "file"));
        assert!(dies.read(100_000) == contents[..100_000]);
        dies.close();
        assert!(lives.read_to_end() == contents);
        server.counts_to(Outcome::ReaderGone, 1);
        server.counts_to(Outcome::Sent, 1);
        server.stop(&world);
    }
}

/// Many more clients than may wait: those that have waited longest are evicted, and a good client is served in between.
#[test]
fn a_flood_is_bounded_and_good_clients_get_through() {
    const FLOOD: usize = 120;
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 10_000);
        let mut setup = Setup::new(dispatch);
        (setup.options.waiting_max, setup.options.drain_timeout) = (8, Duration::ZERO);
        setup.options.stall_timeout = NEVER;
        let mut server = setup.serve(&world, CopyKind::default());
        let fifos: Vec<_> = (0..FLOOD).map(|_| Fifo::closed(&world)).collect();
        for (number, fifo) in fifos.iter().enumerate() {
            world.send(format!("file;{}", fifo.name));
            world.send("garbage");
            if number % 20 == 0 {
                assert!(ask(&world, "file").read_to_end() == contents, "{dispatch}");
            }
        }
        server.counts_to(Outcome::Malformed, FLOOD as u64);
        server.counts_to(Outcome::TooManyWaiting, FLOOD as u64 - 8);
        server.drain();
        assert!(server.end());
        assert_eq!(world.queued(), Some(8), "the requests that still waited are put back");
    }
}
