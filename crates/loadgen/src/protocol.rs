//! What the engine asks of a protocol: bytes in, bytes out, no socket and no clock.

use crate::error::ErrorClass;

/// One protocol as its client speaks it. Every thread of the engine has its own.
///
/// Replies are matched with requests in the order of sending.
pub trait ClientProtocol: Send {
    /// What must be remembered of a request until its reply has been checked.
    type Request: Copy + Send;
    /// The decoder of one connection.
    type Conn: Send;

    /// State for a fresh connection.
    fn open(&self) -> Self::Conn;

    /// Chooses the next request.
    fn next(&mut self) -> Self::Request;

    /// Appends the bytes of a request. Called again for a request that has to be sent a second time.
    fn encode(&self, request: Self::Request, out: &mut Vec<u8>);

    /// Reads the reply to `request`, which is the oldest one in flight on this connection. Unless it is
    /// [`Progress::Done`], all of `input` has been used.
    fn decode(&mut self, conn: &mut Self::Conn, request: Self::Request, input: &[u8]) -> Decoded;

    /// The server closed the connection while `request` was the oldest in flight.
    fn on_eof(&mut self, conn: &mut Self::Conn, request: Self::Request) -> EofOutcome;
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
    /// The reply is complete.
    Done { verdict: Verdict, then: Then },
    /// The stream makes no sense any more.
    Broken(ErrorClass),
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
    Done(Verdict),
    Failed(ErrorClass),
}
