//! The chunked transfer coding (RFC 9112, section 7.1) of requests and responses, decoded a byte at a time outside the
//! data.
//!
//! Extensions and trailers are skipped. Anything that two readers could understand differently is malformed: bare line
//! feeds, sizes with signs or prefixes, text behind a size without a semicolon, trailers that are no fields, such as a
//! request, control characters.

use thiserror::Error;

use super::byte_set::IN_TOKEN;

/// Most bytes of the extension of one chunk, and of all trailers together.
const ASIDE_BYTES_MAX: usize = 8 << 10;
/// Most digits of a size, leading zeros included; sixteen could overflow.
const DIGITS_MAX: u8 = 15;

/// Error of bytes that are not the chunked coding. The end of the body is unknown, and so is the start of the next
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the chunked coding is malformed")]
pub struct Malformed;

/// Decoder of one body. The result does not depend on how the bytes were torn.
#[derive(Clone, Debug, Default)]
pub struct Chunked {
    state: State,
    /// Bytes of the current extension or of the trailers.
    aside_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Size {
        size: u64,
        digits: u8,
    },
    /// A blank has been read; an extension or the end of the line follows.
    Blank {
        size: u64,
    },
    Extension {
        size: u64,
    },
    SizeLineFeed {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataReturn,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    LastLineFeed,
}

impl Default for State {
    fn default() -> Self {
        Self::Size { size: 0, digits: 0 }
    }
}

/// One step through a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of the body; never empty.
    Data(&'a [u8]),
    /// All input has been used.
    NeedMore,
    /// The body is complete, and the next byte belongs to another message.
    End,
}

impl Chunked {
    /// Takes one step, and removes the bytes that it used from `input`. Has to be called again until the result is not
    /// [`Piece::Data`].
    ///
    /// # Errors
    /// The bytes break the coding; this is reported at the first such byte.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Piece<'a>, Malformed> {
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

    /// Takes one byte; true at the end of the body.
    fn step(&mut self, byte: u8) -> Result<bool, Malformed> {
        self.state = match (self.state, byte) {
            (State::Size { size, digits: 1.. }, b'\r') => State::SizeLineFeed { size },
            (State::Size { size, digits: 1.. }, b' ' | b'\t') => {
                self.aside_bytes = 0;
                State::Blank { size }
            }
            (State::Size { size, digits: 1.. }, b';') => {
                self.aside_bytes = 0;
                State::Extension { size }
            }
            (State::Size { size, digits }, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(Malformed)?;
                if digits == DIGITS_MAX {
                    return Err(Malformed);
                }
                State::Size { size: size * 16 + u64::from(digit), digits: digits + 1 }
            }
            (State::Blank { size } | State::Extension { size }, b'\r') => State::SizeLineFeed { size },
            (State::Blank { size }, b';') => State::Extension { size },
            (state @ State::Blank { .. }, b' ' | b'\t') => self.aside(state)?,
            (State::SizeLineFeed { size: 0 }, b'\n') => {
                self.aside_bytes = 0;
                State::TrailerStart
            }
            (State::SizeLineFeed { size }, b'\n') => State::Data { left: size },
            (State::DataReturn, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => State::default(),
            (State::TrailerStart, b'\r') => State::LastLineFeed,
            (State::TrailerLineFeed, b'\n') => State::TrailerStart,
            (State::TrailerValue, b'\r') => State::TrailerLineFeed,
            (State::LastLineFeed, b'\n') => return Ok(true),
            (state @ State::Extension { .. }, byte) if is_text(byte) => self.aside(state)?,
            (State::TrailerStart | State::TrailerName, byte) if IN_TOKEN[usize::from(byte)] => {
                self.aside(State::TrailerName)?
            }
            (State::TrailerName, b':') => self.aside(State::TrailerValue)?,
            (State::TrailerValue, byte) if is_text(byte) => self.aside(State::TrailerValue)?,
            _ => return Err(Malformed),
        };
        Ok(false)
    }

    fn aside(&mut self, state: State) -> Result<State, Malformed> {
        self.aside_bytes += 1;
        if self.aside_bytes > ASIDE_BYTES_MAX { Err(Malformed) } else { Ok(state) }
    }
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes a body that arrives in these pieces. Returns its bytes, and the length of the input up to its end.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(Vec<u8>, Option<usize>), Malformed> {
        let (mut chunked, mut body, mut used) = (Chunked::default(), Vec::new(), 0);
        for piece in pieces {
            let mut input = piece;
            loop {
                match chunked.next(&mut input)? {
                    Piece::Data(data) => body.extend_from_slice(data),
                    Piece::NeedMore => break,
                    Piece::End => return Ok((body, Some(used + piece.len() - input.len()))),
                }
            }
            assert!(input.is_empty(), "what is not used up is not asked for again");
            used += piece.len();
        }
        Ok((body, None))
    }

    #[test]
    fn ambiguous_chunked_bodies_are_malformed() {
        for bad in [
            "\r\n",
            ";a\r\n",
            "+4\r\nWiki\r\n",
            "0x4\r\nWiki\r\n",
            " 4\r\nWiki\r\n",
            "4 4\r\nWiki\r\n",
            "4 a=b\r\nWiki\r\n",
            "4;a\0b\r\nWiki\r\n",
            "4;a\nWiki\r\n",
            "4\nWiki\r\n",
            "4\rWiki\r\n",
            "4\r\nWikiX\r\n",
            "4\r\nWiki\n0\r\n\r\n",
            "0\r\nA: b\n\r\n",
            "0\r\n\n",
            "0\r\nGET / HTTP/1.1\r\n",
            "0\r\nA\r\n",
            "0\r\n: b\r\n",
            "0\r\nA : b\r\n",
            "0\r\n A: b\r\n",
            "0\r\nA: b\r\n c\r\n",
            "0000000000000004\r\nWiki\r\n",
            "ffffffffffffffff\r\n",
        ] {
            assert_eq!(read([bad.as_bytes()]), Err(Malformed), "{bad:?}");
        }
        for good in ["4\r\nWiki\r\n0\r\n\r\n", "004 ;a=\"b\" \r\nWiki\r\n0\t\r\nA: b\r\nC: d\r\n\r\n"] {
            assert_eq!(read([format!("{good}GET").as_bytes()]), Ok((b"Wiki".to_vec(), Some(good.len()))), "{good:?}");
        }
    }

    #[test]
    fn extensions_and_trailers_are_limited() {
        for beginning in ["4;", "4 ", "0\r\n", "0\r\ny:"] {
            let filler = if beginning == "4 " { " " } else { "y" };
            let is_begun = usize::from(beginning.ends_with(':')) * 2;
            let fits = format!("{beginning}{}", filler.repeat(ASIDE_BYTES_MAX - is_begun));
            assert_eq!(read([fits.as_bytes()]), Ok((vec![], None)));
            assert_eq!(read([fits.as_bytes(), filler.as_bytes()]), Err(Malformed));
        }
    }

    /// A body in chunks of such lengths, each with or without an extension, and with or without trailers.
    fn encoded() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let extension = prop::sample::select(vec!["", ";", ";a=b", " ;\ta", " "]);
        let chunk = (prop::collection::vec(any::<u8>(), 1..40), extension);
        let trailers = prop::sample::select(vec!["", "A: b\r\n", "A: b\r\nTransfer-Encoding: chunked\r\n"]);
        (prop::collection::vec(chunk, 0..6), trailers).prop_map(|(chunks, trailers)| {
            let (mut body, mut stream) = (Vec::new(), Vec::new());
            for (data, extension) in chunks {
                stream.extend(format!("{:x}{extension}\r\n", data.len()).bytes());
                stream.extend(&data);
                stream.extend(b"\r\n");
                body.extend(data);
            }
            stream.extend(format!("0\r\n{trailers}\r\n").bytes());
            (body, stream)
        })
    }

    proptest! {
        #[test]
        fn a_body_is_decoded_up_to_its_end(
            (body, stream) in encoded(), behind in prop::collection::vec(any::<u8>(), 0..20), piece in 1..60_usize,
        ) {
            let input = [&stream[..], &behind].concat();
            prop_assert_eq!(read(input.chunks(piece)), Ok((body, Some(stream.len()))));
            prop_assert_eq!(read(stream[..stream.len() - 1].chunks(piece)).unwrap().1, None);
        }

        #[test]
        fn the_result_does_not_depend_on_fragmentation(
            input in "([0-9a-f]{1,2}|[ ;x\\r\\n]|\r\n|0\r\n\r\n){0,12}", piece in 1..7_usize,
        ) {
            prop_assert_eq!(read(input.as_bytes().chunks(piece)), read([input.as_bytes()]));
        }
    }
}
