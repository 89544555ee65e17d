//! The protocol: requests in, responses out.
//!
//! The path of a cached GET is `inline(always)`, for the reason given in [`wire::http1::request`].

use std::{hash::RandomState, time::Instant};

use proto::{Flow, Now, Outbox, Peer, Protocol, Step};
use wire::http1::{Connection, HeadParser, Part, Status, empty_lines_len};

use crate::{
    HttpOptions, Site, Statistics,
    page::{self, Pages},
    reply::{After, Reply},
    statistics::{Tally, Totals},
    upload::Upload,
};

/// A web server for the files and resources of one site.
#[derive(Debug)]
pub struct Front<S> {
    pub(crate) site: S,
    pub(crate) pages: Pages,
    refusal: Vec<u8>,
    options: HttpOptions,
    totals: Totals,
    /// Makes boundaries that nobody can foresee and put into a file.
    pub(crate) boundaries: RandomState,
}

/// What is remembered of a connection between two looks at its input. `U` is [`Site::Upload`].
#[derive(Debug)]
pub struct Conn<U> {
    head: HeadParser,
    /// When the first byte of the request came that is not whole yet.
    started: Option<Instant>,
    /// The head has been read, and the body is coming; boxed, since most connections never have one.
    upload: Option<Box<Upload<U>>>,
}

impl<U> Default for Conn<U> {
    fn default() -> Self {
        Self { head: HeadParser::default(), started: None, upload: None }
    }
}

impl<S: Site> Front<S> {
    pub fn new(site: S, options: HttpOptions) -> Self {
        Self {
            site,
            pages: Pages::new(),
            refusal: page::refusal(),
            options,
            totals: Totals::default(),
            boundaries: RandomState::new(),
        }
    }

    pub fn site(&self) -> &S {
        &self.site
    }

    pub fn statistics(&self) -> Statistics {
        self.totals.sum().into()
    }
}

impl<S: Site> Protocol for Front<S> {
    type Conn = Conn<S::Upload>;

    fn open(&self, _: Peer<'_>, _: Now) -> Self::Conn {
        Conn::default()
    }

    fn on_input(&self, conn: &mut Self::Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        let mut consumed = 0;
        let mut reply = Reply { front: self, now, out, tally: Tally::default() };
        let mut flow = Flow::Open;
        while flow == Flow::Open && !reply.out.is_full() {
            if let Some(upload) = &mut conn.upload {
                match upload.take(&input[consumed..]) {
                    Ok(taken) => consumed += taken,
                    Err(error) => {
                        flow = reply.unwanted(error, upload.part);
                        continue;
                    }
                }
                if !upload.is_whole() {
                    break;
                }
                flow = conn.upload.take().map_or(Flow::Open, |upload| reply.uploaded(*upload, input.len() - consumed));
                continue;
            }
            consumed += empty_lines_len(&input[consumed..]);
            let rest = &input[consumed..];
            match conn.head.parse(rest, &self.options.head) {
                Ok(Some(request)) => {
                    consumed += request.head_len;
                    conn.started = None;
                    match reply.answer(&request, input.len() - consumed) {
                        After::Flow(next) => flow = next,
                        After::Upload(upload) => conn.upload = Some(upload),
                    }
                }
                Ok(None) => {
                    conn.started = if rest.is_empty() { None } else { conn.started.or(Some(now.instant)) };
                    break;
                }
                Err(refusal) => flow = reply.refuse(refusal),
            }
        }
        reply.tally.add_to(&self.totals);
        self.site.answered(reply.tally.responses(), now);
        Step { flow, ..Step::open(consumed) }
    }

    fn deadline(&self, conn: &Self::Conn, quiet_since: Instant) -> Option<Instant> {
        let (since, patience) = match (&conn.upload, conn.started) {
            (Some(upload), _) => (upload.started, self.options.upload_timeout),
            (None, Some(started)) => (started, self.options.request_timeout),
            (None, None) => (quiet_since, self.options.idle_timeout),
        };
        // A patience too long to be added has no end.
        since.checked_add(patience)
    }

    fn on_deadline(&self, conn: &mut Self::Conn, now: Now, out: &mut Outbox) -> Flow {
        if conn.started.is_none() && conn.upload.is_none() {
            return Flow::Close;
        }
        conn.upload = None;
        let mut reply = Reply { front: self, now, out, tally: Tally::default() };
        reply.page(Status::RequestTimeout, Part::Whole, Connection::Close);
        reply.tally.add_to(&self.totals);
        Flow::Linger
    }

    fn refusal(&self) -> &[u8] {
        &self.refusal
    }
}
