//! The size classes of blocks.
//!
//! Sizes grow in steps of 4 bytes up to 24, of 2 up to 48, of 8 up to 256, of 16 up to 512, and of 32 up to 2 KiB; above that
//! there is one class for each number of blocks that fit into a page. Up to 2 KiB a block is larger than its contents by a
//! sixteenth at most, or by 8 bytes. More classes would save a little, and hold more free blocks that no other size can use.

/// The unit in which blocks are measured and addressed.
pub(super) const UNIT: usize = 2;
/// Bytes of a page, which has blocks of one size.
pub(super) const PAGE: usize = 64 * 1024;
/// Units in a page.
pub(super) const PAGE_UNITS: usize = PAGE / UNIT;
pub(super) const CLASSES: usize = 134;
/// Bytes of the largest block.
pub(super) const BLOCK_MAX: usize = units_of_class(CLASSES - 1) * UNIT;

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
        59..107 => 256 + 16 * (class - 58),
        // 31, 30, … blocks in a page.
        _ => PAGE_UNITS / (138 - class),
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

/// Returns the number of blocks in a page of a class.
#[inline]
pub(super) fn capacity(class: usize) -> usize {
    PAGE_UNITS / units(class)
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
            assert!(capacity(class) * units(class) * 32 >= PAGE_UNITS * 31, "class {class}");
        }
        assert_eq!(units(class_of(33)) * UNIT, 34);
        assert_eq!(units(class_of(8 + 16 + 1024)) * UNIT, 1056);
    }
}
