//! Events that the crate has no wait for: a listener that is readable, and a socket that is writable when its next bytes are in
//! a file or a pipe. Those who wait for them are in an epoll of their thread, and the ring says when it has an event.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    mem::{MaybeUninit, replace},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use glommio::{Task, spawn_local, timer::sleep};
use rustix::event::{
    Timespec,
    epoll::{self, CreateFlags, Event, EventData, EventFlags},
};
use slab::Slab;

use super::raw::Stream;
use crate::tasks::Watch;

/// Events that are taken at a time.
const EVENTS: usize = 64;
/// Pause where no descriptor is left to wait with.
const PAUSE: Duration = Duration::from_millis(10);

thread_local! {
    static WATCHED: RefCell<Option<Rc<Watched>>> = const { RefCell::new(None) };
}

/// The epoll of a thread, and the task that looks after it, until this is dropped.
pub(super) struct Watcher(#[expect(dead_code, reason = "dropped, it ends")] Task<()>);

impl Watcher {
    pub(super) fn start() -> io::Result<Self> {
        let watched = Rc::new(Watched { epoll: epoll::create(CreateFlags::CLOEXEC)?, waits: RefCell::default() });
        WATCHED.set(Some(Rc::clone(&watched)));
        Ok(Self(spawn_local(watched.look_after())))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        WATCHED.set(None);
    }
}

struct Watched {
    epoll: OwnedFd,
    waits: RefCell<Slab<Wait>>,
}

/// State of one descriptor in the epoll.
enum Wait {
    Idle,
    /// Its event is to come.
    Waiting(Waker),
    /// Its event has come.
    Over,
}

impl Watched {
    async fn look_after(self: Rc<Self>) {
        loop {
            // A stream waits for one event of what is no socket, so each event takes another one.
            let Ok(descriptor) = self.epoll.try_clone() else {
                sleep(PAUSE).await;
                self.wake();
                continue;
            };
            let mut stream = Stream::from(descriptor);
            poll_fn(|cx| stream.poll_event(cx)).await;
            drop(stream);
            self.wake();
        }
    }

    /// Wakes those whose event has come.
    fn wake(&self) {
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS];
        // An error is no event; the epoll stays readable until its events are taken.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&Timespec::default())) else { return };
        for event in events {
            let mut waits = self.waits.borrow_mut();
            let Some(wait) = waits.get_mut(event.data.u64() as usize) else { continue };
            if let Wait::Waiting(waker) = replace(wait, Wait::Over) {
                drop(waits);
                waker.wake();
            }
        }
    }

    /// Enters a descriptor, whose event is waited for.
    fn enter(&self, descriptor: BorrowedFd<'_>, wanted: EventFlags, cx: &Context<'_>) -> io::Result<usize> {
        let mut waits = self.waits.borrow_mut();
        let slot = waits.vacant_entry();
        epoll::add(&self.epoll, descriptor, EventData::new_u64(slot.key() as u64), wanted | EventFlags::ONESHOT)?;
        let key = slot.key();
        slot.insert(Wait::Waiting(cx.waker().clone()));
        Ok(key)
    }

    /// Ready when an event has come since this was ready last.
    fn poll(
        &self,
        slot: usize,
        descriptor: BorrowedFd<'_>,
        wanted: EventFlags,
        cx: &Context<'_>,
    ) -> Poll<io::Result<()>> {
        let wait = &mut self.waits.borrow_mut()[slot];
        match wait {
            Wait::Waiting(waker) => waker.clone_from(cx.waker()),
            Wait::Over => {
                *wait = Wait::Idle;
                return Poll::Ready(Ok(()));
            }
            Wait::Idle => {
                let data = EventData::new_u64(slot as u64);
                epoll::modify(&self.epoll, descriptor, data, wanted | EventFlags::ONESHOT)?;
                *wait = Wait::Waiting(cx.waker().clone());
            }
        }
        Poll::Pending
    }

    fn leave(&self, slot: usize, descriptor: BorrowedFd<'_>) {
        // The ring may hold the socket open for longer than its descriptor is. An event that was taken with others and
        // comes after this wakes whoever has the slot then, in vain.
        let _ = epoll::delete(&self.epoll, descriptor);
        self.waits.borrow_mut().remove(slot);
    }
}

/// A descriptor that is entered in the epoll of its thread when it is waited for, in one direction, for the first time.
pub(super) struct Entry<D: AsFd> {
    descriptor: D,
    watched: Rc<Watched>,
    slot: Cell<Option<usize>>,
}

/// A listener.
pub(super) type Listening = Entry<OwnedFd>;

impl<D: AsFd> Entry<D> {
    pub(super) fn descriptor_mut(&mut self) -> &mut D {
        &mut self.descriptor
    }

    fn poll(&self, wanted: EventFlags, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let Some(slot) = self.slot.get() else {
            self.slot.set(Some(self.watched.enter(self.as_fd(), wanted, cx)?));
            return Poll::Pending;
        };
        self.watched.poll(slot, self.as_fd(), wanted, cx)
    }
}

impl<D: AsFd + From<OwnedFd>> Watch for Entry<D> {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        let watched = WATCHED.with_borrow(Clone::clone).ok_or(io::ErrorKind::NotConnected)?;
        Ok(Self { descriptor: socket.into(), watched, slot: Cell::new(None) })
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(EventFlags::IN, cx)
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(EventFlags::OUT, cx)
    }
}

impl<D: AsFd> AsFd for Entry<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl<D: AsFd> Drop for Entry<D> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.get() {
            self.watched.leave(slot, self.descriptor.as_fd());
        }
    }
}
