//! The transfers of the same file, and their admission to the pass that serves them.

use std::{
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use service::{Budget, Reservation};
use sys::{beneath::Metadata, eventfd::EventFd, fifo::Writer};

use super::pass::Departure;

/// All groups of a server.
pub(super) struct Groups {
    open: Mutex<Vec<Weak<Group>>>,
    pipe_bytes: Budget,
    passes: Budget,
    pub(super) counts: ByteCounts,
}

/// Bytes by the way in which they came into FIFOs.
#[derive(Debug, Default)]
pub(super) struct ByteCounts {
    /// Bytes duplicated by tee from a window that several members share.
    pub(super) teed: AtomicU64,
    /// Bytes spliced for members of a pass.
    pub(super) caught_up: AtomicU64,
    /// Bytes spliced outside of any pass.
    pub(super) alone: AtomicU64,
}

/// The transfers of one unchanged file into FIFOs of one capacity.
pub(super) struct Group {
    of: Metadata,
    capacity: u64,
    groups: Arc<Groups>,
    /// Number of transfers.
    registered: AtomicUsize,
    pub(super) admission: Mutex<Admission>,
}

/// The pass of a group as its transfers see it, and the transfers that are about to join it.
#[derive(Default)]
pub(super) struct Admission {
    pub(super) joiners: Vec<Joiner>,
    pub(super) pass: Option<RunningPass>,
    /// True if there can be no pass: the file has changed, or a resource is missing.
    pub(super) is_closed: bool,
}

/// Position and size of a pass.
pub(super) struct RunningPass {
    pub(super) wake: Arc<EventFd>,
    pub(super) base: u64,
    pub(super) members: usize,
}

/// A transfer that is about to join a pass.
pub(super) struct Joiner {
    pub(super) handle: Arc<MemberHandle>,
    pub(super) at: u64,
    pub(super) credit: Duration,
}

/// A transfer whose bytes a pass moves, as the transfer and the pass share it.
pub(super) struct MemberHandle {
    /// Poked once, when the pass releases the transfer.
    pub(super) released: EventFd,
    state: Mutex<HandleState>,
}

struct HandleState {
    /// `None` once the pass must not touch the FIFO any more.
    sink: Option<Arc<Writer>>,
    at: u64,
    departure: Option<Departure>,
}

/// The share of a pass in the limits of all passes.
pub(super) struct Reserved {
    _pass: Reservation,
    _pipe: Reservation,
}

impl Groups {
    pub(super) fn new(pipe_bytes: Budget, passes: Budget) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), pipe_bytes, passes, counts: ByteCounts::default() })
    }

    /// Returns the group of a file and capacity, with one transfer more.
    pub(super) fn register(self: &Arc<Self>, of: Metadata, capacity: u64) -> Arc<Group> {
        let mut open = self.open.lock();
        open.retain(|group| group.strong_count() > 0);
        let group = open.iter().filter_map(Weak::upgrade).find(|group| group.of == of && group.capacity == capacity);
        let group = group.unwrap_or_else(|| {
            let (registered, admission) = (AtomicUsize::new(0), Mutex::default());
            let group = Arc::new(Group { of, capacity, groups: Arc::clone(self), registered, admission });
            open.push(Arc::downgrade(&group));
            group
        });
        group.registered.fetch_add(1, Ordering::Relaxed);
        group
    }
}

impl Group {
    /// Reserves what a new pass needs from the limits of all passes.
    pub(super) fn reserve(&self) -> Option<Reserved> {
        let pass = self.groups.passes.reserve(1)?;
        let pipe = self.groups.pipe_bytes.reserve(self.capacity)?;
        Some(Reserved { _pass: pass, _pipe: pipe })
    }

    /// Notes that a transfer has ended.
    pub(super) fn unregister(&self) {
        self.registered.fetch_sub(1, Ordering::Relaxed);
        self.wake();
    }

    /// Wakes the pass, if there is one.
    pub(super) fn wake(&self) {
        if let Some(pass) = &self.admission.lock().pass {
            pass.wake.poke();
        }
    }

    pub(super) fn counts(&self) -> &ByteCounts {
        &self.groups.counts
    }

    pub(super) fn of(&self) -> &Metadata {
        &self.of
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// True if there are more transfers than the `members` of the pass.
    pub(super) fn has_more_than(&self, members: usize) -> bool {
        self.registered.load(Ordering::Relaxed) > members
    }

    /// Publishes the position of the pass, and takes the transfers that join it.
    pub(super) fn admit(&self, base: u64, members: usize) -> Vec<Joiner> {
        let mut admission = self.admission.lock();
        let joiners = std::mem::take(&mut admission.joiners);
        if let Some(pass) = &mut admission.pass {
            pass.base = base;
            pass.members = members + joiners.len();
        }
        joiners
    }

    /// Ends the pass unless a transfer is about to join it; true if it has ended.
    pub(super) fn end_unless_joined(&self) -> bool {
        let mut admission = self.admission.lock();
        if admission.joiners.is_empty() {
            admission.pass = None;
        }
        admission.pass.is_none()
    }

    /// Closes the group: there will be no more passes.
    pub(super) fn close(&self) {
        self.admission.lock().is_closed = true;
    }
}

impl MemberHandle {
    pub(super) fn new(sink: &Arc<Writer>, at: u64) -> io::Result<Arc<Self>> {
        let state = HandleState { sink: Some(Arc::clone(sink)), at, departure: None };
        Ok(Arc::new(Self { released: EventFd::new()?, state: Mutex::new(state) }))
    }

    /// Returns the position of the transfer, and its departure if the pass has released it.
    pub(super) fn progress(&self) -> (u64, Option<Departure>) {
        let state = self.state.lock();
        (state.at, state.departure)
    }

    /// Takes the FIFO from the pass.
    pub(super) fn withdraw(&self) {
        self.state.lock().sink = None;
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        self.state.lock().sink.is_none()
    }

    pub(super) fn sink(&self) -> Option<Arc<Writer>> {
        self.state.lock().sink.clone()
    }

    /// Moves bytes into the FIFO; `None` after [`MemberHandle::withdraw`], which waits for a call in progress.
    pub(super) fn fill(&self, fill: impl FnOnce(&Writer) -> io::Result<usize>) -> Option<io::Result<u64>> {
        let mut state = self.state.lock();
        let moved = fill(state.sink.as_ref()?).map(|n| n as u64);
        state.at += moved.as_ref().copied().unwrap_or(0);
        Some(moved)
    }

    /// Gives the transfer back.
    pub(super) fn release(&self, departure: Departure) {
        let mut state = self.state.lock();
        state.sink = None;
        state.departure = Some(departure);
        drop(state);
        self.released.poke();
    }
}
