//! The server's side of an HTTP/2 connection, without its socket and without its responses.
//!
//! [`ServerConnection::receive`] takes a frame of the client, keeps the state of streams, windows and settings, answers what
//! is about the connection itself, and returns the [`Event`] that is the caller's: a request, a piece of a body, or the end
//! of a stream. Responses are the caller's, too: it announces each with `push_response`, and as long as
//! [`ServerConnection::next`] names a stream and a length, it writes a frame's header with `push_data` and the bytes behind it.
//!
//! Everything a client can make it hold has a limit: streams, the size of a head as it is sent and as it is meant, and what
//! it may ask for without ever taking a response.

mod flow;
mod nuisances;
mod output;

use std::time::Instant;

use super::{
    ErrorCode, FRAME_BYTES, Frame, FrameError, FrameHeader, HEADER_LEN, PREFACE, RequestHead, Scope, Setting, Urgency,
    WINDOW_BYTES, head, push,
    stream::{Closed, Stream, Streams},
};
use crate::hpack::{self, Decoder};

/// Data worth a frame, in bytes: the smallest windows that are served without end are a little larger.
const DATA_MIN: usize = 1 << 8;
/// Contents of the PING whose answer says that a client has heard of the drain.
const DRAIN_PING: [u8; 8] = *b"draining";

/// Limits of what a client may keep us busy with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests at the same time.
    pub streams_max: u32,
    /// Header block of a request as it is sent, in bytes.
    pub block_bytes_max: usize,
    /// Fields of a request, each with 32 bytes more than it has.
    pub head_bytes_max: usize,
    /// Body that a client may send before it is given more room, for each stream and for all of them.
    pub window_bytes: u32,
    /// Frames that ask for work or none and take no response (resets, pings, settings, empty frames, priorities, …), in
    /// advance of those that are forgiven.
    pub nuisances_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams_max: 128,
            block_bytes_max: 32 << 10,
            head_bytes_max: 32 << 10,
            window_bytes: WINDOW_BYTES,
            nuisances_max: 1000,
        }
    }
}

/// Part of a frame that is for the caller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event<'a> {
    None,
    /// A request, whose head is [`ServerConnection::head`]. If it is not the last of it, the body follows.
    Request {
        stream: u32,
        is_last: bool,
    },
    /// A piece of a body; with the last one the request is whole.
    Body {
        stream: u32,
        data: &'a [u8],
        is_last: bool,
    },
    /// The client has given a request up or broken a rule: nothing can be sent on its stream.
    Cancelled {
        stream: u32,
    },
}

/// A frame that has been taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Received<'a> {
    /// Length of it in the input; 0 while it is not whole.
    pub taken: usize,
    pub event: Event<'a>,
}

impl Received<'_> {
    const NOTHING: Self = Received { taken: 0, event: Event::None };
}

/// Progress towards the end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Drain {
    No,
    /// The client has been told to open no more streams, and those that are on their way are still accepted.
    Announced,
    /// It has heard: what comes now is ignored.
    Final,
}

/// Progress of the client's greeting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Preface,
    FirstSettings,
    Open,
}

/// Use of a header block. Each one has to be decoded, or the tables of both sides would differ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Purpose {
    Request,
    Trailers,
    /// Block of a stream that is refused: it is reset for this reason, or ignored without one.
    Nothing(Option<ErrorCode>),
}

/// Header block that goes on in CONTINUATION frames.
#[derive(Debug)]
struct TornBlock {
    stream: u32,
    purpose: Purpose,
    is_last: bool,
    bytes: Vec<u8>,
}

/// See the module's description.
#[derive(Debug)]
pub struct ServerConnection {
    limits: Limits,
    phase: Phase,
    decoder: Decoder,
    head: RequestHead,
    torn: Option<Box<TornBlock>>,
    streams: Streams,
    /// Highest stream that the client has opened.
    last_stream: u32,
    /// Bytes of data that the client still takes over all streams.
    window: i64,
    /// Window with which the client begins streams.
    stream_window: u32,
    /// Largest payload that the client accepts.
    frame_bytes_max: u32,
    /// Bytes of data received since the client was given more room.
    received: u32,
    /// The client wants a smaller header table, which has to be confirmed in the next block.
    needs_size_update: bool,
    drain: Drain,
    nuisances: u32,
    forgiven_at: Option<Instant>,
    /// Bytes by which the client has yet to enlarge its windows for what has been sent: each byte is in two of them.
    window_debt: u64,
    /// Stream that was served last, for those that take turns.
    served: u32,
}

impl Default for ServerConnection {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl ServerConnection {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            phase: Phase::Preface,
            decoder: Decoder::default(),
            head: RequestHead::default(),
            torn: None,
            streams: Streams::default(),
            last_stream: 0,
            window: WINDOW_BYTES.into(),
            stream_window: WINDOW_BYTES,
            frame_bytes_max: FRAME_BYTES,
            received: 0,
            needs_size_update: false,
            drain: Drain::No,
            nuisances: 0,
            forgiven_at: None,
            window_debt: 0,
            served: 0,
        }
    }

    /// Writes our settings, which come before everything else.
    pub fn greet(&self, out: &mut Vec<u8>) {
        let Limits { streams_max, window_bytes, head_bytes_max, .. } = self.limits;
        push::push_settings(
            &[
                Setting::MaxConcurrentStreams(streams_max),
                Setting::InitialWindowSize(window_bytes),
                Setting::MaxHeaderListSize(u32::try_from(head_bytes_max).unwrap_or(u32::MAX)),
                Setting::NoRfc7540Priorities(true),
            ],
            out,
        );
        if let Some(more @ 1..) = window_bytes.checked_sub(WINDOW_BYTES) {
            push::push_window_update(0, more, out);
        }
    }

    // --- input ----------------------------------------------------------------------------

    /// Takes the preface or one frame from the beginning of `input`.
    ///
    /// # Errors
    /// The client has broken a rule, or a limit. GOAWAY has been written; the connection has to end.
    pub fn receive<'a>(&mut self, input: &'a [u8], now: Instant, out: &mut Vec<u8>) -> Result<Received<'a>, ErrorCode> {
        let taken = self.take_frame(input, now, out);
        taken.inspect_err(|&code| push::push_goaway(self.last_stream, code, out))
    }

    /// Returns the head of the request that has just been received.
    pub fn head(&self) -> &RequestHead {
        &self.head
    }

    fn take_frame<'a>(&mut self, input: &'a [u8], now: Instant, out: &mut Vec<u8>) -> Result<Received<'a>, ErrorCode> {
        if self.phase == Phase::Preface {
            let length = input.len().min(PREFACE.len());
            if input[..length] != PREFACE[..length] {
                return Err(ErrorCode::ProtocolError);
            }
            if length < PREFACE.len() {
                return Ok(Received::NOTHING);
            }
            self.phase = Phase::FirstSettings;
            return Ok(Received { taken: length, event: Event::None });
        }
        let Some(header) = FrameHeader::parse(input) else { return Ok(Received::NOTHING) };
        if header.length > FRAME_BYTES {
            return Err(ErrorCode::FrameSizeError);
        }
        let taken = HEADER_LEN + header.payload_len();
        let Some(payload) = input.get(HEADER_LEN..taken) else { return Ok(Received::NOTHING) };
        let outcome = match Frame::parse(header, payload) {
            Ok(frame) => {
                self.check_order(&frame)?;
                self.count_nuisance(&frame, now)?;
                self.on_frame(frame, out)
            }
            // A stream's error cannot be told from others within a header block.
            Err(error) if self.torn.is_some() || self.phase != Phase::Open => return Err(error.code),
            Err(error) => {
                self.add_nuisance()?;
                Err(error)
            }
        };
        let event = match outcome {
            Ok(event) => event,
            Err(FrameError { scope: Scope::Connection, code }) => return Err(code),
            Err(FrameError { scope: Scope::Stream(stream), code }) => {
                // An idle stream cannot have an error of its own.
                if stream > self.last_stream {
                    return Err(code);
                }
                self.add_nuisance()?;
                self.reset(stream, code, out)
            }
        };
        Ok(Received { taken, event })
    }

    /// True if the client is in the middle of something that has to come at once: its greeting, or a header block.
    pub fn is_mid_head(&self) -> bool {
        self.phase != Phase::Open || self.torn.is_some()
    }

    /// Checks that the first frame is SETTINGS and that nothing comes between the frames of a header block.
    fn check_order(&mut self, frame: &Frame<'_>) -> Result<(), ErrorCode> {
        if self.phase == Phase::FirstSettings {
            let Frame::Settings(_) = frame else { return Err(ErrorCode::ProtocolError) };
            self.phase = Phase::Open;
        }
        let continues = match (frame, &self.torn) {
            (Frame::Continuation { stream, .. }, Some(torn)) => *stream == torn.stream,
            (Frame::Continuation { .. }, None) => false,
            (_, torn) => torn.is_none(),
        };
        if continues { Ok(()) } else { Err(ErrorCode::ProtocolError) }
    }

    fn on_frame<'a>(&mut self, frame: Frame<'a>, out: &mut Vec<u8>) -> Result<Event<'a>, FrameError> {
        match frame {
            Frame::Headers { stream, block, is_whole, is_last, priority: _ } => {
                let purpose = self.purpose(stream, is_last)?;
                let torn = TornBlock { stream, purpose, is_last, bytes: Vec::new() };
                return self.on_block(torn, block, is_whole);
            }
            Frame::Continuation { block, is_whole, .. } => {
                return match self.torn.take() {
                    Some(torn) => self.on_block(*torn, block, is_whole),
                    None => Err(FrameError::connection(ErrorCode::ProtocolError)),
                };
            }
            Frame::Data { stream, data, flow_len, is_last } => {
                return self.on_data(stream, data, flow_len, is_last, out);
            }
            Frame::RstStream { stream, .. } => {
                self.must_not_be_idle(stream)?;
                if self.streams.get(stream).is_some() {
                    self.streams.close(stream, Closed::Abandoned);
                    return Ok(Event::Cancelled { stream });
                }
            }
            Frame::Settings(settings) => {
                self.on_settings(settings)?;
                push::push_settings_ack(out);
            }
            Frame::Ping { data: DRAIN_PING, is_ack: true } => self.finish_drain(out),
            Frame::Ping { is_ack: true, .. } => {}
            Frame::Ping { data, is_ack: false } => push::push_ping(data, true, out),
            Frame::WindowUpdate { stream, increment } => self.on_window_update(stream, increment)?,
            Frame::PriorityUpdate { stream, value } => {
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.urgency = Urgency::parse(value);
                }
            }
            Frame::PushPromise => return Err(FrameError::connection(ErrorCode::ProtocolError)),
            Frame::SettingsAck | Frame::GoAway { .. } | Frame::Priority { .. } | Frame::Unknown => {}
        }
        Ok(Event::None)
    }

    /// Decides what a header block is for (section 5.1).
    fn purpose(&mut self, stream: u32, is_last: bool) -> Result<Purpose, FrameError> {
        if stream.is_multiple_of(2) {
            return Err(FrameError::connection(ErrorCode::ProtocolError));
        }
        if let Some(open) = self.streams.get(stream) {
            return Ok(match (open.is_whole, is_last) {
                (true, _) => Purpose::Nothing(Some(ErrorCode::StreamClosed)),
                (false, false) => Purpose::Nothing(Some(ErrorCode::ProtocolError)),
                (false, true) => Purpose::Trailers,
            });
        }
        if stream <= self.last_stream {
            return match self.streams.closed(stream) {
                Some(Closed::Reset) => Ok(Purpose::Nothing(None)),
                Some(Closed::Abandoned) => Ok(Purpose::Nothing(Some(ErrorCode::StreamClosed))),
                Some(Closed::Finished) => Err(FrameError::connection(ErrorCode::StreamClosed)),
                // A lower number than before, never used (section 5.1.1).
                None => Err(FrameError::connection(ErrorCode::ProtocolError)),
            };
        }
        if self.drain == Drain::Final {
            return Ok(Purpose::Nothing(None));
        }
        self.last_stream = stream;
        let has_room = self.streams.len() < self.limits.streams_max as usize;
        Ok(if has_room { Purpose::Request } else { Purpose::Nothing(Some(ErrorCode::RefusedStream)) })
    }

    fn on_block<'a>(&mut self, mut torn: TornBlock, part: &[u8], is_whole: bool) -> Result<Event<'a>, FrameError> {
        if torn.bytes.len() + part.len() > self.limits.block_bytes_max {
            return Err(FrameError::connection(ErrorCode::EnhanceYourCalm));
        }
        if is_whole && torn.bytes.is_empty() {
            return self.on_whole_block(&torn, part);
        }
        torn.bytes.extend_from_slice(part);
        if is_whole {
            let bytes = std::mem::take(&mut torn.bytes);
            return self.on_whole_block(&torn, &bytes);
        }
        self.torn = Some(Box::new(torn));
        Ok(Event::None)
    }

    fn on_whole_block<'a>(
        &mut self,
        &TornBlock { stream, purpose, is_last, .. }: &TornBlock,
        block: &[u8],
    ) -> Result<Event<'a>, FrameError> {
        let compression = |_| FrameError::connection(ErrorCode::CompressionError);
        match purpose {
            Purpose::Request => self.on_request(stream, is_last, block),
            Purpose::Trailers => {
                let mut are_valid = true;
                self.decoder.decode(block, |field| are_valid &= head::is_trailer(field)).map_err(compression)?;
                let Some(open) = self.streams.get_mut(stream) else { return Ok(Event::None) };
                open.is_whole = true;
                if !are_valid || open.body_left.is_some_and(|left| left > 0) {
                    return Err(FrameError::stream(stream, ErrorCode::ProtocolError));
                }
                Ok(Event::Body { stream, data: b"", is_last: true })
            }
            Purpose::Nothing(reason) => {
                self.decoder.decode(block, |_| {}).map_err(compression)?;
                reason.map_or(Ok(Event::None), |code| Err(FrameError::stream(stream, code)))
            }
        }
    }

    fn on_request<'a>(&mut self, stream: u32, is_last: bool, block: &[u8]) -> Result<Event<'a>, FrameError> {
        let (head, bytes_max) = (&mut self.head, self.limits.head_bytes_max);
        head.clear();
        let mut urgency = Urgency::default();
        let push = |field: hpack::Field<'_>| {
            if field.name == b"priority" {
                urgency = Urgency::parse(field.value);
            }
            head.push(field, bytes_max);
        };
        let compression = |_| FrameError::connection(ErrorCode::CompressionError);
        self.decoder.decode(block, push).map_err(compression)?;
        if !head.finish(is_last) {
            return Err(FrameError::stream(stream, ErrorCode::ProtocolError));
        }
        let body_left = if is_last { Some(0) } else { head.content_length };
        let window = self.stream_window.into();
        self.streams.open(Stream {
            number: stream,
            window,
            received: 0,
            body_left,
            is_whole: is_last,
            output: 0,
            urgency,
        });
        Ok(Event::Request { stream, is_last })
    }
}

#[cfg(test)]
mod tests;
