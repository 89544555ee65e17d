//! A protocol's session in memory, without a socket.

use std::{
    fs::File,
    os::{fd::AsFd, unix::fs::FileExt},
    task::Waker,
    thread,
    time::Instant,
};

use proto::{FileRegion, Limits, NextWrite, Now, Peer, Protocol, Session};

use crate::HANG;

/// Sizes of the pieces in which bytes come and go, of at least one byte.
#[derive(Clone, Copy, Debug)]
pub struct Chunking {
    /// Input per read.
    pub input_bytes: usize,
    /// Output per write, before more is read.
    pub output_bytes: usize,
}

impl Chunking {
    /// All input in one read, and all output in one write.
    pub const UNLIMITED: Self = Self { input_bytes: usize::MAX, output_bytes: usize::MAX };
}

/// Output of a session, and the end of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    pub bytes: Vec<u8>,
    /// True if the protocol has ended the connection.
    pub is_closed: bool,
    /// True if it did so with a lingering close, since the peer may still be sending.
    pub is_lingering: bool,
}

/// Returns a session for `protocol`, whose peer has no address.
pub fn session<P: Protocol>(protocol: &P, now: Now) -> Session<P> {
    let stdin = std::io::stdin();
    Session::new(protocol, Peer::unknown(stdin.as_fd(), 0), Limits::default(), now)
}

/// Feeds `input` to a session of `protocol`, in pieces, and returns all its output. The peer does not close.
///
/// # Panics
/// The output is a file shorter than its region, or a pipe, which only a driver can send.
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
    let is_lingering = session.begin_lingering(now);
    Transcript { bytes, is_closed: is_lingering || session.is_done(), is_lingering }
}

/// Moves at most `bytes_max` bytes of output, those of files included, to `sink`, and returns their number. Waits for
/// promises.
///
/// # Panics
/// See [`exchange`].
pub fn flush<P: Protocol>(session: &mut Session<P>, sink: &mut Vec<u8>, bytes_max: usize) -> usize {
    /// Limit of one step: less than a file or a long reply, so that those take several.
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
                    assert!(begin.elapsed() < HANG, "a promise is not kept");
                    thread::yield_now();
                }
                0
            }
            Some(NextWrite::Pipe(_) | NextWrite::KernelTls(_)) => {
                panic!("only a driver can send a pipe, or take a step")
            }
        };
        session.outbox().advance(n);
        left -= n;
    }
    bytes_max - left
}

/// Reads the bytes of a file that would be sent.
///
/// # Panics
/// They cannot be read.
pub fn read_region(region: &FileRegion) -> Vec<u8> {
    let file = region.file.try_clone().map(File::from).expect("a descriptor");
    let mut bytes = vec![0; region.len as usize];
    file.read_exact_at(&mut bytes, region.offset).expect("the file is as long as its region says");
    bytes
}
