use std::fmt;

/// Reason why a request is answered with an error. `Display` is memcached's line without its end; the connection stays
/// open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such command, or not with this number of words.
    Unknown,
    BadCommandLine,
    BadDataChunk,
    TooLarge,
    BadExptime,
    BadDelta,
    BadDelete,
    BadShutdownMode,
    /// `shutdown`, where it is not allowed.
    NoShutdown,
    /// `slabs reassign`, which memcached refuses where it is not allowed.
    NoSlabReassignment,
    /// The same flag twice.
    DuplicateFlag,
    InvalidFlag,
    /// An unknown flag or one given twice: `md` and `ma` do not tell the two apart.
    InvalidOrDuplicateFlag,
    BadToken,
    BadModeLength,
    BadInitialValue,
    BadDeltaValue,
    BadSetMode,
    BadArithmeticMode,
    OpaqueTooLong,
    UndecodableKey,
    /// More flags than memcached has room for, in its words for `mg`.
    TooManyFlagsToGet,
    /// More flags than memcached has room for, in its words for `ms`, `md` and `ma`.
    TooManyFlags,
}

impl Refusal {
    /// Returns the line without its end.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "ERROR",
            Self::BadCommandLine => "CLIENT_ERROR bad command line format",
            Self::BadDataChunk => "CLIENT_ERROR bad data chunk",
            Self::TooLarge => "SERVER_ERROR object too large for cache",
            Self::BadExptime => "CLIENT_ERROR invalid exptime argument",
            Self::BadDelta => "CLIENT_ERROR invalid numeric delta argument",
            Self::BadDelete => "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
            Self::BadShutdownMode => "CLIENT_ERROR invalid shutdown mode",
            Self::NoShutdown => "ERROR: shutdown not enabled",
            Self::NoSlabReassignment => "CLIENT_ERROR slab reassignment disabled",
            Self::DuplicateFlag => "CLIENT_ERROR duplicate flag",
            Self::InvalidFlag => "CLIENT_ERROR invalid flag",
            Self::InvalidOrDuplicateFlag => "CLIENT_ERROR invalid or duplicate flag",
            Self::BadToken => "CLIENT_ERROR bad token in command line format",
            Self::BadModeLength => "CLIENT_ERROR incorrect length for M token",
            Self::BadInitialValue => "CLIENT_ERROR invalid numeric initial value",
            Self::BadDeltaValue => "CLIENT_ERROR invalid numeric delta value",
            Self::BadSetMode => "CLIENT_ERROR invalid mode for ms M token",
            Self::BadArithmeticMode => "CLIENT_ERROR invalid mode for ma M token",
            Self::OpaqueTooLong => "CLIENT_ERROR opaque token too long",
            Self::UndecodableKey => "CLIENT_ERROR error decoding key",
            Self::TooManyFlagsToGet => "CLIENT_ERROR options flags are too long",
            Self::TooManyFlags => "CLIENT_ERROR options flags too long",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Refusal {}

/// Reason why the connection is closed without a reply: the peer is no memcached client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FatalError {
    #[error("an HTTP request")]
    Http,
    #[error("a request of the binary protocol that does not begin with 0x80")]
    Magic,
    #[error("a command line without an end")]
    LineTooLong,
}
