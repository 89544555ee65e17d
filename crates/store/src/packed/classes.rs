//! The size classes of blocks, and the pages that have them.
//!
//! Sizes grow in steps of 4 bytes up to 24, of 2 up to 48, of 8 up to 256, of 16 up to 512, and of 32 up to 2 KiB; above that
//! there is one class for each number of blocks that fit into a page. Up to 2 KiB a block is larger than its contents by a
//! sixteenth at most, or by 8 bytes. More classes would save a little, and hold more free blocks that no other size can use:
//! there are four more, for values of 1, 2, 4 and 8 KiB with a usual key, which would leave much of a block or a page unused.
//!
//! Two pages often hold one large block more than twice as many as one page does. They are a pair then, and the block in the
//! middle begins on the first and ends on the second.

/// The unit in which blocks are measured and addressed.
pub(super) const UNIT: usize = 2;
/// Bytes of a page, which has blocks of one size.
pub(super) const PAGE: usize = 64 * 1024;
/// Units in a page.
pub(super) const PAGE_UNITS: usize = PAGE / UNIT;
pub(super) const CLASSES: usize = 108 + IN_PAIR.len();
/// Bytes of the largest block.
pub(super) const BLOCK_MAX: usize = units_of_class(CLASSES - 1) * UNIT;
/// Smallest block for which pairs are made: they save at most one block in two pages.
const PAIR_BLOCK_MIN: usize = 512;

/// Blocks of the largest classes in two pages.
const IN_PAIR: [u8; 30] = [
    63, 62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 31, 30, 28, 26, 24, 22, 20, 18, 16, 15, 14, 12,
    10,
];

/// Part that a page has in a class. A block belongs to the page on which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Part {
    /// The page is one of its own.
    Single,
    /// The page is the first of a pair, and its last block ends on the second.
    First,
    Second,
    /// The page belongs to no class, but its memory may be there.
    Empty,
    /// The page belongs to no class, and its memory has been released.
    Released,
}

const PARTS: usize = 5;

/// Units in a block of each class.
static UNITS: [u16; CLASSES] = {
    let mut units = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        units[class] = units_of_class(class) as u16;
        class += 1;
    }
    units
};

/// Blocks that begin on a page, by its class and its part.
static CAPACITY: [[u16; PARTS]; CLASSES] = {
    let mut capacity = [[0; PARTS]; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let units = units_of_class(class);
        let first = PAGE_UNITS.div_ceil(units);
        let second = 2 * PAGE_UNITS / units - first;
        capacity[class] = [(PAGE_UNITS / units) as u16, first as u16, second as u16, 0, 0];
        class += 1;
    }
    capacity
};

/// True for each class of which a pair holds more blocks.
static HAS_PAIRS: [bool; CLASSES] = {
    let mut has_pairs = [false; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let units = units_of_class(class);
        let holds_more = 2 * PAGE_UNITS / units > 2 * (PAGE_UNITS / units);
        has_pairs[class] = units * UNIT >= PAIR_BLOCK_MIN && holds_more;
        class += 1;
    }
    has_pairs
};

/// The smallest class for a number of units.
static CLASS_OF: [u8; BLOCK_MAX / UNIT + 1] = {
    let mut classes = [0; BLOCK_MAX / UNIT + 1];
    let mut class = 0;
    let mut units = 0;
    while units < classes.len() {
        if units > units_of_class(class) {
            class += 1;
        }
        classes[units] = class as u8;
        units += 1;
    }
    classes
};

const fn units_of_class(class: usize) -> usize {
    match class {
        0..5 => 4 + 2 * class,
        5..17 => 12 + (class - 4),
        17..43 => 24 + 4 * (class - 16),
        43..59 => 128 + 8 * (class - 42),
        59..75 => 256 + 16 * (class - 58),
        // A key of 16 bytes, a value of 1 KiB, and 8 bytes for the header and a time of expiry.
        75 => 524,
        76..108 => 512 + 16 * (class - 75),
        _ => 2 * PAGE_UNITS / IN_PAIR[class - 108] as usize,
    }
}

/// Returns the class of blocks that hold `bytes`, at most [`BLOCK_MAX`].
#[inline]
pub(super) fn class_of(bytes: usize) -> usize {
    usize::from(CLASS_OF[bytes.div_ceil(UNIT)])
}

/// Returns the units in a block of a class.
#[inline]
pub(super) fn units(class: usize) -> usize {
    usize::from(UNITS[class])
}

/// Returns the number of blocks that begin on a page.
#[inline]
pub(super) fn capacity(class: usize, part: Part) -> u16 {
    CAPACITY[class][part as usize]
}

/// Returns the unit of a page at which its first block begins.
#[inline]
pub(super) fn start(class: usize, part: Part) -> usize {
    match part {
        Part::Second => usize::from(capacity(class, Part::First)) * units(class) - PAGE_UNITS,
        Part::Single | Part::First | Part::Empty | Part::Released => 0,
    }
}

/// True if a pair of pages holds more blocks of a class than two pages, and that is worth it.
#[inline]
pub(super) fn has_pairs(class: usize) -> bool {
    HAS_PAIRS[class]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_block_that_holds_it() {
        for bytes in 0..=BLOCK_MAX {
            let class = class_of(bytes);
            assert!(units(class) * UNIT >= bytes, "{bytes}");
            assert!(class == 0 || units(class - 1) * UNIT < bytes, "{bytes}");
        }
        assert_eq!(class_of(BLOCK_MAX), CLASSES - 1);
    }

    #[test]
    fn little_is_wasted() {
        for bytes in 9..=2048_usize {
            let block = units(class_of(bytes)) * UNIT;
            let step = if bytes <= 24 {
                4
            } else if bytes <= 48 {
                2
            } else {
                8
            };
            assert!(block - bytes < step.max(bytes.div_ceil(16)), "{bytes} in {block}");
        }
        for bytes in 2048..=BLOCK_MAX {
            assert!(units(class_of(bytes)) * UNIT <= bytes * 5 / 4, "{bytes}");
        }
        for class in 0..CLASSES {
            // What two pages have beside their blocks is less than a thirtieth of them, or a block could be added.
            let parts = if has_pairs(class) { [Part::First, Part::Second] } else { [Part::Single; 2] };
            let blocks: u16 = parts.into_iter().map(|part| capacity(class, part)).sum();
            assert!(usize::from(blocks) * units(class) * 32 >= 2 * PAGE_UNITS * 31, "class {class}");
        }
        assert_eq!(units(class_of(33)) * UNIT, 34);
    }

    /// Bytes of a page for each value whose length is a power of two, with a key of 16 bytes and a time of expiry.
    #[test]
    fn values_of_whole_kilobytes_leave_little_unused() {
        for (value, block, each) in
            [(1024, 1048, 1048.6), (2048, 2080, 2080.6), (4096, 4228, 4228.2), (8192, 8738, 8738.2)]
        {
            let class = class_of(value + 16 + 8);
            assert!(has_pairs(class) && units(class) * UNIT == block);
            let blocks = capacity(class, Part::First) + capacity(class, Part::Second);
            assert!(2.0 * PAGE as f64 / f64::from(blocks) < each, "{value}");
        }
    }

    #[test]
    fn blocks_of_a_pair_lie_one_behind_the_other() {
        for class in (0..CLASSES).filter(|&class| has_pairs(class)) {
            let [first, second] = [Part::First, Part::Second].map(|part| usize::from(capacity(class, part)));
            let end = first * units(class);
            assert!(end > PAGE_UNITS && end - PAGE_UNITS < units(class), "class {class}");
            assert_eq!(start(class, Part::Second), end - PAGE_UNITS);
            assert!(start(class, Part::Second) + second * units(class) <= PAGE_UNITS, "class {class}");
            assert_eq!(first + second, 2 * PAGE_UNITS / units(class));
        }
    }
}
