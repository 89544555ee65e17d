use std::{
    fs::File,
    os::{fd::AsFd, unix::fs::FileExt},
    path::Path,
    sync::OnceLock,
    time::{Duration, Instant},
};

use http_server::{HttpOptions, HttpServer, Site, SiteOptions};
use proto::{BatchInput, Limits, NextWrite, Now, Peer, Protocol, Segment, Session, Taken, run_batch};

use crate::tearing::Tearing;

/// A server for the files in `tree`, shared by all runs of a process.
struct World {
    server: HttpServer,
    now: Now,
}

/// Behaviour of a driver towards a session.
#[derive(Clone, Copy)]
struct Manner {
    input: Tearing,
    output: Tearing,
    /// True if it takes segments out of the outbox instead of borrowing the front.
    takes: bool,
    batches: bool,
    /// True if it reads into the session's own buffer instead of lending one.
    reads: bool,
}

/// However input is torn and output trickles away, the stream of replies is the same, and all replies are sent in the
/// end.
pub fn session(data: &[u8]) {
    let [seed, ways, input @ ..] = data else { return };
    static WORLD: OnceLock<World> = OnceLock::new();
    let world = WORLD.get_or_init(World::new);
    let plain =
        Manner { input: Tearing::whole(), output: Tearing::whole(), takes: false, batches: false, reads: false };
    let torn = Manner {
        input: Tearing::new(*seed),
        output: Tearing::new(ways >> 3),
        takes: ways & 1 != 0,
        batches: ways & 2 != 0,
        reads: ways & 4 != 0,
    };
    let [at_once, in_pieces] = [plain, torn].map(|manner| world.exchange(input, manner));
    assert!(at_once == in_pieces, "at once {}, in pieces {}", at_once.escape_ascii(), in_pieces.escape_ascii());
}

impl World {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/tree");
        // One file behind its head, one beside it, one from its descriptor; none is revalidated.
        let options =
            SiteOptions { revalidate: Duration::from_secs(1 << 40), cache_file_max: 1_000, ..SiteOptions::default() };
        let site = Site::open(&root, options).expect("the tree is there");
        let server = HttpServer::new(site, HttpOptions::default());
        Self { server, now: Now { instant: Instant::now(), unix: Duration::from_secs(4_000_000_000) } }
    }

    fn exchange(&self, input: &[u8], mut manner: Manner) -> Vec<u8> {
        let stdin = std::io::stdin();
        let mut session = Session::new(&self.server, Peer::unknown(stdin.as_fd(), 0), Limits::default(), self.now);
        let mut replies = Vec::new();
        for piece in manner.input.pieces(input) {
            if !session.wants_read() {
                self.flush(&mut session, &mut replies, &mut manner);
            }
            if !session.wants_read() {
                break;
            }
            self.offer(&mut session, piece, manner);
            self.trickle(&mut session, &mut replies, &mut manner);
        }
        session.end_of_input();
        // A turn is due: a protocol that is told of the end may have something to say.
        session.resume(&self.server, self.now);
        self.flush(&mut session, &mut replies, &mut manner);
        assert!(session.is_done(), "all has been said");
        replies
    }

    fn offer(&self, session: &mut Session<HttpServer>, mut piece: &[u8], manner: Manner) {
        if manner.batches {
            return run_batch(&self.server, &mut [BatchInput { session, lent: piece }], self.now);
        }
        if !manner.reads {
            return session.feed(&self.server, piece, self.now);
        }
        while !piece.is_empty() && session.wants_read() {
            let space = session.recv_space();
            let n = space.len().min(piece.len());
            space[..n].copy_from_slice(&piece[..n]);
            session.received(n, self.now);
            piece = &piece[n..];
        }
        session.resume(&self.server, self.now);
    }

    /// Writes all output, and offers held input again, until nothing moves.
    fn flush(&self, session: &mut Session<HttpServer>, sink: &mut Vec<u8>, manner: &mut Manner) {
        while self.trickle(session, sink, manner) {}
    }

    /// Writes a little, like a socket that is nearly full; then offers held input again.
    fn trickle(&self, session: &mut Session<HttpServer>, sink: &mut Vec<u8>, manner: &mut Manner) -> bool {
        let (before, had_input) = (sink.len(), session.has_input());
        if manner.takes {
            take_one(session, sink)
        } else {
            write_some(session, sink, manner.output.next())
        }
        session.resume(&self.server, self.now);
        sink.len() > before || had_input && !session.has_input()
    }
}

pub(crate) fn write_some<P: Protocol>(session: &mut Session<P>, sink: &mut Vec<u8>, max: usize) {
    let n = match session.outbox().front() {
        None => return,
        Some(NextWrite::Memory(pieces, count)) => {
            let all: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.iter().copied()).collect();
            let n = all.len().min(max);
            sink.extend_from_slice(&all[..n]);
            n
        }
        Some(NextWrite::File(region)) => {
            let n = usize::try_from(region.len).unwrap_or(usize::MAX).min(max);
            sink.extend(contents(&region.file, region.offset, n));
            n
        }
        Some(NextWrite::Pipe(_) | NextWrite::KernelTls(_) | NextWrite::Waiting) => panic!("never made by this server"),
    };
    session.outbox().advance(n);
}

pub(crate) fn take_one<P: Protocol>(session: &mut Session<P>, sink: &mut Vec<u8>) {
    let Taken::Segment(segment) = session.outbox().take() else { return };
    match (segment.memory(), &segment) {
        (Some(memory), _) => sink.extend_from_slice(memory),
        (None, Segment::File(region)) => {
            sink.extend(contents(&region.file, region.offset, usize::try_from(region.len).unwrap_or(usize::MAX)));
        }
        (None, _) => panic!("never made by this server"),
    }
    session.outbox().recycle(segment);
}

fn contents(file: &impl AsFd, offset: u64, len: usize) -> Vec<u8> {
    let file = File::from(file.as_fd().try_clone_to_owned().expect("a descriptor"));
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset).expect("the file is as long as was said");
    bytes
}
