//! Heads of responses (RFC 9113, section 8.3.2).

use super::super::{ErrorCode, FrameError};
use crate::{
    hpack::{Decoder, Field},
    http1::{client::ContentCoding, coding::Coding},
};

/// The part of a response's head that decides how to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: u16,
    /// Length of the body, if the head says it.
    pub length: Option<u64>,
    pub coding: ContentCoding,
}

/// A head or trailers against the rules of HTTP. It ends the stream only: the decoder is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the head of a response is malformed")]
pub struct MalformedHead;

impl ResponseHead {
    /// Decodes a header block.
    ///
    /// # Errors
    /// The block is no HPACK, which ends the connection.
    pub fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Result<Self, MalformedHead>, FrameError> {
        let mut fields = Fields { status: None, length: None, coding: Some(Coding::Identity), has_regular: false };
        let mut outcome = Ok(());
        let visit = |field: Field<'_>| outcome = outcome.and_then(|()| fields.take(field));
        decoder.decode(block, visit).map_err(|_| FrameError::connection(ErrorCode::CompressionError))?;
        Ok(outcome.and_then(|()| {
            let status = fields.status.ok_or(MalformedHead)?;
            Ok(Self { status, length: fields.length, coding: fields.coding })
        }))
    }

    /// Returns true if a final head is still to come.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }
}

/// Decodes trailers, of which nothing is used.
///
/// # Errors
/// The block is no HPACK, which ends the connection.
pub fn decode_trailers(decoder: &mut Decoder, block: &[u8]) -> Result<Result<(), MalformedHead>, FrameError> {
    let mut outcome = Ok(());
    let visit = |field: Field<'_>| {
        if field.name.first() == Some(&b':') || check_name(field.name).is_err() {
            outcome = Err(MalformedHead);
        }
    };
    decoder.decode(block, visit).map_err(|_| FrameError::connection(ErrorCode::CompressionError))?;
    Ok(outcome)
}

struct Fields {
    status: Option<u16>,
    length: Option<u64>,
    coding: ContentCoding,
    has_regular: bool,
}

impl Fields {
    fn take(&mut self, Field { name, value }: Field<'_>) -> Result<(), MalformedHead> {
        if let Some(pseudo) = name.strip_prefix(b":") {
            let is_first = !self.has_regular && self.status.is_none() && pseudo == b"status";
            self.status = Some(parse_status(value).filter(|_| is_first).ok_or(MalformedHead)?);
            return Ok(());
        }
        self.has_regular = true;
        check_name(name)?;
        match name {
            b"content-length" => {
                let length = parse_length(value).ok_or(MalformedHead)?;
                if self.length.is_some_and(|known| known != length) {
                    return Err(MalformedHead);
                }
                self.length = Some(length);
            }
            // A second field is a second coding (RFC 9110, section 8.4).
            b"content-encoding" => {
                self.coding = Coding::named(value).filter(|_| self.coding == Some(Coding::Identity));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Checks that a name is in small letters, and of no field that is about one connection (section 8.2).
fn check_name(name: &[u8]) -> Result<(), MalformedHead> {
    const OF_CONNECTION: [&[u8]; 5] =
        [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];
    let is_bad = name.is_empty() || name.iter().any(u8::is_ascii_uppercase) || OF_CONNECTION.contains(&name);
    if is_bad { Err(MalformedHead) } else { Ok(()) }
}

fn parse_status(value: &[u8]) -> Option<u16> {
    let &[a @ b'1'..=b'5', b @ b'0'..=b'9', c @ b'0'..=b'9'] = value else { return None };
    let status = [a, b, c].into_iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    // There is no upgrade in HTTP/2.
    (status != 101).then_some(status)
}

/// Parses digits: no sign, no list, no blanks, no overflow.
fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}
