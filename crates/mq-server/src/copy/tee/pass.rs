//! The state of one pass over a file: the bytes that each member needs next, and the members that are late. No files, no
//! pipes and no clock are in it.
//!
//! A pass moves over the file window by window, and to the next only when every member has all of the present one. A member
//! behind the window catches up alone; a member that makes the others wait for too long leaves.

use std::time::Duration;

use slab::Slab;

/// Largest distance between members when they join, in bytes.
pub(super) const REACH_BYTES: u64 = 32 << 20;
/// Time that a member may make the others wait beyond their patience before it leaves.
pub(super) const CREDIT: Duration = Duration::from_millis(50);
/// Credit grows back by this fraction of the time that passes.
const CREDIT_EARNED: u32 = 16;
/// A member is late once it takes this many times as long as the quickest quarter. If the machine serves all of them
/// evenly, the last takes four times as long.
const PATIENCE_FACTOR: u32 = 8;
const PATIENCE_MIN: Duration = Duration::from_micros(200);
const PATIENCE_MAX: Duration = Duration::from_millis(4);
/// Time without progress after which the pass ends: all readers stall, and each is then judged alone.
const STALL_MAX: Duration = Duration::from_millis(250);

/// The state of a pass. Times are measured from some moment before it began.
#[derive(Debug)]
pub(super) struct Pass {
    /// Bytes of the file.
    size: u64,
    window_bytes: u64,
    members: Slab<Member>,
    /// The present window.
    base: u64,
    end: u64,
    opened: Duration,
    /// Time when a quarter of the members had it.
    quarter_at: Option<Duration>,
}

#[derive(Debug)]
struct Member {
    at: u64,
    credit: Duration,
    /// Time since which the member has had the present window.
    has_window_since: Option<Duration>,
}

/// Bytes that a member needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// All of the window.
    Window { len: u64 },
    /// These bytes, which are not all of the window, from the file.
    Bytes { offset: u64, len: u64 },
    /// Nothing before the window moves.
    Nothing,
}

/// Position and credit with which a member leaves and goes on alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Departure {
    pub(super) at: u64,
    pub(super) credit: Duration,
}

impl Pass {
    pub(super) fn new(size: u64, window_bytes: u64, now: Duration) -> Self {
        Self { size, window_bytes, members: Slab::new(), base: 0, end: 0, opened: now, quarter_at: None }
    }

    /// Adds a member that has all bytes before `at`.
    pub(super) fn join(&mut self, at: u64, credit: Duration, now: Duration) -> usize {
        let key = self.members.insert(Member { at, credit, has_window_since: None });
        self.note_progress(key, now);
        key
    }

    pub(super) fn leave(&mut self, key: usize) -> Option<Departure> {
        self.members.try_remove(key).map(|Member { at, credit, .. }| Departure { at, credit })
    }

    /// Returns the beginning of the present window.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// True if all members have the present window.
    pub(super) fn is_window_done(&self) -> bool {
        self.members.iter().all(|(_, member)| member.at >= self.end)
    }

    /// Returns the beginning and the longest length of the next window; `None` while a member needs the present one, or if
    /// no member needs another.
    pub(super) fn next_window(&self) -> Option<(u64, u64)> {
        let base = self.members.iter().map(|(_, member)| member.at).min()?;
        (self.is_window_done() && base < self.size).then(|| (base, self.window_bytes.min(self.size - base)))
    }

    /// Returns the number of members that need all of a window that begins at `base`.
    pub(super) fn takers(&self, base: u64) -> usize {
        self.members.iter().filter(|(_, member)| member.at == base).count()
    }

    /// Moves the window to `base..base + len`, where `base` is that of [`Pass::next_window`].
    pub(super) fn open(&mut self, base: u64, len: u64, now: Duration) {
        let earned = now.saturating_sub(self.opened) / CREDIT_EARNED;
        (self.base, self.end, self.opened, self.quarter_at) = (base, base + len, now, None);
        for (_, member) in &mut self.members {
            member.credit = CREDIT.min(member.credit + earned);
            member.has_window_since = None;
        }
        let ahead: Vec<usize> =
            self.members.iter().filter(|(_, member)| member.at >= self.end).map(|(key, _)| key).collect();
        for key in ahead {
            self.note_progress(key, now);
        }
    }

    pub(super) fn need(&self, key: usize) -> Need {
        let Some(member) = self.members.get(key) else { return Need::Nothing };
        match member.at {
            at if at >= self.end => Need::Nothing,
            at if at == self.base => Need::Window { len: self.end - at },
            at if at < self.base => Need::Bytes { offset: at, len: self.base - at },
            at => Need::Bytes { offset: at, len: self.end - at },
        }
    }

    /// Notes that a member has got the next `n` bytes; true once it has all of the file.
    pub(super) fn record(&mut self, key: usize, n: u64, now: Duration) -> bool {
        let Some(member) = self.members.get_mut(key) else { return false };
        member.at += n;
        assert!(member.at <= self.size, "more than there is");
        let has_all = member.at == self.size;
        self.note_progress(key, now);
        has_all
    }

    /// Returns the time when the next late member has used up its credit; `None` while no member waits for another.
    pub(super) fn deadline(&self) -> Option<Duration> {
        if !self.has_waiting_members() {
            return (!self.is_window_done()).then(|| self.opened + STALL_MAX);
        }
        self.laggards().map(|(_, member)| self.patience() + member.credit).min()
    }

    /// Returns the members that have used up their credit. They are to leave.
    pub(super) fn late_members(&self, now: Duration) -> Vec<usize> {
        let is_due = |member: &Member| match self.has_waiting_members() {
            true => now >= self.patience() + member.credit,
            false => now >= self.opened + STALL_MAX,
        };
        self.laggards().filter(|(_, member)| is_due(member)).map(|(key, _)| key).collect()
    }

    fn laggards(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.members.iter().filter(|(_, member)| member.at < self.end)
    }

    fn has_waiting_members(&self) -> bool {
        self.members.iter().any(|(_, member)| member.at >= self.end)
    }

    /// Returns the time at which members without the window begin to use up credit.
    fn patience(&self) -> Duration {
        let pace =
            self.quarter_at.map_or(PATIENCE_MAX, |quarter_at| quarter_at.saturating_sub(self.opened) * PATIENCE_FACTOR);
        self.opened + pace.clamp(PATIENCE_MIN, PATIENCE_MAX)
    }

    /// Notes the time at which a member got the rest of the window, and takes its delay from its credit.
    fn note_progress(&mut self, key: usize, now: Duration) {
        let patience = self.patience();
        let Some(member) = self.members.get_mut(key) else { return };
        if member.at < self.end || member.has_window_since.is_some() {
            return;
        }
        member.has_window_since = Some(now);
        member.credit = member.credit.saturating_sub(now.saturating_sub(patience));
        let have = self.members.iter().filter(|(_, member)| member.has_window_since.is_some()).count();
        if self.quarter_at.is_none() && have >= self.members.len().div_ceil(4) {
            self.quarter_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// An event of the test: a member joins, gets some of the bytes that it needs, or leaves; or time passes.
    #[derive(Clone, Debug)]
    enum Event {
        Join { at: u64 },
        Give { who: usize, most: u64 },
        Leave { who: usize },
        Wait { micros: u64 },
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            2 => (0..300_u64).prop_map(|at| Event::Join { at }),
            12 => (any::<usize>(), 1..200_u64).prop_map(|(who, most)| Event::Give { who, most }),
            1 => any::<usize>().prop_map(|who| Event::Leave { who }),
            2 => (0..3000_u64).prop_map(|micros| Event::Wait { micros }),
        ];
        proptest::collection::vec(event, 0..400)
    }

    proptest! {
        /// Whatever happens, each member gets every byte from its start exactly once and in order. The window moves only
        /// when no member needs it any more. A member that waits always waits for another, which gets the bytes that it
        /// needs or leaves by the deadline.
        #[test]
        fn every_member_gets_every_byte_once(events in events(), window in 1..120_u64) {
            let size = 1000;
            let mut now = micros(0);
            let mut pass = Pass::new(size, window, now);
            let mut at: BTreeMap<usize, u64> = BTreeMap::new();
            for event in events {
                match event {
                    Event::Join { at: first } => {
                        let key = pass.join(first, CREDIT, now);
                        prop_assert!(at.insert(key, first).is_none());
                    }
                    Event::Give { who, most } => {
                        let who = who % at.len().max(1);
                        let Some((&key, mine)) = at.iter_mut().nth(who) else { continue };
                        let n = match pass.need(key) {
                            Need::Window { len } => {
                                prop_assert_eq!(*mine, pass.base());
                                len.min(most)
                            }
                            Need::Bytes { offset, len } => {
                                prop_assert_eq!(*mine, offset);
                                len.min(most)
                            }
                            Need::Nothing => {
                                prop_assert!(*mine >= pass.end);
                                0
                            }
                        };
                        *mine += n;
                        prop_assert_eq!(pass.record(key, n, now), *mine == size);
                        if *mine == size {
                            prop_assert_eq!(pass.leave(key).map(|left| left.at), Some(size));
                            at.remove(&key);
                        }
                    }
                    Event::Leave { who } => {
                        let Some((&key, &mine)) = at.iter().nth(who % at.len().max(1)) else { continue };
                        prop_assert_eq!(pass.leave(key).map(|left| left.at), Some(mine));
                        at.remove(&key);
                    }
                    Event::Wait { micros: n } => now += micros(n),
                }
                for key in pass.late_members(now) {
                    let left = pass.leave(key).map(|left| left.at);
                    prop_assert_eq!(left, at.remove(&key));
                    prop_assert!(left < Some(pass.end), "only who does not have the window is late");
                }
                prop_assert_eq!(pass.members.len(), at.len());
                prop_assert!(pass.deadline().is_none_or(|deadline| deadline > now));
                if let Some((base, len)) = pass.next_window() {
                    prop_assert!(at.values().all(|&mine| mine >= pass.end && mine >= base));
                    prop_assert!(len >= 1 && len <= window && at.values().any(|&mine| mine == base));
                    pass.open(base, len, now);
                } else {
                    prop_assert!(at.is_empty() || pass.deadline().is_some(), "no member waits without a deadline");
                }
            }
        }
    }

    /// Gives the present window to these members, one every `apart`; returns the time afterwards.
    fn serve(pass: &mut Pass, keys: &[usize], mut now: Duration, apart: Duration) -> Duration {
        for &key in keys {
            now += apart;
            if let Need::Window { len } = pass.need(key) {
                pass.record(key, len, now);
            }
        }
        now
    }

    fn open_next(pass: &mut Pass, now: Duration) {
        let (base, len) = pass.next_window().expect("all members have the window");
        pass.open(base, len, now);
    }

    /// If the machine serves all evenly, no member leaves, not even one that is always the last.
    #[test]
    fn the_last_member_stays_if_all_are_served_evenly() {
        let mut pass = Pass::new(1 << 30, 1 << 20, micros(0));
        let keys: Vec<usize> = (0..20).map(|_| pass.join(0, CREDIT, micros(0))).collect();
        let mut now = micros(0);
        for _ in 0..1024 {
            open_next(&mut pass, now);
            now = serve(&mut pass, &keys, now, micros(30));
            assert!(pass.late_members(now).is_empty());
        }
        assert!(pass.is_window_done() && pass.next_window().is_none());
    }

    /// A member that takes a hundred times as long as the others leaves, and has cost them little more than its credit.
    #[test]
    fn slow_members_leave_before_they_have_cost_much() {
        let mut pass = Pass::new(1 << 40, 1 << 20, micros(0));
        let quick: Vec<usize> = (0..8).map(|_| pass.join(0, CREDIT, micros(0))).collect();
        let slow = pass.join(0, CREDIT, micros(0));
        let (mut now, mut waited) = (micros(0), micros(0));
        for _ in 0..10_000 {
            open_next(&mut pass, now);
            now = serve(&mut pass, &quick, now, micros(20));
            let others_had_it = now;
            let its_time = now + micros(16_000);
            now = pass.deadline().expect("one is waited for").min(its_time);
            waited += now - others_had_it;
            if now < its_time {
                assert_eq!(pass.late_members(now), [slow]);
                assert!(waited < CREDIT * 2, "{waited:?}");
                return;
            }
            serve(&mut pass, &[slow], now, micros(0));
        }
        panic!("the slow one is still there");
    }

    /// A pause that stops all members makes none leave, unless it does not end.
    #[test]
    fn a_common_pause_makes_no_member_leave() {
        let mut pass = Pass::new(1 << 30, 1 << 20, micros(0));
        let keys: Vec<usize> = (0..3).map(|_| pass.join(0, CREDIT, micros(0))).collect();
        open_next(&mut pass, micros(0));
        assert!(pass.late_members(STALL_MAX - micros(1)).is_empty());
        assert_eq!(pass.deadline(), Some(STALL_MAX));
        assert_eq!(pass.late_members(STALL_MAX), keys);
    }

    /// A member that joins behind the window catches up alone, and one that joins ahead of it waits.
    #[test]
    fn latecomers_catch_up_and_members_ahead_wait() {
        let mut pass = Pass::new(1000, 100, micros(0));
        let first = pass.join(300, CREDIT, micros(0));
        open_next(&mut pass, micros(0));
        let late = pass.join(0, CREDIT, micros(0));
        let early = pass.join(450, CREDIT, micros(0));
        assert_eq!(pass.need(first), Need::Window { len: 100 });
        assert_eq!(pass.need(late), Need::Bytes { offset: 0, len: 300 });
        assert_eq!(pass.need(early), Need::Nothing);
        pass.record(first, 100, micros(1));
        assert_eq!(pass.next_window(), None);
        pass.record(late, 300, micros(2));
        assert_eq!(pass.need(late), Need::Window { len: 100 });
        pass.record(late, 30, micros(3));
        assert_eq!(pass.need(late), Need::Bytes { offset: 330, len: 70 });
        pass.record(late, 70, micros(4));
        assert_eq!((pass.next_window(), pass.takers(400)), (Some((400, 100)), 2));
    }
}
