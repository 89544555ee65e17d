//! The rule by which a ratio is a difference: one place for what judges by it and for what explains it.

use super::{FLOOR_UNKNOWN, Interval, Ratio};

/// With fewer blocks no difference is claimed.
pub const BLOCKS_MIN: u32 = 3;

/// Direction of a ratio, or why none is claimed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Difference {
    Lower,
    Higher,
    Unseen(Unseen),
}

/// Reason that a ratio is not called a difference; the first that holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unseen {
    /// Fewer than [`BLOCKS_MIN`] blocks.
    FewBlocks,
    /// The interval holds 1.
    HoldsOne,
    /// No control tells the noise floor, and the ratio is less than twofold.
    FloorUnknown,
    /// The median lies inside the noise floor.
    InsideFloor,
}

impl Ratio {
    /// Judges a ratio by its interval and the noise floor, a fraction: 0.01 is one per cent. The floor reaches from
    /// 1 / (1 + floor) to 1 + floor.
    pub fn judged(Interval { median, lo, hi }: Interval, blocks: u32, floor: f64) -> Self {
        let excludes_one = lo > 1.0 || hi < 1.0;
        let differs = blocks >= BLOCKS_MIN && excludes_one && median.ln().abs() > floor.ln_1p();
        Self { median, lo, hi, differs, blocks }
    }

    /// Explains [`Self::differs`]; `floor` as in [`Self::judged`].
    pub fn difference(&self, floor: f64) -> Difference {
        match self {
            _ if self.differs && self.median < 1.0 => Difference::Lower,
            _ if self.differs => Difference::Higher,
            _ if self.blocks < BLOCKS_MIN => Difference::Unseen(Unseen::FewBlocks),
            _ if self.lo <= 1.0 && self.hi >= 1.0 => Difference::Unseen(Unseen::HoldsOne),
            _ if floor >= FLOOR_UNKNOWN => Difference::Unseen(Unseen::FloorUnknown),
            _ => Difference::Unseen(Unseen::InsideFloor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_leaves_out_one_and_exceeds_the_floor() {
        let judged = |median: f64, reach: f64, blocks, floor| {
            let interval = Interval { median, lo: median / reach, hi: median * reach };
            Ratio::judged(interval, blocks, floor).difference(floor)
        };
        assert_eq!(judged(1.1, 1.05, 7, 0.02), Difference::Higher);
        assert_eq!(judged(0.9, 1.05, 7, 0.02), Difference::Lower);
        assert_eq!(judged(0.5, 1.05, 2, 0.02), Difference::Unseen(Unseen::FewBlocks));
        assert_eq!(judged(1.1, 1.2, 7, 0.02), Difference::Unseen(Unseen::HoldsOne));
        assert_eq!(judged(1.9, 1.05, 7, FLOOR_UNKNOWN), Difference::Unseen(Unseen::FloorUnknown));
        assert_eq!(judged(2.1, 1.01, 7, FLOOR_UNKNOWN), Difference::Higher);
        assert_eq!(judged(1.04, 1.01, 7, 0.05), Difference::Unseen(Unseen::InsideFloor));
        // As far below 1 as 1.05 lies above it is 1 / 1.05, not 0.95.
        assert_eq!(judged(0.951, 1.01, 7, 0.05), Difference::Lower);
        assert_eq!(judged(0.953, 1.01, 7, 0.05), Difference::Unseen(Unseen::InsideFloor));
    }
}
