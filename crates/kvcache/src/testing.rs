//! A server without sockets, for unit tests.

use std::{
    os::{fd::AsFd, unix::net::UnixStream},
    sync::Arc,
    time::{Duration, Instant},
};

use proto::{Now, Outbox, Peer, Protocol};
use store::{HashbrownStore, KeyHasher, PolicyKind, StoreOptions};
use wire::resp::RequestLimits;

use crate::{
    codec::Codec,
    connection::{Conn, FrontEnd},
    server::{KvOptions, KvServer, ScriptOptions},
    state::{ServerInfo, Space, SpaceOptions},
};

pub(crate) type Server = Arc<KvServer<HashbrownStore>>;

/// Makes a server with one shard, and a connection to it.
pub(crate) fn server() -> (Server, Conn<HashbrownStore>) {
    let store = StoreOptions { hasher: KeyHasher::with_seed(1), advise: |_| {}, release: |_| {} };
    let policy = PolicyKind::NoEviction;
    let space = Space::new(SpaceOptions {
        shards: 1,
        policy,
        memory_max: None,
        codec: Codec::default(),
        store,
        seed: 2,
        is_use_tracked: true,
    });
    let server = Arc::new(KvServer::new(
        space,
        KvOptions {
            request_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(3600),
            limits: RequestLimits::default(),
            password: None,
            memory_max: None,
            info: ServerInfo::default(),
            snapshot: None,
            clock: |now| now,
            front_ends: vec![FrontEnd::Detect, FrontEnd::Us, FrontEnd::Memcached],
            scripts: ScriptOptions { memory_max: 16 << 20, time_limit: Duration::from_secs(5) },
            pushed_bytes_max: 1 << 20,
            client_memory_max: 0,
            item_bytes_max: 1 << 20,
        },
    ));
    let conn = connect(&server, FrontEnd::Detect);
    (server, conn)
}

pub(crate) fn connect(server: &Server, front_end: FrontEnd) -> Conn<HashbrownStore> {
    let (ours, _) = UnixStream::pair().unwrap();
    server.open(Peer::unknown(ours.as_fd(), front_end as usize), now())
}

pub(crate) fn now() -> Now {
    Now { instant: Instant::now(), unix: Duration::from_secs(4_000_000_000) }
}

/// Sends a request and returns the reply.
pub(crate) fn ask(server: &Server, conn: &mut Conn<HashbrownStore>, request: &[u8]) -> String {
    let mut out = Outbox::default();
    let step = server.on_input(conn, request, now(), &mut out);
    assert_eq!(step.consumed, request.len(), "{:?}", request.escape_ascii().to_string());
    String::from_utf8_lossy(out.inline()).into_owned()
}
