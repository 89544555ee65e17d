//! The laws of every way to copy.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
};
use service::Budget;
use sys::{
    beneath::Root,
    fifo::{self, Directory, Writer},
};

use super::*;

/// Deadlock guard: no transfer of these tests takes this long, however crowded the machine.
const TOO_LONG: Duration = Duration::from_secs(60);

/// A directory with a file and FIFOs in it.
pub(super) struct World {
    path: tempfile::TempDir,
    directory: Directory,
    root: Root,
}

impl World {
    pub(super) fn new() -> Self {
        let path = tempfile::tempdir().unwrap();
        let (directory, root) = (Directory::open(path.path()).unwrap(), Root::open(path.path()).unwrap());
        Self { path, directory, root }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.path.path().join("file")
    }

    pub(super) fn write(&self, contents: &[u8]) {
        std::fs::write(self.file(), contents).unwrap();
    }

    pub(super) fn source(&self) -> Source {
        let opened = self.root.open_file(b"file").unwrap();
        Source { file: opened.file, metadata: opened.metadata }
    }

    /// Returns both ends of a new FIFO of at least this capacity; reading blocks.
    pub(super) fn fifo(&self, name: &str, capacity: usize) -> (File, Arc<Writer>) {
        self.directory.make(name.as_bytes()).unwrap();
        let reader = OwnedFd::from(self.directory.open_reader(name.as_bytes()).unwrap());
        let writer = self.directory.open_writer(name.as_bytes()).unwrap();
        self.directory.remove(name.as_bytes()).unwrap();
        rustix::fs::fcntl_setfl(&reader, OFlags::empty()).unwrap();
        fifo::raise_capacity(&writer, capacity).unwrap();
        (reader.into(), Arc::new(writer))
    }
}

/// Returns bytes that tell their offset: no two pages of a file are the same.
pub(super) fn contents(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 12).wrapping_mul(7)) as u8 ^ (at >> 8) as u8).collect()
}

pub(super) fn options() -> CopyOptions {
    CopyOptions { buffer_bytes: 10_000, pipe_budget: Budget::new(64 << 20) }
}

/// Waits for the descriptor of a blocked transfer; false if it is not ready in time.
pub(super) fn wait(readiness: Readiness<'_>, timeout: Duration) -> bool {
    let mut polled = match readiness {
        Readiness::Writable(fd) => [PollFd::from_borrowed_fd(fd, PollFlags::OUT)],
        Readiness::Readable(fd) => [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
    };
    poll(&mut polled, Some(&Timespec::try_from(timeout).unwrap())).unwrap() > 0
}

/// Steps until the transfer is done, and returns the number of bytes that it reports.
pub(super) fn finish<C: FileCopy>(copy: &C, transfer: &mut C::Transfer, sink: &Arc<Writer>) -> Result<u64, CopyError> {
    let (begun, mut moved) = (Instant::now(), 0);
    loop {
        let progress = copy.step(transfer, sink)?;
        moved += progress.moved;
        assert!(
            progress.moved <= STEP_BYTES_MAX * 2 || matches!(copy.readiness(transfer, sink), Readiness::Writable(_))
        );
        match progress.state {
            State::Done => return Ok(moved),
            State::More => {}
            State::Blocked => assert!(wait(copy.readiness(transfer, sink), TOO_LONG), "the descriptor is never ready"),
        }
        assert!(begun.elapsed() < TOO_LONG, "no end");
    }
}

/// Steps until the FIFO is full or has all bytes; returns their number.
fn fill<C: FileCopy>(copy: &C, transfer: &mut C::Transfer, sink: &Arc<Writer>) -> u64 {
    let mut moved = 0;
    loop {
        let progress = copy.step(transfer, sink).unwrap();
        moved += progress.moved;
        if progress.state != State::More {
            return moved;
        }
    }
}

/// A test of one way to copy.
struct EveryCopy<F>(F);

trait Check {
    fn check<C: FileCopy>(&self, kind: CopyKind, copy: &C);
}

impl<K: Check> CopyVisitor for EveryCopy<(CopyKind, &K)> {
    type Output = ();

    fn visit<C: FileCopy>(self, copy: C) {
        self.0.1.check(self.0.0, &copy);
    }
}

fn every_copy(check: &impl Check) {
    for &kind in CopyKind::value_variants() {
        kind.with(&options(), EveryCopy((kind, check))).unwrap();
    }
}

#[test]
fn every_byte_arrives_behind_the_header() {
    struct Sizes;
    impl Check for Sizes {
        fn check<C: FileCopy>(&self, kind: CopyKind, copy: &C) {
            let world = World::new();
            let around = |size: usize| [size - 1, size, size + 1];
            let sizes = [&[0, 1][..], &around(4096), &around(64 << 10), &[(3 << 20) + 7]].concat();
            for size in sizes {
                world.write(&contents(size));
                for (capacity, header) in [(4096, &b""[..]), (64 << 10, b"header"), (1 << 20, b"header")] {
                    let (mut reader, sink) = world.fifo("fifo", capacity);
                    assert_eq!(sink.write(header).unwrap(), header.len());
                    let reading = thread::spawn(move || {
                        let mut got = Vec::new();
                        reader.read_to_end(&mut got).unwrap();
                        got
                    });
                    let mut transfer = copy.begin(world.source(), &sink).unwrap();
                    assert_eq!(finish(copy, &mut transfer, &sink).unwrap(), size as u64, "{kind}");
                    drop((transfer, sink));
                    let got = reading.join().unwrap();
                    assert!(got == [header, &contents(size)].concat(), "{kind}: {size} bytes, {}", got.len());
                }
            }
        }
    }
    every_copy(&Sizes);
}

/// No byte is lost, repeated or reordered, however many a reader takes at once.
#[test]
fn a_trickling_reader_gets_the_same_bytes() {
    struct Trickle;
    impl Check for Trickle {
        fn check<C: FileCopy>(&self, kind: CopyKind, copy: &C) {
            let world = World::new();
            let whole = contents(400_001);
            world.write(&whole);
            let (mut reader, sink) = world.fifo("fifo", 64 << 10);
            let mut transfer = copy.begin(world.source(), &sink).unwrap();
            let (mut got, mut is_done, mut turn) = (Vec::new(), false, 0);
            while got.len() < whole.len() {
                while !is_done {
                    let Progress { state, .. } = copy.step(&mut transfer, &sink).unwrap();
                    is_done = state == State::Done;
                    if state == State::Blocked {
                        break;
                    }
                }
                turn += 1;
                let mut some = vec![0; [1, 5000, 4096, 313, 20_000, 65_536][turn % 6]];
                let n = reader.read(&mut some).unwrap();
                got.extend_from_slice(&some[..n]);
            }
            assert!(got == whole, "{kind}");
            assert!(is_done || copy.step(&mut transfer, &sink).unwrap().state == State::Done, "{kind}");
        }
    }
    every_copy(&Trickle);
}

/// A blocked transfer has filled its FIFO; otherwise an edge-triggered wait would never end.
#[test]
fn a_blocked_transfer_has_a_full_fifo() {
    struct Full;
    impl Check for Full {
        fn check<C: FileCopy>(&self, kind: CopyKind, copy: &C) {
            let world = World::new();
            world.write(&contents(1 << 20));
            for (capacity, header) in [(4096, &b""[..]), (64 << 10, b""), (64 << 10, b"header"), (256 << 10, b"")] {
                let (_reader, sink) = world.fifo("fifo", capacity);
                sink.write(header).unwrap();
                let mut transfer = copy.begin(world.source(), &sink).unwrap();
                let moved = fill(copy, &mut transfer, &sink);
                assert_eq!(fifo::filled(&*sink).unwrap(), moved + header.len() as u64, "{kind}");
                assert!(!wait(Readiness::Writable(sink.as_fd()), Duration::ZERO), "{kind}: {capacity}");
            }
        }
    }
    every_copy(&Full);
}

#[test]
fn a_dead_reader_ends_its_transfer() {
    struct ReaderDies;
    impl Check for ReaderDies {
        fn check<C: FileCopy>(&self, kind: CopyKind, copy: &C) {
            let world = World::new();
            world.write(&contents(300_000));
            for taken in [0, 1, 4096, 65_536, 200_000] {
                let (mut reader, sink) = world.fifo("fifo", 64 << 10);
                let mut transfer = copy.begin(world.source(), &sink).unwrap();
                let reading = thread::spawn(move || reader.read_exact(&mut vec![0; taken]).unwrap());
                let error = finish(copy, &mut transfer, &sink).unwrap_err();
                assert!(matches!(error, CopyError::ReaderGone), "{kind}: {error:?} after {taken}");
                reading.join().unwrap();
            }
        }
    }
    every_copy(&ReaderDies);
}

/// A truncated file is an error, and missing bytes are not made up: only bytes of the file arrive, except for the rest of a
/// page that a mapping has lost.
#[test]
fn a_file_that_shrinks_is_an_error() {
    struct FileShrinks;
    impl Check for FileShrinks {
        fn check<C: FileCopy>(&self, kind: CopyKind, copy: &C) {
            let whole = contents(1 << 20);
            for cut in [1 << 19, (1 << 19) + 100, (1 << 20) - 4096, (1 << 20) - 1] {
                let world = World::new();
                world.write(&whole);
                let (mut reader, sink) = world.fifo("fifo", 64 << 10);
                let mut transfer = copy.begin(world.source(), &sink).unwrap();
                fill(copy, &mut transfer, &sink);
                File::options().write(true).open(world.file()).unwrap().set_len(cut).unwrap();
                let reading = thread::spawn(move || {
                    let mut got = Vec::new();
                    reader.read_to_end(&mut got).unwrap();
                    got
                });
                let error = finish(copy, &mut transfer, &sink).unwrap_err();
                assert!(matches!(error, CopyError::Shrunk), "{kind}: {error:?}");
                drop((transfer, sink));
                let got = reading.join().unwrap();
                let cut = cut as usize;
                let most = if kind == CopyKind::Vmsplice { cut.next_multiple_of(4096) } else { cut };
                assert!(got.len() <= most && got[..got.len().min(cut)] == whole[..got.len().min(cut)], "{kind}");
            }
            let world = World::new();
            world.write(&whole[..4096]);
            let (_reader, sink) = world.fifo("fifo", 64 << 10);
            let mut transfer = copy.begin(world.source(), &sink).unwrap();
            world.write(b"");
            let error = copy.step(&mut transfer, &sink).unwrap_err();
            assert!(matches!(error, CopyError::Shrunk), "{kind}: {error:?}");
        }
    }
    every_copy(&FileShrinks);
}

#[test]
fn a_file_that_grows_is_sent_up_to_its_old_length() {
    struct FileGrows;
    impl Check for FileGrows {
        fn check<C: FileCopy>(&self, kind: CopyKind, copy: &C) {
            let world = World::new();
            let whole = contents(200_123);
            world.write(&whole);
            let (mut reader, sink) = world.fifo("fifo", 64 << 10);
            let mut transfer = copy.begin(world.source(), &sink).unwrap();
            fill(copy, &mut transfer, &sink);
            File::options().append(true).open(world.file()).unwrap().write_all(&[0xff; 100_000]).unwrap();
            let reading = thread::spawn(move || {
                let mut got = Vec::new();
                reader.read_to_end(&mut got).unwrap();
                got
            });
            finish(copy, &mut transfer, &sink).unwrap();
            drop((transfer, sink));
            assert!(reading.join().unwrap() == whole, "{kind}");
        }
    }
    every_copy(&FileGrows);
}

/// Runs the test of this name, which is ignored otherwise, in a process of its own, where descriptors can be counted.
pub(super) fn alone(name: &str) {
    let tests = std::env::current_exe().unwrap();
    let output = std::process::Command::new(tests).args(["--exact", name, "--ignored"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

pub(super) fn descriptors() -> usize {
    procfs::process::Process::myself().unwrap().fd_count().unwrap()
}

#[test]
fn no_descriptor_is_left_behind() {
    alone("copy::tests::descriptors_after_every_ending");
}

#[test]
#[ignore = "counts the descriptors of a process of its own"]
fn descriptors_after_every_ending() {
    struct Endings;
    impl Check for Endings {
        fn check<C: FileCopy>(&self, _: CopyKind, copy: &C) {
            let world = World::new();
            world.write(&contents(300_000));
            let before = descriptors();
            for reader_lives in [true, false] {
                for finishes in [true, false] {
                    let (mut reader, sink) = world.fifo("fifo", 64 << 10);
                    let mut transfer = copy.begin(world.source(), &sink).unwrap();
                    fill(copy, &mut transfer, &sink);
                    if !reader_lives {
                        drop(reader);
                        assert!(!finishes || finish(copy, &mut transfer, &sink).is_err());
                    } else if finishes {
                        let reading = thread::spawn(move || reader.read_to_end(&mut Vec::new()).unwrap());
                        finish(copy, &mut transfer, &sink).unwrap();
                        drop((transfer, sink));
                        reading.join().unwrap();
                    }
                }
            }
            assert_eq!(descriptors(), before);
        }
    }
    every_copy(&Endings);
}

/// `--list-backends` shows every way to copy, and tells which of them this machine does not have.
#[test]
fn every_copy_is_listed_and_can_be_made() {
    let listed = CopyKind::dimension();
    assert_eq!(listed.choices.len(), CopyKind::value_variants().len());
    for (choice, kind) in listed.choices.iter().zip(CopyKind::value_variants()) {
        struct CanBeMade;
        impl CopyVisitor for CanBeMade {
            type Output = bool;
            fn visit<C: FileCopy>(self, _: C) -> bool {
                true
            }
        }
        let made = kind.with(&options(), CanBeMade).is_ok_and(|made| made);
        assert_eq!((choice.name.clone(), choice.unavailable.is_none()), (kind.to_string(), made));
    }
    assert_eq!(CopyKind::default(), CopyKind::Splice);
}
