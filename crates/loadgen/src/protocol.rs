//! What the engine asks of a protocol: bytes in, bytes out, no socket and no clock.

use std::borrow::Cow;

use crate::error::ErrorClass;

/// One protocol as its client speaks it. Every thread of the engine has its own.
///
/// Replies are matched with requests in the order of sending.
pub trait ClientProtocol: Send {
    /// What must be remembered of requests until their replies have been checked.
    type Request: Batch;
    /// The decoder of one connection.
    type Conn: Send;

    /// State for a fresh connection.
    fn open(&mut self) -> Self::Conn;

    /// Appends what a fresh connection says before all requests, if anything.
    fn greet(&self, _out: &mut Vec<u8>) {}

    /// Reads the reply to what [`Self::greet`] said.
    fn decode_greeting(&mut self, _conn: &mut Self::Conn, _input: &[u8]) -> Decoded {
        Decoded {
            consumed: 0,
            progress: Progress::Done { replies: Replies::ONE, verdict: Ok(()), then: Then::KeepAlive },
        }
    }

    /// Chooses what `conn` sends next: at least one request, and at most `most`.
    fn next(&mut self, conn: &mut Self::Conn, most: u64) -> Self::Request;

    /// Appends the bytes of a request. Called again for a request that has to be sent a second time.
    fn encode(&self, request: Self::Request, out: &mut Vec<u8>);

    /// Reads replies to `request`, which is the oldest in flight on this connection. Unless they are
    /// [`Progress::Done`], all of `input` has been used.
    fn decode(&mut self, conn: &mut Self::Conn, request: Self::Request, input: &[u8]) -> Decoded;

    /// The server closed the connection while `request` was the oldest in flight.
    fn on_eof(&mut self, conn: &mut Self::Conn, request: Self::Request) -> EofOutcome;

    /// What the `index`-th request of a batch asks for, counted from the oldest without a verdict, as a number: a log has it.
    fn operation(&self, request: Self::Request, index: u64) -> u32;

    /// What [`Self::operation`] numbered so.
    fn operation_name(&self, operation: u32) -> Cow<'_, str>;
}

/// Requests that travel together, in one write: the unit of choosing and sending. Each still gets a verdict of its own.
pub trait Batch: Copy + Send {
    /// Requests without a verdict; at least 1 until the last has got one.
    fn left(self) -> u64;

    /// Forgets the `count` oldest, which have got their verdicts; never all.
    #[must_use]
    fn without(self, count: u64) -> Self;
}

/// A batch of one, for protocols that choose requests one by one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Single<T>(pub T);

impl<T: Copy + Send> Batch for Single<T> {
    #[inline]
    fn left(self) -> u64 {
        1
    }

    #[inline]
    fn without(self, _count: u64) -> Self {
        self
    }
}

/// What [`ClientProtocol::decode`] made of its input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Decoded {
    /// Bytes of `input` that are dealt with.
    pub consumed: usize,
    pub progress: Progress,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// The reply is not complete.
    NeedMore,
    /// These replies are complete, and all are right or all fail in the same way. Of several the last is not followed
    /// by bytes that nobody asked for: the reply that is must come alone.
    Done { replies: Replies, verdict: Verdict, then: Then },
    /// The stream makes no sense any more.
    Broken(ErrorClass),
}

/// Complete replies to the oldest requests of a batch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Replies {
    pub count: u64,
    /// That a key was found.
    pub hits: u64,
    /// That it was not.
    pub misses: u64,
}

impl Replies {
    /// One that neither found nor missed anything.
    pub const ONE: Self = Self { count: 1, hits: 0, misses: 0 };
}

/// Whether a complete reply is right.
pub type Verdict = Result<(), ErrorClass>;

/// What the server announced with a reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Then {
    /// The connection stays.
    KeepAlive,
    /// This was the last reply on the connection: what else was sent must be sent again.
    Close,
}

/// What the end of the stream meant for the request in flight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EofOutcome {
    /// It completed the reply.
    Done {
        replies: Replies,
        verdict: Verdict,
    },
    Failed(ErrorClass),
}
