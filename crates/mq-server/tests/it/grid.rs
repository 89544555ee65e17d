//! Every way to dispatch with every way to copy.

use std::thread;

use clap::ValueEnum;
use mq_server::{Outcome, copy::CopyKind, dispatch::DispatchKind};
use wire::mserve::{Header, Status};

use crate::{
    client::{ask, ask_with_status, fetch},
    world::{Setup, World, absolute},
};

/// Sizes of files: around a page, around the capacity of a pipe, and more.
const SIZES: [usize; 6] = [0, 1, 4096, (64 << 10) + 1, 300_000, (2 << 20) + 7];

fn copies_here() -> impl Iterator<Item = CopyKind> {
    let unavailable: Vec<_> = CopyKind::dimension()
        .choices
        .into_iter()
        .filter(|choice| choice.unavailable.is_some())
        .map(|choice| choice.name)
        .collect();
    CopyKind::value_variants().iter().copied().filter(move |kind| !unavailable.contains(&kind.to_string()))
}

#[test]
fn every_dispatch_sends_every_file_by_every_copy() {
    for &dispatch in DispatchKind::value_variants() {
        for copy in copies_here() {
            let world = World::new();
            let files: Vec<_> =
                SIZES.iter().map(|&size| (format!("f{size}"), world.file(&format!("f{size}"), size))).collect();
            let server = Setup::new(dispatch).serve(&world, copy);
            thread::scope(|scope| {
                // All at once, each file twice: by a relative and by an absolute path.
                for (name, contents) in &files {
                    let root = world.root();
                    let path = format!("{}//{name}", absolute(&root));
                    for path in [name.clone(), path] {
                        let world = &world;
                        scope.spawn(move || {
                            let got = fetch(world, &path).unwrap();
                            assert!(got == *contents, "{dispatch} {copy} {path}: {} bytes", got.len());
                        });
                    }
                }
            });
            server.counts_to(Outcome::Sent, 2 * SIZES.len() as u64);
            server.stop(&world);
        }
    }
}

#[test]
fn framed_answers_announce_status_and_length() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 200_000);
        let server = Setup::new(dispatch).framed().serve(&world, CopyKind::default());
        let mut answer = ask(&world, "file");
        assert_eq!(answer.read_header(), Header { status: Status::Ok, length: 200_000 });
        assert!(answer.read_to_end() == contents);
        for (path, status) in
            [("none", Status::FileMissing), (".", Status::FileNotRegular), ("../file", Status::FileMissing)]
        {
            let mut answer = ask(&world, path);
            assert_eq!(answer.read_header(), Header { status, length: 0 }, "{path}");
            assert_eq!(answer.read_to_end(), b"");
        }
        server.stop(&world);
    }
}

#[test]
fn a_status_fifo_gets_the_result_of_the_request() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 100_000);
        let server = Setup::new(dispatch).serve(&world, CopyKind::default());
        let (mut answer, mut status) = ask_with_status(&world, "file");
        assert!(answer.read_to_end() == contents);
        assert_eq!(status.read_header(), Header { status: Status::Ok, length: 100_000 });
        assert_eq!(status.read_to_end(), b"");
        let (mut answer, mut status) = ask_with_status(&world, "none");
        assert_eq!(answer.read_to_end(), b"");
        assert_eq!(status.read_header(), Header { status: Status::FileMissing, length: 0 });
        world.file("large", 4 << 20);
        let (mut answer, mut status) = ask_with_status(&world, "large");
        assert_eq!(answer.read(10).len(), 10);
        answer.close();
        assert_eq!(status.read_header().status, Status::ReaderGone);
        server.stop(&world);
    }
}
