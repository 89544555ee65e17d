//! Who wants the same file, and the door to the pass that serves them.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use service::{Budget, Reservation};
use sys::{beneath::Metadata, eventfd::EventFd, fifo::Writer, transfer};

use super::{
    pass::{Left, REACH_BYTES},
    runner::Carrier,
};
use crate::copy::remaining::Rest;

/// Members of a pass: beyond them it would be one thread that serves too many.
const MEMBERS_MAX: usize = 64;

/// All groups of a server.
pub(super) struct Groups {
    open: Mutex<Vec<Weak<Group>>>,
    pipe_bytes: Budget,
    passes: Budget,
    pub(super) counts: Counts,
}

/// Bytes, by how they came into FIFOs.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// By tee, out of a window that several members share.
    pub(super) teed: AtomicU64,
    /// By splice, for members of a pass.
    pub(super) caught_up: AtomicU64,
    /// By splice, outside of any pass.
    pub(super) alone: AtomicU64,
}

/// Transfers of one file, unchanged, into FIFOs of one size.
pub(super) struct Group {
    of: Metadata,
    room: u64,
    groups: Arc<Groups>,
    wanting: AtomicUsize,
    door: Mutex<Door>,
}

#[derive(Default)]
struct Door {
    joining: Vec<Joining>,
    pass: Option<Running>,
    /// No pass is to be had: the file has changed, or something is missing for one.
    is_closed: bool,
}

/// What is known outside of a pass about it.
struct Running {
    wake: Arc<EventFd>,
    base: u64,
    members: usize,
}

/// Somebody before the door.
pub(super) struct Joining {
    pub(super) carried: Arc<Carried>,
    pub(super) at: u64,
    pub(super) credit: Duration,
}

/// The wish for a file. Dropped with the transfer.
pub(super) struct Ticket(Arc<Group>);

/// A transfer whose bytes a pass moves.
pub(super) struct Carried {
    /// Poked once, when the pass leaves the transfer to itself.
    pub(super) notice: EventFd,
    state: Mutex<CarriedState>,
}

struct CarriedState {
    /// `None` once the pass has to leave it alone.
    sink: Option<Arc<Writer>>,
    at: u64,
    left: Option<Left>,
}

/// What a pass owns that is limited for all of them together.
pub(super) struct Reserved {
    _pass: Reservation,
    _pipe: Reservation,
}

impl Groups {
    pub(super) fn new(pipe_bytes: Budget, passes: Budget) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), pipe_bytes, passes, counts: Counts::default() })
    }

    pub(super) fn ticket(self: &Arc<Self>, of: Metadata, room: u64) -> Ticket {
        let mut open = lock(&self.open);
        open.retain(|group| group.strong_count() > 0);
        let group = open.iter().filter_map(Weak::upgrade).find(|group| group.of == of && group.room == room);
        let group = group.unwrap_or_else(|| {
            let (wanting, door) = (AtomicUsize::new(0), Mutex::default());
            let group = Arc::new(Group { of, room, groups: Arc::clone(self), wanting, door });
            open.push(Arc::downgrade(&group));
            group
        });
        group.wanting.fetch_add(1, Ordering::Relaxed);
        Ticket(group)
    }
}

impl Ticket {
    /// Others want the same.
    pub(super) fn has_company(&self) -> bool {
        self.0.wanting.load(Ordering::Relaxed) > 1
    }

    pub(super) fn wake(&self) {
        if let Some(pass) = &lock(&self.0.door).pass {
            pass.wake.poke();
        }
    }

    /// `None` where there is no pass within reach and none can be begun.
    pub(super) fn join(&self, rest: &Rest, sink: &Arc<Writer>, credit: Duration) -> Option<Arc<Carried>> {
        let mut door = lock(&self.0.door);
        if door.is_closed {
            return None;
        }
        let within_reach = |pass: &Running| {
            pass.members + door.joining.len() < MEMBERS_MAX && pass.base.abs_diff(rest.offset) <= REACH_BYTES
        };
        if !door.pass.as_ref().is_none_or(within_reach) {
            return None;
        }
        if door.pass.is_none() {
            match self.0.begin(rest) {
                Ok(wake) => door.pass = Some(Running { wake, base: rest.offset, members: 0 }),
                Err(_) => door.is_closed = true,
            }
        }
        let pass = door.pass.as_ref()?;
        let carried = Carried::new(sink, rest.offset).ok()?;
        pass.wake.poke();
        door.joining.push(Joining { carried: Arc::clone(&carried), at: rest.offset, credit });
        Some(carried)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.wanting.fetch_sub(1, Ordering::Relaxed);
        self.wake();
    }
}

impl Group {
    /// Starts the thread of a pass, which finds at the door whom it is for.
    fn begin(self: &Arc<Self>, rest: &Rest) -> io::Result<Arc<EventFd>> {
        let missing = || io::Error::from(io::ErrorKind::QuotaExceeded);
        let pass = self.groups.passes.reserve(1).ok_or_else(missing)?;
        let pipe = self.groups.pipe_bytes.reserve(self.room).ok_or_else(missing)?;
        let (reader, writer, capacity) = transfer::pipe_exactly(usize::try_from(self.room).map_err(|_| missing())?)?;
        let wake = Arc::new(EventFd::new()?);
        let file = rest.file.try_clone()?;
        let reserved = Reserved { _pass: pass, _pipe: pipe };
        let carrier = Carrier::new(Arc::clone(self), file, (reader, writer, capacity), Arc::clone(&wake), reserved)?;
        thread::Builder::new().name("tee-pass".to_owned()).spawn(move || carrier.run())?;
        Ok(wake)
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.groups.counts
    }

    pub(super) fn of(&self) -> &Metadata {
        &self.of
    }

    pub(super) fn room(&self) -> u64 {
        self.room
    }

    /// Somebody else than the `members` of the pass wants the file.
    pub(super) fn is_wanted_by_more_than(&self, members: usize) -> bool {
        self.wanting.load(Ordering::Relaxed) > members
    }

    /// Where the pass is, for those who might join; returns who does.
    pub(super) fn let_in(&self, base: u64, members: usize) -> Vec<Joining> {
        let mut door = lock(&self.door);
        let joining = std::mem::take(&mut door.joining);
        if let Some(pass) = &mut door.pass {
            pass.base = base;
            pass.members = members + joining.len();
        }
        joining
    }

    /// Ends the pass unless somebody wants to join it; true if it has ended.
    pub(super) fn end_if_nobody_joins(&self) -> bool {
        let mut door = lock(&self.door);
        if door.joining.is_empty() {
            door.pass = None;
        }
        door.pass.is_none()
    }

    /// There will be no more passes.
    pub(super) fn close(&self) {
        lock(&self.door).is_closed = true;
    }
}

impl Carried {
    fn new(sink: &Arc<Writer>, at: u64) -> io::Result<Arc<Self>> {
        let state = CarriedState { sink: Some(Arc::clone(sink)), at, left: None };
        Ok(Arc::new(Self { notice: EventFd::new()?, state: Mutex::new(state) }))
    }

    /// How far it is, and where it stands if the pass has left it to itself.
    pub(super) fn news(&self) -> (u64, Option<Left>) {
        let state = lock(&self.state);
        (state.at, state.left)
    }

    /// The pass is to leave the FIFO alone from now on.
    pub(super) fn abandon(&self) {
        lock(&self.state).sink = None;
    }

    pub(super) fn is_abandoned(&self) -> bool {
        lock(&self.state).sink.is_none()
    }

    pub(super) fn sink(&self) -> Option<Arc<Writer>> {
        lock(&self.state).sink.clone()
    }

    /// Moves bytes into the FIFO; `None` once it has been abandoned. Whoever abandons it waits for this.
    pub(super) fn fill(&self, fill: impl FnOnce(&Writer) -> io::Result<usize>) -> Option<io::Result<u64>> {
        let mut state = lock(&self.state);
        let moved = fill(state.sink.as_ref()?).map(|n| n as u64);
        state.at += moved.as_ref().copied().unwrap_or(0);
        Some(moved)
    }

    /// The pass is through with it.
    pub(super) fn release(&self, left: Left) {
        let mut state = lock(&self.state);
        state.sink = None;
        state.left = Some(left);
        drop(state);
        self.notice.poke();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
