//! Resident memory: the heap gives back what is free, and with a limit entries make room for what it keeps.

use std::sync::atomic::Ordering::Relaxed;

use store::Store;

use crate::state::ServerState;

/// Least memory whose loss makes the heap give back what is free: a share of what there was, and never less than so many
/// bytes.
const FREED_SHARE: usize = 16;
const FREED_BYTES_MIN: usize = 1 << 20;
/// Memory beyond what is in use at which a limited server's heap gives back what is free: a share of what is in use, and never
/// less than so many bytes.
const EXCESS_SHARE: usize = 64;
const EXCESS_BYTES_MIN: usize = 4 << 20;
/// Resident memory beyond what is in use for which entries need not make room: a share of the limit, and never less than so many
/// bytes.
const WASTE_SHARE: usize = 256;
const WASTE_BYTES_MIN: usize = 2 << 20;
/// Most that they make room for, as a share of the limit, and its unit in bytes.
const WITHHELD_SHARE: usize = 16;
const WITHHELD_UNIT: usize = 256 << 10;
/// Ticks after which memory is taken to fall no further: what readers without a lock may look at is freed later.
const STABLE_TICKS: u32 = 5;
/// Looks at the resident memory in the time of one tick while keys are being evicted: what lay in the heap makes way for values
/// elsewhere, at hundreds of megabytes in a second.
const LOOKS: u32 = 10;

/// Memory that is resident, as seen from time to time.
#[derive(Debug, Default)]
pub(super) struct Resident {
    heap: Heap,
    allowance: Allowance,
    /// Evictions that have been counted.
    evicted: u64,
    is_evicting: bool,
    /// Looks since the last tick, itself included.
    looks: u32,
}

impl Resident {
    /// Returns the number of looks in the time of one tick.
    pub(super) fn looks(&self) -> u32 {
        if self.is_evicting { LOOKS } else { 1 }
    }

    /// Counts a look. False: it is time for a whole tick.
    pub(super) fn is_look(&mut self) -> bool {
        self.looks = (self.looks + 1) % self.looks();
        self.looks != 0
    }

    /// Has the heap give back what is free, if that is much.
    pub(super) fn look<S: Store>(&mut self, state: &ServerState<S>) {
        let limited_excess = || state.settings.memory_max().and_then(|_| excess(state));
        let mut excess = limited_excess();
        if excess.is_some_and(|excess| self.heap.has_excess(excess)) {
            sys::memory::trim_heap();
            excess = limited_excess();
            self.heap.floor = excess.map(|excess| excess.bytes);
        }
        let refuses = !self.is_evicting && !state.settings.policy().evicts_any_entry();
        self.allowance.adjust(state, excess.map(|excess| excess.bytes), refuses);
    }

    /// Does what a look does, and more where much has been freed: `bytes` are those of entries and tables.
    pub(super) fn tick<S: Store>(&mut self, state: &ServerState<S>, bytes: usize) {
        if self.heap.should_trim(bytes + state.clients.memory.bytes()) {
            sys::memory::trim_heap();
            self.heap.floor = None;
        }
        self.look(state);
        let Some(_pin) = state.clients.pause.keep_scripts_out() else { return };
        let evicted = state.space.counts().evicted;
        self.is_evicting = evicted != self.evicted;
        self.evicted = evicted;
    }
}

/// Resident bytes beside those in use.
#[derive(Clone, Copy, Debug)]
struct Excess {
    bytes: usize,
    in_use: usize,
}

/// Returns `None` where it is not known at present.
fn excess<S: Store>(state: &ServerState<S>) -> Option<Excess> {
    let _pin = state.clients.pause.keep_scripts_out()?;
    let resident = usize::try_from(sys::memory::resident().ok()?).ok()?;
    let in_use = state.space.bytes() + state.clients.memory.bytes();
    Some(Excess { bytes: resident.saturating_sub(in_use), in_use })
}

/// Memory in use, as seen from tick to tick.
#[derive(Debug, Default)]
struct Heap {
    highest: usize,
    last: usize,
    /// Ticks since it has last fallen.
    stable_ticks: u32,
    /// Least excess since the heap was last trimmed, and just afterwards: the program itself and what no trimming gives back.
    floor: Option<usize>,
}

impl Heap {
    /// Notes the bytes in use. Returns true if many have been freed and it seems that no more will be for now: the
    /// allocator keeps them until it is told.
    fn should_trim(&mut self, bytes: usize) -> bool {
        self.stable_ticks = if bytes < self.last { 0 } else { self.stable_ticks.saturating_add(1) };
        self.last = bytes;
        self.highest = self.highest.max(bytes);
        let freed = self.highest - bytes;
        let should_trim = self.stable_ticks >= STABLE_TICKS && freed >= FREED_BYTES_MIN.max(self.highest / FREED_SHARE);
        if should_trim {
            self.highest = bytes;
        }
        should_trim
    }

    /// Returns true if the heap seems to hold much that is free, as where large values have made way for small ones: those lie
    /// elsewhere, and what is in use does not fall.
    fn has_excess(&mut self, Excess { bytes, in_use }: Excess) -> bool {
        let floor = self.floor.map_or(bytes, |floor| floor.min(bytes));
        self.floor = Some(floor);
        bytes - floor >= EXCESS_BYTES_MIN.max(in_use / EXCESS_SHARE)
    }
}

/// The limit that entries are held to: the one asked for, less what stays resident and is of no use to them.
#[derive(Debug, Default)]
struct Allowance {
    /// Least excess that there was: the program itself.
    program: Option<usize>,
    /// Limit, and the bytes of it that no entry may have, as the shards know them; `None`: as they were configured.
    applied: Option<(usize, usize)>,
}

impl Allowance {
    /// Gives the shards a limit that suits what is resident at present.
    fn adjust<S: Store>(&mut self, state: &ServerState<S>, excess: Option<usize>, refuses: bool) {
        let Some(_pin) = state.clients.pause.keep_scripts_out() else { return };
        let wanted = match (state.settings.memory_max(), excess) {
            (None, _) => None,
            (Some(_), None) => return,
            (Some(limit), Some(excess)) => Some(self.within(limit, excess, refuses)),
        };
        let is_withheld = self.applied.is_some() || wanted.is_some_and(|(_, withheld)| withheld > 0);
        if is_withheld && wanted != self.applied {
            state.space.set_memory_max(wanted.map(|(limit, withheld)| limit - withheld));
            state.gauges.memory_withheld.store(wanted.map_or(0, |(_, withheld)| withheld as u64), Relaxed);
            self.applied = wanted;
        }
    }

    /// Returns the limit, and what is withheld of it: nothing where less `refuses` writes instead of evicting.
    fn within(&mut self, limit: usize, excess: usize, refuses: bool) -> (usize, usize) {
        let withheld = self.withheld(limit, excess);
        (limit, if refuses { 0 } else { withheld })
    }

    fn withheld(&mut self, limit: usize, excess: usize) -> usize {
        let program = *self.program.insert(self.program.map_or(excess, |program| program.min(excess)));
        let waste = (excess - program).saturating_sub(WASTE_BYTES_MIN.max(limit / WASTE_SHARE));
        waste.min(limit / WITHHELD_SHARE).next_multiple_of(WITHHELD_UNIT).min(limit / WITHHELD_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_looked_at_ten_times_in_a_tick_while_keys_are_evicted() {
        let mut resident = Resident::default();
        assert!((0..5).all(|_| !resident.is_look()), "whole ticks");
        resident.is_evicting = true;
        let looks: Vec<_> = (0..20).map(|_| resident.is_look()).collect();
        assert_eq!(looks.iter().filter(|is_look| !**is_look).count(), 2, "{looks:?}");
        assert!(!looks[9] && !looks[19]);
        resident.is_look();
        resident.is_evicting = false;
        assert!(!resident.is_look());
    }

    #[test]
    fn the_heap_is_trimmed_once_much_has_been_freed() {
        const MIB: usize = 1 << 20;
        let mut heap = Heap::default();
        let mut trims = |sizes: &[usize]| sizes.iter().map(|mib| heap.should_trim(mib * MIB)).collect::<Vec<_>>();
        assert_eq!(trims(&[0, 10, 100, 100, 95, 95, 94]), [false; 7], "little is freed");
        assert_eq!(trims(&[90, 80, 80, 80, 80, 80]), [false; 6], "it may fall further");
        assert_eq!(trims(&[80, 80, 79, 79, 79, 79, 79, 79]), [true, false, false, false, false, false, false, false]);
        assert_eq!(trims(&[0, 0, 0, 0, 0, 0, 0]), [false, false, false, false, false, true, false]);
    }

    #[test]
    fn the_heap_is_trimmed_where_more_is_resident_than_in_use() {
        const MIB: usize = 1 << 20;
        let mut heap = Heap::default();
        let excess = |mib: usize, in_use: usize| Excess { bytes: mib * MIB, in_use: in_use * MIB };
        assert!(!heap.has_excess(excess(20, 0)), "the program");
        assert!(!heap.has_excess(excess(20, 100)) && !heap.has_excess(excess(23, 100)));
        assert!(heap.has_excess(excess(24, 100)) && heap.has_excess(excess(30, 100)), "until it has been trimmed");
        heap.floor = Some(23 * MIB);
        assert!(!heap.has_excess(excess(26, 100)), "23 MiB are not given back");
        assert!(heap.has_excess(excess(27, 100)));
        assert!(
            !heap.has_excess(excess(10, 1000)) && !heap.has_excess(excess(25, 1000)),
            "a larger server may have more"
        );
        assert!(heap.has_excess(excess(26, 1000)));
    }

    #[test]
    fn entries_make_room_for_what_is_resident_and_in_nobodys_use() {
        const MIB: usize = 1 << 20;
        let mut allowance = Allowance::default();
        let mut withheld = |excess: usize| allowance.withheld(512 * MIB, excess * MIB) / MIB;
        assert_eq!([11, 10, 12].map(&mut withheld), [0; 3], "the program, and what is little");
        assert_eq!([13, 30, 200, 12].map(&mut withheld), [1, 18, 32, 0], "a sixteenth at most");
        assert_eq!(allowance.withheld(512 * MIB, 12 * MIB + 1), WITHHELD_UNIT);
        assert_eq!(allowance.withheld(4096 * MIB, 26 * MIB), 0, "a larger server may have more");
        assert_eq!(allowance.within(512 * MIB, 30 * MIB, false), (512 * MIB, 18 * MIB));
        assert_eq!(allowance.within(512 * MIB, 30 * MIB, true), (512 * MIB, 0), "writes would be refused");
    }
}
