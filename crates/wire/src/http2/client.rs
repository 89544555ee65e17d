//! The client's side of a connection, as far as a load generator needs it: frames in any pieces, windows, the ends of streams.
//!
//! [`ClientConnection::feed`] reads what a server sends and hands it on as it comes, so that no body is kept here; what has to be said
//! in return gathers in [`ClientConnection::take_output`]. Any violation of the protocol ends the connection.

mod head;
#[cfg(test)]
mod tests;
mod upload;

use self::upload::Uploads;
pub use self::{
    head::{MalformedHead, ResponseHead, decode_trailers},
    upload::BodyPiece,
};
use super::{
    ErrorCode, FRAME_BYTES, Frame, FrameError, FrameHeader, HEADER_LEN, PREFACE, Setting, Settings, WINDOW_BYTES,
    frame::{flag, kind},
    push_ping, push_rst_stream, push_settings, push_settings_ack, push_window_update,
};
use crate::hpack::{Decoder, TABLE_BYTES};

/// Window of the connection and of each stream, in bytes: so large that a server never waits for it.
pub const CLIENT_WINDOW_BYTES: u32 = 1 << 30;
/// Number of received bytes that are given back at once.
pub const REFILL_BYTES: u32 = CLIENT_WINDOW_BYTES / 2;
/// Longest header block that is accepted, in bytes.
pub const BLOCK_BYTES_MAX: usize = 64 << 10;
/// Streams that are opened at once before the server has said how many it allows: it should allow as many (section 6.5.2).
pub const STREAMS_BEFORE_SETTINGS: usize = 100;
/// The last stream that a client can open.
const STREAM_MAX: u32 = (1 << 31) - 1;

/// Receiver of what a server sends.
pub trait Responses {
    /// Takes a whole header block, of a final or an interim head or of trailers. It has to go through `decoder`, unless that is
    /// known to stay as it is.
    ///
    /// # Errors
    /// The block cannot be decoded: the connection ends.
    fn on_head(&mut self, stream: u32, block: &[u8], is_last: bool, decoder: &mut Decoder) -> Result<(), FrameError>;

    /// Takes a piece of a body, perhaps an empty one. `wire_len` is what it counts for flow control. Returns by
    /// how many bytes the stream's window is to be widened.
    fn on_data(&mut self, stream: u32, data: &[u8], wire_len: u32, is_last: bool) -> u32;

    /// Takes note that the server has given a stream up.
    fn on_reset(&mut self, stream: u32, code: u32);

    /// Takes note that the server has not looked at streams above `last_stream`, and will not.
    fn on_goaway(&mut self, last_stream: u32, code: u32);
}

/// State of one connection.
#[derive(Debug)]
pub struct ClientConnection {
    decoder: Decoder,
    /// The beginning of a frame that arrived in pieces; of DATA, the header only.
    torn: Vec<u8>,
    /// DATA that is being received.
    data: Option<TornData>,
    /// Header block that is not whole, and its stream.
    block: Vec<u8>,
    block_of: Option<(u32, bool)>,
    has_settings: bool,
    is_ending: bool,
    streams_max: usize,
    next_stream: u32,
    /// The server keeps a smaller table than the one that both sides begin with, and has to be told that we use none.
    owes_size_update: bool,
    /// Bytes received on the connection that have not been given back.
    received: u32,
    uploads: Uploads,
    output: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct TornData {
    stream: u32,
    left: usize,
    is_last: bool,
}

impl Default for ClientConnection {
    fn default() -> Self {
        Self::new()
    }
}

impl ClientConnection {
    /// Makes a connection that begins with the preface and our settings.
    #[must_use]
    pub fn new() -> Self {
        let mut output = PREFACE.to_vec();
        let settings = [Setting::EnablePush(false), Setting::InitialWindowSize(CLIENT_WINDOW_BYTES)];
        push_settings(&settings, &mut output);
        push_window_update(0, CLIENT_WINDOW_BYTES - WINDOW_BYTES, &mut output);
        Self {
            decoder: Decoder::default(),
            torn: Vec::new(),
            data: None,
            block: Vec::new(),
            block_of: None,
            has_settings: false,
            is_ending: false,
            streams_max: STREAMS_BEFORE_SETTINGS,
            next_stream: 1,
            owes_size_update: false,
            received: 0,
            uploads: Uploads::default(),
            output,
        }
    }

    /// Number of streams that may be open at once; none after the last one that can be.
    #[inline]
    #[must_use]
    pub fn streams_max(&self) -> usize {
        if self.is_ending() { 0 } else { self.streams_max }
    }

    /// Returns true if no stream will be opened any more: the server has said so, or the numbers are used up.
    #[inline]
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.is_ending || self.next_stream > STREAM_MAX
    }

    /// Opens a stream, whose request has a body of so many bytes, and returns its number. Not to be called once the connection
    /// [is ending](Self::is_ending).
    #[inline]
    pub fn open_stream(&mut self, body_len: usize) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        if body_len > 0 {
            self.uploads.begin(stream, body_len);
        }
        stream
    }

    /// Returns true once, if the next header block has to begin with a size update (RFC 7541, section 4.2).
    #[inline]
    pub fn take_size_update(&mut self) -> bool {
        std::mem::take(&mut self.owes_size_update)
    }

    /// Gives a stream up.
    pub fn cancel(&mut self, stream: u32) {
        self.uploads.end(stream);
        push_rst_stream(stream, ErrorCode::Cancel, &mut self.output);
    }

    /// Moves what is to be sent to the end of `out`.
    #[inline]
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        if !self.output.is_empty() {
            out.append(&mut self.output);
        }
    }

    /// Chooses a piece of a body that both windows allow; the caller sends it.
    #[inline]
    pub fn next_piece(&mut self) -> Option<BodyPiece> {
        self.uploads.next_piece()
    }

    /// Reads what has arrived, all of it.
    ///
    /// # Errors
    /// The server does not keep to the protocol.
    pub fn feed(&mut self, mut input: &[u8], responses: &mut impl Responses) -> Result<(), FrameError> {
        while !input.is_empty() {
            input = match self.data {
                Some(data) => self.feed_data(data, input, responses),
                None if self.torn.is_empty() => self.feed_frame(input, responses)?,
                None => self.feed_torn(input, responses)?,
            };
        }
        Ok(())
    }

    /// Reads a frame from its beginning. Returns what is behind it.
    #[inline]
    fn feed_frame<'a>(&mut self, input: &'a [u8], responses: &mut impl Responses) -> Result<&'a [u8], FrameError> {
        let Some(header) = FrameHeader::parse(input) else {
            self.torn.extend_from_slice(input);
            return Ok(&[]);
        };
        self.check(header)?;
        let rest = &input[HEADER_LEN..];
        if is_plain_data(header) {
            return self.begin_data(header, responses).map(|()| rest);
        }
        if let Some((payload, behind)) = rest.split_at_checked(header.payload_len()) {
            self.on_frame(header, payload, responses)?;
            return Ok(behind);
        }
        self.torn.extend_from_slice(input);
        Ok(&[])
    }

    /// Reads more of a frame whose beginning has arrived before.
    #[cold]
    fn feed_torn<'a>(&mut self, input: &'a [u8], responses: &mut impl Responses) -> Result<&'a [u8], FrameError> {
        let known = FrameHeader::parse(&self.torn);
        let whole = HEADER_LEN + known.map_or(0, FrameHeader::payload_len);
        let (taken, rest) = input.split_at(input.len().min(whole - self.torn.len()));
        self.torn.extend_from_slice(taken);
        let Some(header) = FrameHeader::parse(&self.torn) else { return Ok(rest) };
        if known.is_none() {
            self.check(header)?;
            if is_plain_data(header) {
                self.torn.clear();
                return self.begin_data(header, responses).map(|()| rest);
            }
        }
        if self.torn.len() == HEADER_LEN + header.payload_len() {
            let mut torn = std::mem::take(&mut self.torn);
            self.on_frame(header, &torn[HEADER_LEN..], responses)?;
            torn.clear();
            self.torn = torn;
        }
        Ok(rest)
    }

    /// Checks what is known of a frame before its payload.
    #[inline]
    fn check(&self, header: FrameHeader) -> Result<(), FrameError> {
        if header.length > FRAME_BYTES {
            return Err(FrameError::connection(ErrorCode::FrameSizeError));
        }
        let begins_right = self.has_settings || (header.kind == kind::SETTINGS && header.flags & flag::ACK == 0);
        let goes_on_right =
            self.block_of.is_none_or(|(stream, _)| header.kind == kind::CONTINUATION && header.stream == stream);
        if begins_right && goes_on_right { Ok(()) } else { Err(violation()) }
    }

    #[inline]
    fn begin_data(&mut self, header: FrameHeader, responses: &mut impl Responses) -> Result<(), FrameError> {
        self.receive_data(header)?;
        let is_last = header.flags & flag::END_STREAM != 0;
        match header.payload_len() {
            0 => self.hand_on(header.stream, &[], 0, is_last, responses),
            left => self.data = Some(TornData { stream: header.stream, left, is_last }),
        }
        Ok(())
    }

    #[inline]
    fn feed_data<'a>(&mut self, data: TornData, input: &'a [u8], responses: &mut impl Responses) -> &'a [u8] {
        let (piece, rest) = input.split_at(input.len().min(data.left));
        let left = data.left - piece.len();
        self.hand_on(data.stream, piece, piece.len() as u32, data.is_last && left == 0, responses);
        self.data = (left > 0).then_some(TornData { left, ..data });
        rest
    }

    #[inline]
    fn hand_on(&mut self, stream: u32, data: &[u8], wire_len: u32, is_last: bool, responses: &mut impl Responses) {
        let refill = responses.on_data(stream, data, wire_len, is_last);
        if is_last {
            self.end_stream(stream);
        } else if refill > 0 {
            push_window_update(stream, refill, &mut self.output);
        }
    }

    /// Takes note that the response of a stream is whole. What is left of the request is not sent.
    #[inline]
    fn end_stream(&mut self, stream: u32) {
        if self.uploads.end(stream) {
            push_rst_stream(stream, ErrorCode::Cancel, &mut self.output);
        }
    }

    /// Counts DATA for flow control, padding included.
    #[inline]
    fn receive_data(&mut self, header: FrameHeader) -> Result<(), FrameError> {
        self.check_stream(header.stream)?;
        self.received += header.length;
        if self.received >= REFILL_BYTES {
            push_window_update(0, std::mem::take(&mut self.received), &mut self.output);
        }
        Ok(())
    }

    /// Checks that a stream is one that we have opened.
    #[inline]
    fn check_stream(&self, stream: u32) -> Result<(), FrameError> {
        if stream % 2 == 1 && stream < self.next_stream { Ok(()) } else { Err(violation()) }
    }

    fn on_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        responses: &mut impl Responses,
    ) -> Result<(), FrameError> {
        match Frame::parse(header, payload)? {
            Frame::Data { stream, data, flow_len, is_last } => {
                self.receive_data(header)?;
                self.hand_on(stream, data, flow_len, is_last, responses);
            }
            Frame::Headers { stream, block, is_whole, is_last, .. } => {
                self.check_stream(stream)?;
                if is_whole {
                    return self.hand_on_head(stream, block, is_last, responses);
                }
                self.block.extend_from_slice(block);
                self.block_of = Some((stream, is_last));
            }
            Frame::Continuation { block, is_whole, .. } => return self.continue_block(block, is_whole, responses),
            Frame::RstStream { stream, code } => {
                self.check_stream(stream)?;
                self.uploads.end(stream);
                responses.on_reset(stream, code);
            }
            Frame::Settings(settings) => self.apply(settings)?,
            Frame::Ping { data, is_ack: false } => push_ping(data, true, &mut self.output),
            Frame::GoAway { last_stream, code } => {
                self.is_ending = true;
                responses.on_goaway(last_stream, code);
            }
            Frame::WindowUpdate { stream, increment } => {
                if stream > 0 {
                    self.check_stream(stream)?;
                }
                self.uploads.widen(stream, increment)?;
            }
            // Nobody has allowed it.
            Frame::PushPromise => return Err(violation()),
            Frame::SettingsAck
            | Frame::Ping { is_ack: true, .. }
            | Frame::Priority { .. }
            | Frame::PriorityUpdate { .. }
            | Frame::Unknown => {}
        }
        Ok(())
    }

    #[cold]
    fn continue_block(
        &mut self,
        block: &[u8],
        is_whole: bool,
        responses: &mut impl Responses,
    ) -> Result<(), FrameError> {
        let Some((stream, is_last)) = self.block_of else { return Err(violation()) };
        if self.block.len() + block.len() > BLOCK_BYTES_MAX {
            return Err(FrameError::connection(ErrorCode::EnhanceYourCalm));
        }
        self.block.extend_from_slice(block);
        if is_whole {
            self.block_of = None;
            let block = std::mem::take(&mut self.block);
            self.hand_on_head(stream, &block, is_last, responses)?;
        }
        Ok(())
    }

    #[inline]
    fn hand_on_head(
        &mut self,
        stream: u32,
        block: &[u8],
        is_last: bool,
        responses: &mut impl Responses,
    ) -> Result<(), FrameError> {
        responses.on_head(stream, block, is_last, &mut self.decoder)?;
        if is_last {
            self.end_stream(stream);
        }
        Ok(())
    }

    #[cold]
    fn apply(&mut self, settings: Settings<'_>) -> Result<(), FrameError> {
        // Before the first ones, a server may allow any number.
        if !self.has_settings {
            (self.has_settings, self.streams_max) = (true, usize::MAX);
        }
        for setting in settings.iter() {
            match setting? {
                Setting::MaxConcurrentStreams(most) => self.streams_max = most as usize,
                Setting::InitialWindowSize(bytes) => self.uploads.resize(bytes),
                Setting::HeaderTableSize(bytes) => self.owes_size_update |= (bytes as usize) < TABLE_BYTES,
                Setting::EnablePush(true) => return Err(violation()),
                Setting::EnablePush(false)
                | Setting::MaxFrameSize(_)
                | Setting::MaxHeaderListSize(_)
                | Setting::NoRfc7540Priorities(_) => {}
            }
        }
        push_settings_ack(&mut self.output);
        Ok(())
    }
}

/// True for DATA that need not be whole to be handed on.
#[inline]
fn is_plain_data(header: FrameHeader) -> bool {
    header.kind == kind::DATA && header.flags & flag::PADDED == 0
}

const fn violation() -> FrameError {
    FrameError::connection(ErrorCode::ProtocolError)
}
