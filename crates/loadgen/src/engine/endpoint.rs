//! Address of a server, and connecting to it without waiting.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use nix::sys::socket::{
    SetSockOpt as _,
    sockopt::{IpBindAddressNoPort, TcpFastOpenConnect},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fd::OwnedFd,
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with, sockopt},
};
use sys::listen::LOOPBACK_CONGESTION;

use super::tls::Tls;
use crate::clock;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Reasons why a text names no server.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("`{0}` is not an address like 127.0.0.1:6379 or unix:/run/server.sock")]
    Malformed(String),
    #[error("cannot resolve `{host}`: {why}")]
    Unresolved { host: String, why: String },
}

/// Options of a TCP connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectOptions {
    /// Address that it comes from; `None` leaves it to the kernel.
    pub(super) source: Option<IpAddr>,
    /// The first bytes go out with the SYN, if the server has given a cookie for it.
    pub(super) is_fast_open: bool,
    /// Closing it is a reset, which leaves nothing behind in TIME_WAIT.
    pub(super) is_linger_zero: bool,
}

/// Attempt to connect that has not failed.
pub(super) enum Attempt {
    Connected(OwnedFd),
    /// The socket becomes writable when the attempt is decided.
    Pending(OwnedFd),
    /// A unix listener's queue is full; there is nothing to wait on.
    QueueFull,
}

impl Endpoint {
    /// Parses `host:port` or `unix:/path`.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let malformed = || EndpointError::Malformed(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(malformed()) } else { Ok(Self::Unix(path.into())) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || (host.contains(':') && !is_bracketed) || host.contains('/') {
            return Err(malformed());
        }
        Self::resolve(host.trim_start_matches('[').trim_end_matches(']'), port)
    }

    /// Finds the address of a host.
    pub fn resolve(host: &str, port: u16) -> Result<Self, EndpointError> {
        let unresolved = |why: String| EndpointError::Unresolved { host: host.to_owned(), why };
        let found = (host, port).to_socket_addrs().map_err(|error| unresolved(error.to_string()))?;
        let addresses: Vec<_> = found.collect();
        // `localhost` is often both; servers more often listen on the older one.
        let preferred = addresses.iter().find(|address| address.is_ipv4()).or_else(|| addresses.first());
        preferred.copied().map(Self::Tcp).ok_or_else(|| unresolved("no address".to_owned()))
    }

    /// Checks that a server is there: makes one connection and closes it at once, or after a handshake. Over TCP it
    /// comes from `source`, if there is one.
    pub fn probe(&self, timeout: Duration, tls: Option<&Tls>, source: Option<IpAddr>) -> io::Result<()> {
        if let Some(tls) = tls {
            return match self {
                Self::Tcp(address) => {
                    let mut stream = self.connect_in_time(address, source, timeout)?;
                    stream.set_read_timeout(Some(timeout))?;
                    stream.set_write_timeout(Some(timeout))?;
                    tls.shake_hands(&mut stream)
                }
                Self::Unix(path) => {
                    let mut stream = UnixStream::connect(path)?;
                    stream.set_read_timeout(Some(timeout))?;
                    stream.set_write_timeout(Some(timeout))?;
                    tls.shake_hands(&mut stream)
                }
            };
        }
        match self {
            Self::Tcp(address) => self.connect_in_time(address, source, timeout).map(drop),
            // Decided at once. A blocking attempt would wait for ever on a full queue, which belongs to a server all the same.
            Self::Unix(_) => self.connect(ConnectOptions::default()).map(drop).map_err(Into::into),
        }
    }

    /// Makes a blocking connection to `address`, which is this endpoint's.
    fn connect_in_time(
        &self,
        address: &SocketAddr,
        source: Option<IpAddr>,
        timeout: Duration,
    ) -> io::Result<TcpStream> {
        if source.is_none() {
            return TcpStream::connect_timeout(address, timeout);
        }
        // With a fast open nothing would go out before there is something to say.
        let socket = match self.connect(ConnectOptions { source, ..ConnectOptions::default() })? {
            Attempt::Connected(socket) => socket,
            Attempt::Pending(socket) => {
                let until = clock::timespec(clock::nanos(timeout));
                if poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&until))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                sockopt::socket_error(&socket)??;
                socket
            }
            Attempt::QueueFull => return Err(io::ErrorKind::WouldBlock.into()),
        };
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// Checks that the kernel lets clients of this server use TCP Fast Open.
    ///
    /// # Errors
    /// It does not (`net.ipv4.tcp_fastopen` has no bit 1), or there is no TCP here.
    pub fn try_fast_open(&self) -> io::Result<()> {
        let Self::Tcp(address) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        Ok(set_fast_open(&socket)?)
    }

    /// Begins to connect.
    pub(super) fn connect(&self, options: ConnectOptions) -> Result<Attempt, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let open = |family| socket_with(family, SocketType::STREAM, flags, None);
        let (socket, connected) = match self {
            Self::Tcp(address) => {
                let socket = open(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                if address.ip().is_loopback() {
                    // Without it the system's default works, too.
                    let _ = sockopt::set_tcp_congestion(&socket, LOOPBACK_CONGESTION);
                }
                if let Some(source) = options.source {
                    bind_without_port(&socket, source)?;
                }
                if options.is_fast_open {
                    set_fast_open(&socket)?;
                }
                if options.is_linger_zero {
                    sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
                }
                let connected = connect(&socket, address);
                (socket, connected)
            }
            Self::Unix(path) => {
                let socket = open(AddressFamily::UNIX)?;
                let connected = connect(&socket, &SocketAddrUnix::new(path)?);
                (socket, connected)
            }
        };
        match (connected, self) {
            (Ok(()), _) => Ok(Attempt::Connected(socket)),
            (Err(Errno::INPROGRESS), _) => Ok(Attempt::Pending(socket)),
            (Err(Errno::AGAIN), Self::Unix(_)) => Ok(Attempt::QueueFull),
            (Err(error), _) => Err(error),
        }
    }
}

/// Lets connections come from `source`. Their port is chosen by connect(2), which may take one that a connection to
/// another address has already; bind(2) may not, and would run out of them sooner.
fn bind_without_port(socket: &OwnedFd, source: IpAddr) -> Result<(), Errno> {
    IpBindAddressNoPort.set(socket, &true).map_err(|error| Errno::from_raw_os_error(error as i32))?;
    bind(socket, &SocketAddr::new(source, 0))
}

/// Lets connect(2) wait for the first bytes where there is a cookie; it then succeeds at once, and what is wrong shows
/// later.
fn set_fast_open(socket: &OwnedFd) -> Result<(), Errno> {
    TcpFastOpenConnect.set(socket, &true).map_err(|error| Errno::from_raw_os_error(error as i32))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_comes_from_its_source_address() {
        use nix::sys::socket::GetSockOpt as _;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = Endpoint::Tcp(listener.local_addr().expect("bound"));
        let source = IpAddr::from([127, 0, 0, 9]);
        let attempt =
            endpoint.connect(ConnectOptions { source: Some(source), ..ConnectOptions::default() }).expect("it listens");
        let (Attempt::Connected(socket) | Attempt::Pending(socket)) = attempt else { panic!("TCP has no full queue") };
        let (_, peer) = listener.accept().expect("a connection");
        assert_eq!(peer.ip(), source);
        assert!(IpBindAddressNoPort.get(&socket).expect("a TCP socket"));
        assert!(endpoint.probe(Duration::from_secs(5), None, Some(source)).is_ok());
        drop(listener);
        assert!(endpoint.probe(Duration::from_secs(5), None, Some(source)).is_err());
    }

    #[test]
    fn addresses_are_parsed_or_refused() {
        for text in ["127.0.0.1:6379", "[::1]:6379", "unix:/run/x.sock"] {
            assert_eq!(Endpoint::parse(text).expect(text).to_string(), text);
        }
        for text in
            ["", "127.0.0.1", ":6379", "::1:6379", "127.0.0.1:x", "127.0.0.1:99999", "redis://127.0.0.1:6379", "unix:"]
        {
            assert!(matches!(Endpoint::parse(text), Err(EndpointError::Malformed(_))), "{text:?}");
        }
    }
}
