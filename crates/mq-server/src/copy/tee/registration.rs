//! The registration of a transfer with its group, by which it joins or starts a pass.

use std::{io, sync::Arc, thread, time::Duration};

use sys::{beneath::Metadata, eventfd::EventFd, fifo::Writer, transfer};

use super::{
    group::{Group, Groups, Joiner, MemberHandle, RunningPass},
    pass::REACH_BYTES,
    runner::PassRunner,
};
use crate::copy::remaining::Remaining;

/// Most members of a pass: one thread serves no more.
const MEMBERS_MAX: usize = 64;

/// A transfer's place in its group, for as long as the transfer lives.
pub(super) struct Registration(Arc<Group>);

impl Registration {
    pub(super) fn new(groups: &Arc<Groups>, of: Metadata, capacity: u64) -> Self {
        Self(groups.register(of, capacity))
    }

    /// True if there are other transfers of the same file.
    pub(super) fn has_others(&self) -> bool {
        self.0.has_more_than(1)
    }

    pub(super) fn wake(&self) {
        self.0.wake();
    }

    /// Joins the pass, or starts one; `None` if the pass is out of reach or cannot be started.
    pub(super) fn join(
        &self,
        remaining: &Remaining,
        sink: &Arc<Writer>,
        credit: Duration,
    ) -> Option<Arc<MemberHandle>> {
        let mut admission = self.0.admission.lock();
        if admission.is_closed {
            return None;
        }
        let is_within_reach = |pass: &RunningPass| {
            let members = pass.members + admission.joiners.len();
            members < MEMBERS_MAX && pass.base.abs_diff(remaining.offset) <= REACH_BYTES
        };
        if !admission.pass.as_ref().is_none_or(is_within_reach) {
            return None;
        }
        if admission.pass.is_none() {
            match start_pass(&self.0, remaining) {
                Ok(wake) => admission.pass = Some(RunningPass { wake, base: remaining.offset, members: 0 }),
                Err(_) => admission.is_closed = true,
            }
        }
        let pass = admission.pass.as_ref()?;
        let handle = MemberHandle::new(sink, remaining.offset).ok()?;
        pass.wake.poke();
        admission.joiners.push(Joiner { handle: Arc::clone(&handle), at: remaining.offset, credit });
        Some(handle)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.unregister();
    }
}

/// Starts the thread of a pass, which takes its members from the group's admission.
fn start_pass(group: &Arc<Group>, remaining: &Remaining) -> io::Result<Arc<EventFd>> {
    let missing = || io::Error::from(io::ErrorKind::QuotaExceeded);
    let reserved = group.reserve().ok_or_else(missing)?;
    let pipe = transfer::pipe_exactly(usize::try_from(group.capacity()).map_err(|_| missing())?)?;
    let wake = Arc::new(EventFd::new()?);
    let file = remaining.file.try_clone()?;
    let runner = PassRunner::new(Arc::clone(group), file, pipe, Arc::clone(&wake), reserved)?;
    thread::Builder::new().name("tee-pass".to_owned()).spawn(move || runner.run())?;
    Ok(wake)
}
