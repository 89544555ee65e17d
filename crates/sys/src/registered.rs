//! Memory that is registered with a ring (io_uring_register(2)): one mapping, out of which runs of pages are lent as
//! [`Bytes`].

use std::{collections::BTreeMap, fmt, io, slice, sync::Arc};

use bytes::Bytes;
use memmap2::{MmapOptions, MmapRaw};
use parking_lot::Mutex;

const PAGE: usize = 4096;
/// Limit of one buffer in the kernel, in bytes.
const REGION_MAX: usize = 1 << 30;

/// Anonymous memory of one piece. A ring that it is registered with keeps all of it resident.
pub struct Region {
    memory: MmapRaw,
    free: Mutex<Runs>,
}

/// Free pages: where each run begins, and how many there are.
#[derive(Debug, Default)]
struct Runs(BTreeMap<usize, usize>);

impl Region {
    /// As many whole pages as hold `bytes`.
    ///
    /// # Errors
    /// `InvalidInput` when there are none, or more than 1 GiB of them; those of mmap(2).
    pub fn new(bytes: usize) -> io::Result<Arc<Self>> {
        let len = bytes.checked_next_multiple_of(PAGE).filter(|len| (1..=REGION_MAX).contains(len));
        let len = len.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "registered memory must be at least 1 byte and at most 1 GiB")
        })?;
        let memory = MmapOptions::new().len(len).map_anon()?.into();
        Ok(Arc::new(Self { memory, free: Mutex::new(Runs(BTreeMap::from([(0, len / PAGE)]))) }))
    }

    /// Bytes that `fill` writes, in pages of their own; they are free again once the last clone or slice is dropped.
    /// `None` when there is no run of pages that holds `len`.
    ///
    /// # Errors
    /// Those of `fill`.
    pub fn lend(
        self: &Arc<Self>,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Option<Bytes>> {
        let pages = len.div_ceil(PAGE).max(1);
        let Some(first) = self.runs(|runs| runs.take(pages)) else { return Ok(None) };
        let run = PageRun { region: Arc::clone(self), first, pages, len };
        // SAFETY: the run is within the mapping and was free until now; nobody else has it before `run` is dropped.
        fill(unsafe { slice::from_raw_parts_mut(self.memory.as_mut_ptr().add(first * PAGE), len) })?;
        Ok(Some(Bytes::from_owner(run)))
    }

    /// All of these bytes, of which there are some, lie in it.
    #[inline]
    pub fn contains(&self, bytes: &[u8]) -> bool {
        let offset = (bytes.as_ptr() as usize).wrapping_sub(self.memory.as_ptr() as usize);
        !bytes.is_empty() && offset < self.memory.len() && bytes.len() <= self.memory.len() - offset
    }

    /// Address of its first byte.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.memory.as_mut_ptr()
    }

    /// Bytes of it, lent and free.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Bytes of the pages that are lent.
    pub fn lent(&self) -> usize {
        self.len() - self.runs(|runs| runs.0.values().sum::<usize>()) * PAGE
    }

    fn runs<T>(&self, f: impl FnOnce(&mut Runs) -> T) -> T {
        f(&mut self.free.lock())
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A run of pages in use.
struct PageRun {
    region: Arc<Region>,
    first: usize,
    pages: usize,
    len: usize,
}

impl AsRef<[u8]> for PageRun {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: within the mapping, and nobody writes to the run until `self` is dropped.
        unsafe { slice::from_raw_parts(self.region.memory.as_ptr().add(self.first * PAGE), self.len) }
    }
}

impl Drop for PageRun {
    fn drop(&mut self) {
        self.region.runs(|runs| runs.give_back(self.first, self.pages));
    }
}

impl Runs {
    /// The first of `pages` free pages in a row, from the first run that is long enough.
    fn take(&mut self, pages: usize) -> Option<usize> {
        let (&first, &len) = self.0.iter().find(|&(_, &len)| len >= pages)?;
        self.0.remove(&first);
        if len > pages {
            self.0.insert(first + pages, len - pages);
        }
        Some(first)
    }

    fn give_back(&mut self, mut first: usize, mut pages: usize) {
        if let Some((&before, &len)) = self.0.range(..first).next_back()
            && before + len == first
        {
            (first, pages) = (before, len + pages);
        }
        if let Some(after) = self.0.remove(&(first + pages)) {
            pages += after;
        }
        self.0.insert(first, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lend(region: &Arc<Region>, len: usize, with: u8) -> Option<Bytes> {
        let fill = |bytes: &mut [u8]| {
            bytes.fill(with);
            Ok(())
        };
        region.lend(len, fill).unwrap()
    }

    /// A lent run is nobody else's until its last slice is gone; then its pages join their neighbours again.
    #[test]
    fn pages_are_lent_once_and_come_back_whole() {
        let region = Region::new(16 * PAGE - 5).unwrap();
        assert_eq!((region.len(), region.lent()), (16 * PAGE, 0));
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let sizes = [PAGE, 1, 5 * PAGE + 1, 8 * PAGE];
            let mut lent: Vec<_> =
                (1..).zip(sizes).map(|(with, len)| Some(lend(&region, len, with).unwrap())).collect();
            assert_eq!(region.lent(), region.len());
            assert!(lend(&region, 1, 9).is_none());
            for (with, bytes) in (1..).zip(&lent) {
                let bytes = bytes.as_ref().unwrap();
                assert!(region.contains(bytes) && bytes.iter().all(|&byte| byte == with));
            }
            let slice = lent[2].as_ref().unwrap().slice(PAGE..PAGE + 2);
            for at in order {
                lent[at] = None;
            }
            assert_eq!((region.lent(), &slice[..]), (6 * PAGE, &[3, 3][..]), "a slice keeps the whole");
            drop(slice);
            assert_eq!((region.lent(), region.runs(|runs| runs.0.len())), (0, 1));
        }
    }

    #[test]
    fn what_cannot_be_filled_is_free_again() {
        let region = Region::new(1).unwrap();
        assert!(region.lend(9, |_| Err(io::ErrorKind::UnexpectedEof.into())).is_err());
        assert_eq!(region.lent(), 0);
        assert!(lend(&region, PAGE + 1, 1).is_none());
    }

    #[test]
    fn other_memory_is_not_in_it() {
        let (region, other) = (Region::new(PAGE).unwrap(), Region::new(PAGE).unwrap());
        let (ours, theirs) = (lend(&region, PAGE, 1).unwrap(), lend(&other, PAGE, 1).unwrap());
        assert!(region.contains(&ours) && region.contains(&ours[PAGE - 1..]));
        assert!(!region.contains(&theirs) && !region.contains(&[]) && !region.contains(&[1, 2, 3]));
        for bad in [0, REGION_MAX + 1, usize::MAX] {
            assert_eq!(Region::new(bad).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
