//! Files that change while they are sent.

use std::fs::OpenOptions;

use clap::ValueEnum;
use mq_server::{Outcome, copy::CopyKind, dispatch::DispatchKind};
use wire::mserve::Status;

use crate::{
    client::ask_with_status,
    world::{Setup, World},
};

const BYTES: usize = 8 << 20;

#[test]
fn a_file_that_shrinks_is_cut_off_and_reported() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", BYTES);
        let server = Setup::new(dispatch).serve(&world, CopyKind::ReadWrite);
        let (mut answer, mut status) = ask_with_status(&world, "file");
        let begin = answer.read(100);
        OpenOptions::new().write(true).open(world.root().join("file")).unwrap().set_len(200_000).unwrap();
        let rest = answer.read_to_end();
        let got = [begin, rest].concat();
        assert!(got.len() < BYTES && contents.starts_with(&got), "{} bytes, none of them made up", got.len());
        assert_eq!(status.read_header().status, Status::FileChanged);
        server.counts_to(Outcome::FileShrunk, 1);
        server.stop(&world);
    }
}

#[test]
fn a_file_that_grows_is_sent_with_its_old_length() {
    let world = World::new();
    let contents = world.file("file", BYTES);
    let server = Setup::new(DispatchKind::default()).framed().serve(&world, CopyKind::default());
    let (mut answer, _status) = ask_with_status(&world, "file");
    assert_eq!(answer.read_header().length, BYTES as u64);
    let begin = answer.read(100);
    OpenOptions::new().write(true).open(world.root().join("file")).unwrap().set_len(2 * BYTES as u64).unwrap();
    assert!([begin, answer.read_to_end()].concat() == contents);
    server.stop(&world);
}
