//! One cache line of the table: twelve slots, each a tag of 8 bits and the address of a block.
//!
//! Only the thread that holds the store's lock changes it, but scouts may read it at any time, so that all of it is atomics.
//! A block is written before its tag, and stays when the tag is removed: a scout that sees a tag sees a block that had it,
//! then or later.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Slots of a group.
pub(super) const SLOTS: usize = 12;

/// Bytes of the two words: a tag for each slot, 0 where it is empty; the number of entries that found this group full and
/// went on to the next, where 255 means too many to count; an unused byte; and a bit for each slot whose entry expires.
const OVERFLOW_AT: usize = SLOTS;
const EXPIRING_AT: usize = SLOTS + 2;
const WORD: usize = size_of::<u64>();

/// A group. The tags come first, so that two loads read all of them.
///
/// It is generic for the models that run under loom.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Group<W = AtomicU64, B = AtomicU32> {
    words: [W; 2],
    blocks: [B; SLOTS],
}

/// An atomic number with the orderings that a group needs.
pub(super) trait Word<T> {
    fn acquire(&self) -> T;
    fn relaxed(&self) -> T;
    fn release(&self, value: T);
    fn set_relaxed(&self, value: T);
}

/// Implements [`Word`] by the methods of an atomic.
macro_rules! word {
    ($atomic:ty, $number:ty) => {
        impl Word<$number> for $atomic {
            #[inline(always)]
            fn acquire(&self) -> $number {
                self.load(std::sync::atomic::Ordering::Acquire)
            }
            #[inline(always)]
            fn relaxed(&self) -> $number {
                self.load(std::sync::atomic::Ordering::Relaxed)
            }
            #[inline(always)]
            fn release(&self, value: $number) {
                self.store(value, std::sync::atomic::Ordering::Release);
            }
            #[inline(always)]
            fn set_relaxed(&self, value: $number) {
                self.store(value, std::sync::atomic::Ordering::Relaxed);
            }
        }
    };
}

word!(AtomicU64, u64);
word!(AtomicU32, u32);

/// Returns the tag of a hash; never 0.
#[inline]
pub(super) fn tag_of(hash: u64) -> u8 {
    let tag = (hash >> 8) as u8;
    tag + u8::from(tag == 0)
}

impl<W: Word<u64>, B: Word<u32>> Group<W, B> {
    /// Empties the group, and its overflow count.
    pub(super) fn clear(&self) {
        self.words.iter().for_each(|word| word.release(0));
    }

    #[inline]
    pub(super) fn block(&self, slot: usize) -> u32 {
        self.blocks[slot].relaxed()
    }

    pub(super) fn set_block(&self, slot: usize, block: u32) {
        self.blocks[slot].set_relaxed(block);
    }

    #[inline]
    fn word(&self, word: usize) -> u64 {
        // Acquire, since a scout reads a block after this.
        self.words[word].acquire()
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        (self.word(at / WORD) >> (at % WORD * 8)) as u8
    }

    /// Replaces the bits of `mask`, from a byte on.
    #[inline]
    fn put(&self, at: usize, mask: u64, bits: u64) {
        let shift = at % WORD * 8;
        let word = self.word(at / WORD) & !(mask << shift) | bits << shift;
        self.words[at / WORD].release(word);
    }

    /// Returns the slots with a tag.
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
        use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
        let [low, high] = [self.word(0), self.word(1)].map(u64::cast_signed);
        // SAFETY: the program is compiled for processors that have these instructions.
        let equal = unsafe {
            let tags = _mm_set_epi64x(high, low);
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag.cast_signed())))
        };
        Slots(equal as u32 & ((1 << SLOTS) - 1))
    }

    /// [`Group::with_tag`] without SIMD: eight bytes of a word at a time.
    #[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2"))))]
    fn with_tag_swar(&self, tag: u8) -> Slots {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        let equal = |word: u64| {
            let difference = word ^ (u64::from(tag) * 0x0101_0101_0101_0101);
            // The upper bit of each byte that is 0, and no other: nothing is carried from one byte to the next.
            let zeros = !(((difference & LOW) + LOW) | difference | LOW);
            ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
        };
        Slots((equal(self.word(0)) | equal(self.word(1)) << 8) & ((1 << SLOTS) - 1))
    }

    pub(super) fn used(&self) -> Slots {
        Slots(!self.with_tag(0).0 & ((1 << SLOTS) - 1))
    }

    pub(super) fn expiring(&self) -> Slots {
        Slots((self.word(1) >> ((EXPIRING_AT - WORD) * 8)) as u32)
    }

    pub(super) fn is_expiring(&self, slot: usize) -> bool {
        self.expiring().0 & 1 << slot != 0
    }

    pub(super) fn set_expiring(&self, slot: usize, expires: bool) {
        self.put(EXPIRING_AT, 1 << slot, u64::from(expires) << slot);
    }

    /// Fills an empty slot. False: there is none.
    #[inline]
    pub(super) fn insert(&self, tag: u8, block: u32, expires: bool) -> bool {
        let Some(slot) = self.with_tag(0).next() else { return false };
        self.set_block(slot, block);
        self.put(slot, 0xff, u64::from(tag));
        if expires {
            self.set_expiring(slot, true);
        }
        true
    }

    #[inline]
    pub(super) fn remove(&self, slot: usize) {
        self.put(slot, 0xff, 0);
        self.set_expiring(slot, false);
    }

    /// True if entries that belong here may be in the next group.
    #[inline]
    pub(super) fn has_overflowed(&self) -> bool {
        self.byte(OVERFLOW_AT) != 0
    }

    /// Notes that an entry has found this group full.
    #[inline]
    pub(super) fn add_overflow(&self) {
        self.put(OVERFLOW_AT, 0xff, self.byte(OVERFLOW_AT).saturating_add(1).into());
    }

    /// Notes that an entry has been removed that had gone on to the next group.
    #[inline]
    pub(super) fn remove_overflow(&self) {
        let passed = self.byte(OVERFLOW_AT);
        if passed != u8::MAX {
            self.put(OVERFLOW_AT, 0xff, passed.saturating_sub(1).into());
        }
    }
}

/// Some of the slots of a group, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots(u32);

impl Slots {
    /// Returns those from a slot on, or all if there are none.
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
    use std::sync::Arc;

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
            let group: Group = Group::default();
            group.put(OVERFLOW_AT, 0xffff_ffff, random.u32(..).into());
            let mine: [u8; SLOTS] = std::array::from_fn(|_| tags[random.usize(..tags.len())]);
            (0..SLOTS).for_each(|slot| group.put(slot, 0xff, mine[slot].into()));
            for tag in tags {
                let expected: Vec<usize> = (0..SLOTS).filter(|&slot| mine[slot] == tag).collect();
                assert_eq!(group.with_tag(tag).collect::<Vec<_>>(), expected);
                assert_eq!(group.with_tag_swar(tag).collect::<Vec<_>>(), expected);
            }
        }
    }

    #[test]
    fn an_overflow_count_that_was_too_high_stays_so() {
        let group: Group = Group::default();
        (0..300).for_each(|_| group.add_overflow());
        (0..300).for_each(|_| group.remove_overflow());
        assert!(group.has_overflowed());
    }

    type ModelGroup = Group<loom::sync::atomic::AtomicU64, loom::sync::atomic::AtomicU32>;
    word!(loom::sync::atomic::AtomicU64, u64);
    word!(loom::sync::atomic::AtomicU32, u32);

    /// If no block has been freed since, a scout without the lock finds a block that is in use, while entries are added,
    /// removed and moved. `announce` publishes that a block has been freed.
    fn look_while_entries_change(
        announce: impl Fn(&loom::sync::atomic::AtomicU64, u64) + Send + Sync + Copy + 'static,
    ) {
        loom::model(move || {
            let group = Arc::new(ModelGroup::default());
            let generation = Arc::new(loom::sync::atomic::AtomicU64::new(1));
            let in_use = Arc::new(loom::sync::Mutex::new([false, true, true, false]));
            group.insert(7, 1, false);
            group.insert(7, 2, false);
            let writer = {
                let (group, generation, in_use) = (Arc::clone(&group), Arc::clone(&generation), Arc::clone(&in_use));
                loom::thread::spawn(move || {
                    let mut in_use = in_use.lock().unwrap();
                    // An entry is removed; another one is added, in its slot and then in its block.
                    group.remove(0);
                    announce(&generation, 2);
                    (in_use[1], in_use[3]) = (false, true);
                    group.insert(7, 3, false);
                })
            };
            let seen = generation.acquire();
            let found = group.with_tag(7).next().map(|slot| group.block(slot));
            let in_use = in_use.lock().unwrap();
            if let Some(block) = found
                && generation.relaxed() == seen
            {
                assert!(in_use[block as usize], "block {block} of generation {seen} is free");
            }
            drop(in_use);
            writer.join().unwrap();
        });
    }

    #[test]
    fn model_a_hint_of_this_generation_is_an_entry() {
        look_while_entries_change(|generation, next| generation.release(next));
    }

    /// The model finds the fault that it is made for.
    #[test]
    #[should_panic(expected = "is free")]
    fn model_finds_a_generation_that_does_not_change() {
        look_while_entries_change(|_, _| ());
    }
}
