//! Reading frames (RFC 9113, sections 4 and 6).

use super::{ErrorCode, HEADER_LEN, settings::Settings};

/// Bit of a stream's number that has no meaning.
const RESERVED: u32 = 1 << 31;

pub(super) mod kind {
    pub(in super::super) const DATA: u8 = 0x0;
    pub(in super::super) const HEADERS: u8 = 0x1;
    pub(in super::super) const PRIORITY: u8 = 0x2;
    pub(in super::super) const RST_STREAM: u8 = 0x3;
    pub(in super::super) const SETTINGS: u8 = 0x4;
    pub(in super::super) const PUSH_PROMISE: u8 = 0x5;
    pub(in super::super) const PING: u8 = 0x6;
    pub(in super::super) const GOAWAY: u8 = 0x7;
    pub(in super::super) const WINDOW_UPDATE: u8 = 0x8;
    pub(in super::super) const CONTINUATION: u8 = 0x9;
    /// RFC 9218, section 7.1.
    pub(in super::super) const PRIORITY_UPDATE: u8 = 0x10;
}

pub(super) mod flag {
    pub(in super::super) const ACK: u8 = 0x1;
    pub(in super::super) const END_STREAM: u8 = 0x1;
    pub(in super::super) const END_HEADERS: u8 = 0x4;
    pub(in super::super) const PADDED: u8 = 0x8;
    pub(in super::super) const PRIORITY: u8 = 0x20;
}

/// Part of a connection that an error ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    Connection,
    Stream(u32),
}

/// A frame against the rules.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{code:?} of the {scope:?}")]
pub struct FrameError {
    pub scope: Scope,
    pub code: ErrorCode,
}

impl FrameError {
    pub const fn connection(code: ErrorCode) -> Self {
        Self { scope: Scope::Connection, code }
    }

    pub const fn stream(stream: u32, code: ErrorCode) -> Self {
        Self { scope: Scope::Stream(stream), code }
    }
}

/// The nine bytes in front of every frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameHeader {
    /// Length of the payload, in bytes.
    pub length: u32,
    pub kind: u8,
    pub flags: u8,
    /// Stream, or 0 for the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Parses the header at the beginning of `input`; `None` while it is not whole.
    pub fn parse(input: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, e, f, g, h] = input.first_chunk::<HEADER_LEN>()?;
        let stream = u32::from_be_bytes([e, f, g, h]) & !RESERVED;
        Some(Self { length: u32::from_be_bytes([0, a, b, c]), kind, flags, stream })
    }

    /// Length of the payload, in bytes.
    pub fn payload_len(self) -> usize {
        self.length as usize
    }

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// True if the frame at the beginning of `input`, as far as it is there, is a piece of a body.
pub fn is_data_next(input: &[u8]) -> bool {
    FrameHeader::parse(input).is_some_and(|header| header.kind == kind::DATA)
}

/// Priority by the rules of RFC 7540, which no side has to follow any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Priority {
    pub depends_on: u32,
    pub is_exclusive: bool,
    /// 0 stands for a weight of 1.
    pub weight: u8,
}

impl Priority {
    const LEN: usize = 5;

    /// # Errors
    /// A stream depends on itself (RFC 7540, section 5.3.1).
    fn parse(stream: u32, &[a, b, c, d, weight]: &[u8; Self::LEN]) -> Result<Self, FrameError> {
        let word = u32::from_be_bytes([a, b, c, d]);
        let depends_on = word & !RESERVED;
        if depends_on == stream {
            return Err(FrameError::stream(stream, ErrorCode::ProtocolError));
        }
        Ok(Self { depends_on, is_exclusive: word & RESERVED != 0, weight })
    }
}

/// A whole frame. Padding is gone, but counts for flow control.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Frame<'a> {
    Data {
        stream: u32,
        data: &'a [u8],
        flow_len: u32,
        is_last: bool,
    },
    Headers {
        stream: u32,
        block: &'a [u8],
        is_whole: bool,
        is_last: bool,
        priority: Option<Priority>,
    },
    Priority {
        stream: u32,
        priority: Priority,
    },
    RstStream {
        stream: u32,
        code: u32,
    },
    Settings(Settings<'a>),
    SettingsAck,
    PushPromise,
    Ping {
        data: [u8; 8],
        is_ack: bool,
    },
    GoAway {
        last_stream: u32,
        code: u32,
    },
    /// Update of a stream's window, or of the connection's if the stream is 0.
    WindowUpdate {
        stream: u32,
        increment: u32,
    },
    Continuation {
        stream: u32,
        block: &'a [u8],
        is_whole: bool,
    },
    PriorityUpdate {
        stream: u32,
        value: &'a [u8],
    },
    /// To be ignored (section 4.1).
    Unknown,
}

impl<'a> Frame<'a> {
    /// Parses a frame of its header and all of its payload.
    ///
    /// # Errors
    /// The frame has a size or a stream that its type does not allow, wrong padding, or an increment of 0.
    pub fn parse(header: FrameHeader, payload: &'a [u8]) -> Result<Self, FrameError> {
        let FrameHeader { stream, length, .. } = header;
        match header.kind {
            kind::DATA => {
                on_stream(header)?;
                let data = unpadded(header, payload)?;
                Ok(Self::Data { stream, data, flow_len: length, is_last: header.has(flag::END_STREAM) })
            }
            kind::HEADERS => Self::headers(header, payload),
            kind::PRIORITY => {
                on_stream(header)?;
                let fields = payload.try_into().map_err(|_| FrameError::stream(stream, ErrorCode::FrameSizeError))?;
                Ok(Self::Priority { stream, priority: Priority::parse(stream, fields)? })
            }
            kind::RST_STREAM => {
                on_stream(header)?;
                Ok(Self::RstStream { stream, code: u32::from_be_bytes(sized(payload)?) })
            }
            kind::SETTINGS => Self::settings(header, payload),
            kind::PUSH_PROMISE => Ok(Self::PushPromise),
            kind::PING => {
                on_connection(header)?;
                Ok(Self::Ping { data: sized(payload)?, is_ack: header.has(flag::ACK) })
            }
            kind::GOAWAY => {
                on_connection(header)?;
                let fields = payload.first_chunk::<8>().ok_or(FrameError::connection(ErrorCode::FrameSizeError))?;
                let [a, b, c, d, e, f, g, h] = *fields;
                let last_stream = u32::from_be_bytes([a, b, c, d]) & !RESERVED;
                Ok(Self::GoAway { last_stream, code: u32::from_be_bytes([e, f, g, h]) })
            }
            kind::WINDOW_UPDATE => {
                let increment = u32::from_be_bytes(sized(payload)?) & !RESERVED;
                match (increment, stream) {
                    (0, 0) => Err(FrameError::connection(ErrorCode::ProtocolError)),
                    (0, _) => Err(FrameError::stream(stream, ErrorCode::ProtocolError)),
                    _ => Ok(Self::WindowUpdate { stream, increment }),
                }
            }
            kind::CONTINUATION => {
                on_stream(header)?;
                Ok(Self::Continuation { stream, block: payload, is_whole: header.has(flag::END_HEADERS) })
            }
            kind::PRIORITY_UPDATE => {
                on_connection(header)?;
                let Some((word, value)) = payload.split_first_chunk::<4>() else {
                    return Err(FrameError::connection(ErrorCode::FrameSizeError));
                };
                match u32::from_be_bytes(*word) & !RESERVED {
                    0 => Err(FrameError::connection(ErrorCode::ProtocolError)),
                    stream => Ok(Self::PriorityUpdate { stream, value }),
                }
            }
            _ => Ok(Self::Unknown),
        }
    }

    fn headers(header: FrameHeader, payload: &'a [u8]) -> Result<Self, FrameError> {
        on_stream(header)?;
        let stream = header.stream;
        let mut block = unpadded(header, payload)?;
        let mut priority = None;
        if header.has(flag::PRIORITY) {
            let Some((fields, behind)) = block.split_first_chunk() else {
                return Err(FrameError::connection(ErrorCode::FrameSizeError));
            };
            priority = Some(Priority::parse(stream, fields)?);
            block = behind;
        }
        let (is_whole, is_last) = (header.has(flag::END_HEADERS), header.has(flag::END_STREAM));
        Ok(Self::Headers { stream, block, is_whole, is_last, priority })
    }

    fn settings(header: FrameHeader, payload: &'a [u8]) -> Result<Self, FrameError> {
        on_connection(header)?;
        match (header.has(flag::ACK), payload.len()) {
            (true, 0) => Ok(Self::SettingsAck),
            (false, length) if length % 6 == 0 => Ok(Self::Settings(Settings(payload))),
            _ => Err(FrameError::connection(ErrorCode::FrameSizeError)),
        }
    }
}

fn on_stream(header: FrameHeader) -> Result<(), FrameError> {
    if header.stream == 0 { Err(FrameError::connection(ErrorCode::ProtocolError)) } else { Ok(()) }
}

fn on_connection(header: FrameHeader) -> Result<(), FrameError> {
    if header.stream == 0 { Ok(()) } else { Err(FrameError::connection(ErrorCode::ProtocolError)) }
}

/// Returns a payload whose length is fixed.
fn sized<const N: usize>(payload: &[u8]) -> Result<[u8; N], FrameError> {
    payload.try_into().map_err(|_| FrameError::connection(ErrorCode::FrameSizeError))
}

/// Returns the payload without its padding (section 6.1).
fn unpadded(header: FrameHeader, payload: &[u8]) -> Result<&[u8], FrameError> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let Some((&padding, padded)) = payload.split_first() else {
        return Err(FrameError::connection(ErrorCode::FrameSizeError));
    };
    let length = padded.len().checked_sub(usize::from(padding));
    length.map(|length| &padded[..length]).ok_or(FrameError::connection(ErrorCode::ProtocolError))
}
