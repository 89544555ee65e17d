//! Combinations of protocol, request map and cache. Each is a type; only here is a choice made at run time turned into one
//! of them.

use std::{fmt, sync::Arc, time::Instant};

use clap::ValueEnum;
use proto::{Flow, Now, Outbox, Peer, Protocol, Step};
use service::choice_name;
use wire::file::{Dialect, Framed, Original};

use crate::{
    backend::AnyBackend,
    cache::{
        CacheMapKind, EvictionKind, Hashbrown, LockFree, MutexLru, NoCache, NoEviction, Sparse, Std, Usage, UseOrder,
    },
    cached_backend::SharedDocument,
    requests::{
        HashbrownRequests, PartialRequest, Registration, RequestMap, RequestMapKind, SlabRequests, StdRequests,
    },
    server::{self, DocumentService, FileOptions, StartError},
    statistics::Statistics,
};

/// Protocol that clients speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProtocolKind {
    /// the client sends eight characters and gets the document and the end of the connection, or one NUL byte if there is
    /// no such document
    #[default]
    Original,
    /// requests and replies carry their length, replies a status; connections stay open, requests may be pipelined
    Framed,
}

impl fmt::Display for ProtocolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&choice_name(self))
    }
}

/// Choice of each dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination {
    pub protocol: ProtocolKind,
    pub requests: RequestMapKind,
    pub cache_map: CacheMapKind,
    pub eviction: EvictionKind,
}

impl Combination {
    /// Returns the reason why the choices do not go together, if they do not.
    pub fn problem(&self) -> Option<&'static str> {
        match (self.cache_map, self.eviction) {
            (CacheMapKind::None, EvictionKind::LockFree) => Some("lock-free eviction needs the entries of a cache map"),
            _ => None,
        }
    }
}

/// Makes all products of three lists: each of the enums below comes from one list, and the matches meet in
/// [`server::on_input`], which exists once for each combination.
macro_rules! combinations {
    (
        protocols { $($protocol:ident,)+ }
        request maps { $($requests:ident => $request_map:ty,)+ }
        caches { $($cache:ident($map:pat, $eviction:pat) => $cache_type:ty,)+ }
    ) => {
        /// Request map of a server.
        enum AnyRequestMap {
            $($requests(Arc<$request_map>),)+
        }

        impl AnyRequestMap {
            fn new(kind: RequestMapKind) -> Self {
                match kind { $(RequestMapKind::$requests => Self::$requests(Arc::default()),)+ }
            }

            fn open(&self, now: Now) -> AnyRegistration {
                match self { $(Self::$requests(map) => AnyRegistration::$requests(Registration::new(map, now.instant)),)+ }
            }

            fn len(&self) -> usize {
                match self { $(Self::$requests(map) => map.len(),)+ }
            }
        }

        /// Entry of a connection in the request map.
        enum AnyRegistration {
            $($requests(Registration<$request_map>),)+
        }

        impl AnyRegistration {
            /// Time at which an incomplete request began.
            fn started(&self) -> Option<Instant> {
                let started = |request: &mut PartialRequest| (!request.bytes.is_empty()).then_some(request.since);
                match self { $(Self::$requests(entry) => entry.with(started),)+ }
            }
        }

        /// Cache of a server and all that is behind it.
        enum AnyDocumentService {
            $($cache(DocumentService<$cache_type>),)+
        }

        impl AnyDocumentService {
            fn new<D: Dialect>(
                map: CacheMapKind,
                eviction: EvictionKind,
                backend: AnyBackend,
                options: &FileOptions,
            ) -> Result<Self, StartError> {
                match (map, eviction) {
                    $(($map, $eviction) => DocumentService::new::<D>(backend, options).map(Self::$cache),)+
                }
            }

            #[inline]
            fn on_input<D: Dialect>(&self, entry: &AnyRegistration, input: &[u8], now: Now, out: &mut Outbox) -> Step {
                match entry { $(AnyRegistration::$requests(entry) => self.answer::<D, _>(entry, input, now, out),)+ }
            }

            #[inline]
            fn answer<D: Dialect, R: RequestMap>(
                &self,
                entry: &Registration<R>,
                input: &[u8],
                now: Now,
                out: &mut Outbox,
            ) -> Step {
                match self { $(Self::$cache(service) => server::on_input::<D, R, _>(service, entry, input, now, out),)+ }
            }

            fn refuse<D: Dialect>(&self, out: &mut Outbox) {
                match self { $(Self::$cache(service) => service.malformed::<D>(out),)+ }
            }

            fn statistics(&self) -> Statistics {
                match self { $(Self::$cache(service) => service.documents.statistics(),)+ }
            }

            fn used(&self) -> (Usage, u64) {
                match self { $(Self::$cache(service) => service.documents.used(),)+ }
            }
        }

        /// File server of any combination.
        pub struct FileServer {
            protocol: ProtocolKind,
            requests: AnyRequestMap,
            service: AnyDocumentService,
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
                let service = match choice.protocol {
                    $(ProtocolKind::$protocol => AnyDocumentService::new::<$protocol>(map, eviction, backend, &options)?,)+
                };
                let requests = AnyRequestMap::new(choice.requests);
                Ok(Self { protocol: choice.protocol, requests, service, options })
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
                    $(ProtocolKind::$protocol => self.service.on_input::<$protocol>(&conn.0, input, now, out),)+
                }
            }

            fn deadline(&self, conn: &Conn, quiet_since: Instant) -> Option<Instant> {
                let (since, timeout) = match conn.0.started() {
                    Some(started) => (started, self.options.request_timeout),
                    None => (quiet_since, self.options.idle_timeout),
                };
                // A timeout too long to be added never ends.
                since.checked_add(timeout)
            }

            fn retire(&self, conn: &mut Conn) -> bool {
                conn.0.started().is_none()
            }

            fn on_deadline(&self, conn: &mut Conn, _: Now, out: &mut Outbox) -> Flow {
                if conn.0.started().is_none() {
                    return Flow::Close;
                }
                match self.protocol { $(ProtocolKind::$protocol => self.service.refuse::<$protocol>(out),)+ }
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
        // The second pair has been refused: see `Combination::problem`.
        None(CacheMapKind::None, EvictionKind::None | EvictionKind::LockFree) => NoCache,
        UseOrder(CacheMapKind::None, EvictionKind::Mutex) => UseOrder,
        StdNoEviction(CacheMapKind::Std, EvictionKind::None) => NoEviction<Std, SharedDocument>,
        StdMutex(CacheMapKind::Std, EvictionKind::Mutex) => MutexLru<Std, SharedDocument>,
        StdLockFree(CacheMapKind::Std, EvictionKind::LockFree) => LockFree<Std, SharedDocument>,
        HashbrownNoEviction(CacheMapKind::Hashbrown, EvictionKind::None) => NoEviction<Hashbrown, SharedDocument>,
        HashbrownMutex(CacheMapKind::Hashbrown, EvictionKind::Mutex) => MutexLru<Hashbrown, SharedDocument>,
        HashbrownLockFree(CacheMapKind::Hashbrown, EvictionKind::LockFree) => LockFree<Hashbrown, SharedDocument>,
        SparseNoEviction(CacheMapKind::Sparse, EvictionKind::None) => NoEviction<Sparse, SharedDocument>,
        SparseMutex(CacheMapKind::Sparse, EvictionKind::Mutex) => MutexLru<Sparse, SharedDocument>,
        SparseLockFree(CacheMapKind::Sparse, EvictionKind::LockFree) => LockFree<Sparse, SharedDocument>,
    }
}

/// State of a connection: its entry in the request map, which goes with it.
pub struct Conn(AnyRegistration);

impl FileServer {
    pub fn statistics(&self) -> Statistics {
        self.service.statistics()
    }

    /// Returns the contents of the cache, and the number of entries that it has ever evicted.
    pub fn cache(&self) -> (Usage, u64) {
        self.service.used()
    }

    /// Number of entries in the request map: one for each open connection.
    pub fn connections(&self) -> usize {
        self.requests.len()
    }
}
