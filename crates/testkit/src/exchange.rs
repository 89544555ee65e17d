//! A protocol and its clients without a socket between them.

use std::{
    fs::File,
    os::{fd::AsFd, unix::fs::FileExt},
    task::Waker,
    thread,
    time::Instant,
};

use proto::{FileRegion, Front, Limits, Now, Peer, Protocol, Session};

use crate::HANG;

/// What comes back, and what becomes of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub bytes: Vec<u8>,
    pub closed: bool,
    pub lingers: bool,
}

/// A connection of nobody in particular.
pub fn session<P: Protocol>(protocol: &P, now: Now) -> Session<P> {
    let stdin = std::io::stdin();
    Session::new(protocol, Peer::new(stdin.as_fd(), 0), Limits::default(), now)
}

/// All that comes back for `input`, offered in chunks on a connection of its own.
pub fn exchange<P: Protocol>(protocol: &P, input: &[u8], chunk: usize, now: Now) -> Answer {
    let mut session = session(protocol, now);
    let mut bytes = Vec::new();
    for piece in input.chunks(chunk) {
        session.feed(protocol, piece, now);
        flush(&mut session, &mut bytes);
    }
    while session.has_input() {
        let before = bytes.len();
        session.resume(protocol, now);
        flush(&mut session, &mut bytes);
        if bytes.len() == before {
            break;
        }
    }
    let lingers = session.starts_lingering(now);
    Answer { bytes, closed: lingers || session.is_done(), lingers }
}

/// Writes all there is, files included, a little at a time; waits for promises.
///
/// # Panics
/// A promise is not kept, a file is shorter than was said, or there is a pipe, which only the kernel reads.
pub fn flush<P: Protocol>(session: &mut Session<P>, sink: &mut Vec<u8>) {
    const PIECE: usize = 10_000;
    let begin = Instant::now();
    loop {
        let n = match session.outbox().front() {
            None => return,
            Some(Front::Memory(pieces, count)) => {
                let all: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.iter().copied()).collect();
                sink.extend_from_slice(&all[..all.len().min(PIECE)]);
                all.len().min(PIECE)
            }
            Some(Front::File(region)) => {
                let piece = FileRegion { len: region.len.min(PIECE as u64), ..region.clone() };
                sink.extend(contents(&piece));
                piece.len as usize
            }
            Some(Front::Waiting) => {
                while session.outbox().poll_reply(Waker::noop()).is_pending() {
                    assert!(begin.elapsed() < HANG, "no answer");
                    thread::yield_now();
                }
                0
            }
            Some(Front::Pipe(_)) => panic!("a pipe, which only the kernel reads"),
        };
        session.outbox().advance(n);
    }
}

/// The bytes of a file that would be sent.
///
/// # Panics
/// They cannot be read.
pub fn contents(region: &FileRegion) -> Vec<u8> {
    let file = region.file.try_clone().map(File::from).expect("a descriptor");
    let mut bytes = vec![0; region.len as usize];
    file.read_exact_at(&mut bytes, region.offset).expect("the file is as long as was said");
    bytes
}
