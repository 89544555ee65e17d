//! Bodies and windows (RFC 9113, sections 5.2 and 6.9).

use super::{
    super::{FrameError, Setting, Settings, WINDOW_BYTES, WINDOW_BYTES_MAX, push, stream::Closed},
    Drain, ErrorCode, Event, ServerConnection,
};
use crate::hpack;

impl ServerConnection {
    pub(super) fn on_data<'a>(
        &mut self,
        stream: u32,
        data: &'a [u8],
        flow_len: u32,
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, FrameError> {
        self.must_not_be_idle(stream)?;
        // The connection's window counts what is thrown away as well.
        self.received += flow_len;
        if self.received > self.limits.window_bytes.max(WINDOW_BYTES) {
            return Err(FrameError::connection(ErrorCode::FlowControlError));
        }
        if self.received > self.limits.window_bytes / 2 {
            push::push_window_update(0, std::mem::take(&mut self.received), out);
        }
        let Some(open) = self.streams.get_mut(stream) else {
            return match self.streams.closed(stream) {
                Some(Closed::Reset) => Ok(Event::None),
                None if stream > self.last_stream => Ok(Event::None),
                Some(Closed::Finished | Closed::Abandoned) | None => {
                    Err(FrameError::stream(stream, ErrorCode::StreamClosed))
                }
            };
        };
        if open.is_whole {
            return Err(FrameError::stream(stream, ErrorCode::StreamClosed));
        }
        open.received += flow_len;
        if open.received > self.limits.window_bytes {
            return Err(FrameError::stream(stream, ErrorCode::FlowControlError));
        }
        if let Some(left) = &mut open.body_left {
            let length = data.len() as u64;
            if length > *left || (is_last && length < *left) {
                return Err(FrameError::stream(stream, ErrorCode::ProtocolError));
            }
            *left -= length;
        }
        open.is_whole = is_last;
        if !is_last && open.received > self.limits.window_bytes / 2 {
            push::push_window_update(stream, std::mem::take(&mut open.received), out);
        }
        Ok(Event::Body { stream, data, is_last })
    }

    pub(super) fn on_settings(&mut self, settings: Settings<'_>) -> Result<(), FrameError> {
        for setting in settings.iter() {
            match setting? {
                Setting::InitialWindowSize(bytes) => {
                    let change = i64::from(bytes) - i64::from(self.stream_window);
                    self.stream_window = bytes;
                    for stream in self.streams.iter_mut() {
                        stream.window += change;
                        if stream.window > i64::from(WINDOW_BYTES_MAX) {
                            return Err(FrameError::connection(ErrorCode::FlowControlError));
                        }
                    }
                }
                Setting::MaxFrameSize(bytes) => self.frame_bytes_max = bytes,
                Setting::HeaderTableSize(bytes) => self.needs_size_update |= (bytes as usize) < hpack::TABLE_BYTES,
                Setting::EnablePush(_)
                | Setting::MaxConcurrentStreams(_)
                | Setting::MaxHeaderListSize(_)
                | Setting::NoRfc7540Priorities(_) => {}
            }
        }
        Ok(())
    }

    pub(super) fn on_window_update(&mut self, stream: u32, increment: u32) -> Result<(), FrameError> {
        let increment = i64::from(increment);
        if stream == 0 {
            self.window += increment;
            let is_valid = self.window <= i64::from(WINDOW_BYTES_MAX);
            return if is_valid { Ok(()) } else { Err(FrameError::connection(ErrorCode::FlowControlError)) };
        }
        self.must_not_be_idle(stream)?;
        match self.streams.get_mut(stream) {
            Some(open) if open.window + increment > i64::from(WINDOW_BYTES_MAX) => {
                Err(FrameError::stream(stream, ErrorCode::FlowControlError))
            }
            Some(open) => {
                open.window += increment;
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn must_not_be_idle(&self, stream: u32) -> Result<(), FrameError> {
        let is_idle = stream > self.last_stream || stream.is_multiple_of(2);
        // What we have refused to look at while draining is idle to us, and not to the client.
        if is_idle && self.drain != Drain::Final {
            Err(FrameError::connection(ErrorCode::ProtocolError))
        } else {
            Ok(())
        }
    }
}
