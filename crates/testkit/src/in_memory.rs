//! A protocol's side of a conversation, through its session and without a socket.

use std::{
    fs::File,
    os::{fd::AsFd, unix::fs::FileExt},
    task::Waker,
    thread,
    time::Instant,
};

use proto::{FileRegion, Limits, NextWrite, Now, Peer, Protocol, Session};

use crate::HANG;

/// How bytes come and go, in pieces of at least one byte.
#[derive(Clone, Copy, Debug)]
pub struct Chunking {
    /// What arrives at a time.
    pub input_bytes: usize,
    /// What leaves at a time, before more arrives.
    pub output_bytes: usize,
}

impl Chunking {
    /// Everything arrives at once, and every reply leaves.
    pub const UNLIMITED: Self = Self { input_bytes: usize::MAX, output_bytes: usize::MAX };
}

/// What was said, and what became of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    pub bytes: Vec<u8>,
    /// The protocol has ended the connection.
    pub closed: bool,
    /// It did so to a peer that may still be sending.
    pub lingers: bool,
}

/// A session for `protocol`, whose peer has no address.
pub fn session<P: Protocol>(protocol: &P, now: Now) -> Session<P> {
    let stdin = std::io::stdin();
    Session::new(protocol, Peer::new(stdin.as_fd(), 0), Limits::default(), now)
}

/// All that `protocol` says to `input`. The other side reads and writes at this pace, and does not close.
///
/// # Panics
/// When output is not what was promised: a file shorter than its region, or a pipe, for which it takes a driver.
pub fn exchange<P: Protocol>(protocol: &P, input: &[u8], chunking: Chunking, now: Now) -> Transcript {
    let (mut session, mut bytes) = (session(protocol, now), Vec::new());
    for piece in input.chunks(chunking.input_bytes) {
        // A driver does not read what the session has no room for.
        while !session.wants_read() && flush(&mut session, &mut bytes, chunking.output_bytes) > 0 {
            session.resume(protocol, now);
        }
        session.feed(protocol, piece, now);
        flush(&mut session, &mut bytes, chunking.output_bytes);
    }
    loop {
        let flushed = flush(&mut session, &mut bytes, chunking.output_bytes);
        session.resume(protocol, now);
        if flushed == 0 && session.outbox().is_idle() {
            break;
        }
    }
    let lingers = session.begin_lingering(now);
    Transcript { bytes, closed: lingers || session.is_done(), lingers }
}

/// Moves at most so many bytes of output, those of files included, to `sink`; waits for promises. How many there were.
///
/// # Panics
/// See [`exchange`].
pub fn flush<P: Protocol>(session: &mut Session<P>, sink: &mut Vec<u8>, bytes_max: usize) -> usize {
    /// Less than a file or a reply, so that none of them leaves in one go.
    const PIECE: usize = 10_000;
    let (begin, mut left) = (Instant::now(), bytes_max);
    while left > 0 {
        let piece = PIECE.min(left);
        let n = match session.outbox().front() {
            None => break,
            Some(NextWrite::Memory(pieces, count)) => {
                let all: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.iter().copied()).take(piece).collect();
                sink.extend_from_slice(&all);
                all.len()
            }
            Some(NextWrite::File(region)) => {
                let piece = FileRegion { len: region.len.min(piece as u64), ..region.clone() };
                sink.extend(read_region(&piece));
                piece.len as usize
            }
            Some(NextWrite::Waiting) => {
                while session.outbox().poll_reply(Waker::noop()).is_pending() {
                    assert!(begin.elapsed() < HANG, "no answer");
                    thread::yield_now();
                }
                0
            }
            Some(NextWrite::Pipe(_)) => panic!("a pipe, which only the kernel reads"),
        };
        session.outbox().advance(n);
        left -= n;
    }
    bytes_max - left
}

/// The bytes of a file that would be sent.
///
/// # Panics
/// They cannot be read.
pub fn read_region(region: &FileRegion) -> Vec<u8> {
    let file = region.file.try_clone().map(File::from).expect("a descriptor");
    let mut bytes = vec![0; region.len as usize];
    file.read_exact_at(&mut bytes, region.offset).expect("the file is as long as was said");
    bytes
}
