//! The tearing of a stream into pieces.

/// SplitMix64 (Steele, Lea, Flood 2014): sizes of pieces, drawn from one byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tearing {
    state: u64,
    /// Largest piece; 0: there is only one.
    max: usize,
}

impl Tearing {
    pub(crate) fn new(seed: u8) -> Self {
        Self { state: u64::from(seed), max: [1, 2, 3, 7, 16, 50, 300, 5_000][usize::from(seed % 8)] }
    }

    /// Makes a tearing into one piece, whatever the stream.
    pub(crate) fn whole() -> Self {
        Self { state: 0, max: 0 }
    }

    /// Returns the length of the next piece, at least 1.
    pub(crate) fn next(&mut self) -> usize {
        if self.max == 0 {
            return usize::MAX;
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        1 + (z ^ z >> 31) as usize % self.max
    }

    pub(crate) fn pieces<'a>(&self, mut stream: &'a [u8]) -> Vec<&'a [u8]> {
        let (mut sizes, mut pieces) = (*self, Vec::new());
        while !stream.is_empty() {
            let (piece, rest) = stream.split_at(sizes.next().min(stream.len()));
            pieces.push(piece);
            stream = rest;
        }
        pieces
    }
}

/// Result of reading the beginning of a torn stream.
pub(crate) enum Progress {
    /// This many bytes have been consumed.
    Consumed(usize),
    /// More bytes are needed.
    Incomplete,
    /// Nothing can follow.
    End,
}

/// Offers a stream in pieces, each after the unread part of earlier ones, until `read` ends it.
pub(crate) fn read_torn(stream: &[u8], tearing: Tearing, mut read: impl FnMut(&[u8]) -> Progress) -> usize {
    let (mut start, mut end) = (0, 0);
    for piece in tearing.pieces(stream) {
        end += piece.len();
        loop {
            match read(&stream[start..end]) {
                Progress::Consumed(consumed) => {
                    assert!(0 < consumed && consumed <= end - start);
                    start += consumed;
                }
                Progress::Incomplete => break,
                Progress::End => return start,
            }
        }
    }
    start
}
