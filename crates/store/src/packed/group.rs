//! One cache line of the table: twelve slots, each a tag of 8 bits and the address of a block.

/// Slots of a group.
pub(super) const SLOTS: usize = 12;

/// Tags first, so that one load of 16 bytes has all of them.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Group {
    /// 0: the slot is empty.
    tags: [u8; SLOTS],
    /// Entries that found this group full on their way; 255: too many to count.
    passed: u8,
    _unused: u8,
    /// A bit for each slot whose entry expires.
    expiring: u16,
    blocks: [u32; SLOTS],
}

/// What a group keeps of a hash; never 0.
#[inline]
pub(super) fn tag_of(hash: u64) -> u8 {
    let tag = (hash >> 8) as u8;
    tag + u8::from(tag == 0)
}

impl Group {
    #[inline]
    pub(super) fn block(&self, slot: usize) -> u32 {
        self.blocks[slot]
    }

    pub(super) fn set_block(&mut self, slot: usize, block: u32) {
        self.blocks[slot] = block;
    }

    /// Slots with a tag.
    #[inline]
    pub(super) fn with_tag(&self, tag: u8) -> Slots {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        return self.with_tag_sse2(tag);
        #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
        return self.with_tag_swar(tag);
    }

    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    #[inline]
    fn with_tag_sse2(&self, tag: u8) -> Slots {
        use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_load_si128, _mm_movemask_epi8, _mm_set1_epi8};
        // SAFETY: the program is compiled for processors that have these instructions; `repr(C)` puts 64 bytes without
        // padding here, aligned to 64, of which the first 16 are loaded.
        let equal = unsafe {
            let tags = _mm_load_si128(std::ptr::from_ref(self).cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag.cast_signed())))
        };
        Slots(equal as u32 & ((1 << SLOTS) - 1))
    }

    /// The same, eight bytes of a word at a time.
    #[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2"))))]
    fn with_tag_swar(&self, tag: u8) -> Slots {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        let mut words = [0_u8; 16];
        words[..SLOTS].copy_from_slice(&self.tags);
        // Beyond the twelve, anything but the tag.
        words[SLOTS..].fill(!tag);
        let equal = |half: &[u8]| {
            let word = half.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            let difference = word ^ (u64::from(tag) * 0x0101_0101_0101_0101);
            // The upper bit of each byte that is 0, and no other: nothing is carried from one byte to the next.
            let zeros = !(((difference & LOW) + LOW) | difference | LOW);
            ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
        };
        Slots(equal(&words[..8]) | equal(&words[8..]) << 8)
    }

    pub(super) fn used(&self) -> Slots {
        Slots(!self.with_tag(0).0 & ((1 << SLOTS) - 1))
    }

    pub(super) fn expiring(&self) -> Slots {
        Slots(u32::from(self.expiring))
    }

    pub(super) fn is_expiring(&self, slot: usize) -> bool {
        self.expiring & 1 << slot != 0
    }

    pub(super) fn set_expiring(&mut self, slot: usize, expires: bool) {
        self.expiring = self.expiring & !(1 << slot) | u16::from(expires) << slot;
    }

    /// Fills an empty slot. False: there is none.
    #[inline]
    pub(super) fn insert(&mut self, tag: u8, block: u32, expires: bool) -> bool {
        let Some(slot) = self.with_tag(0).next() else { return false };
        (self.tags[slot], self.blocks[slot]) = (tag, block);
        self.expiring |= u16::from(expires) << slot;
        true
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: usize) {
        (self.tags[slot], self.blocks[slot]) = (0, 0);
        self.expiring &= !(1 << slot);
    }

    /// Entries that belong here may be in the next group.
    #[inline]
    pub(super) fn is_passed(&self) -> bool {
        self.passed != 0
    }

    #[inline]
    pub(super) fn pass(&mut self) {
        self.passed = self.passed.saturating_add(1);
    }

    /// One that passed is no longer there.
    #[inline]
    pub(super) fn unpass(&mut self) {
        if self.passed != u8::MAX {
            self.passed -= u8::from(self.passed > 0);
        }
    }
}

/// Some of the slots of a group, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots(u32);

impl Slots {
    /// Those from a slot on, or all if there are none.
    pub(super) fn from(self, slot: usize) -> Self {
        match self.0 >> slot << slot {
            0 => self,
            later => Self(later),
        }
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_a_cache_line() {
        assert_eq!((size_of::<Group>(), align_of::<Group>()), (64, 64));
    }

    #[test]
    fn both_ways_to_find_a_tag_agree() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            // Few different tags, among them neighbours that a careless comparison takes for each other.
            let tags = [0, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff];
            let mut group = Group { passed: random.u8(..), expiring: random.u16(..), ..Group::default() };
            group.tags = std::array::from_fn(|_| tags[random.usize(..tags.len())]);
            for tag in tags {
                let expected: Vec<usize> = (0..SLOTS).filter(|&slot| group.tags[slot] == tag).collect();
                assert_eq!(group.with_tag(tag).collect::<Vec<_>>(), expected);
                assert_eq!(group.with_tag_swar(tag).collect::<Vec<_>>(), expected);
            }
        }
    }

    #[test]
    fn too_many_that_passed_stay_too_many() {
        let mut group = Group::default();
        (0..300).for_each(|_| group.pass());
        (0..300).for_each(|_| group.unpass());
        assert!(group.is_passed());
    }
}
