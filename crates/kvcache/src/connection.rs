//! What is remembered of a connection between two looks at its input.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use proto::{Flow, Now, Outbox, Step};
use store::Store;
use wire::{
    Detector, memcached,
    resp::{self, RequestParser, Version},
};

use crate::{clients::Client, commands::Transaction, server::KvServer, space::Space, us::Us};

/// What is spoken on a connection.
#[derive(Debug)]
pub(crate) enum Dialect {
    /// The first bytes decide.
    Undecided(Detector),
    Resp(RequestParser),
    Us(Us),
    Memcached(memcached::RequestParser),
}

/// What is spoken at a listening address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrontEnd {
    /// RESP or the 0x1F text protocol, as the first bytes say.
    #[default]
    Detect,
    /// The 0x1F text protocol, whatever the first bytes look like.
    Us,
    Memcached,
}

impl From<FrontEnd> for Dialect {
    fn from(front_end: FrontEnd) -> Self {
        match front_end {
            FrontEnd::Detect => Self::Undecided(Detector::default()),
            FrontEnd::Us => Self::Us(Us::default()),
            FrontEnd::Memcached => Self::Memcached(memcached::RequestParser::default()),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Conn<S: Store> {
    pub(crate) dialect: Dialect,
    /// The usual case: nothing stands between a request on one key and the store. See [`Conn::refresh`].
    pub(crate) is_plain: bool,
    pub(crate) authenticated: bool,
    pub(crate) database: u8,
    pub(crate) version: Version,
    /// What becomes of replies, by CLIENT REPLY.
    pub(crate) replies: Replies,
    /// CLIENT NO-TOUCH: reading a key is no use of it.
    pub(crate) no_touch: bool,
    /// Nothing more is looked at while an answer is to come.
    pub(crate) held: bool,
    /// When the first byte of the request came that is not whole yet.
    pub(crate) started: Option<Instant>,
    pub(crate) client: Client,
    transaction: Option<Box<Transaction<S>>>,
}

/// CLIENT REPLY
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// The next command's are dropped.
    SkipNext,
    /// This command's are dropped.
    Skip,
}

impl<S: Store + 'static> Conn<S> {
    pub(crate) fn new(dialect: Dialect, authenticated: bool, client: Client) -> Self {
        Self {
            dialect,
            is_plain: false,
            authenticated,
            database: 0,
            version: Version::Resp2,
            replies: Replies::On,
            no_touch: false,
            held: false,
            started: None,
            client,
            transaction: None,
        }
    }

    /// For commands that have left their connection.
    pub(crate) fn of_nobody(server: &KvServer<S>) -> Self {
        Self::new(Dialect::Resp(RequestParser::default()), true, server.clients.nobody())
    }

    /// Owed after everything that may change what [`Conn::is_plain`] stands for.
    pub(crate) fn refresh(&mut self, server: &KvServer<S>) {
        let is_free = match &self.dialect {
            Dialect::Resp(_) => !self.is_in_transaction(),
            Dialect::Us(us) => !us.is_in_transaction(),
            Dialect::Memcached(_) => true,
            Dialect::Undecided(_) => false,
        };
        self.is_plain = is_free
            && self.authenticated
            && self.database == 0
            && self.replies == Replies::On
            && !self.no_touch
            && !self.held
            && !server.clients.are_paused();
    }

    /// Commands may be run by another thread, out of sight of the connection.
    pub(crate) fn may_travel(&self, server: &KvServer<S>) -> bool {
        let is_usual = self.authenticated && self.replies == Replies::On && !self.no_touch && !self.held;
        is_usual && !self.is_in_transaction() && !server.clients.are_paused()
    }

    /// Owed after every look at `input`, of which `step` has come.
    pub(crate) fn looked(&mut self, input: &[u8], step: &mut Step, out: &Outbox, now: Now) {
        let is_torn = step.consumed < input.len() && !out.is_full() && !out.has_pending_replies();
        self.started = if is_torn { self.started.or(Some(now.instant)) } else { None };
        self.client.seen(now);
        if self.client.is_killed() {
            step.flow = Flow::Abort;
        }
    }

    /// Has to wait, for an answer that is to come or since the server is paused and the dialect has no commands that
    /// could be let through.
    #[inline]
    pub(crate) fn is_held(&mut self, server: &KvServer<S>, out: &mut Outbox) -> bool {
        self.held &= out.has_pending_replies();
        let knows_commands = matches!(self.dialect, Dialect::Resp(_) | Dialect::Undecided(_));
        self.held || !knows_commands && server.clients.are_paused() && self.hold(server, out)
    }

    /// Waits for the end of a pause. False: there is none.
    pub(crate) fn hold(&mut self, server: &KvServer<S>, out: &mut Outbox) -> bool {
        self.held = server.clients.pause.hold(out);
        self.held
    }

    /// The parser has seen a part of the request that comes next, so nothing but the parser may read it.
    pub(crate) fn is_mid_request(&self) -> bool {
        matches!(&self.dialect, Dialect::Resp(parser) if parser.is_mid_request())
    }

    pub(crate) fn limits<'s>(&self, server: &'s KvServer<S>) -> &'s resp::RequestLimits {
        if self.authenticated { &server.limits } else { &server.limits_before_auth }
    }

    // --- transactions ---------------------------------------------------------------------

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.is_open())
    }

    pub(crate) fn has_queued_writes(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.writes())
    }

    pub(crate) fn transaction(&mut self, space: &Arc<Space<S>>) -> &mut Transaction<S> {
        self.transaction.get_or_insert_with(|| Box::new(Transaction::new(space)))
    }

    /// Shows others what CLIENT LIST says of it.
    pub(crate) fn publish(&self, command: usize) {
        let profile = self.client.profile();
        self.client.ran(command);
        profile.database.store(self.database, Relaxed);
        profile.version.store(if self.version == Version::Resp3 { 3 } else { 2 }, Relaxed);
        let open = self.transaction.as_ref().filter(|transaction| transaction.is_open());
        profile.queued.store(open.map_or(-1, |open| i64::try_from(open.queued()).unwrap_or(i64::MAX)), Relaxed);
        profile.watched.store(self.transaction.as_ref().map_or(0, |transaction| transaction.watched()), Relaxed);
    }

    pub(crate) fn take_transaction(&mut self) -> Option<Box<Transaction<S>>> {
        self.transaction.take()
    }

    pub(crate) fn spoil_transaction(&mut self) {
        if let Some(transaction) = self.transaction.as_mut().filter(|transaction| transaction.is_open()) {
            transaction.spoil();
        }
    }
}
