//! Requests that need a user: they are let in, wait for a verdict, or are answered with a challenge.

use proto::Flow;
use wire::http1::{Body, Connection, Method, Part, Request, Status, Target, Version};

use super::{Guard, Judgement, claimed_user};
use crate::{
    Site,
    observer::{LoggedNames, ObservedRequests},
    responder::{Next, Responder, Waited, expects_continue, flow_of, path_of, requested_persistence},
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
        is_redirected: bool,
        observed: Option<&mut Box<ObservedRequests>>,
    ) -> Next<S> {
        let admission = match is_redirected {
            true => Admission::Answered(self.handle_plain_request(request, head, unread)),
            false => self.admit(request, unread),
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
            Judgement::Denied => return Admission::Answered(self.turn_away(request, unread, Status::Unauthorized)),
            Judgement::Unknown(credentials) => credentials,
        };
        if self.may_prepare() && area.verify(credentials, || self.out.defer()) {
            return Admission::Answered(Next::Prepare(Waited::once_more(self.waited.take())));
        }
        Admission::Answered(self.turn_away(request, unread, Status::ServiceUnavailable))
    }

    /// Answers a request that goes no further. The connection goes on unless a body is in its way.
    #[cold]
    pub(crate) fn turn_away(&mut self, request: &Request<'_>, unread: usize, status: Status) -> Next<S> {
        self.waited = None;
        let guard = self.host.settings.guard.as_ref().filter(|_| status == Status::Unauthorized);
        let (challenge, path) = (guard.map(Guard::challenge), path_of(request.target));
        let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
        let connection = requested_persistence(request);
        let discarded = match request.body {
            Body::Empty => {
                self.send_page(status, challenge, path, part, connection);
                return Next::Flow(flow_of(connection, unread > 0));
            }
            // A client that waits for a 100 may send the body or not.
            Body::Length(_) if request.version != Version::Http10 && expects_continue(request) => None,
            Body::Length(len) if request.should_keep_alive => DiscardedBody::new(len, self.now.instant),
            Body::Length(_) | Body::Chunked => None,
        };
        let connection = if discarded.is_some() { connection } else { Connection::Close };
        self.send_page(status, challenge, path, part, connection);
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
