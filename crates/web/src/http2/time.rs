//! Deadlines of a connection of HTTP/2.

use std::time::{Duration, Instant};

use proto::{Flow, Now, Outbox};
use wire::http2::{ErrorCode, is_data_next};

use super::Multiplexer;
use crate::{HttpOptions, Site, WebServer};

/// Bytes per second that a client takes at least of what it has asked for, averaged over the idle timeout.
const RATE_MIN: u64 = 500;

impl<S: Site> Multiplexer<S> {
    /// Notes that something which has to come at once has begun, or is whole.
    pub(super) fn note_progress(&mut self, rest: &[u8], now: Now) {
        let is_torn = self.connection.is_mid_head() || !rest.is_empty() && !is_data_next(rest);
        self.head_started = if is_torn { self.head_started.or(Some(now.instant)) } else { None };
    }

    /// Notes how much a client takes that has windows for less than there is.
    pub(super) fn note_congestion(&mut self, sent: u64, now: Now) {
        self.congestion = match self.congestion {
            _ if !self.connection.has_output() => None,
            None => Some((now.instant, 0)),
            Some((since, taken)) => Some((since, taken + sent)),
        };
    }

    /// Returns the time of the next thing to do.
    pub(crate) fn deadline(&self, options: &HttpOptions, quiet_since: Instant) -> Option<Instant> {
        let after = |since: Instant, timeout: Duration| since.checked_add(timeout);
        let head = self.head_started.and_then(|started| after(started, options.request_timeout));
        let bodies = self.streams.iter().filter_map(|(_, stream)| stream.started());
        let body = bodies.min().and_then(|started| after(started, options.upload_timeout));
        let congestion = self.congestion.and_then(|(since, _)| after(since, options.idle_timeout));
        let idle = if self.streams.is_empty() { after(quiet_since, options.idle_timeout) } else { None };
        head.into_iter().chain(body).chain(congestion).chain(idle).min()
    }

    /// Does what is due.
    pub(crate) fn expire(&mut self, server: &WebServer<S>, now: Now, out: &mut Outbox) -> Flow {
        let options = &server.options;
        let is_over = |since: Instant, timeout| now.instant.saturating_duration_since(since) >= timeout;
        if self.head_started.is_some_and(|started| is_over(started, options.request_timeout)) {
            self.connection.fail(ErrorCode::NoError, out.inline());
            return Flow::Linger;
        }
        if let Some((since, taken)) = self.congestion
            && is_over(since, options.idle_timeout)
        {
            let wanted = RATE_MIN * options.idle_timeout.as_secs().max(1);
            if taken < wanted {
                self.connection.fail(ErrorCode::EnhanceYourCalm, out.inline());
                return Flow::Linger;
            }
            self.congestion = Some((now.instant, 0));
        }
        let mut at = 0;
        while let Some((_, stream)) = self.streams.get(at) {
            if stream.started().is_some_and(|started| is_over(started, options.upload_timeout)) {
                if !stream.held.is_empty() {
                    self.send_held(at, out);
                    continue;
                }
                let (number, mut stream) = self.streams.remove(at);
                self.writer.clear();
                stream.conn.pending = None;
                server.time_out(&mut stream.conn, now, &mut stream.out, &mut self.writer);
                self.after_answer(number, stream, at, out);
            }
            at += 1;
        }
        if self.streams.is_empty() {
            self.connection.fail(ErrorCode::NoError, out.inline());
            return Flow::Linger;
        }
        Flow::Open
    }
}
