//! Writing frames.

use super::{
    ErrorCode, Setting,
    frame::{flag, kind},
};

/// Appends a frame's header.
fn push_header(length: usize, kind: u8, flags: u8, stream: u32, out: &mut Vec<u8>) {
    debug_assert!(length <= super::FRAME_BYTES_MAX as usize, "a payload of {length} bytes");
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [e, f, g, h] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, e, f, g, h]);
}

/// Appends the header of a DATA frame; so many bytes follow it.
pub fn push_data_header(stream: u32, length: usize, is_last: bool, out: &mut Vec<u8>) {
    push_header(length, kind::DATA, if is_last { flag::END_STREAM } else { 0 }, stream, out);
}

/// Appends a header block as HEADERS and, where it is longer than a frame may be, CONTINUATIONs.
pub fn push_headers(stream: u32, block: &[u8], is_last: bool, frame_bytes_max: usize, out: &mut Vec<u8>) {
    let (first, mut rest) = block.split_at(block.len().min(frame_bytes_max));
    let flags = |is_whole| if is_whole { flag::END_HEADERS } else { 0 };
    let last = if is_last { flag::END_STREAM } else { 0 };
    push_header(first.len(), kind::HEADERS, flags(rest.is_empty()) | last, stream, out);
    out.extend_from_slice(first);
    while !rest.is_empty() {
        let (next, behind) = rest.split_at(rest.len().min(frame_bytes_max));
        rest = behind;
        push_header(next.len(), kind::CONTINUATION, flags(rest.is_empty()), stream, out);
        out.extend_from_slice(next);
    }
}

/// Appends RST_STREAM.
pub fn push_rst_stream(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    push_header(4, kind::RST_STREAM, 0, stream, out);
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

/// Appends SETTINGS.
pub fn push_settings(settings: &[Setting], out: &mut Vec<u8>) {
    push_header(settings.len() * 6, kind::SETTINGS, 0, 0, out);
    settings.iter().for_each(|setting| out.extend_from_slice(&setting.to_bytes()));
}

/// Appends the acknowledgement of SETTINGS.
pub fn push_settings_ack(out: &mut Vec<u8>) {
    push_header(0, kind::SETTINGS, flag::ACK, 0, out);
}

/// Appends PING, or the answer to one.
pub fn push_ping(data: [u8; 8], is_ack: bool, out: &mut Vec<u8>) {
    push_header(8, kind::PING, if is_ack { flag::ACK } else { 0 }, 0, out);
    out.extend_from_slice(&data);
}

/// Appends GOAWAY: streams above `last_stream` were not looked at.
pub fn push_goaway(last_stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    push_header(8, kind::GOAWAY, 0, 0, out);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

/// Appends WINDOW_UPDATE of a stream, or of the connection if it is 0.
pub fn push_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    push_header(4, kind::WINDOW_UPDATE, 0, stream, out);
    out.extend_from_slice(&increment.to_be_bytes());
}
