//! Responses: whose turn it is, how much may go, and the frames.

use super::{
    super::{Urgency, push, stream::Closed},
    ErrorCode, Requests, ServerConnection,
};
use crate::hpack;

/// Nuisances that a response makes up for.
const FORGIVEN_PER_RESPONSE: u32 = 4;
/// Nuisances that a DATA frame makes up for which is not too small to be worth its frame: a client that takes it has to
/// enlarge two windows.
const FORGIVEN_PER_DATA: u32 = 2;
/// Data worth a frame, in bytes.
const DATA_MIN: usize = 1 << 10;

impl ServerConnection {
    /// Returns the stream to serve next among those that have something to send: the most urgent one, of several the first,
    /// and those that are incremental in turns.
    pub fn next(&mut self, has_output: impl Fn(u32) -> bool) -> Option<u32> {
        let served = self.served;
        let ready = self.streams.iter().filter(|stream| has_output(stream.number));
        let next = ready.min_by_key(|stream| {
            let Urgency { level, is_incremental } = stream.urgency;
            let turn = if is_incremental { stream.number.wrapping_sub(served).wrapping_sub(1) } else { stream.number };
            (level, is_incremental, turn)
        })?;
        self.served = next.number;
        Some(next.number)
    }

    /// Returns the bytes of data that may be sent on a stream now, at most those of one frame.
    pub fn room(&self, stream: u32) -> usize {
        let window = self.streams.get(stream).map_or(0, |open| open.window.min(self.window));
        usize::try_from(window).unwrap_or(0).min(self.frame_bytes_max as usize)
    }

    /// Writes the head of a response. If it is the last, the stream is closed.
    pub fn push_response(&mut self, stream: u32, block: &[u8], is_last: bool, out: &mut Vec<u8>) {
        if self.streams.get(stream).is_none() {
            return;
        }
        let frame_bytes_max = self.frame_bytes_max as usize;
        if std::mem::take(&mut self.needs_size_update) {
            let mut updated = Vec::with_capacity(block.len() + 1);
            hpack::push_size_update(&mut updated);
            updated.extend_from_slice(block);
            push::push_headers(stream, &updated, is_last, frame_bytes_max, out);
        } else {
            push::push_headers(stream, block, is_last, frame_bytes_max, out);
        }
        if is_last {
            self.finish(stream, out);
        }
    }

    /// Writes the header of a DATA frame, which `length` bytes have to follow: at most [`ServerConnection::room`]. If it is
    /// the last, the stream is closed; what is written for it goes behind `tail`.
    pub fn push_data(&mut self, stream: u32, length: usize, is_last: bool, out: &mut Vec<u8>, tail: &mut Vec<u8>) {
        debug_assert!(length <= self.room(stream), "{length} bytes do not fit");
        let Some(open) = self.streams.get_mut(stream) else { return };
        open.window -= length as i64;
        self.window -= length as i64;
        push::push_data_header(stream, length, is_last, out);
        if length >= DATA_MIN {
            self.nuisances = self.nuisances.saturating_sub(FORGIVEN_PER_DATA);
        }
        if is_last {
            self.finish(stream, tail);
        }
    }

    /// Gives a stream up.
    pub fn cancel(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
        if self.streams.get(stream).is_some() {
            self.streams.close(stream, Closed::Reset);
            push::push_rst_stream(stream, code, out);
        }
    }

    /// Accepts no more requests, and tells the client which ones have been accepted.
    pub fn drain(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_draining, true) {
            push::push_goaway(self.last_stream, ErrorCode::NoError, out);
        }
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
    fn finish(&mut self, stream: u32, out: &mut Vec<u8>) {
        self.nuisances = self.nuisances.saturating_sub(FORGIVEN_PER_RESPONSE);
        let is_whole = self.streams.get(stream).is_none_or(|open| open.is_whole);
        if is_whole {
            self.streams.close(stream, Closed::Finished);
        } else {
            self.streams.close(stream, Closed::Reset);
            push::push_rst_stream(stream, ErrorCode::NoError, out);
        }
    }

    pub(super) fn reset(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>, requests: &mut impl Requests) {
        let is_open = self.streams.get(stream).is_some();
        self.streams.close(stream, Closed::Reset);
        push::push_rst_stream(stream, code, out);
        if is_open {
            requests.on_cancel(stream);
        }
    }
}
