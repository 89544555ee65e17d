//! The service manager, if the server was started by one: it is told when the server is ready, reloads and stops, and a
//! watchdog that its event loops turn and accept.

use std::{
    fmt,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use drivers::Shutdown;
use sys::{
    listen::ListenerHandle,
    memfd,
    notify::{Message, ServiceManager},
};

/// Questions to the event loops within the time that the watchdog waits for a sign of life.
const QUESTIONS: u32 = 4;
/// Time between two looks at the answers.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The service manager as the parts of the server see it. Without one nothing is told to anybody.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manager(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    manager: ServiceManager,
    /// True once nothing more is to be said: the server stops, or another process is the service.
    is_over: AtomicBool,
}

impl Manager {
    pub(crate) fn from_environment() -> anyhow::Result<Self> {
        let manager = ServiceManager::from_environment().context("cannot reach the service manager")?;
        Ok(Self(manager.map(|manager| Arc::new(Inner { manager, is_over: AtomicBool::new(false) }))))
    }

    /// Says that the server serves, for the first time or again after [`Manager::reloading`].
    pub(crate) fn ready(&self, status: impl fmt::Display) {
        self.tell(Message::Ready { status: &status.to_string() });
    }

    pub(crate) fn reloading(&self) {
        self.tell(Message::Reloading);
    }

    /// Says that the server stops: the last message.
    pub(crate) fn stopping(&self) {
        self.tell_last(Message::Stopping);
    }

    /// Says that another process is the service from now on: the last message of this one.
    pub(crate) fn handed_over(&self, to: u32) {
        self.tell_last(Message::HandedOver { to });
    }

    /// Has the service manager keep a file in memory for the next process of the service: the one that it has kept, or a new one.
    /// `None`: it keeps none.
    ///
    /// # Errors
    /// Those of memfd_create(2) and sendmsg(2).
    pub(crate) fn keep_file(&self, kept: Option<OwnedFd>) -> io::Result<Option<File>> {
        let Some(inner) = self.0.as_ref().filter(|inner| inner.manager.keeps_descriptors()) else { return Ok(None) };
        let file = kept.map_or_else(memfd::empty, Ok)?;
        inner.manager.keep(file.as_fd())?;
        Ok(Some(file.into()))
    }

    fn tell(&self, message: Message<'_>) {
        if let Some(inner) = &self.0
            && !inner.is_over.load(Ordering::Acquire)
        {
            inner.send(message);
        }
    }

    fn tell_last(&self, message: Message<'_>) {
        if let Some(inner) = &self.0
            && !inner.is_over.swap(true, Ordering::AcqRel)
        {
            inner.send(message);
        }
    }

    /// Starts a thread that says that the server is alive, for as long as its loops answer and connections are accepted.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn watch(&self, subject: Subject) -> anyhow::Result<()> {
        let Some(inner) = &self.0 else { return Ok(()) };
        let Some(patience) = inner.manager.watchdog() else { return Ok(()) };
        let inner = Arc::clone(inner);
        let watch = move || watch(&inner, &subject, patience / QUESTIONS);
        thread::Builder::new().name("watchdog".to_owned()).spawn(watch).context("cannot start a thread")?;
        Ok(())
    }
}

impl Inner {
    fn send(&self, message: Message<'_>) {
        if let Err(error) = self.manager.tell(message) {
            tracing::debug!("the service manager is not told {message:?}: {error}");
        }
    }
}

/// The server whose signs of life are looked for.
pub(crate) struct Subject {
    pub(crate) shutdown: Shutdown,
    /// Sockets that connections are accepted from.
    pub(crate) sockets: Vec<ListenerHandle>,
    /// Number of connections that have been accepted or refused, of a server that listens.
    pub(crate) count_accepted: Option<Box<dyn Fn() -> u64 + Send>>,
}

impl Subject {
    /// Number of connections that have been taken, if any wait to be.
    fn waiting(&self) -> Option<u64> {
        let count = self.count_accepted.as_ref()?;
        self.sockets.iter().any(ListenerHandle::has_waiting).then(count)
    }
}

/// Asks again and again. Whoever is late is waited for until it is time to ask again.
fn watch(inner: &Inner, subject: &Subject, interval: Duration) {
    while !inner.is_over.load(Ordering::Acquire) {
        let begun = Instant::now();
        let waiting = subject.waiting();
        subject.shutdown.ask_loops();
        while subject.shutdown.count_silent_loops() > 0 && begun.elapsed() < interval {
            thread::sleep(LOOK_INTERVAL.min(interval));
        }
        let silent = subject.shutdown.count_silent_loops();
        if silent == 0 {
            thread::sleep(interval.saturating_sub(begun.elapsed()));
        }
        // The loops have turned meanwhile: what waited before has been accepted, or what waits now never will be.
        let is_deaf = waiting.is_some() && waiting == subject.waiting();
        match (silent, is_deaf) {
            (0, false) if !inner.is_over.load(Ordering::Acquire) => inner.send(Message::Alive),
            (0, false) => {}
            (0, true) => tracing::error!("watchdog: connections wait, and none is accepted"),
            (silent, _) => tracing::error!("watchdog: loops that have not turned for {interval:?}: {silent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpStream, os::unix::net::UnixDatagram, sync::atomic::AtomicU64};

    use sys::listen::{Listener, Sharing};

    use super::*;

    /// Here nobody accepts, and then somebody does, while connections go on waiting.
    #[test]
    fn connections_that_nobody_accepts_are_no_sign_of_life() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager::connect(path.as_os_str(), None).unwrap();
        let inner = Inner { manager, is_over: AtomicBool::new(false) };
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), Sharing::Alone).unwrap();
        let _client = TcpStream::connect(listener.address().to_string()).unwrap();
        let accepted = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&accepted);
        let looks = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&looks);
        let count = move || {
            seen.fetch_add(1, Ordering::Relaxed);
            counted.load(Ordering::Relaxed)
        };
        let subject = Subject {
            shutdown: Shutdown::default(),
            sockets: vec![listener.handle()],
            count_accepted: Some(Box::new(count)),
        };
        let inner = &inner;
        thread::scope(|scope| {
            scope.spawn(move || watch(inner, &subject, Duration::from_millis(1)));
            while looks.load(Ordering::Relaxed) < 20 {
                thread::yield_now();
            }
            socket.set_nonblocking(true).unwrap();
            let heard = socket.recv(&mut [0; 64]);
            let advanced = thread::scope(|scope| {
                let busy = scope.spawn(|| {
                    while !inner.is_over.load(Ordering::Relaxed) {
                        accepted.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                    }
                });
                socket.set_nonblocking(false).unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
                let heard = socket.recv(&mut [0; 64]);
                inner.is_over.store(true, Ordering::Relaxed);
                busy.join().unwrap();
                heard
            });
            assert!(heard.is_err(), "it is deaf, and says that it lives");
            assert!(advanced.is_ok(), "it accepts, and does not say that it lives");
        });
    }
}
