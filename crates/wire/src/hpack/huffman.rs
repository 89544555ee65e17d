//! The Huffman code of string literals (RFC 7541, section 5.2 and appendix B).
//!
//! Decoding takes four bits at a time through a table of states, 16 KiB that are made at compile time. No code is shorter
//! than five bits, so a step yields one byte at most.

/// Code and its length in bits, by byte; the last is the end of the string, which never occurs in one.
#[rustfmt::skip]
const CODES: [(u32, u8); 257] = [
    (0x1ff8, 13), (0x7fffd8, 23), (0xfffffe2, 28), (0xfffffe3, 28), (0xfffffe4, 28), (0xfffffe5, 28), (0xfffffe6, 28),
    (0xfffffe7, 28), (0xfffffe8, 28), (0xffffea, 24), (0x3ffffffc, 30), (0xfffffe9, 28), (0xfffffea, 28),
    (0x3ffffffd, 30), (0xfffffeb, 28), (0xfffffec, 28), (0xfffffed, 28), (0xfffffee, 28), (0xfffffef, 28),
    (0xffffff0, 28), (0xffffff1, 28), (0xffffff2, 28), (0x3ffffffe, 30), (0xffffff3, 28), (0xffffff4, 28),
    (0xffffff5, 28), (0xffffff6, 28), (0xffffff7, 28), (0xffffff8, 28), (0xffffff9, 28), (0xffffffa, 28),
    (0xffffffb, 28), (0x14, 6), (0x3f8, 10), (0x3f9, 10), (0xffa, 12), (0x1ff9, 13), (0x15, 6), (0xf8, 8),
    (0x7fa, 11), (0x3fa, 10), (0x3fb, 10), (0xf9, 8), (0x7fb, 11), (0xfa, 8), (0x16, 6), (0x17, 6), (0x18, 6),
    (0x0, 5), (0x1, 5), (0x2, 5), (0x19, 6), (0x1a, 6), (0x1b, 6), (0x1c, 6), (0x1d, 6), (0x1e, 6), (0x1f, 6),
    (0x5c, 7), (0xfb, 8), (0x7ffc, 15), (0x20, 6), (0xffb, 12), (0x3fc, 10), (0x1ffa, 13), (0x21, 6), (0x5d, 7),
    (0x5e, 7), (0x5f, 7), (0x60, 7), (0x61, 7), (0x62, 7), (0x63, 7), (0x64, 7), (0x65, 7), (0x66, 7), (0x67, 7),
    (0x68, 7), (0x69, 7), (0x6a, 7), (0x6b, 7), (0x6c, 7), (0x6d, 7), (0x6e, 7), (0x6f, 7), (0x70, 7), (0x71, 7),
    (0x72, 7), (0xfc, 8), (0x73, 7), (0xfd, 8), (0x1ffb, 13), (0x7fff0, 19), (0x1ffc, 13), (0x3ffc, 14), (0x22, 6),
    (0x7ffd, 15), (0x3, 5), (0x23, 6), (0x4, 5), (0x24, 6), (0x5, 5), (0x25, 6), (0x26, 6), (0x27, 6), (0x6, 5),
    (0x74, 7), (0x75, 7), (0x28, 6), (0x29, 6), (0x2a, 6), (0x7, 5), (0x2b, 6), (0x76, 7), (0x2c, 6), (0x8, 5),
    (0x9, 5), (0x2d, 6), (0x77, 7), (0x78, 7), (0x79, 7), (0x7a, 7), (0x7b, 7), (0x7ffe, 15), (0x7fc, 11),
    (0x3ffd, 14), (0x1ffd, 13), (0xffffffc, 28), (0xfffe6, 20), (0x3fffd2, 22), (0xfffe7, 20), (0xfffe8, 20),
    (0x3fffd3, 22), (0x3fffd4, 22), (0x3fffd5, 22), (0x7fffd9, 23), (0x3fffd6, 22), (0x7fffda, 23), (0x7fffdb, 23),
    (0x7fffdc, 23), (0x7fffdd, 23), (0x7fffde, 23), (0xffffeb, 24), (0x7fffdf, 23), (0xffffec, 24), (0xffffed, 24),
    (0x3fffd7, 22), (0x7fffe0, 23), (0xffffee, 24), (0x7fffe1, 23), (0x7fffe2, 23), (0x7fffe3, 23), (0x7fffe4, 23),
    (0x1fffdc, 21), (0x3fffd8, 22), (0x7fffe5, 23), (0x3fffd9, 22), (0x7fffe6, 23), (0x7fffe7, 23), (0xffffef, 24),
    (0x3fffda, 22), (0x1fffdd, 21), (0xfffe9, 20), (0x3fffdb, 22), (0x3fffdc, 22), (0x7fffe8, 23), (0x7fffe9, 23),
    (0x1fffde, 21), (0x7fffea, 23), (0x3fffdd, 22), (0x3fffde, 22), (0xfffff0, 24), (0x1fffdf, 21), (0x3fffdf, 22),
    (0x7fffeb, 23), (0x7fffec, 23), (0x1fffe0, 21), (0x1fffe1, 21), (0x3fffe0, 22), (0x1fffe2, 21), (0x7fffed, 23),
    (0x3fffe1, 22), (0x7fffee, 23), (0x7fffef, 23), (0xfffea, 20), (0x3fffe2, 22), (0x3fffe3, 22), (0x3fffe4, 22),
    (0x7ffff0, 23), (0x3fffe5, 22), (0x3fffe6, 22), (0x7ffff1, 23), (0x3ffffe0, 26), (0x3ffffe1, 26), (0xfffeb, 20),
    (0x7fff1, 19), (0x3fffe7, 22), (0x7ffff2, 23), (0x3fffe8, 22), (0x1ffffec, 25), (0x3ffffe2, 26), (0x3ffffe3, 26),
    (0x3ffffe4, 26), (0x7ffffde, 27), (0x7ffffdf, 27), (0x3ffffe5, 26), (0xfffff1, 24), (0x1ffffed, 25),
    (0x7fff2, 19), (0x1fffe3, 21), (0x3ffffe6, 26), (0x7ffffe0, 27), (0x7ffffe1, 27), (0x3ffffe7, 26),
    (0x7ffffe2, 27), (0xfffff2, 24), (0x1fffe4, 21), (0x1fffe5, 21), (0x3ffffe8, 26), (0x3ffffe9, 26),
    (0xffffffd, 28), (0x7ffffe3, 27), (0x7ffffe4, 27), (0x7ffffe5, 27), (0xfffec, 20), (0xfffff3, 24), (0xfffed, 20),
    (0x1fffe6, 21), (0x3fffe9, 22), (0x1fffe7, 21), (0x1fffe8, 21), (0x7ffff3, 23), (0x3fffea, 22), (0x3fffeb, 22),
    (0x1ffffee, 25), (0x1ffffef, 25), (0xfffff4, 24), (0xfffff5, 24), (0x3ffffea, 26), (0x7ffff4, 23),
    (0x3ffffeb, 26), (0x7ffffe6, 27), (0x3ffffec, 26), (0x3ffffed, 26), (0x7ffffe7, 27), (0x7ffffe8, 27),
    (0x7ffffe9, 27), (0x7ffffea, 27), (0x7ffffeb, 27), (0xffffffe, 28), (0x7ffffec, 27), (0x7ffffed, 27),
    (0x7ffffee, 27), (0x7ffffef, 27), (0x7fffff0, 27), (0x3ffffee, 26), (0x3fffffff, 30),
];

/// Inner nodes of the code's tree: one less than its leaves.
const NODES: usize = 256;
/// Value of a branch of the tree that is not made yet.
const NONE: u16 = u16::MAX;
/// Branches from here on are leaves: this and the byte, or the end of the string.
const LEAF: u16 = 0x1000;
const END_OF_STRING: u16 = LEAF + 256;

/// Effect of four bits in one state.
#[derive(Clone, Copy)]
struct Move {
    next: u8,
    byte: u8,
    emits: bool,
    fails: bool,
}

/// The code's tree: both branches of each inner node, the root first.
const TREE: [[u16; 2]; NODES] = {
    let mut tree = [[NONE; 2]; NODES];
    let mut nodes = 1;
    let mut symbol = 0;
    while symbol < CODES.len() {
        let (code, length) = CODES[symbol];
        let mut node = 0;
        let mut bit = length;
        while bit > 1 {
            bit -= 1;
            let branch = (code >> bit & 1) as usize;
            if tree[node][branch] == NONE {
                tree[node][branch] = nodes;
                nodes += 1;
            }
            node = tree[node][branch] as usize;
        }
        tree[node][(code & 1) as usize] = LEAF + symbol as u16;
        symbol += 1;
    }
    tree
};

static MOVES: [[Move; 16]; NODES] = {
    let mut moves = [[Move { next: 0, byte: 0, emits: false, fails: false }; 16]; NODES];
    let mut state = 0;
    while state < NODES {
        let mut bits = 0;
        while bits < 16 {
            let (mut node, mut step) = (state, Move { next: 0, byte: 0, emits: false, fails: false });
            let mut bit = 4;
            while bit > 0 {
                bit -= 1;
                let branch = TREE[node][bits >> bit & 1];
                node = 0;
                if branch >= END_OF_STRING {
                    step.fails = true;
                } else if branch >= LEAF {
                    step.byte = (branch - LEAF) as u8;
                    step.emits = true;
                } else {
                    node = branch as usize;
                }
            }
            step.next = node as u8;
            moves[state][bits] = step;
            bits += 1;
        }
        state += 1;
    }
    moves
};

/// True for the states in which a string may end: within at most seven bits, all of them ones.
const MAY_END: [bool; NODES] = {
    let mut may_end = [false; NODES];
    let mut node = 0;
    let mut depth = 0;
    while depth < 8 {
        may_end[node] = true;
        node = TREE[node][1] as usize;
        depth += 1;
    }
    may_end
};

/// A string that is no Huffman code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Malformed;

/// Appends the decoded string.
///
/// # Errors
/// The end of the string occurs in it, or its padding is too long or is not made of ones.
pub(super) fn decode(code: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    // The longest that it can become: no code is shorter than five bits.
    out.reserve(code.len() * 8 / 5);
    let mut state = 0;
    for &byte in code {
        for bits in [byte >> 4, byte & 15] {
            let step = MOVES[usize::from(state)][usize::from(bits)];
            if step.fails {
                return Err(Malformed);
            }
            if step.emits {
                out.push(step.byte);
            }
            state = step.next;
        }
    }
    if MAY_END[usize::from(state)] { Ok(()) } else { Err(Malformed) }
}

/// Returns the length of the encoded string, in bytes.
pub(super) fn encoded_len(string: &[u8]) -> usize {
    let bits: usize = string.iter().map(|&byte| usize::from(CODES[usize::from(byte)].1)).sum();
    bits.div_ceil(8)
}

/// Appends the encoded string, padded with ones.
pub(super) fn encode(string: &[u8], out: &mut Vec<u8>) {
    let (mut held, mut held_bits) = (0_u64, 0);
    for &byte in string {
        let (code, bits) = CODES[usize::from(byte)];
        held = held << bits | u64::from(code);
        held_bits += bits;
        while held_bits >= 8 {
            held_bits -= 8;
            out.push((held >> held_bits) as u8);
        }
    }
    if held_bits > 0 {
        let padding = 8 - held_bits;
        out.push((held << padding) as u8 | ((1 << padding) - 1));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_code_is_that_of_the_appendix() {
        let mut out = Vec::new();
        encode(b"www.example.com", &mut out);
        assert_eq!(out, b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff");
    }

    #[test]
    fn padding_is_at_most_seven_ones() {
        let decoded = |code: &[u8]| decode(code, &mut Vec::new());
        assert_eq!(decoded(b"\x1f"), Ok(()), "`a` and three ones");
        assert_eq!(decoded(b"\x18"), Err(Malformed), "zeros");
        assert_eq!(decoded(b"\x1f\xff"), Err(Malformed), "eleven ones");
        assert_eq!(decoded(b"\xff\xff\xff\xff"), Err(Malformed), "the end of the string");
        assert_eq!(decoded(b""), Ok(()));
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(string: Vec<u8>) {
            let (mut code, mut decoded) = (Vec::new(), Vec::new());
            encode(&string, &mut code);
            prop_assert_eq!(code.len(), encoded_len(&string));
            prop_assert_eq!(decode(&code, &mut decoded), Ok(()));
            prop_assert_eq!(decoded, string);
        }

        /// Other bytes are refused, or are the code of what they are decoded to.
        #[test]
        fn a_string_has_one_code(code: Vec<u8>) {
            let mut decoded = Vec::new();
            if decode(&code, &mut decoded).is_ok() {
                let mut again = Vec::new();
                encode(&decoded, &mut again);
                prop_assert_eq!(again, code);
            }
        }
    }
}
