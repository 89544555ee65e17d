//! Classes of failures. The set is fixed, so that results can be compared and the sums are exact.

use rustix::io::Errno;

/// Declares the classes once: the enum, [`ErrorClass::ALL`] and the names in JSON cannot differ.
macro_rules! error_classes {
    ($($(#[doc = $doc:literal])+ $class:ident = $name:literal,)+) => {
        /// Class of a request's failure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ErrorClass { $($(#[doc = $doc])+ $class,)+ }

        impl ErrorClass {
            pub const ALL: &'static [Self] = &[$(Self::$class,)+];

            /// Returns the key in `errors{}`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$class => $name,)+ }
            }
        }
    };
}

error_classes! {
    /// No process listens at the address.
    ConnectRefused = "connect_refused",
    /// No answer to the connection attempt within the timeout.
    ConnectTimeout = "connect_timeout",
    /// The connection could not be made for another reason (unreachable, not permitted, …).
    ConnectFailed = "connect_failed",
    /// The TLS handshake failed, or the server ended the connection in it.
    Tls = "tls",
    /// The server reset the connection.
    Reset = "reset",
    /// The server closed the connection before the reply, or inside its head, without having announced it.
    EofEarly = "eof_early",
    /// The request could not be written.
    WriteError = "write_error",
    /// No byte of the reply within the timeout for its first byte.
    TimeoutFirstByte = "timeout_first_byte",
    /// No complete reply within the timeout.
    Timeout = "timeout",
    /// The reply is not valid in its protocol, or no request was in flight.
    Protocol = "protocol",
    /// The server answered that it failed or refused (HTTP: anything but 2xx; caches: an error reply).
    Status = "status",
    /// The server gave the request up: its stream by RST_STREAM, or its connection by a GOAWAY that names an error (HTTP/2).
    StreamReset = "stream_reset",
    /// The connection, or the stream, ended inside the body.
    ShortBody = "short_body",
    /// The body is complete but not as long as it should be.
    Length = "length",
    /// The body is not what it should be.
    Content = "content",
    /// The body has another content coding than that of the first good reply.
    Encoding = "encoding",
    /// The server does not have a key that it should have.
    Miss = "miss",
    /// No local port was left (EADDRNOTAVAIL): `--source-address` has more.
    NoPort = "no_port",
    /// The server's queue was full until the timeout.
    QueueFull = "queue_full",
    /// A FIFO for the answer could not be made, opened or read.
    Fifo = "fifo",
    /// No file descriptor was left (EMFILE, ENFILE).
    FdLimit = "fd_limit",
    /// The request fell due, but found no connection (or client) before the timeout or the end of the run.
    NotSent = "not_sent",
    /// The connection was asked for, but the run ended before it was opened. It counts as one request.
    NotOpened = "not_opened",
}

impl ErrorClass {
    /// Returns the class with a name that [`Self::name`] returned.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|class| class.name() == name).copied()
    }

    /// Returns the class of a failed `socket` or `connect`.
    #[must_use]
    pub fn from_connect_error(error: Errno) -> Self {
        match error {
            Errno::CONNREFUSED | Errno::NOENT => Self::ConnectRefused,
            Errno::TIMEDOUT => Self::ConnectTimeout,
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Self::NoPort,
            Errno::MFILE | Errno::NFILE => Self::FdLimit,
            Errno::CONNRESET => Self::Reset,
            _ => Self::ConnectFailed,
        }
    }
}
