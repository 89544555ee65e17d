//! Listening sockets, TCP and unix (socket(7), unix(7)).

use std::{
    fmt,
    fs::{self, Permissions},
    io,
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{
            fs::{FileTypeExt, PermissionsExt},
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
    str::FromStr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::Mode,
    io::Errno,
    net::SocketFlags,
};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::eventfd::EventFd;

/// Congestion control where there is no congestion: a connection within this host. A default that paces (bbr) would
/// arm a timer for every 64 KiB of a large body, which costs several times what sending them does. Every kernel has
/// this one.
pub const LOOPBACK_CONGESTION: &str = "reno";

/// Address that a server listens on: `127.0.0.1:8080`, `[::]:8080`, `localhost:0`, `unix:/run/x.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Error of a text that is not an address.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an address: expected HOST:PORT or unix:/PATH")]
pub struct AddressError(String);

impl Address {
    /// True if a socket of this address is what was asked for by `wanted`, whose port may be 0: any.
    pub fn is_instance_of(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::Tcp(address), Self::Tcp(wanted)) if wanted.port() == 0 => address.ip() == wanted.ip(),
            _ => self == wanted,
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError(text.to_owned());
        match text.strip_prefix("unix:") {
            Some("") => Err(error()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => Ok(Self::Tcp(text.to_socket_addrs().map_err(|_| error())?.next().ok_or_else(error)?)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Sharing of a port by several sockets of one process, to which the kernel deals out the connections (SO_REUSEPORT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    Alone,
    AmongThreads,
}

/// Options of a listening socket and of its connections in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections that wait to be accepted (listen(2)); the kernel cuts it to `net.core.somaxconn`.
    pub backlog: i32,
    /// SO_RCVBUF and SO_SNDBUF of TCP connections in bytes, which the kernel cuts to `net.core.rmem_max` and
    /// `net.core.wmem_max` and then doubles; `None`: those that it adapts to each connection. Those of a unix socket
    /// stay as they are, since its connections inherit nothing.
    pub buffer_bytes: Option<usize>,
    /// Permissions of the file of a unix socket; `None`: those that the umask leaves.
    pub socket_mode: Option<u32>,
}

impl ListenOptions {
    pub const BACKLOG: i32 = 4096;
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: Self::BACKLOG, buffer_bytes: None, socket_mode: None }
    }
}

/// A bound, listening socket, which never blocks. The file of a unix socket is removed when the one that made it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: Arc<OwnedFd>,
    address: Address,
    options: ListenOptions,
    file: Option<Arc<SocketFile>>,
    /// Place of the address among those of the server.
    front_end: usize,
}

/// File of a unix socket; removed when this is dropped, by the process that it belongs to.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    is_ours: AtomicBool,
}

impl SocketFile {
    fn remove(&self) {
        if self.is_ours.swap(false, Ordering::AcqRel) {
            let _ = fs::remove_file(&self.path); // Somebody else removed it: as good.
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A listening socket of a server, which may have been closed since: for a process that succeeds this one, and for an
/// exit that drops nothing.
#[derive(Clone, Debug)]
pub struct ListenerHandle {
    socket: Weak<OwnedFd>,
    file: Option<Weak<SocketFile>>,
}

impl ListenerHandle {
    /// Returns another descriptor of the socket; `None` if it is closed.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn duplicate(&self) -> io::Result<Option<OwnedFd>> {
        self.socket.upgrade().map(|socket| socket.try_clone()).transpose()
    }

    /// True if a connection waits to be accepted.
    pub fn has_waiting(&self) -> bool {
        let Some(socket) = self.socket.upgrade() else { return false };
        let mut wanted = [PollFd::new(&socket, PollFlags::IN)];
        poll(&mut wanted, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// True if the socket has a file, which whoever listens last has to remove.
    pub fn owns_file(&self) -> bool {
        self.file().is_some_and(|file| file.is_ours.load(Ordering::Acquire))
    }

    /// Leaves the file to the process that has the socket, too.
    pub fn give_file_away(&self) {
        if let Some(file) = self.file() {
            file.is_ours.store(false, Ordering::Release);
        }
    }

    /// Removes the file, as the listener does when it is dropped.
    pub fn remove_file(&self) {
        if let Some(file) = self.file() {
            file.remove();
        }
    }

    fn file(&self) -> Option<Arc<SocketFile>> {
        self.file.as_ref()?.upgrade()
    }
}

impl Listener {
    /// [`Listener::bind_with`] the usual options.
    pub fn bind(address: &Address, sharing: Sharing) -> io::Result<Self> {
        Self::bind_with(address, sharing, ListenOptions::default())
    }

    /// # Errors
    /// `AddrInUse` when another server listens there. With [`Sharing::AmongThreads`] that is found out by binding alone
    /// first: the kernel would let two servers of one user share a port without a word. Nobody listens yet when it does: a
    /// client that came just then would be accepted, and reset.
    pub fn bind_with(address: &Address, sharing: Sharing, options: ListenOptions) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                if sharing == Sharing::AmongThreads && address.port() != 0 {
                    drop(bind_tcp(*address, Sharing::Alone, options)?);
                }
                Self::from_tcp(listen_tcp(*address, sharing, options)?, options)
            }
            Address::Unix(path) => {
                remove_stale(path)?;
                let socket = Arc::new(bind_unix(path, options)?);
                let file = Some(Arc::new(SocketFile { path: path.clone(), is_ours: AtomicBool::new(true) }));
                Ok(Self { socket, address: address.clone(), options, file, front_end: 0 })
            }
        }
    }

    fn from_tcp(socket: TcpListener, options: ListenOptions) -> io::Result<Self> {
        let address = Address::Tcp(socket.local_addr()?);
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Arc::new(socket.into()), address, options, file: None, front_end: 0 })
    }

    /// Takes over a socket that somebody else has made. Its file, if it has one, is removed with the listener only if it
    /// `owns_file`.
    ///
    /// # Errors
    /// `InvalidInput`: it is no listening stream socket, or has no address.
    pub(crate) fn adopt(socket: OwnedFd, owns_file: bool) -> io::Result<Self> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
        let socket = Socket::from(socket);
        if socket.r#type()? != Type::STREAM || !socket.is_listener()? {
            return Err(invalid("it is not a listening stream socket"));
        }
        let (address, options) = (socket.local_addr()?, ListenOptions::default());
        socket.set_nonblocking(true)?;
        if let Some(address) = address.as_socket() {
            socket.set_tcp_nodelay(true)?;
            choose_congestion_control(&socket, address);
            return Self::from_tcp(socket.into(), options);
        }
        let path = address.as_pathname().ok_or_else(|| invalid("it has no path"))?.to_owned();
        let file = owns_file.then(|| Arc::new(SocketFile { path: path.clone(), is_ours: AtomicBool::new(true) }));
        Ok(Self { socket: Arc::new(socket.into()), address: Address::Unix(path), options, file, front_end: 0 })
    }

    /// Applies the options of a listener that was adopted.
    ///
    /// # Errors
    /// Those of listen(2).
    pub fn with_options(self, options: ListenOptions) -> io::Result<Self> {
        rustix::net::listen(&self.socket, options.backlog)?;
        Ok(Self { options, ..self })
    }

    /// The same, as the one at this place among the server's addresses.
    #[must_use]
    pub fn at_front_end(self, front_end: usize) -> Self {
        Self { front_end, ..self }
    }

    /// Place of the address among those of the server: several sockets may have the same.
    pub fn front_end(&self) -> usize {
        self.front_end
    }

    pub fn handle(&self) -> ListenerHandle {
        ListenerHandle { socket: Arc::downgrade(&self.socket), file: self.file.as_ref().map(Arc::downgrade) }
    }

    /// Another listener at the same address for another thread: a socket of its own for TCP, the same one for unix, and
    /// where the socket was inherited from somebody who shares no port.
    pub fn another(&self) -> io::Result<Self> {
        let (options, front_end) = (self.options, self.front_end);
        match &self.address {
            Address::Tcp(address) if SockRef::from(&self.socket).reuse_port()? => {
                let another = Self::from_tcp(listen_tcp(*address, Sharing::AmongThreads, options)?, options)?;
                Ok(another.at_front_end(front_end))
            }
            Address::Tcp(_) | Address::Unix(_) => {
                let (socket, address) = (Arc::clone(&self.socket), self.address.clone());
                Ok(Self { socket, address, options, file: None, front_end })
            }
        }
    }

    /// The address, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for a connection, or until `wake` is poked. It may return with neither.
    pub fn wait(&self, wake: &EventFd) -> io::Result<()> {
        let mut both = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The next connection, made non-blocking or not; `WouldBlock` if none is waiting.
    pub fn accept(&self, nonblocking: bool) -> io::Result<OwnedFd> {
        let mode = if nonblocking { SocketFlags::NONBLOCK } else { SocketFlags::empty() };
        Ok(rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | mode)?)
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn listen_tcp(address: SocketAddr, sharing: Sharing, options: ListenOptions) -> io::Result<TcpListener> {
    let socket = bind_tcp(address, sharing, options)?;
    socket.listen(options.backlog)?;
    Ok(socket.into())
}

/// Binds a socket that does not listen. An address at which another socket listens is in use.
fn bind_tcp(address: SocketAddr, sharing: Sharing, options: ListenOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sharing == Sharing::AmongThreads)?;
    // Accepted sockets inherit what follows: one call here instead of one per connection.
    socket.set_tcp_nodelay(true)?;
    if let Some(bytes) = options.buffer_bytes {
        // Before listening, since the window that is announced to new connections depends on it (tcp(7)).
        socket.set_recv_buffer_size(bytes)?;
        socket.set_send_buffer_size(bytes)?;
    }
    choose_congestion_control(&socket, address);
    socket.bind(&address.into())?;
    Ok(socket)
}

fn bind_unix(path: &Path, options: ListenOptions) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.cloexec(), None)?;
    if let Some(mode) = options.socket_mode {
        // The file is made with the permissions of its socket, less the umask: nobody can connect whom they shut out.
        rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))?;
    }
    socket.bind(&SockAddr::unix(path)?)?;
    if let Some(mode) = options.socket_mode {
        // And those that the umask has taken away are given again.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    socket.set_nonblocking(true)?;
    rustix::net::listen(&socket, options.backlog)?;
    Ok(socket.into())
}

fn choose_congestion_control(socket: &Socket, address: SocketAddr) {
    if address.ip().is_loopback() {
        // Without it the system's default works, too.
        let _ = rustix::net::sockopt::set_tcp_congestion(socket, LOOPBACK_CONGESTION);
    }
}

/// Removes the socket file of a server that is gone; a living one's stays, and binding will say so.
fn remove_stale(path: &PathBuf) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if is_socket && matches!(UnixStream::connect(path), Err(e) if e.kind() == io::ErrorKind::ConnectionRefused) {
        fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
