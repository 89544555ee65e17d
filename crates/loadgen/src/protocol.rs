//! Interface between the engine and a protocol: bytes in, bytes out, no socket and no clock.

use std::borrow::Cow;

use crate::{clock::Nanos, error::ErrorClass, request_log::Received};

/// Client's side of a protocol. Every thread of the engine has its own.
///
/// Replies are matched with requests in the order of sending, unless the protocol is [`MULTIPLEXED`](Self::MULTIPLEXED): then
/// each says which request it is to. The first kind implements [`Self::decode`], the second [`Self::decode_any`].
pub trait ClientProtocol: Send {
    /// Facts about requests that are remembered until their replies have been checked.
    type Request: Batch;
    /// Decoder of one connection.
    type Conn: Send;

    /// Replies come in any order, and connections have something to say besides requests.
    const MULTIPLEXED: bool = false;

    /// Makes the decoder of a fresh connection.
    fn open(&mut self) -> Self::Conn;

    /// Appends what a fresh connection sends before all requests, if anything.
    fn greet(&self, _out: &mut Vec<u8>) {}

    /// Reads the reply to what [`Self::greet`] wrote.
    fn decode_greeting(&mut self, _conn: &mut Self::Conn, _input: &[u8]) -> Decoded {
        Decoded {
            consumed: 0,
            progress: Progress::Done { replies: Replies::ONE, outcome: Ok(()), after: AfterReply::KeepAlive },
        }
    }

    /// Chooses what `conn` sends next: at least one request, and at most `most`.
    fn next(&mut self, conn: &mut Self::Conn, most: u64) -> Self::Request;

    /// Leaves out a request that was to be sent next, and has failed before it could be.
    fn skip(&mut self) {}

    /// Appends the bytes of a request. Called again for a request that has to be sent a second time.
    fn encode(&self, request: Self::Request, out: &mut Vec<u8>);

    /// Reads replies to `request`, which is the oldest in flight on this connection. Unless they are
    /// [`Progress::Done`], all of `input` has been used.
    fn decode(&mut self, _conn: &mut Self::Conn, _request: Self::Request, input: &[u8]) -> Decoded {
        Decoded { consumed: input.len(), progress: Progress::Broken(ErrorClass::Protocol) }
    }

    /// Multiplexed: reads all of `input`, whatever is in flight, and appends the requests that it settles.
    ///
    /// # Errors
    /// The stream makes no sense any more. What was appended before counts.
    fn decode_any(
        &mut self,
        _conn: &mut Self::Conn,
        _input: &[u8],
        _now: Nanos,
        _answers: &mut Vec<Answer<Self::Request>>,
    ) -> Result<(), ErrorClass> {
        Err(ErrorClass::Protocol)
    }

    /// Multiplexed: returns the number of requests that may be in flight on this connection.
    fn room(_conn: &Self::Conn) -> usize {
        usize::MAX
    }

    /// Multiplexed: returns true if the connection takes no more requests, so that another is needed after the last reply.
    fn is_ending(_conn: &Self::Conn) -> bool {
        false
    }

    /// Multiplexed: appends what the connection has to say now, besides requests.
    fn flush(&mut self, _conn: &mut Self::Conn, _out: &mut Vec<u8>) {}

    /// Multiplexed: prepares a request of an earlier connection, or one that the server has refused, for being encoded again.
    fn renew(&mut self, _conn: &mut Self::Conn, request: Self::Request) -> Self::Request {
        request
    }

    /// Multiplexed: gives up a request in flight. Returns what has been received of its reply.
    fn cancel(&mut self, _conn: &mut Self::Conn, _request: Self::Request) -> Received {
        Received::default()
    }

    /// Multiplexed: returns true if a part of the reply has been received.
    fn has_begun(_conn: &Self::Conn, _request: Self::Request) -> bool {
        false
    }

    /// Interprets the end of a connection that the server closed while `request` was the oldest in flight.
    fn on_eof(&mut self, conn: &mut Self::Conn, request: Self::Request) -> EofOutcome;

    /// Returns the number of what the server said with the reply that was just decoded and failed, if that says more
    /// than the class of the failure. It is asked once for each failed reply.
    fn take_failure_detail(&mut self, _conn: &mut Self::Conn) -> Option<u32> {
        None
    }

    /// Returns in words what [`Self::take_failure_detail`] numbered so.
    fn failure_detail(&self, _detail: u32) -> String {
        String::new()
    }

    /// Returns the number, for a log, of what the `index`-th request of a batch asks for, counted from the oldest
    /// that are not settled.
    fn operation(&self, request: Self::Request, index: u64) -> u32;

    /// Returns the name of what [`Self::operation`] numbered so.
    fn operation_name(&self, operation: u32) -> Cow<'_, str>;
}

/// Requests that travel together, in one write: the unit of choosing and sending. Each still has an outcome of its own.
pub trait Batch: Copy + Send {
    /// Returns the number of requests that are not settled; at least 1 until the last is settled.
    fn left(self) -> u64;

    /// Forgets the `count` oldest, which are settled; never all.
    #[must_use]
    fn without(self, count: u64) -> Self;

    /// Returns a number that no other has that is in flight on the same connection, if the protocol is multiplexed.
    fn key(self) -> u64 {
        0
    }
}

/// Request that a multiplexed protocol has settled.
#[derive(Clone, Copy, Debug)]
pub struct Answer<R> {
    pub request: R,
    pub fate: Fate,
    /// Bytes of the reply, and the time of the first one.
    pub received: Received,
}

/// End of a request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The reply is complete, and right or not. A failure may have a [detail](ClientProtocol::failure_detail).
    Settled { outcome: RequestOutcome, detail: Option<u32> },
    /// The server has not looked at it: it is sent again.
    Unread,
}

/// A batch of one, for protocols that choose requests one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Result of [`ClientProtocol::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Decoded {
    /// Number of bytes of `input` that are dealt with.
    pub consumed: usize,
    pub progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The reply is not complete.
    NeedMore,
    /// These replies are complete, and all are right or all fail in the same way. Of several the last is not followed
    /// by bytes that belong to no request: such a reply must come alone.
    Done { replies: Replies, outcome: RequestOutcome, after: AfterReply },
    /// The stream makes no sense any more.
    Broken(ErrorClass),
}

/// Complete replies to the oldest requests of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replies {
    pub count: u64,
    /// Number of keys that were found.
    pub hits: u64,
    /// Number of keys that were not found.
    pub misses: u64,
}

impl Replies {
    /// One reply that neither found nor missed a key.
    pub const ONE: Self = Self { count: 1, hits: 0, misses: 0 };
}

/// Outcome of a request: its reply is right, or it failed.
pub type RequestOutcome = Result<(), ErrorClass>;

/// Announcement of the server with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterReply {
    /// The connection stays.
    KeepAlive,
    /// This was the last reply on the connection: what else was sent must be sent again.
    Close,
}

/// Meaning of the end of the stream for the request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EofOutcome {
    /// It completed the reply.
    Done {
        replies: Replies,
        outcome: RequestOutcome,
    },
    Failed(ErrorClass),
}
