//! Bodies of requests, which a server's windows hold back.

use std::{collections::VecDeque, ops::Range};

use super::super::{ErrorCode, FRAME_BYTES, FrameError, WINDOW_BYTES, WINDOW_BYTES_MAX};

/// Piece of a request's body that may be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyPiece {
    pub stream: u32,
    pub range: Range<usize>,
    pub is_last: bool,
}

/// Bodies that are not sent yet, oldest first, and the windows.
#[derive(Debug)]
pub(super) struct Uploads {
    bodies: VecDeque<Upload>,
    /// Bytes that may be sent: on the connection, and on a new stream.
    window: i64,
    stream_window: i64,
}

#[derive(Clone, Copy, Debug)]
struct Upload {
    stream: u32,
    sent: usize,
    length: usize,
    window: i64,
}

impl Default for Uploads {
    fn default() -> Self {
        Self { bodies: VecDeque::new(), window: WINDOW_BYTES.into(), stream_window: WINDOW_BYTES.into() }
    }
}

impl Uploads {
    pub(super) fn begin(&mut self, stream: u32, length: usize) {
        self.bodies.push_back(Upload { stream, sent: 0, length, window: self.stream_window });
    }

    /// Chooses a piece of a body that both windows allow.
    #[inline]
    pub(super) fn next_piece(&mut self) -> Option<BodyPiece> {
        if self.bodies.is_empty() || self.window <= 0 {
            return None;
        }
        let at = self.bodies.iter().position(|upload| upload.window > 0)?;
        let upload = &mut self.bodies[at];
        let most = usize::try_from(upload.window.min(self.window)).unwrap_or(0).min(FRAME_BYTES as usize);
        let end = upload.length.min(upload.sent + most);
        let piece = BodyPiece { stream: upload.stream, range: upload.sent..end, is_last: end == upload.length };
        let length = piece.range.len() as i64;
        (upload.sent, upload.window) = (end, upload.window - length);
        self.window -= length;
        if piece.is_last {
            self.bodies.remove(at);
        }
        Some(piece)
    }

    /// Forgets what is left of a body. Returns true if there was anything.
    #[inline]
    pub(super) fn end(&mut self, stream: u32) -> bool {
        let at = self.bodies.iter().position(|upload| upload.stream == stream);
        at.and_then(|at| self.bodies.remove(at)).is_some()
    }

    /// Sets the window with which streams begin, for those that have begun, too (section 6.9.2).
    pub(super) fn resize(&mut self, bytes: u32) {
        let change = i64::from(bytes) - self.stream_window;
        self.stream_window += change;
        self.bodies.iter_mut().for_each(|upload| upload.window += change);
    }

    /// Widens the window of a stream, or of the connection if it is 0.
    ///
    /// # Errors
    /// It is larger than a window can be.
    pub(super) fn widen(&mut self, stream: u32, increment: u32) -> Result<(), FrameError> {
        let window = match stream {
            0 => Some(&mut self.window),
            _ => self.bodies.iter_mut().find(|upload| upload.stream == stream).map(|upload| &mut upload.window),
        };
        let Some(window) = window else { return Ok(()) };
        *window += i64::from(increment);
        if *window > WINDOW_BYTES_MAX.into() {
            return Err(FrameError::connection(ErrorCode::FlowControlError));
        }
        Ok(())
    }
}
