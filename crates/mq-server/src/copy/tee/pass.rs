//! Who needs which bytes next, and who is waited for: the books of one pass over a file, without files, pipes or a clock.
//!
//! A pass moves over the file window by window, and to the next only when every member has all of the present one. Who is
//! behind the window catches up alone; who makes the others wait for too long leaves.

use std::time::Duration;

use slab::Slab;

/// How far apart members may be when they join, in bytes.
pub(super) const REACH_BYTES: u64 = 32 << 20;
/// What a member may make the others wait in excess of their patience before it leaves.
pub(super) const CREDIT: Duration = Duration::from_millis(50);
/// Credit grows back by this part of the time that passes.
const CREDIT_EARNED: u32 = 16;
/// A member is late once it takes so many times as long as the quickest quarter. If the machine serves all of them evenly,
/// the last takes four times as long.
const PATIENCE_FACTOR: u32 = 8;
const PATIENCE_MIN: Duration = Duration::from_micros(200);
const PATIENCE_MAX: Duration = Duration::from_millis(4);
/// How long nobody gets anything before the pass is over: their readers stall together, and each is judged alone.
const STALL_MAX: Duration = Duration::from_millis(250);

/// The books. Times are since some moment before it began.
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
    /// When a quarter of the members had it.
    quarter: Option<Duration>,
}

#[derive(Debug)]
struct Member {
    at: u64,
    credit: Duration,
    /// It has had the present window since then.
    since: Option<Duration>,
}

/// What a member needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// All of the window.
    Window { len: u64 },
    /// These bytes, which are not all of the window, from the file.
    Bytes { offset: u64, len: u64 },
    /// Nothing before the window moves.
    Nothing,
}

/// Where a member that leaves goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) at: u64,
    pub(super) credit: Duration,
}

impl Pass {
    pub(super) fn new(size: u64, window_bytes: u64, now: Duration) -> Self {
        Self { size, window_bytes, members: Slab::new(), base: 0, end: 0, opened: now, quarter: None }
    }

    /// Somebody who has everything before `at`.
    pub(super) fn join(&mut self, at: u64, credit: Duration, now: Duration) -> usize {
        let key = self.members.insert(Member { at, credit, since: None });
        self.note(key, now);
        key
    }

    pub(super) fn leave(&mut self, key: usize) -> Option<Left> {
        self.members.try_remove(key).map(|Member { at, credit, .. }| Left { at, credit })
    }

    /// Where the present window begins.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Everybody has the present window.
    pub(super) fn is_through(&self) -> bool {
        self.members.iter().all(|(_, member)| member.at >= self.end)
    }

    /// Where the next window begins, and how long it may be; `None` while somebody needs the present one, or nobody
    /// needs any more.
    pub(super) fn next_window(&self) -> Option<(u64, u64)> {
        let base = self.members.iter().map(|(_, member)| member.at).min()?;
        (self.is_through() && base < self.size).then(|| (base, self.window_bytes.min(self.size - base)))
    }

    /// How many would take all of a window from there.
    pub(super) fn takers(&self, base: u64) -> usize {
        self.members.iter().filter(|(_, member)| member.at == base).count()
    }

    /// The window moves to `base..base + len`, which begins where [`Pass::next_window`] says.
    pub(super) fn open(&mut self, base: u64, len: u64, now: Duration) {
        let earned = now.saturating_sub(self.opened) / CREDIT_EARNED;
        (self.base, self.end, self.opened, self.quarter) = (base, base + len, now, None);
        for (_, member) in &mut self.members {
            member.credit = CREDIT.min(member.credit + earned);
            member.since = None;
        }
        let ahead: Vec<usize> =
            self.members.iter().filter(|(_, member)| member.at >= self.end).map(|(key, _)| key).collect();
        for key in ahead {
            self.note(key, now);
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

    /// A member has got the next `n` bytes; true once it has all of the file.
    pub(super) fn took(&mut self, key: usize, n: u64, now: Duration) -> bool {
        let Some(member) = self.members.get_mut(key) else { return false };
        member.at += n;
        assert!(member.at <= self.size, "more than there is");
        let has_all = member.at == self.size;
        self.note(key, now);
        has_all
    }

    /// When the next member that is late has used up its credit: `None` while nobody waits for anybody.
    pub(super) fn deadline(&self) -> Option<Duration> {
        if !self.somebody_waits() {
            return (!self.is_through()).then(|| self.opened + STALL_MAX);
        }
        self.laggards().map(|(_, member)| self.patience() + member.credit).min()
    }

    /// Members that have used up their credit. They leave.
    pub(super) fn late(&self, now: Duration) -> Vec<usize> {
        let is_due = |member: &Member| match self.somebody_waits() {
            true => now >= self.patience() + member.credit,
            false => now >= self.opened + STALL_MAX,
        };
        self.laggards().filter(|(_, member)| is_due(member)).map(|(key, _)| key).collect()
    }

    fn laggards(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.members.iter().filter(|(_, member)| member.at < self.end)
    }

    fn somebody_waits(&self) -> bool {
        self.members.iter().any(|(_, member)| member.at >= self.end)
    }

    /// When whoever does not have the window yet begins to use up credit.
    fn patience(&self) -> Duration {
        let pace = self.quarter.map_or(PATIENCE_MAX, |quarter| quarter.saturating_sub(self.opened) * PATIENCE_FACTOR);
        self.opened + pace.clamp(PATIENCE_MIN, PATIENCE_MAX)
    }

    /// Writes down when a member got the rest of the window, and what that costs it.
    fn note(&mut self, key: usize, now: Duration) {
        let patience = self.patience();
        let Some(member) = self.members.get_mut(key) else { return };
        if member.at < self.end || member.since.is_some() {
            return;
        }
        member.since = Some(now);
        member.credit = member.credit.saturating_sub(now.saturating_sub(patience));
        let have = self.members.iter().filter(|(_, member)| member.since.is_some()).count();
        if self.quarter.is_none() && have >= self.members.len().div_ceil(4) {
            self.quarter = Some(now);
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

    /// What happens to a pass in the test: somebody joins, gets some of what it needs, leaves, or time passes.
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
        /// Whatever happens, each member is given every byte from where it joined exactly once and in order; the window
        /// moves only when nobody needs it any more; and somebody who waits always has somebody to wait for, who gets
        /// what it needs or leaves by the deadline.
        #[test]
        fn everybody_gets_everything_once(events in events(), window in 1..120_u64) {
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
                        prop_assert_eq!(pass.took(key, n, now), *mine == size);
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
                for key in pass.late(now) {
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
                    prop_assert!(at.is_empty() || pass.deadline().is_some(), "nobody waits without an end");
                }
            }
        }
    }

    /// Gives everybody who is named the present window, `apart` after one another; returns the time afterwards.
    fn serve(pass: &mut Pass, keys: &[usize], mut now: Duration, apart: Duration) -> Duration {
        for &key in keys {
            now += apart;
            if let Need::Window { len } = pass.need(key) {
                pass.took(key, len, now);
            }
        }
        now
    }

    fn open_next(pass: &mut Pass, now: Duration) {
        let (base, len) = pass.next_window().expect("everybody has the window");
        pass.open(base, len, now);
    }

    /// An even machine drives nobody out, whoever is served last, even if it is always the same one.
    #[test]
    fn who_is_always_last_stays_if_the_machine_is_even() {
        let mut pass = Pass::new(1 << 30, 1 << 20, micros(0));
        let keys: Vec<usize> = (0..20).map(|_| pass.join(0, CREDIT, micros(0))).collect();
        let mut now = micros(0);
        for _ in 0..1024 {
            open_next(&mut pass, now);
            now = serve(&mut pass, &keys, now, micros(30));
            assert!(pass.late(now).is_empty());
        }
        assert!(pass.is_through() && pass.next_window().is_none());
    }

    /// Who needs a hundred times as long as the others leaves, and has not cost them much more than its credit.
    #[test]
    fn the_slow_leave_before_they_have_cost_much() {
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
                assert_eq!(pass.late(now), [slow]);
                assert!(waited < CREDIT * 2, "{waited:?}");
                return;
            }
            serve(&mut pass, &[slow], now, micros(0));
        }
        panic!("the slow one is still there");
    }

    /// A pause that stops everybody costs nobody its place, unless it does not end.
    #[test]
    fn a_common_pause_drives_nobody_out() {
        let mut pass = Pass::new(1 << 30, 1 << 20, micros(0));
        let keys: Vec<usize> = (0..3).map(|_| pass.join(0, CREDIT, micros(0))).collect();
        open_next(&mut pass, micros(0));
        assert!(pass.late(STALL_MAX - micros(1)).is_empty());
        assert_eq!(pass.deadline(), Some(STALL_MAX));
        assert_eq!(pass.late(STALL_MAX), keys);
    }

    /// Who joins behind the window catches up with it alone, who joins ahead of it waits for it.
    #[test]
    fn latecomers_catch_up_and_the_early_wait() {
        let mut pass = Pass::new(1000, 100, micros(0));
        let first = pass.join(300, CREDIT, micros(0));
        open_next(&mut pass, micros(0));
        let late = pass.join(0, CREDIT, micros(0));
        let early = pass.join(450, CREDIT, micros(0));
        assert_eq!(pass.need(first), Need::Window { len: 100 });
        assert_eq!(pass.need(late), Need::Bytes { offset: 0, len: 300 });
        assert_eq!(pass.need(early), Need::Nothing);
        pass.took(first, 100, micros(1));
        assert_eq!(pass.next_window(), None);
        pass.took(late, 300, micros(2));
        assert_eq!(pass.need(late), Need::Window { len: 100 });
        pass.took(late, 30, micros(3));
        assert_eq!(pass.need(late), Need::Bytes { offset: 330, len: 70 });
        pass.took(late, 70, micros(4));
        assert_eq!((pass.next_window(), pass.takers(400)), (Some((400, 100)), 2));
    }
}
