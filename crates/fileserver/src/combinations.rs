//! Every combination of protocol, request map and cache is a type; here they are gathered, and only here is a choice
//! made at run time turned into one of them.

use std::{sync::Arc, time::Instant};

use proto::{Flow, Now, Outbox, Peer, Protocol, Step};
use wire::file::{Dialect, Framed, Original};

use crate::{
    backend::AnyBackend,
    cache::{
        CacheMapKind, EvictionKind, Hashbrown, LockFree, MutexLru, NoCache, Refusing, Sparse, Std, UseOrder, Used,
    },
    cached_backend::Shared,
    requests::{
        HashbrownRequests, PartialRequest, Registration, RequestMap, RequestMapKind, SlabRequests, StdRequests,
    },
    server::{self, FileOptions, Shelf, StartError},
    statistics::Statistics,
};

service::choices! {
    /// What is spoken.
    pub enum ProtocolKind: "protocol", "--protocol", default Original {
        /// eight characters in, the bytes of the document and the end of the connection out; one NUL when there is none
        Original = "original",
        /// lengths in front and a status: connections last, requests may be pipelined, every miss says what it is
        Framed = "framed",
    }
}

/// One choice of each dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination {
    pub protocol: ProtocolKind,
    pub requests: RequestMapKind,
    pub cache_map: CacheMapKind,
    pub eviction: EvictionKind,
}

impl Combination {
    /// Why the choices do not go together, if they do not.
    pub fn problem(&self) -> Option<&'static str> {
        match (self.cache_map, self.eviction) {
            (CacheMapKind::None, EvictionKind::LockFree) => {
                Some("it marks the entries of a cache map, and without one there is nothing to mark")
            }
            _ => None,
        }
    }
}

/// Three lists make all products: each of the enums below is made from one list, and the matches meet in
/// [`server::on_input`], which exists once for each combination.
macro_rules! combinations {
    (
        protocols { $($protocol:ident,)+ }
        request maps { $($requests:ident => $request_map:ty,)+ }
        caches { $($cache:ident($map:pat, $eviction:pat) => $cache_type:ty,)+ }
    ) => {
        /// The request map of a server.
        enum Requests {
            $($requests(Arc<$request_map>),)+
        }

        impl Requests {
            fn new(kind: RequestMapKind) -> Self {
                match kind { $(RequestMapKind::$requests => Self::$requests(Arc::default()),)+ }
            }

            fn open(&self, now: Now) -> Entry {
                match self { $(Self::$requests(map) => Entry::$requests(Registration::new(map, now.instant)),)+ }
            }

            fn len(&self) -> usize {
                match self { $(Self::$requests(map) => map.len(),)+ }
            }
        }

        /// A connection's entry in the request map.
        enum Entry {
            $($requests(Registration<$request_map>),)+
        }

        impl Entry {
            /// When the request began that is not whole yet.
            fn started(&self) -> Option<Instant> {
                let started = |request: &mut PartialRequest| (!request.bytes.is_empty()).then_some(request.since);
                match self { $(Self::$requests(entry) => entry.with(started),)+ }
            }
        }

        /// The cache of a server and all behind it.
        enum Shelves {
            $($cache(Shelf<$cache_type>),)+
        }

        impl Shelves {
            fn new<D: Dialect>(
                map: CacheMapKind,
                eviction: EvictionKind,
                backend: AnyBackend,
                options: &FileOptions,
            ) -> Result<Self, StartError> {
                match (map, eviction) {
                    $(($map, $eviction) => Shelf::new::<D>(backend, options).map(Self::$cache),)+
                }
            }

            #[inline]
            fn on_input<D: Dialect>(&self, entry: &Entry, input: &[u8], now: Now, out: &mut Outbox) -> Step {
                match entry { $(Entry::$requests(entry) => self.answer::<D, _>(entry, input, now, out),)+ }
            }

            #[inline]
            fn answer<D: Dialect, R: RequestMap>(
                &self,
                entry: &Registration<R>,
                input: &[u8],
                now: Now,
                out: &mut Outbox,
            ) -> Step {
                match self { $(Self::$cache(shelf) => server::on_input::<D, R, _>(shelf, entry, input, now, out),)+ }
            }

            fn refuse<D: Dialect>(&self, out: &mut Outbox) {
                match self { $(Self::$cache(shelf) => shelf.malformed::<D>(out),)+ }
            }

            fn statistics(&self) -> Statistics {
                match self { $(Self::$cache(shelf) => shelf.library.statistics(),)+ }
            }

            fn used(&self) -> (Used, u64) {
                match self { $(Self::$cache(shelf) => shelf.library.used(),)+ }
            }
        }

        /// A file server of any combination.
        pub struct FileServer {
            protocol: ProtocolKind,
            requests: Requests,
            shelves: Shelves,
            options: FileOptions,
        }

        impl FileServer {
            /// # Errors
            /// The choices do not go together, or a reader of the back end, or its thread, cannot be started.
            pub fn new(choice: &Combination, backend: AnyBackend, options: FileOptions) -> Result<Self, StartError> {
                if let Some(why) = choice.problem() {
                    return Err(StartError::Combination(*choice, why));
                }
                let (map, eviction) = (choice.cache_map, choice.eviction);
                let shelves = match choice.protocol {
                    $(ProtocolKind::$protocol => Shelves::new::<$protocol>(map, eviction, backend, &options)?,)+
                };
                let requests = Requests::new(choice.requests);
                Ok(Self { protocol: choice.protocol, requests, shelves, options })
            }
        }

        impl Protocol for FileServer {
            type Conn = Conn;

            fn open(&self, _: Peer<'_>, now: Now) -> Conn {
                Conn(self.requests.open(now))
            }

            #[inline]
            fn on_input(&self, conn: &mut Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step {
                match self.protocol {
                    $(ProtocolKind::$protocol => self.shelves.on_input::<$protocol>(&conn.0, input, now, out),)+
                }
            }

            fn deadline(&self, conn: &Conn, quiet_since: Instant) -> Option<Instant> {
                let (since, patience) = match conn.0.started() {
                    Some(started) => (started, self.options.request_timeout),
                    None => (quiet_since, self.options.idle_timeout),
                };
                // A patience too long to be added has no end.
                since.checked_add(patience)
            }

            fn on_deadline(&self, conn: &mut Conn, _: Now, out: &mut Outbox) -> Flow {
                if conn.0.started().is_none() {
                    return Flow::Close;
                }
                match self.protocol { $(ProtocolKind::$protocol => self.shelves.refuse::<$protocol>(out),)+ }
                Flow::Linger
            }

            fn refusal(&self) -> &[u8] {
                match self.protocol { $(ProtocolKind::$protocol => $protocol::refusal(),)+ }
            }
        }
    };
}

combinations! {
    protocols { Original, Framed, }
    request maps {
        Std => StdRequests,
        Hashbrown => HashbrownRequests,
        Slab => SlabRequests,
    }
    caches {
        // Whoever asks for the second pair has been refused: see `Combination::problem`.
        None(CacheMapKind::None, EvictionKind::None | EvictionKind::LockFree) => NoCache,
        Uses(CacheMapKind::None, EvictionKind::Mutex) => UseOrder,
        StdRefusing(CacheMapKind::Std, EvictionKind::None) => Refusing<Std, Shared>,
        StdMutex(CacheMapKind::Std, EvictionKind::Mutex) => MutexLru<Std, Shared>,
        StdLockFree(CacheMapKind::Std, EvictionKind::LockFree) => LockFree<Std, Shared>,
        HashbrownRefusing(CacheMapKind::Hashbrown, EvictionKind::None) => Refusing<Hashbrown, Shared>,
        HashbrownMutex(CacheMapKind::Hashbrown, EvictionKind::Mutex) => MutexLru<Hashbrown, Shared>,
        HashbrownLockFree(CacheMapKind::Hashbrown, EvictionKind::LockFree) => LockFree<Hashbrown, Shared>,
        SparseRefusing(CacheMapKind::Sparse, EvictionKind::None) => Refusing<Sparse, Shared>,
        SparseMutex(CacheMapKind::Sparse, EvictionKind::Mutex) => MutexLru<Sparse, Shared>,
        SparseLockFree(CacheMapKind::Sparse, EvictionKind::LockFree) => LockFree<Sparse, Shared>,
    }
}

/// What is remembered of a connection: where its entry in the request map is. The entry goes with it.
pub struct Conn(Entry);

impl FileServer {
    pub fn statistics(&self) -> Statistics {
        self.shelves.statistics()
    }

    /// What the cache holds, and how many entries have had to make room ever.
    pub fn cache(&self) -> (Used, u64) {
        self.shelves.used()
    }

    /// Entries in the request map: one for each open connection.
    pub fn connections(&self) -> usize {
        self.requests.len()
    }
}
