//! Memory: advice about it (madvise(2)), and how much there is.

use std::{
    collections::VecDeque,
    fs, io,
    mem::MaybeUninit,
    ops::Range,
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use nix::libc;

const PAGE: usize = 4096;
/// The advice of madvise(2) that pages become a huge page now. The crate libc has it for glibc alone.
const MADV_COLLAPSE: libc::c_int = 25;

/// Memory that shall be united into huge pages, the oldest first.
static ADVISED: Mutex<VecDeque<Advised>> = Mutex::new(VecDeque::new());
/// Most pieces of it; what is beyond stays as it is.
const ADVISED_MAX: usize = 1 << 16;

struct Advised {
    range: Range<usize>,
    since: Instant,
}

/// Asks for huge pages, which mean fewer misses of the translation cache where memory is read at random. The memory consists
/// of small pages by now: [`unite_advised`] unites them, unless some of it is released before.
pub fn advise_huge_later(memory: NonNull<[MaybeUninit<u8>]>) {
    let mut advised = lock_advised();
    if advised.len() < ADVISED_MAX {
        let start = memory.as_ptr().addr();
        advised.push_back(Advised { range: start..start + memory.len(), since: Instant::now() });
    }
}

/// Unites the small pages of the oldest piece of memory that was advised by [`advise_huge_later`] so long ago. The kernel
/// copies it, and whoever needs it meanwhile waits, usually for less than a millisecond; before, it waits for work of its own
/// on all CPUs, which takes longer on a busy machine. Without MADV_COLLAPSE (Linux 6.1) khugepaged is asked to do it in its own
/// time, 16 MiB in 10 s by default. False: there is no such piece.
pub fn unite_advised(age: Duration) -> bool {
    let oldest = lock_advised().pop_front_if(|piece| piece.since.elapsed() >= age);
    let Some(Advised { range, .. }) = oldest else { return false };
    let (start, len) = (std::ptr::without_provenance_mut(range.start), range.len());
    // SAFETY: the contents stay what they are; of memory that has been unmapped meanwhile the kernel says so, and where there
    // is other memory by now it may as well have huge pages.
    if unsafe { libc::madvise(start, len, MADV_COLLAPSE) } != 0 {
        // SAFETY: as above.
        unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
    }
    true
}

fn lock_advised() -> MutexGuard<'static, VecDeque<Advised>> {
    ADVISED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the kernel back what the memory holds; it reads as zeros afterwards.
pub fn release(memory: &mut [MaybeUninit<u8>]) {
    // As huge pages it would be there again, as a whole.
    let Range { start, end } = memory.as_ptr_range();
    lock_advised().retain(|piece| piece.range.end <= start.addr() || end.addr() <= piece.range.start);
    let whole = discard(memory);
    let (head, rest) = memory.split_at_mut(whole.start);
    head.fill(MaybeUninit::new(0));
    rest[whole.len()..].fill(MaybeUninit::new(0));
}

/// Returns the offset of the first whole page in so many bytes, and the length of all whole pages.
fn whole_pages(memory: *const MaybeUninit<u8>, len: usize) -> (usize, usize) {
    let start = memory.align_offset(PAGE).min(len);
    (start, (len - start) / PAGE * PAGE)
}

/// Gives the whole pages of `memory` back, and says which bytes they are: none if the kernel refuses.
fn discard(memory: &mut [MaybeUninit<u8>]) -> Range<usize> {
    let (start, len) = whole_pages(memory.as_ptr(), memory.len());
    let pages = &mut memory[start..start + len];
    // SAFETY: the pages are borrowed exclusively and hold no values, only bytes that may as well be uninitialized, so
    // that nobody can tell when the kernel exchanges them.
    match unsafe { libc::madvise(pages.as_mut_ptr().cast(), len, libc::MADV_DONTNEED) } {
        0 => start..start + len,
        _ => 0..0,
    }
}

/// Keeps little of what is freed: blocks from 2 MiB on go back at once, and so does what is free at the end of a heap. By
/// default glibc's limits grow with the largest block that has ever been freed (mallopt(3)). Small blocks are not kept
/// apart, either: [`trim_heap`] would unite them with the end of a thread's heap and leave that end where it is.
pub fn keep_little_free() {
    #[cfg(target_env = "gnu")]
    {
        const BYTES: libc::c_int = 2 << 20;
        // SAFETY: no argument is a pointer; the settings are those of blocks to come.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, BYTES) };
        // SAFETY: as above.
        unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, BYTES) };
        // SAFETY: as above.
        unsafe { libc::mallopt(libc::M_MXFAST, 0) };
    }
}

/// Gives the kernel back the pages of the heap that hold nothing (malloc_trim(3)); other allocators than glibc's do so by
/// themselves. Threads that allocate meanwhile wait, for milliseconds where much has been freed.
pub fn trim_heap() {
    // SAFETY: no argument is a pointer, and the function changes nothing that is allocated.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Memory of this process that the kernel holds in RAM, in bytes (proc(5), `statm`).
pub fn resident() -> io::Result<u64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or(io::ErrorKind::InvalidData)?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// Memory of the machine, in bytes (sysinfo(2)).
pub fn total() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_memory_reads_as_zeros() {
        for (from, to) in [(0, 5 * PAGE), (1, 5 * PAGE - 1), (100, 200), (PAGE, 2 * PAGE), (0, 0)] {
            let mut memory = vec![MaybeUninit::new(7_u8); 5 * PAGE];
            release(&mut memory[from..to]);
            // SAFETY: every byte was initialized above, and `release` promises zeros.
            let bytes: Vec<u8> = memory.iter().map(|byte| unsafe { byte.assume_init() }).collect();
            for (at, &byte) in bytes.iter().enumerate() {
                assert_eq!(byte, if (from..to).contains(&at) { 0 } else { 7 }, "byte {at} of {from}..{to}");
            }
        }
    }

    #[test]
    fn what_is_resident_is_part_of_what_there_is() {
        let resident = resident().unwrap();
        assert!(resident > 0 && resident < total(), "{resident} of {}", total());
    }

    /// Holds with huge pages and on a kernel without them.
    #[test]
    fn memory_that_is_united_holds_what_it_held() {
        const HUGE: usize = 2 << 20;
        let mut memory: Vec<_> = (0..2 * HUGE).map(|at| MaybeUninit::new(at as u8)).collect();
        let start = memory.as_ptr().align_offset(HUGE);
        advise_huge_later(NonNull::from(&mut memory[start..start + HUGE]));
        assert!(!unite_advised(Duration::MAX), "it is too early");
        assert!(unite_advised(Duration::ZERO));
        // SAFETY: every byte was initialized above.
        assert!(memory.iter().enumerate().all(|(at, byte)| unsafe { byte.assume_init() } == at as u8));
        assert!(!unite_advised(Duration::ZERO));
        // As a huge page it would hold what is released.
        advise_huge_later(NonNull::from(&mut memory[start..start + HUGE]));
        release(&mut memory[start + HUGE - PAGE..]);
        assert!(!unite_advised(Duration::ZERO));
    }
}
