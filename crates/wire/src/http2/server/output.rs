//! Responses: whose turn it is, how much may go, and the frames.

use super::{
    super::{Urgency, push, stream::Closed},
    DATA_MIN, DRAIN_PING, Drain, ErrorCode, Event, ServerConnection,
};
use crate::hpack;

/// Nuisances that a response makes up for.
const FORGIVEN_PER_RESPONSE: u32 = 4;
/// Nuisances that a DATA frame makes up for which is not too small to be worth its frame.
const FORGIVEN_PER_DATA: u32 = 2;
/// Highest number of a stream.
const STREAM_MAX: u32 = u32::MAX >> 1;

impl ServerConnection {
    /// Returns the stream to serve next among those that have something to send and may send it, and how many bytes: the
    /// most urgent one, of several the first, and those that are incremental in turns.
    pub fn next(&self) -> Option<(u32, usize)> {
        if self.window <= 0 {
            return None;
        }
        let ready = self.streams.iter().filter(|stream| stream.output > 0 && stream.window > 0);
        let next = ready.min_by_key(|stream| {
            let Urgency { level, is_incremental } = stream.urgency;
            let turn = match is_incremental {
                true => stream.number.wrapping_sub(self.served).wrapping_sub(1),
                false => stream.number,
            };
            (level, is_incremental, turn)
        })?;
        let room = next.window.min(self.window).min(self.frame_bytes_max.into());
        let length = usize::try_from(room).unwrap_or(0);
        Some((next.number, length.min(usize::try_from(next.output).unwrap_or(usize::MAX))))
    }

    /// Returns the bytes of data that may be sent on a stream now, in one frame.
    pub fn room(&self, stream: u32) -> u64 {
        let window = self.streams.get(stream).map_or(0, |open| open.window.min(self.window));
        u64::try_from(window).unwrap_or(0).min(self.frame_bytes_max.into())
    }

    /// True if there is data to be sent, whether or not the client has room for it.
    pub fn has_output(&self) -> bool {
        self.streams.iter().any(|stream| stream.output > 0)
    }

    /// Writes the head of an interim response (1xx), which another follows.
    pub fn push_interim(&mut self, stream: u32, block: &[u8], out: &mut Vec<u8>) {
        if self.streams.get(stream).is_some() {
            self.push_block(stream, block, false, out);
        }
    }

    /// Writes the head of a response with `body` bytes behind it, which [`ServerConnection::next`] asks for. Without any the
    /// stream is closed.
    pub fn push_response(&mut self, stream: u32, block: &[u8], body: u64, out: &mut Vec<u8>) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        open.output = body;
        self.push_block(stream, block, body == 0, out);
        if body == 0 {
            self.finish(stream, out);
        }
    }

    fn push_block(&mut self, stream: u32, block: &[u8], is_last: bool, out: &mut Vec<u8>) {
        let frame_bytes_max = self.frame_bytes_max as usize;
        if std::mem::take(&mut self.needs_size_update) {
            let mut updated = Vec::with_capacity(block.len() + 1);
            hpack::push_size_update(&mut updated);
            updated.extend_from_slice(block);
            push::push_headers(stream, &updated, is_last, frame_bytes_max, out);
        } else {
            push::push_headers(stream, block, is_last, frame_bytes_max, out);
        }
    }

    /// Writes the header of a DATA frame, which `length` bytes have to follow: as many as [`ServerConnection::next`] has
    /// said, or fewer. Returns true if they are the last of the response; then [`ServerConnection::finish`] follows them.
    pub fn push_data(&mut self, stream: u32, length: usize, out: &mut Vec<u8>) -> bool {
        let Some(open) = self.streams.get_mut(stream) else { return false };
        debug_assert!(length as i64 <= open.window.min(self.window), "{length} bytes do not fit");
        open.window -= length as i64;
        open.output = open.output.saturating_sub(length as u64);
        let is_last = open.output == 0;
        self.window -= length as i64;
        self.served = stream;
        push::push_data_header(stream, length, is_last, out);
        self.window_debt += 2 * length as u64;
        if length >= DATA_MIN {
            self.nuisances = self.nuisances.saturating_sub(FORGIVEN_PER_DATA);
        }
        is_last
    }

    /// Gives a stream up.
    pub fn cancel(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
        if self.streams.get(stream).is_some() {
            self.streams.close(stream, Closed::Reset);
            push::push_rst_stream(stream, code, out);
        }
    }

    /// Begins the end of the connection: tells the client to open no more streams, and asks it to say when it has heard
    /// (section 6.8).
    pub fn drain(&mut self, out: &mut Vec<u8>) {
        if self.drain == Drain::No {
            self.drain = Drain::Announced;
            push::push_goaway(STREAM_MAX, ErrorCode::NoError, out);
            push::push_ping(DRAIN_PING, false, out);
        }
    }

    /// Accepts no more requests, and tells the client which ones have been accepted.
    pub fn finish_drain(&mut self, out: &mut Vec<u8>) {
        if self.drain != Drain::Final {
            self.drain = Drain::Final;
            push::push_goaway(self.last_stream, ErrorCode::NoError, out);
        }
    }

    /// Ends the connection with GOAWAY.
    pub fn fail(&mut self, code: ErrorCode, out: &mut Vec<u8>) {
        self.drain = Drain::Final;
        push::push_goaway(self.last_stream, code, out);
    }

    /// True if all requests that will ever be accepted have been answered.
    pub fn is_drained(&self) -> bool {
        self.drain == Drain::Final && self.is_idle()
    }

    /// True if no request is being received or answered.
    pub fn is_idle(&self) -> bool {
        self.streams.len() == 0 && self.torn.is_none()
    }

    /// Gives back the memory that an idle connection does not need.
    pub fn trim(&mut self) {
        self.decoder.trim();
        self.head.trim();
        self.streams.trim();
    }

    /// Ends a stream whose response is whole. A client that still sends is told that nobody listens (section 8.1).
    pub fn finish(&mut self, stream: u32, out: &mut Vec<u8>) {
        self.nuisances = self.nuisances.saturating_sub(FORGIVEN_PER_RESPONSE);
        match self.streams.get(stream).is_none_or(|open| open.is_whole) {
            true => self.streams.close(stream, Closed::Finished),
            false => {
                self.streams.close(stream, Closed::Reset);
                push::push_rst_stream(stream, ErrorCode::NoError, out);
            }
        }
    }

    pub(super) fn reset<'a>(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) -> Event<'a> {
        let is_open = self.streams.get(stream).is_some();
        self.streams.close(stream, Closed::Reset);
        push::push_rst_stream(stream, code, out);
        if is_open { Event::Cancelled { stream } } else { Event::None }
    }
}
