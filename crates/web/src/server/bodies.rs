//! Requests whose bodies arrive, or that wait for another thread.

use proto::Flow;
use wire::http1::{Body, HeadParser, Refusal};

use super::{WebServer, follow};
use crate::{
    Site,
    responder::{Next, Responder},
    upload::{Pending, Verdict},
    writer::Writer,
};

impl<S: Site> WebServer<S> {
    /// Goes on with the request that is pending. Returns the number of bytes that are done with, and what follows; `None`
    /// before its body has arrived or its wait is over.
    #[cold]
    pub(super) fn go_on<W: Writer>(
        &self,
        slot: &mut Option<Box<Pending<S::Upload>>>,
        is_retiring: bool,
        input: &[u8],
        responder: &mut Responder<'_, S, W>,
    ) -> (usize, Option<Flow>) {
        let Some(pending) = slot else { return (0, Some(Flow::Open)) };
        // The other thread may have been faster than this one: the answer takes the place of the promise, not one behind it.
        if matches!(**pending, Pending::Waiting(_)) && responder.out.has_pending_replies() {
            return (0, None);
        }
        let (taken, verdict) = match pending.feed(input) {
            Ok((taken, Verdict::Incomplete)) => return (taken, None),
            Ok(outcome) => outcome,
            Err(error) => return (0, Some(responder.reject_body(error, pending.part()))),
        };
        let unread = input.len() - taken;
        responder.can_prepare = false; // The head is not in the input any more.
        let next = match slot.take().map(|pending| *pending) {
            None | Some(Pending::Discarded(_)) => Next::Flow(Flow::Open),
            Some(Pending::Upload(upload)) => Next::Flow(responder.finish_upload(upload, unread)),
            Some(Pending::Program(upload)) => responder.begin_program(upload, unread),
            Some(Pending::Judged(body)) => self.answer_judged(&body.head, verdict, unread, is_retiring, responder),
            Some(Pending::Waiting(waiting)) => responder.finish_waiting(waiting, is_retiring),
        };
        responder.can_prepare = true;
        (taken - next.held(), Some(follow(next, slot, is_retiring)))
    }

    /// Answers the request with this head, whose body has been judged.
    fn answer_judged<W: Writer>(
        &self,
        head: &[u8],
        verdict: Verdict,
        unread: usize,
        is_retiring: bool,
        responder: &mut Responder<'_, S, W>,
    ) -> Next<S> {
        match HeadParser::default().parse(head, self.head_limits::<W>()) {
            Ok(Some(mut request)) => {
                request.should_keep_alive &= !is_retiring;
                request.body = Body::Empty;
                match verdict {
                    Verdict::TooLong => responder.answer_last(&request, head),
                    Verdict::Complete | Verdict::Incomplete => responder.handle_rare_request(&request, head, unread),
                }
            }
            // It was whole and well-formed before.
            Ok(None) => Next::Flow(responder.refuse(Refusal::Malformed)),
            Err(refusal) => Next::Flow(responder.refuse(refusal)),
        }
    }
}
