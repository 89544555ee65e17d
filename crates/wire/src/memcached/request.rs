//! Requests of both protocols, as a server sees them.

use super::{Expiry, MetaFlags, MetaKey, Refusal, binary, words::Words};

/// Condition and effect of a storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Stores only if the item's unique number is this.
    Cas(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Increment,
    Decrement,
}

/// Mode of `shutdown`. A server that does not allow a shutdown ignores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    Now,
    Graceful,
    /// Answered with [`Refusal::BadShutdownMode`].
    Unknown,
}

/// A request, borrowed from the input. With `noreply`, nothing is answered, not even an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, and `gets`, which also asks for the unique numbers.
    Get {
        keys: Keys<'a>,
        with_cas: bool,
    },
    /// `gat` and `gats`. There may be no key at all.
    GetAndTouch {
        expiry: Expiry,
        keys: Keys<'a>,
        with_cas: bool,
    },
    Store {
        mode: StoreMode,
        key: &'a [u8],
        flags: u32,
        expiry: Expiry,
        value: &'a [u8],
        noreply: bool,
    },
    /// A storage command whose value is above the limit. It is answered with [`Refusal::TooLarge`]. An old value of
    /// `outdated` must be removed, since the client believes that it has replaced it.
    TooLarge {
        outdated: Option<MetaKey<'a>>,
        noreply: bool,
    },
    Touch {
        key: &'a [u8],
        expiry: Expiry,
        noreply: bool,
    },
    Delete {
        key: &'a [u8],
        noreply: bool,
    },
    Arithmetic {
        direction: Direction,
        key: &'a [u8],
        delta: u64,
        noreply: bool,
    },
    /// Now, or after a delay.
    FlushAll {
        delay: Expiry,
        noreply: bool,
    },
    Version,
    Verbosity {
        level: u32,
        noreply: bool,
    },
    /// The words behind `stats`.
    Stats {
        args: Keys<'a>,
    },
    Quit,
    Shutdown(ShutdownMode),
    MetaGet {
        key: MetaKey<'a>,
        flags: MetaFlags<'a>,
    },
    MetaSet {
        key: MetaKey<'a>,
        mode: StoreMode,
        /// With `mode` not [`StoreMode::Cas`], appending and prepending still honour `flags.cas()`.
        flags: MetaFlags<'a>,
        value: &'a [u8],
    },
    MetaDelete {
        key: MetaKey<'a>,
        flags: MetaFlags<'a>,
    },
    MetaArithmetic {
        key: MetaKey<'a>,
        direction: Direction,
        flags: MetaFlags<'a>,
    },
    MetaDebug {
        key: MetaKey<'a>,
    },
    MetaNoop,
    /// `slabs automove`, which is accepted and means nothing where memory is not divided into classes, or another
    /// command on slab classes, which is refused.
    Slabs {
        command: Result<(), Refusal>,
        noreply: bool,
    },
    /// `cache_memlimit`: the memory limit in MiB. `None` is answered with `ERROR`.
    CacheMemoryLimit {
        mebibytes: Option<u32>,
        noreply: bool,
    },
    /// A request of the binary protocol.
    Binary(binary::Request<'a>),
}

/// The words of a line behind the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'a> {
    pub(super) words: Words<'a>,
}

impl<'a> IntoIterator for Keys<'a> {
    type Item = &'a [u8];
    type IntoIter = Words<'a>;

    fn into_iter(self) -> Words<'a> {
        self.words
    }
}

/// Result of a command line.
pub(super) enum Command<'a> {
    Request(Request<'a>),
    /// A storage command and the length of the value behind it.
    Store {
        length: u64,
        store: Store<'a>,
    },
    Refused(Refusal),
    /// Refused, and a value of this length must be skipped.
    RefusedStore {
        refusal: Refusal,
        length: u64,
    },
    /// Refused with `noreply`.
    Silent,
}

/// A storage command without its value.
#[derive(Clone, Copy)]
pub(super) enum Store<'a> {
    Text { mode: StoreMode, key: &'a [u8], flags: u32, expiry: Expiry, noreply: bool },
    Meta { key: MetaKey<'a>, mode: StoreMode, flags: MetaFlags<'a> },
}

impl<'a> Store<'a> {
    pub(super) fn with_value(self, value: &'a [u8]) -> Request<'a> {
        match self {
            Self::Text { mode, key, flags, expiry, noreply } => {
                Request::Store { mode, key, flags, expiry, value, noreply }
            }
            Self::Meta { key, mode, flags } => Request::MetaSet { key, mode, flags, value },
        }
    }

    pub(super) fn too_large(self) -> Request<'a> {
        match self {
            Self::Text { mode, key, noreply, .. } => {
                let key = MetaKey { raw: key, is_base64: false };
                Request::TooLarge { outdated: (mode == StoreMode::Set).then_some(key), noreply }
            }
            Self::Meta { key, .. } => Request::TooLarge { outdated: Some(key), noreply: false },
        }
    }

    /// Returns the length of the key as it stands in the line.
    pub(super) fn key_bytes(&self) -> usize {
        match self {
            Self::Text { key, .. } => key.len(),
            Self::Meta { key, .. } => key.raw.len(),
        }
    }

    /// Its errors are not answered. `ms` answers them even with its `q` flag.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self, Self::Text { noreply: true, .. })
    }
}
