//! Parameters of a connection's sides (RFC 9113, section 6.5; RFC 9218, section 2.1).

use super::{ErrorCode, FRAME_BYTES, FRAME_BYTES_MAX, FrameError, WINDOW_BYTES_MAX};

/// One parameter as it stands in a SETTINGS frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Setting {
    /// Largest dynamic table that the sender's decoder keeps, in bytes.
    HeaderTableSize(u32),
    EnablePush(bool),
    MaxConcurrentStreams(u32),
    /// Window with which streams begin, in bytes.
    InitialWindowSize(u32),
    /// Largest payload of a frame that the sender accepts, in bytes.
    MaxFrameSize(u32),
    /// Largest list of header fields that the sender accepts, in bytes.
    MaxHeaderListSize(u32),
    /// The priorities of RFC 7540 are not used.
    NoRfc7540Priorities(bool),
}

impl Setting {
    /// Returns the parameter, or nothing for one that is unknown and has to be ignored.
    fn new(id: u16, value: u32) -> Result<Option<Self>, FrameError> {
        let boolean = || match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(FrameError::connection(ErrorCode::ProtocolError)),
        };
        Ok(Some(match id {
            0x1 => Self::HeaderTableSize(value),
            0x2 => Self::EnablePush(boolean()?),
            0x3 => Self::MaxConcurrentStreams(value),
            0x4 if value > WINDOW_BYTES_MAX => return Err(FrameError::connection(ErrorCode::FlowControlError)),
            0x4 => Self::InitialWindowSize(value),
            0x5 if !(FRAME_BYTES..=FRAME_BYTES_MAX).contains(&value) => {
                return Err(FrameError::connection(ErrorCode::ProtocolError));
            }
            0x5 => Self::MaxFrameSize(value),
            0x6 => Self::MaxHeaderListSize(value),
            0x9 => Self::NoRfc7540Priorities(boolean()?),
            _ => return Ok(None),
        }))
    }

    /// Returns the parameter as it is sent.
    pub(super) fn to_bytes(self) -> [u8; 6] {
        let (id, value) = match self {
            Self::HeaderTableSize(value) => (0x1_u16, value),
            Self::EnablePush(value) => (0x2, value.into()),
            Self::MaxConcurrentStreams(value) => (0x3, value),
            Self::InitialWindowSize(value) => (0x4, value),
            Self::MaxFrameSize(value) => (0x5, value),
            Self::MaxHeaderListSize(value) => (0x6, value),
            Self::NoRfc7540Priorities(value) => (0x9, value.into()),
        };
        let ([a, b], [c, d, e, f]) = (id.to_be_bytes(), value.to_be_bytes());
        [a, b, c, d, e, f]
    }
}

/// Parameters of a SETTINGS frame, in their order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings<'a>(pub(super) &'a [u8]);

impl<'a> Settings<'a> {
    /// Yields the known parameters; an error ends the connection.
    pub fn iter(self) -> impl Iterator<Item = Result<Setting, FrameError>> + 'a {
        let (entries, _) = self.0.as_chunks::<6>();
        entries.iter().filter_map(|&[a, b, c, d, e, f]| {
            Setting::new(u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f])).transpose()
        })
    }
}
