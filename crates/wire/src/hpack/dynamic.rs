//! The dynamic table (RFC 7541, sections 2.3.2 and 4).

use std::collections::VecDeque;

/// Bytes that an entry counts beside its name and value (section 4.1).
const ENTRY_OVERHEAD: usize = 32;

/// Fields that a peer's encoder has added, newest first. Nothing is allocated before the first one.
#[derive(Debug)]
pub(super) struct DynamicTable {
    /// Newest last.
    entries: VecDeque<Entry>,
    /// Names and values, oldest first, behind those that have gone.
    bytes: Vec<u8>,
    /// Size by the protocol's count.
    size: usize,
    size_max: usize,
    /// Number of changes so far.
    revision: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Offset in the bytes; lowered when those before it are given up.
    start: usize,
    name_len: usize,
    value_len: usize,
}

impl Entry {
    fn size(self) -> usize {
        self.name_len + self.value_len + ENTRY_OVERHEAD
    }
}

impl DynamicTable {
    pub(super) fn new(size_max: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: Vec::new(), size: 0, size_max, revision: 0 }
    }

    /// Returns a number that stays the same as long as the table does.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the field at an index, of which 0 is the newest.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let at = self.entries.len().checked_sub(index + 1)?;
        let Entry { start, name_len, value_len } = *self.entries.get(at)?;
        let (name, rest) = self.bytes.get(start..)?.split_at(name_len);
        Some((name, &rest[..value_len]))
    }

    /// Adds a field, for which the oldest ones go. One that is larger than the table empties it.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let entry = Entry { start: self.bytes.len(), name_len: name.len(), value_len: value.len() };
        if entry.size() > self.size_max {
            self.revision += u64::from(!self.entries.is_empty());
            self.shrink_to(0);
            return;
        }
        self.revision += 1;
        self.shrink_to(self.size_max - entry.size());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push_back(Entry { start, ..entry });
        self.size += entry.size();
    }

    /// Sets the maximum; what does not fit any more goes.
    pub(super) fn set_size_max(&mut self, size_max: usize) {
        self.revision += u64::from(self.size_max != size_max);
        self.size_max = size_max;
        self.shrink_to(size_max);
    }

    fn shrink_to(&mut self, size: usize) {
        while self.size > size {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.size -= oldest.size();
        }
        let gone = self.entries.front().map_or(self.bytes.len(), |oldest| oldest.start);
        // Not for every entry: so each byte is moved once at most.
        if gone > self.size_max || self.entries.is_empty() {
            self.bytes.drain(..gone);
            self.entries.iter_mut().for_each(|entry| entry.start -= gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (Vec<u8>, Vec<u8>);

    proptest! {
        /// A list that is cut behind where the sizes of its entries exceed the maximum.
        #[test]
        fn the_newest_entries_that_fit_are_kept(
            steps in proptest::collection::vec((0..20_usize, 0..90_usize, proptest::option::weighted(0.1, 0..500_usize)), 0..200),
        ) {
            let mut table = DynamicTable::new(300);
            let (mut model, mut size_max): (Vec<Owned>, usize) = (Vec::new(), 300);
            for (number, (name, value, resized)) in steps.into_iter().enumerate() {
                let (name, value) = (vec![b'n'; name], vec![number as u8; value]);
                match resized {
                    Some(resized) => {
                        size_max = resized;
                        table.set_size_max(resized);
                    }
                    None => {
                        table.insert(&name, &value);
                        model.insert(0, (name, value));
                    }
                }
                let mut size = 0;
                let fits = |(name, value): &&Owned| {
                    size += name.len() + value.len() + 32;
                    size <= size_max
                };
                let kept = model.iter().take_while(fits).count();
                model.truncate(kept);
                for (index, (name, value)) in model.iter().enumerate() {
                    prop_assert_eq!(table.get(index), Some((&name[..], &value[..])));
                }
                prop_assert_eq!(table.get(model.len()), None);
                prop_assert!(table.bytes.len() <= 2 * 500 + 110);
            }
        }
    }
}
