//! Requests that need a user: they are let in, wait for a verdict, or are answered with a challenge.

use std::time::Duration;

use proto::{ClientKey, Flow};
use wire::http1::{Body, Connection, Method, Part, Request, Status, Target, Version};

use super::{Judgement, claimed_user};
use crate::{
    Site,
    observer::{LoggedNames, ObservedRequests},
    responder::{Next, Responder, Waited, expects_continue, flow_of, path_of, requested_persistence},
    server::Checks,
    upload::{DiscardedBody, Pending},
    writer::Writer,
};

/// Decision about a request before anything is looked for.
enum Admission<S: Site> {
    /// It goes on, as this user's where it needs one.
    Granted(Option<Box<[u8]>>),
    /// It goes no further.
    Answered(Next<S>),
}

impl<S: Site, W: Writer> Responder<'_, S, W> {
    /// Answers a request of a server with several hosts or with rules about who may see what, or one that is redirected
    /// whatever it is for: nobody is asked for a password that is not encrypted.
    #[cold]
    pub(crate) fn handle_by_rules(
        &mut self,
        request: &Request<'_>,
        head: &[u8],
        unread: usize,
        checks: Checks,
        observed: Option<&mut Box<ObservedRequests>>,
    ) -> Next<S> {
        let admission = match self.check_rate(checks.client) {
            Err(wait) => Admission::Answered(self.refuse_for_now(request, unread, wait)),
            Ok(()) => {
                let redirected =
                    if checks.is_redirected { self.redirect_to_https(request, head, unread) } else { None };
                redirected.map_or_else(|| self.admit(request, unread), Admission::Answered)
            }
        };
        if let Some(observed) = observed {
            let user = if let Admission::Granted(user) = &admission { user.as_deref() } else { None };
            let names = LoggedNames { user, virtual_host: self.host.name() };
            observed.begin(request, head, names, self.now);
        }
        match (admission, request.body) {
            (Admission::Answered(next), _) => next,
            (Admission::Granted(_), Body::Empty) => self.handle_rare_request(request, head, unread),
            (Admission::Granted(_), _) => self.handle_request_with_body(request, head, unread),
        }
    }

    /// Counts a request, once however often it is read.
    fn check_rate(&self, client: Option<ClientKey>) -> Result<(), Duration> {
        match (&self.server.rate, client) {
            (Some(rate), Some(client)) if self.waited.is_none() => rate.admit(client, self.now),
            _ => Ok(()),
        }
    }

    fn refuse_for_now(&mut self, request: &Request<'_>, unread: usize, wait: Duration) -> Next<S> {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        self.turn_away(request, unread, Status::TooManyRequests, Some(("Retry-After", &seconds.to_string())))
    }

    /// Checks who asks. The request has not been consumed: one that has to wait for a verdict is read again.
    fn admit(&mut self, request: &Request<'_>, unread: usize) -> Admission<S> {
        let host = self.host;
        let Some(guard) = &host.settings.guard else { return Admission::Granted(None) };
        let Target::Path { path, .. } = request.target else { return Admission::Granted(None) };
        let Some(area) = guard.area(&host.settings.content, path) else { return Admission::Granted(None) };
        let credentials = match area.judge(request) {
            Judgement::Granted(user) => {
                self.waited = self.waited.filter(Waited::has_lookup);
                return Admission::Granted(Some(user));
            }
            Judgement::Denied => return Admission::Answered(self.challenge(request, unread)),
            Judgement::Unknown(credentials) => credentials,
        };
        if self.may_prepare() && area.verify(credentials, || self.out.defer()) {
            return Admission::Answered(Next::Prepare(Waited::once_more(self.waited.take())));
        }
        Admission::Answered(self.turn_away(request, unread, Status::ServiceUnavailable, None))
    }

    /// Asks for a user.
    #[cold]
    pub(crate) fn challenge(&mut self, request: &Request<'_>, unread: usize) -> Next<S> {
        let field = self.host.settings.guard.as_ref().map(|guard| ("WWW-Authenticate", guard.challenge()));
        self.turn_away(request, unread, Status::Unauthorized, field)
    }

    /// Answers a request that goes no further. The connection goes on unless a body is in its way.
    fn turn_away(
        &mut self,
        request: &Request<'_>,
        unread: usize,
        status: Status,
        field: Option<(&str, &str)>,
    ) -> Next<S> {
        self.waited = None;
        let path = path_of(request.target);
        let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
        let connection = requested_persistence(request);
        let discarded = match request.body {
            Body::Empty => {
                self.send_page(status, field, path, part, connection);
                return Next::Flow(flow_of(connection, unread > 0));
            }
            // A client that waits for a 100 may send the body or not.
            Body::Length(_) if request.version != Version::Http10 && expects_continue(request) => None,
            Body::Length(len) if request.should_keep_alive => DiscardedBody::new(len, self.now.instant),
            Body::Length(_) | Body::Chunked => None,
        };
        let connection = if discarded.is_some() { connection } else { Connection::Close };
        self.send_page(status, field, path, part, connection);
        discarded.map_or(Next::Flow(Flow::Linger), |body| Next::Body(Box::new(Pending::Discarded(body))))
    }

    /// Returns the user of a request that has been admitted, where its path needs one.
    pub(crate) fn user(&self, request: &Request<'_>) -> Option<Box<[u8]>> {
        let settings = &self.host.settings;
        settings.guard.as_ref()?.area(&settings.content, path_of(request.target)?)?;
        claimed_user(request)
    }

    /// True if a request that has been admitted may be answered with what another path leads to.
    pub(crate) fn may_see(&self, path: &[u8], request: &Request<'_>) -> bool {
        let settings = &self.host.settings;
        let area = settings.guard.as_ref().and_then(|guard| guard.area(&settings.content, path));
        area.is_none_or(|area| matches!(area.judge(request), Judgement::Granted(_)))
    }
}
