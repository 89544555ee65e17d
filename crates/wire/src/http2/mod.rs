//! HTTP/2 (RFC 9113) without a socket: frames, and the server's side of a connection.
//!
//! [`FrameHeader::parse`] and [`Frame::parse`] read what a peer sends, of either side, as far as no memory of earlier frames
//! is needed; the `push_…` functions write. [`ServerConnection`] keeps streams, windows and the order of frames; [`ClientConnection`] as much of
//! them as a load generator needs.

mod client;
mod frame;
mod head;
mod push;
mod server;
mod settings;
mod stream;
mod urgency;

pub use self::{
    client::{
        BLOCK_BYTES_MAX, BodyPiece, CLIENT_WINDOW_BYTES, ClientConnection, MalformedHead, REFILL_BYTES, ResponseHead,
        Responses, STREAMS_BEFORE_SETTINGS, decode_trailers,
    },
    frame::{Frame, FrameError, FrameHeader, Priority, Scope, is_data_next},
    head::{RequestHead, push_response_block},
    push::{
        push_data_header, push_goaway, push_headers, push_ping, push_rst_stream, push_settings, push_settings_ack,
        push_window_update,
    },
    server::{Event, Limits, Received, ServerConnection},
    settings::{Setting, Settings},
    urgency::Urgency,
};

/// First bytes of a client (section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame's header.
pub const HEADER_LEN: usize = 9;
/// Largest payload of a frame unless SETTINGS say otherwise, in bytes, and the least that they may say (section 6.5.2).
pub const FRAME_BYTES: u32 = 1 << 14;
/// Largest payload that a frame can have, in bytes.
pub const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;
/// Flow-control window of connections and streams unless SETTINGS say otherwise, in bytes (section 6.9.2).
pub const WINDOW_BYTES: u32 = (1 << 16) - 1;
/// Largest flow-control window, in bytes.
pub const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Reason for which a stream or a connection ends (section 7).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum ErrorCode {
    NoError = 0x0,
    ProtocolError = 0x1,
    InternalError = 0x2,
    FlowControlError = 0x3,
    SettingsTimeout = 0x4,
    StreamClosed = 0x5,
    FrameSizeError = 0x6,
    RefusedStream = 0x7,
    Cancel = 0x8,
    CompressionError = 0x9,
    ConnectError = 0xa,
    EnhanceYourCalm = 0xb,
    InadequateSecurity = 0xc,
    Http11Required = 0xd,
}

#[cfg(test)]
mod tests;
