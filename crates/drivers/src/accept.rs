//! Admission of connections: their limit, and what happens when descriptors run out.

use std::{
    fmt, io, mem,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use proto::{Admission, ClientPermit, TooMany};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};
use sys::{eventfd::EventFd, listen::Listener, socket};

use crate::{Config, counters::Tally, peer};

/// Pause of an acceptor when even the reserve descriptor is gone.
pub const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
/// Interval at which refusals are logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Counts the open connections of a server.
#[derive(Debug)]
pub struct ConnectionLimit {
    open: AtomicUsize,
    max: usize,
    /// Rules about who may connect.
    admission: Option<&'static Admission>,
    report: RefusalReport,
}

/// Says in the log that connections are refused, once in an interval for all threads of a server.
#[derive(Debug, Default)]
struct RefusalReport(Mutex<Unreported>);

/// Refusals since the last line in the log, and its time.
#[derive(Debug, Default)]
struct Unreported {
    count: u64,
    reported_at: Option<Instant>,
}

impl RefusalReport {
    fn refused(&self, why: fmt::Arguments<'_>) {
        let mut unreported = self.0.lock();
        unreported.count += 1;
        if unreported.reported_at.is_none_or(|at| at.elapsed() > REPORT_INTERVAL) {
            let Unreported { count, .. } =
                mem::replace(&mut *unreported, Unreported { count: 0, reported_at: Some(Instant::now()) });
            drop(unreported); // Whoever reads the log may be slow.
            tracing::warn!("connections are refused: {why} ({count} since the last such line)");
        }
    }
}

/// Permit of one open connection, which counts it until it is dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    /// Counts it as one of its client's, too.
    _client: Option<ClientPermit>,
}

impl ConnectionLimit {
    pub fn new(config: &Config) -> Arc<Self> {
        Self::with(config.connections_max, config.limits.admission)
    }

    pub(crate) fn with(max: usize, admission: Option<&'static Admission>) -> Arc<Self> {
        Arc::new(Self { open: AtomicUsize::new(0), max, admission, report: RefusalReport::default() })
    }

    fn admit(self: &Arc<Self>, socket: BorrowedFd<'_>) -> Result<ConnectionPermit, Refusal> {
        // What is refused is counted until the permit is dropped.
        let mut permit = ConnectionPermit { limit: Arc::clone(self), _client: None };
        if self.open.fetch_add(1, Relaxed) >= self.max {
            return Err(Refusal::Full);
        }
        if let Some(admission) = self.admission {
            permit._client = admit_client(admission, socket).map_err(Refusal::TooMany)?;
        }
        Ok(permit)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limit.open.fetch_sub(1, Relaxed);
    }
}

/// Reason why a connection is refused.
enum Refusal {
    Full,
    /// Its client has as many as it may.
    TooMany(TooMany),
}

/// Counts a connection as one of its client's. A proxy is none: its session counts the client that it speaks for.
#[cold]
fn admit_client(admission: &'static Admission, socket: BorrowedFd<'_>) -> Result<Option<ClientPermit>, TooMany> {
    let Some(clients) = &admission.clients else { return Ok(None) };
    let peer = peer::address(socket);
    match peer.ip() {
        Some(ip) if !admission.is_proxy(peer) => clients.admit(ip.into()).map(Some),
        Some(_) | None => Ok(None),
    }
}

/// Outcome of an attempt to accept.
#[derive(Debug)]
pub enum Accepted {
    Connection(OwnedFd, ConnectionPermit),
    /// One was refused, or was gone before it could be accepted. There may be others.
    Skipped,
    /// No connection is waiting.
    Empty,
    /// No descriptor to take one with: pause for [`EXHAUSTED_PAUSE`].
    Exhausted,
}

/// Accepts connections for one thread, up to the [`ConnectionLimit`].
#[derive(Debug)]
pub struct Acceptor {
    limit: Arc<ConnectionLimit>,
    refusal: Vec<u8>,
    /// Given up to take, and refuse, a connection that there is no descriptor for: left in the queue it would wake an
    /// event loop for ever.
    reserve: Option<EventFd>,
    /// [`Acceptor::accept_next`] has just taken a connection.
    has_taken: bool,
}

impl Acceptor {
    pub fn new(limit: &Arc<ConnectionLimit>, refusal: &[u8]) -> io::Result<Self> {
        Ok(Self {
            limit: Arc::clone(limit),
            refusal: refusal.to_vec(),
            reserve: Some(EventFd::new()?),
            has_taken: false,
        })
    }

    /// Takes a connection.
    ///
    /// # Errors
    /// An error that makes the listener useless.
    pub fn accept(&mut self, listener: &Listener, nonblocking: bool, tally: &mut Tally) -> io::Result<Accepted> {
        match listener.accept(nonblocking) {
            Ok(socket) => Ok(self.admit(socket, tally)),
            Err(error) => self.failed(listener, error, tally),
        }
    }

    /// The same for a loop that asks until nobody is waiting. Where it has just taken a connection it looks first whether there is
    /// another: the kernel makes a socket before it finds that there is none, which costs fifteen times as much.
    ///
    /// # Errors
    /// Those of [`Acceptor::accept`].
    pub fn accept_next(&mut self, listener: &Listener, nonblocking: bool, tally: &mut Tally) -> io::Result<Accepted> {
        if mem::take(&mut self.has_taken) && !is_waiting(listener).unwrap_or(true) {
            return Ok(Accepted::Empty);
        }
        let accepted = self.accept(listener, nonblocking, tally);
        self.has_taken = matches!(accepted, Ok(Accepted::Connection(..)));
        accepted
    }

    pub fn admit(&mut self, socket: OwnedFd, tally: &mut Tally) -> Accepted {
        match self.limit.admit(socket.as_fd()) {
            Ok(permit) => {
                tally.0.accepted += 1;
                Accepted::Connection(socket, permit)
            }
            Err(Refusal::TooMany(error)) => {
                if error.is_first {
                    self.warn(format_args!("{error}"));
                }
                self.refuse(&socket, tally)
            }
            Err(Refusal::Full) => {
                let max = self.limit.max;
                self.warn(format_args!("{max} are open; raise --max-connections or the limit of open files"));
                self.refuse(&socket, tally)
            }
        }
    }

    fn refuse(&self, socket: &OwnedFd, tally: &mut Tally) -> Accepted {
        tally.0.refused += 1;
        // A refusal that cannot be sent is not missed.
        let _ = socket::send_now(socket.as_fd(), &self.refusal);
        Accepted::Skipped
    }

    /// Refuses a connection that has been admitted, when there is no thread to serve it after all. It counts as refused
    /// only.
    pub fn refuse_admitted(&self, socket: &OwnedFd, tally: &mut Tally) {
        tally.0.accepted -= 1;
        self.warn(format_args!("no thread can be started; lower --max-connections or try another --driver"));
        self.refuse(socket, tally);
    }

    /// Interprets an accept that failed.
    pub fn failed(&mut self, listener: &Listener, error: io::Error, tally: &mut Tally) -> io::Result<Accepted> {
        match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) => Ok(Accepted::Empty),
            // accept(2): errors of the new connection, and of the network beneath it, are no errors of the listener.
            Some(
                Errno::CONNABORTED
                | Errno::INTR
                | Errno::PERM
                | Errno::PROTO
                | Errno::NETDOWN
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::NONET
                | Errno::HOSTUNREACH
                | Errno::OPNOTSUPP
                | Errno::NETUNREACH
                | Errno::TIMEDOUT,
            ) => Ok(Accepted::Skipped),
            Some(Errno::MFILE | Errno::NFILE) => Ok(self.shed(listener, &error, tally)),
            Some(Errno::NOBUFS | Errno::NOMEM) => Ok(Accepted::Exhausted),
            _ => Err(error),
        }
    }

    /// Warns that a connection is refused, and why; once in an interval only.
    pub(crate) fn warn(&self, why: fmt::Arguments<'_>) {
        self.limit.report.refused(why);
    }

    /// Takes one connection with the reserve descriptor and refuses it.
    fn shed(&mut self, listener: &Listener, error: &io::Error, tally: &mut Tally) -> Accepted {
        self.warn(format_args!("{error}; raise the limit of open files or lower --max-connections"));
        // The kernel looks for a free descriptor first: it says so with nobody waiting, too, and to ask again at once
        // would be to ask for ever.
        let mut outcome = Accepted::Exhausted;
        if self.reserve.take().is_some()
            && is_waiting(listener).unwrap_or(false)
            && let Ok(socket) = listener.accept(true)
        {
            outcome = self.refuse(&socket, tally);
        }
        self.reserve = EventFd::new().ok();
        if self.reserve.is_some() { outcome } else { Accepted::Exhausted }
    }
}

/// Asks whether a connection waits, without waiting for one.
fn is_waiting(listener: &Listener) -> Result<bool, Errno> {
    let mut wanted = [PollFd::new(listener, PollFlags::IN)];
    rustix::event::poll(&mut wanted, Some(&Timespec::default())).map(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use sys::listen::{Address, Sharing};

    use super::*;

    #[test]
    fn the_limit_counts_open_connections() {
        let (limit, socket) = (ConnectionLimit::with(2, None), EventFd::new().unwrap());
        let admit = || limit.admit(socket.as_fd());
        let (first, second) = (admit(), admit());
        assert!(first.is_ok() && second.is_ok());
        assert!(admit().is_err());
        drop(first);
        assert!(admit().is_ok());
    }

    #[test]
    fn each_connection_is_taken_and_then_there_is_none() {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), Sharing::Alone).unwrap();
        let Address::Tcp(address) = *listener.address() else { panic!("not TCP") };
        let mut acceptor = Acceptor::new(&ConnectionLimit::with(9, None), b"").unwrap();
        let mut tally = Tally::default();
        for waiting in [2, 0, 1, 3] {
            let clients: Vec<_> = (0..waiting).map(|_| TcpStream::connect(address).unwrap()).collect();
            for _ in &clients {
                let accepted = acceptor.accept_next(&listener, true, &mut tally).unwrap();
                assert!(matches!(accepted, Accepted::Connection(..)), "{accepted:?}");
            }
            for _ in 0..2 {
                let accepted = acceptor.accept_next(&listener, true, &mut tally).unwrap();
                assert!(matches!(accepted, Accepted::Empty), "{accepted:?}");
            }
        }
        assert_eq!(tally.0.accepted, 6);
    }
}
