//! Frames that take work and no response.

use std::time::Instant;

use super::{super::Frame, DATA_MIN, ErrorCode, ServerConnection};

/// Nuisances that are forgiven each second.
const FORGIVEN_PER_SECOND: u32 = 20;

impl ServerConnection {
    /// Counts a frame that takes work and no response.
    pub(super) fn count_nuisance(&mut self, frame: &Frame<'_>, now: Instant) -> Result<(), ErrorCode> {
        let is_nuisance = match frame {
            Frame::Data { data, is_last, .. } => data.is_empty() && !is_last,
            Frame::Headers { block, is_whole, .. } | Frame::Continuation { block, is_whole, .. } => {
                block.is_empty() || !is_whole
            }
            &Frame::WindowUpdate { increment, .. } => !self.gives_back(increment),
            Frame::Priority { .. }
            | Frame::RstStream { .. }
            | Frame::Settings(_)
            | Frame::SettingsAck
            | Frame::PushPromise
            | Frame::Ping { .. }
            | Frame::GoAway { .. }
            | Frame::PriorityUpdate { .. }
            | Frame::Unknown => true,
        };
        if !is_nuisance {
            return Ok(());
        }
        let since = *self.forgiven_at.get_or_insert(now);
        let seconds = u32::try_from(now.saturating_duration_since(since).as_secs()).unwrap_or(u32::MAX);
        if seconds > 0 {
            self.forgiven_at = Some(now);
            self.nuisances = self.nuisances.saturating_sub(seconds.saturating_mul(FORGIVEN_PER_SECOND));
        }
        self.add_nuisance()
    }

    /// Returns true if an update of a window is worth its frame and is for data that has been sent: a client that reads in
    /// small pieces sends a dozen of them for each frame of data, long after it.
    fn gives_back(&mut self, increment: u32) -> bool {
        let left = self.window_debt.checked_sub(increment.into()).filter(|_| increment as usize >= DATA_MIN);
        self.window_debt = left.unwrap_or(self.window_debt);
        left.is_some()
    }

    pub(super) fn add_nuisance(&mut self) -> Result<(), ErrorCode> {
        self.nuisances += 1;
        if self.nuisances > self.limits.nuisances_max { Err(ErrorCode::EnhanceYourCalm) } else { Ok(()) }
    }
}
