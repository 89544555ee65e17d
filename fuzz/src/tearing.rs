//! How a stream is torn.

/// SplitMix64 (Steele, Lea, Flood 2014): sizes of pieces, drawn from one byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tearing {
    state: u64,
    /// The largest piece; 0: there is only one.
    max: usize,
}

impl Tearing {
    pub(crate) fn new(seed: u8) -> Self {
        Self { state: u64::from(seed), max: [1, 2, 3, 7, 16, 50, 300, 5_000][usize::from(seed % 8)] }
    }

    /// One piece, whatever the stream.
    pub(crate) fn whole() -> Self {
        Self { state: 0, max: 0 }
    }

    /// Bytes of the next piece, at least 1.
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

/// What a torn stream came to so far, and whether anything can follow.
pub(crate) enum Said {
    Bytes(usize),
    Torn,
    Over,
}

/// Offers a stream in pieces, each with what is left of earlier ones, until `read` has had enough.
pub(crate) fn read_torn(stream: &[u8], tearing: Tearing, mut read: impl FnMut(&[u8]) -> Said) -> usize {
    let (mut start, mut end) = (0, 0);
    for piece in tearing.pieces(stream) {
        end += piece.len();
        loop {
            match read(&stream[start..end]) {
                Said::Bytes(consumed) => {
                    assert!(0 < consumed && consumed <= end - start);
                    start += consumed;
                }
                Said::Torn => break,
                Said::Over => return start,
            }
        }
    }
    start
}
