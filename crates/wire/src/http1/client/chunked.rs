//! The chunked transfer coding (RFC 9112 §7.1), a byte at a time outside the data.

use super::DecodeError;

/// Extensions of one chunk, and all trailers together, may be this long.
const ASIDE_BYTES_MAX: usize = 8 << 10;

#[derive(Debug, Default)]
pub(super) struct Chunked {
    state: State,
    /// Bytes of the current extension or of the trailers.
    aside_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Size { size: u64, digits: u8 },
    Extension { size: u64 },
    SizeLineFeed { size: u64 },
    Data { left: u64 },
    DataReturn,
    DataLineFeed,
    TrailerStart,
    Trailer,
    TrailerLineFeed,
    LastLineFeed,
}

impl Default for State {
    fn default() -> Self {
        Self::Size { size: 0, digits: 0 }
    }
}

pub(super) enum Piece<'a> {
    Data(&'a [u8]),
    NeedMore,
    End,
}

impl Chunked {
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Piece<'a>, DecodeError> {
        while let Some((&byte, rest)) = input.split_first() {
            if let State::Data { left } = self.state {
                return Ok(self.data(left, input));
            }
            *input = rest;
            if self.step(byte)? {
                return Ok(Piece::End);
            }
        }
        Ok(Piece::NeedMore)
    }

    fn data<'a>(&mut self, left: u64, input: &mut &'a [u8]) -> Piece<'a> {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        let (data, rest) = input.split_at(length);
        *input = rest;
        let left = left - length as u64;
        self.state = if left == 0 { State::DataReturn } else { State::Data { left } };
        Piece::Data(data)
    }

    /// True at the end of the body.
    fn step(&mut self, byte: u8) -> Result<bool, DecodeError> {
        self.state = match (self.state, byte) {
            (State::Size { size, digits: 1.. }, b'\r') => State::SizeLineFeed { size },
            (State::Size { size, digits: 1.. }, b';' | b' ' | b'\t') => {
                self.aside_bytes = 0;
                State::Extension { size }
            }
            (State::Size { size, digits }, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(DecodeError::Chunk)?;
                if digits == 15 {
                    return Err(DecodeError::Chunk);
                }
                State::Size { size: size * 16 + u64::from(digit), digits: digits + 1 }
            }
            (State::Extension { size }, b'\r') => State::SizeLineFeed { size },
            (State::SizeLineFeed { size: 0 }, b'\n') => {
                self.aside_bytes = 0;
                State::TrailerStart
            }
            (State::SizeLineFeed { size }, b'\n') => State::Data { left: size },
            (State::DataReturn, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => State::default(),
            (State::TrailerStart, b'\r') => State::LastLineFeed,
            (State::TrailerLineFeed, b'\n') => State::TrailerStart,
            (State::Trailer, b'\r') => State::TrailerLineFeed,
            (State::LastLineFeed, b'\n') => return Ok(true),
            (state @ State::Extension { .. }, byte) if byte != b'\n' => self.aside(state)?,
            (State::TrailerStart | State::Trailer, byte) if byte != b'\n' => self.aside(State::Trailer)?,
            _ => return Err(DecodeError::Chunk),
        };
        Ok(false)
    }

    fn aside(&mut self, state: State) -> Result<State, DecodeError> {
        self.aside_bytes += 1;
        if self.aside_bytes > ASIDE_BYTES_MAX { Err(DecodeError::Chunk) } else { Ok(state) }
    }
}
