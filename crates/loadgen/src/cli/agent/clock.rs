//! Clocks of two machines, compared by messages that go there and back.

/// Messages that go there and back: the quickest is taken.
pub(super) const PINGS: u32 = 16;

/// Difference of an agent's clock from ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    /// Nanoseconds by which the agent's clock is ahead.
    pub(super) nanos: i64,
    /// Nanoseconds by which that may be wrong: half of the time that the message was on its way.
    pub(super) error: u64,
}

impl Offset {
    /// Returns what a message says that left at `sent`, was answered at `there` by the other clock, and came back at `received`. The
    /// answer was given between the two, wherever that is.
    pub(super) fn new(sent: u64, there: u64, received: u64) -> Self {
        let error = received.saturating_sub(sent).div_ceil(2);
        let middle = sent.saturating_add(error);
        Self { nanos: there.wrapping_sub(middle).cast_signed(), error }
    }

    /// Returns the more exact of two.
    pub(super) fn better(self, other: Self) -> Self {
        if other.error < self.error { other } else { self }
    }

    /// Returns the agent's time at our `time`.
    pub(super) fn there(self, time: u64) -> u64 {
        time.saturating_add_signed(self.nanos)
    }

    #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
    pub(super) fn micros(self) -> (f64, f64) {
        (self.nanos as f64 / 1e3, self.error as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_message_bounds_the_difference() {
        // A clock that is 1,000 ahead; the answer is given early and late on the way.
        let early = Offset::new(5_000, 6_010, 5_100);
        let late = Offset::new(5_000, 6_095, 5_100);
        assert_eq!((early, late), (Offset { nanos: 960, error: 50 }, Offset { nanos: 1_045, error: 50 }));
        for offset in [early, late] {
            assert!(offset.nanos.abs_diff(1_000) <= offset.error);
        }
        let quick = Offset::new(7_000, 8_004, 7_010);
        assert_eq!(early.better(quick), quick);
        assert_eq!(quick.better(late), quick);
        assert_eq!(quick.there(10_000), 10_999);
        assert_eq!(Offset::new(9_000, 2_010, 9_020).there(9_010), 2_010, "a clock that is behind");
    }
}
