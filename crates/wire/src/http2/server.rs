//! The server's side of an HTTP/2 connection, without its socket and without its responses.
//!
//! [`ServerConnection::receive`] takes the client's bytes, keeps the state of streams, windows and settings, answers what is
//! about the connection itself, and hands whole request heads and pieces of bodies to a [`Requests`]. Responses are the
//! caller's: it asks [`ServerConnection::next`] which stream to serve, [`ServerConnection::room`] how much of it may go, and
//! writes the frames by `push_response` and `push_data`.
//!
//! Everything a client can make it hold has a limit: streams, the size of a head as it is sent and as it is meant, and what
//! it may ask for without ever taking a response.

mod flow;
mod output;

use std::time::Instant;

use super::{
    ErrorCode, FRAME_BYTES, Frame, FrameError, FrameHeader, HEADER_LEN, PREFACE, RequestHead, Scope, Setting, Urgency,
    WINDOW_BYTES, head, push,
    stream::{Closed, Stream, Streams},
};
use crate::hpack::{self, Decoder};

/// Nuisances that are forgiven each second.
const FORGIVEN_PER_SECOND: u32 = 20;

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

/// Receiver of the requests of a connection.
pub trait Requests {
    /// Takes the head of a request. If it is not the last, the body follows.
    fn on_request(&mut self, stream: u32, head: &RequestHead, is_last: bool);

    /// Takes a piece of a body; with the last one the request is whole.
    fn on_body(&mut self, stream: u32, data: &[u8], is_last: bool);

    /// Forgets a request: the client has given it up or broken a rule, and nothing can be sent on its stream.
    fn on_cancel(&mut self, stream: u32);
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
    /// No more streams are accepted.
    is_draining: bool,
    nuisances: u32,
    forgiven_at: Option<Instant>,
    /// Stream that was served last, for those that take turns.
    served: u32,
}

impl ServerConnection {
    /// Begins a connection and writes our settings.
    pub fn new(limits: Limits, out: &mut Vec<u8>) -> Self {
        push::push_settings(
            &[
                Setting::MaxConcurrentStreams(limits.streams_max),
                Setting::InitialWindowSize(limits.window_bytes),
                Setting::MaxHeaderListSize(u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX)),
                Setting::NoRfc7540Priorities(true),
            ],
            out,
        );
        if let Some(more @ 1..) = limits.window_bytes.checked_sub(WINDOW_BYTES) {
            push::push_window_update(0, more, out);
        }
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
            is_draining: false,
            nuisances: 0,
            forgiven_at: None,
            served: 0,
        }
    }

    // --- input ----------------------------------------------------------------------------

    /// Takes the preface or one frame from the beginning of `input`, and returns its length; 0 while it is not whole.
    ///
    /// # Errors
    /// The client has broken a rule, or a limit. GOAWAY has been written; the connection has to end.
    pub fn receive(
        &mut self,
        input: &[u8],
        now: Instant,
        out: &mut Vec<u8>,
        requests: &mut impl Requests,
    ) -> Result<usize, ErrorCode> {
        let taken = self.take_frame(input, now, out, requests);
        taken.inspect_err(|&code| push::push_goaway(self.last_stream, code, out))
    }

    fn take_frame(
        &mut self,
        input: &[u8],
        now: Instant,
        out: &mut Vec<u8>,
        requests: &mut impl Requests,
    ) -> Result<usize, ErrorCode> {
        if self.phase == Phase::Preface {
            let length = input.len().min(PREFACE.len());
            if input[..length] != PREFACE[..length] {
                return Err(ErrorCode::ProtocolError);
            }
            if length < PREFACE.len() {
                return Ok(0);
            }
            self.phase = Phase::FirstSettings;
            return Ok(length);
        }
        let Some(header) = FrameHeader::parse(input) else { return Ok(0) };
        if header.length > FRAME_BYTES {
            return Err(ErrorCode::FrameSizeError);
        }
        let Some(payload) = input.get(HEADER_LEN..HEADER_LEN + header.payload_len()) else { return Ok(0) };
        let outcome = match Frame::parse(header, payload) {
            Ok(frame) => {
                self.check_order(&frame)?;
                self.count_nuisance(&frame, now)?;
                self.on_frame(frame, out, requests)
            }
            // A stream's error cannot be told from others within a header block.
            Err(error) if self.torn.is_some() || self.phase != Phase::Open => return Err(error.code),
            Err(error) => {
                self.add_nuisance()?;
                Err(error)
            }
        };
        match outcome {
            Ok(()) => {}
            Err(FrameError { scope: Scope::Connection, code }) => return Err(code),
            Err(FrameError { scope: Scope::Stream(stream), code }) => {
                // An idle stream cannot have an error of its own.
                if stream > self.last_stream {
                    return Err(code);
                }
                self.add_nuisance()?;
                self.reset(stream, code, out, requests);
            }
        }
        Ok(HEADER_LEN + header.payload_len())
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

    fn on_frame(
        &mut self,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
        requests: &mut impl Requests,
    ) -> Result<(), FrameError> {
        match frame {
            Frame::Headers { stream, block, is_whole, is_last, priority: _ } => {
                let purpose = self.purpose(stream, is_last)?;
                let torn = TornBlock { stream, purpose, is_last, bytes: Vec::new() };
                self.on_block(torn, block, is_whole, requests)
            }
            Frame::Continuation { block, is_whole, .. } => match self.torn.take() {
                Some(torn) => self.on_block(*torn, block, is_whole, requests),
                None => Err(FrameError::connection(ErrorCode::ProtocolError)),
            },
            Frame::Data { stream, data, flow_len, is_last } => {
                self.on_data(stream, data, flow_len, is_last, out, requests)
            }
            Frame::RstStream { stream, .. } => {
                self.must_not_be_idle(stream)?;
                if self.streams.get(stream).is_some() {
                    self.streams.close(stream, Closed::Reset);
                    requests.on_cancel(stream);
                }
                Ok(())
            }
            Frame::Settings(settings) => {
                self.on_settings(settings)?;
                push::push_settings_ack(out);
                Ok(())
            }
            Frame::Ping { data, is_ack } => {
                if !is_ack {
                    push::push_ping(data, true, out);
                }
                Ok(())
            }
            Frame::WindowUpdate { stream, increment } => self.on_window_update(stream, increment),
            Frame::PriorityUpdate { stream, value } => {
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.urgency = Urgency::parse(value);
                }
                Ok(())
            }
            Frame::PushPromise => Err(FrameError::connection(ErrorCode::ProtocolError)),
            Frame::SettingsAck | Frame::GoAway { .. } | Frame::Priority { .. } | Frame::Unknown => Ok(()),
        }
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
                Some(Closed::Finished) => Err(FrameError::connection(ErrorCode::StreamClosed)),
                // A lower number than before, never used (section 5.1.1).
                None => Err(FrameError::connection(ErrorCode::ProtocolError)),
            };
        }
        if self.is_draining {
            return Ok(Purpose::Nothing(None));
        }
        self.last_stream = stream;
        let has_room = self.streams.len() < self.limits.streams_max as usize;
        Ok(if has_room { Purpose::Request } else { Purpose::Nothing(Some(ErrorCode::RefusedStream)) })
    }

    fn on_block(
        &mut self,
        mut torn: TornBlock,
        part: &[u8],
        is_whole: bool,
        requests: &mut impl Requests,
    ) -> Result<(), FrameError> {
        if torn.bytes.len() + part.len() > self.limits.block_bytes_max {
            return Err(FrameError::connection(ErrorCode::EnhanceYourCalm));
        }
        if is_whole && torn.bytes.is_empty() {
            return self.on_whole_block(&torn, part, requests);
        }
        torn.bytes.extend_from_slice(part);
        if is_whole {
            let bytes = std::mem::take(&mut torn.bytes);
            return self.on_whole_block(&torn, &bytes, requests);
        }
        self.torn = Some(Box::new(torn));
        Ok(())
    }

    fn on_whole_block(
        &mut self,
        &TornBlock { stream, purpose, is_last, .. }: &TornBlock,
        block: &[u8],
        requests: &mut impl Requests,
    ) -> Result<(), FrameError> {
        let compression = |_| FrameError::connection(ErrorCode::CompressionError);
        match purpose {
            Purpose::Request => {
                let (head, bytes_max) = (&mut self.head, self.limits.head_bytes_max);
                head.clear();
                let mut urgency = Urgency::default();
                let push = |field: hpack::Field<'_>| {
                    if field.name == b"priority" {
                        urgency = Urgency::parse(field.value);
                    }
                    head.push(field, bytes_max);
                };
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
                    urgency,
                });
                requests.on_request(stream, &self.head, is_last);
                Ok(())
            }
            Purpose::Trailers => {
                let mut are_valid = true;
                self.decoder.decode(block, |field| are_valid &= head::is_trailer(field)).map_err(compression)?;
                let Some(open) = self.streams.get_mut(stream) else { return Ok(()) };
                open.is_whole = true;
                if !are_valid || open.body_left.is_some_and(|left| left > 0) {
                    return Err(FrameError::stream(stream, ErrorCode::ProtocolError));
                }
                requests.on_body(stream, b"", true);
                Ok(())
            }
            Purpose::Nothing(reason) => {
                self.decoder.decode(block, |_| {}).map_err(compression)?;
                reason.map_or(Ok(()), |code| Err(FrameError::stream(stream, code)))
            }
        }
    }

    // --- nuisances ------------------------------------------------------------------------

    /// Counts a frame that takes work and no response.
    fn count_nuisance(&mut self, frame: &Frame<'_>, now: Instant) -> Result<(), ErrorCode> {
        let is_nuisance = match frame {
            Frame::Data { data, is_last, .. } => data.is_empty() && !is_last,
            Frame::Headers { block, is_whole, .. } | Frame::Continuation { block, is_whole, .. } => {
                block.is_empty() || !is_whole
            }
            Frame::Priority { .. }
            | Frame::RstStream { .. }
            | Frame::Settings(_)
            | Frame::SettingsAck
            | Frame::PushPromise
            | Frame::Ping { .. }
            | Frame::GoAway { .. }
            | Frame::WindowUpdate { .. }
            | Frame::PriorityUpdate { .. }
            | Frame::Unknown => true,
        };
        if !is_nuisance {
            return Ok(());
        }
        let since = *self.forgiven_at.get_or_insert(now);
        let seconds = u32::try_from(now.saturating_duration_since(since).as_secs()).unwrap_or(u32::MAX);
        if seconds > 0 {
            self.forgiven_at = Some(now);
            self.nuisances = self.nuisances.saturating_sub(seconds.saturating_mul(FORGIVEN_PER_SECOND));
        }
        self.add_nuisance()
    }

    fn add_nuisance(&mut self) -> Result<(), ErrorCode> {
        self.nuisances += 1;
        if self.nuisances > self.limits.nuisances_max { Err(ErrorCode::EnhanceYourCalm) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
