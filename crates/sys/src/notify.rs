//! Messages of a service to its manager, by datagrams as sd_notify(3) describes.

use std::{
    env,
    ffi::OsStr,
    fmt,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    process,
    time::Duration,
};

use rustix::{
    cmsg_space,
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
        connect, send, sendmsg, socket_with,
    },
    time::{ClockId, clock_gettime},
};

use crate::successor::Role;

const SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG_TIME: &str = "WATCHDOG_USEC";
/// Number of descriptors that the service manager keeps for a service. systemd says it since version 254.
const STORE: &str = "FDSTORE";
/// Process that the watchdog is for. A process that succeeds it must not be told of it.
pub(crate) const WATCHDOG_PROCESS: &str = "WATCHDOG_PID";

/// State of a service, or its main process, or its sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// It serves, for the first time or again after [`Message::Reloading`].
    Ready {
        status: &'a str,
    },
    Reloading,
    Stopping,
    /// It serves on, by another process.
    HandedOver {
        to: u32,
    },
    /// Sign of life, which is due within [`ServiceManager::watchdog`].
    Alive,
}

/// The service manager that has started this process, or its predecessor.
#[derive(Debug)]
pub struct ServiceManager {
    /// Connected once, so that a confined process needs no right to open sockets.
    socket: OwnedFd,
    watchdog: Option<Duration>,
    /// Number of descriptors that it keeps for the next process of the service.
    kept_max: u64,
}

impl ServiceManager {
    /// Connects to the service manager that the environment names; `None`: it names none.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn from_environment() -> io::Result<Option<Self>> {
        let Some(name) = env::var_os(SOCKET).filter(|name| !name.is_empty()) else { return Ok(None) };
        let number = |variable| env::var(variable).ok().and_then(|value| value.parse::<u64>().ok());
        let is_ours = number(WATCHDOG_PROCESS).is_none_or(|id| id == u64::from(process::id()));
        let watchdog = number(WATCHDOG_TIME).filter(|&time| is_ours && time > 0).map(Duration::from_micros);
        let manager = Self::connect(&name, watchdog);
        let manager = manager.map_err(|error| io::Error::new(error.kind(), format!("{SOCKET}: {error}")))?;
        Ok(Some(Self { kept_max: number(STORE).unwrap_or(0), ..manager }))
    }

    /// Connects to a path, or to an abstract name, which begins with `@`.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn connect(name: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match name.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddrUnix::new_abstract_name(name)?,
            _ => SocketAddrUnix::new(name)?,
        };
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &address)?;
        Ok(Self { socket, watchdog, kept_max: 0 })
    }

    /// Returns the time within which the service has to say that it is alive; `None`: nobody waits for that.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// True if it keeps descriptors for the next process of the service.
    pub fn keeps_descriptors(&self) -> bool {
        self.kept_max > 0
    }

    /// Has it keep a descriptor and give it to the next process of the service as [`Role::KeptFile`]. One that it has already is
    /// kept once.
    ///
    /// # Errors
    /// Those of sendmsg(2).
    pub fn keep(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let message = format!("FDSTORE=1\nFDNAME={}", Role::KeptFile.name());
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&self.socket, &[IoSlice::new(message.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// # Errors
    /// Those of send(2): the service manager has gone, and will not be missed.
    pub fn tell(&self, message: Message<'_>) -> io::Result<()> {
        send(&self.socket, message.to_string().as_bytes(), SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A status is one line.
            Self::Ready { status } => write!(f, "READY=1\nSTATUS={}", status.replace('\n', " ")),
            Self::Reloading => {
                let now = clock_gettime(ClockId::Monotonic);
                let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
                write!(f, "RELOADING=1\nMONOTONIC_USEC={microseconds}")
            }
            Self::Stopping => f.write_str("STOPPING=1"),
            Self::HandedOver { to } => write!(f, "READY=1\nMAINPID={to}"),
            Self::Alive => f.write_str("WATCHDOG=1"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    };

    use super::*;

    fn received(manager: &UnixDatagram) -> String {
        let mut message = [0; 256];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    }

    #[test]
    fn messages_reach_a_manager_by_path_and_by_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("quintet-notify-{}", process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        for (manager, name) in [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}").into()),
        ] {
            let service = ServiceManager::connect(&name, None).unwrap();
            service.tell(Message::Ready { status: "one\nline" }).unwrap();
            assert_eq!(received(&manager), "READY=1\nSTATUS=one line");
            service.tell(Message::HandedOver { to: 7 }).unwrap();
            assert_eq!(received(&manager), "READY=1\nMAINPID=7");
            drop(manager);
            assert!(service.tell(Message::Stopping).is_err());
        }
    }

    #[test]
    fn a_reload_has_the_time_of_the_monotonic_clock() {
        let text = Message::Reloading.to_string();
        let time = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        let now = clock_gettime(ClockId::Monotonic);
        let difference = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000 - time.parse::<i64>().unwrap();
        assert!((0..60_000_000).contains(&difference), "{text}");
    }
}
