//! String caches: prepared requests, and replies that are compared byte for byte with those of a correct server.
//!
//! Input is compared with a slice of the [`Script`] in one go. Only a reply that differs is decoded, to find out what
//! it is.

mod dialect;
mod script;
mod sizes;
mod space;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, ops::Range, sync::Arc};

use clap::ValueEnum;

use self::dialect::DecodedReply;
pub use self::{
    dialect::{Action, Dialect, Login},
    script::{Mix, Script, ScriptError, ScriptPlan, Span},
    sizes::ValueSizes,
    space::{JSON_BYTES_MIN, KeySpace, Values},
};
pub use crate::key_distribution::KeyDistribution;
use crate::{
    error::ErrorClass,
    failure_texts::FailureTexts,
    protocol::{AfterReply, ClientProtocol, Decoded, EofOutcome, Progress, Replies, RequestOutcome},
};

/// A reply that is not the expected one may be longer than that by this much before it is given up.
const SURPLUS_BYTES_MAX: usize = 64 << 20;

/// Depth to which a reply is checked. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum KvVerify {
    /// Only that it is a reply
    None,
    /// It belongs to the command, and is no error
    Status,
    /// … and a value is as long as it should be
    Length,
    /// … and is the value of its key
    Content,
}

/// Rules by which a reply counts as right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyRules {
    pub verify: KvVerify,
    /// A missing key that should be there is no error.
    pub allow_misses: bool,
}

/// Client that sends the requests of a script.
#[derive(Debug)]
pub struct KvClient {
    script: Arc<Script>,
    rules: VerifyRules,
    /// This thread's part of a script that is gone through in order, and the position in it.
    part: Range<u32>,
    next: u32,
    rng: fastrand::Rng,
    /// Texts of error replies, and beginnings of what is no reply.
    said: FailureTexts,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// State of one connection: its position in the script, and in the reply.
#[derive(Debug)]
pub struct KvConn {
    next: u32,
    /// Bytes that agree with what is expected of the batch in flight.
    matched: usize,
    /// The beginning of a reply that differs.
    torn: Vec<u8>,
    is_torn: bool,
}

impl KvClient {
    /// The client of one of several `threads`.
    #[must_use]
    pub fn new(script: Arc<Script>, rules: VerifyRules, seed: u64, thread: usize, threads: usize) -> Self {
        let part = part(script.positions(), thread, threads);
        let rng = fastrand::Rng::with_seed(seed.wrapping_add(thread as u64));
        let next = part.start;
        Self { script, rules, part, next, rng, said: FailureTexts::default(), key: Vec::new(), value: Vec::new() }
    }

    /// All replies up to `matched` are right: settles those that are whole. `used` bytes of the input have been
    /// compared, and there `is_more` behind them.
    fn settle(&self, conn: &mut KvConn, span: Span, matched: usize, used: usize, is_more: bool) -> Option<Decoded> {
        let (mut count, mut end) = self.script.whole_replies(span, matched);
        if is_more && count == span.len && count > 1 {
            // Whatever follows is stuck to the last one, which therefore comes alone.
            count -= 1;
            end = self.script.reply_offset(span, count);
        }
        if count == 0 {
            return None;
        }
        // Replies that were whole before have been settled before, so the last of these ends within this input.
        let before = matched - used;
        conn.matched = 0;
        Some(done(end - before, self.script.tally(span, count), Ok(())))
    }

    #[cold]
    fn decode_other(&mut self, conn: &mut KvConn, span: Span, input: &[u8]) -> Decoded {
        let expected = &self.script.replies(span)[conn.matched..];
        let same = expected.iter().zip(input).take_while(|(expected, found)| expected == found).count();
        let matched = conn.matched + same;
        if let Some(decoded) = self.settle(conn, span, matched, same, true) {
            return decoded;
        }
        conn.torn.clear();
        conn.torn.extend_from_slice(&self.script.replies(span)[..conn.matched]);
        conn.matched = 0;
        self.decode_torn(conn, span, input)
    }

    /// Decodes the oldest reply, whose beginning may be in `conn.torn`.
    #[cold]
    fn decode_torn(&mut self, conn: &mut KvConn, span: Span, input: &[u8]) -> Decoded {
        let mut torn = std::mem::take(&mut conn.torn);
        let kept = torn.len();
        let whole = if kept == 0 {
            input
        } else {
            torn.extend_from_slice(input);
            &torn[..]
        };
        let (action, number) = self.script.requested(span.start);
        self.script.space.key(number, &mut self.key);
        let decoded = match self.script.dialect.decode(action, &self.key, whole) {
            Ok(Some((reply, length))) => {
                let (replies, outcome) = self.check_reply(action, number, reply);
                Some(done(length - kept, replies, outcome))
            }
            Ok(None) if whole.len() <= self.script.space.value_bytes_max() + SURPLUS_BYTES_MAX => None,
            Ok(None) | Err(_) => {
                self.said.note(whole);
                Some(Decoded { consumed: 0, progress: Progress::Broken(ErrorClass::Protocol) })
            }
        };
        if decoded.is_none() && kept == 0 {
            torn.extend_from_slice(input);
        }
        conn.is_torn = decoded.is_none();
        if !conn.is_torn {
            torn.clear();
        }
        conn.torn = torn;
        decoded.unwrap_or(Decoded { consumed: input.len(), progress: Progress::NeedMore })
    }

    fn check_reply(&mut self, action: Action, number: u32, reply: DecodedReply<'_>) -> (Replies, RequestOutcome) {
        let VerifyRules { verify, allow_misses } = self.rules;
        let hit = Replies { hits: 1, ..Replies::ONE };
        let miss = Replies { misses: 1, ..Replies::ONE };
        let unless = |is_wrong: bool, class| if is_wrong { Err(class) } else { Ok(()) };
        match (action, reply) {
            (_, DecodedReply::Refused(text)) => {
                if verify == KvVerify::None {
                    return (Replies::ONE, Ok(()));
                }
                self.said.note(text);
                (Replies::ONE, Err(ErrorClass::Status))
            }
            (Action::Get | Action::Script, DecodedReply::Value(value)) => (hit, self.check_value(number, value)),
            (Action::GetMissing, DecodedReply::Value(_)) => {
                (hit, unless(verify >= KvVerify::Content, ErrorClass::Content))
            }
            (Action::Get | Action::Script | Action::Del, DecodedReply::Absent) => {
                (miss, unless(verify > KvVerify::None && !allow_misses, ErrorClass::Miss))
            }
            (Action::GetMissing, DecodedReply::Absent) => (miss, Ok(())),
            (Action::Set, DecodedReply::Stored) => (Replies::ONE, Ok(())),
            (Action::Del, DecodedReply::Deleted) => (hit, Ok(())),
            (
                _,
                DecodedReply::Unexpected
                | DecodedReply::Value(_)
                | DecodedReply::Absent
                | DecodedReply::Stored
                | DecodedReply::Deleted,
            ) => (Replies::ONE, unless(verify > KvVerify::None, ErrorClass::Protocol)),
        }
    }

    fn check_value(&mut self, number: u32, found: &[u8]) -> RequestOutcome {
        if self.rules.verify >= KvVerify::Length && found.len() != self.script.space.value_length(number) {
            return Err(ErrorClass::Length);
        }
        if self.rules.verify >= KvVerify::Content {
            self.script.space.value(number, &mut self.value);
            if found != self.value {
                return Err(ErrorClass::Content);
            }
        }
        Ok(())
    }
}

impl ClientProtocol for KvClient {
    type Request = Span;
    type Conn = KvConn;

    fn open(&mut self) -> KvConn {
        let unit = self.script.unit;
        let next = self.rng.u32(0..self.script.positions() / unit) * unit;
        KvConn { next, matched: 0, torn: Vec::new(), is_torn: false }
    }

    fn greet(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.script.greeting);
    }

    fn decode_greeting(&mut self, conn: &mut KvConn, input: &[u8]) -> Decoded {
        let kept = conn.torn.len();
        conn.torn.extend_from_slice(input);
        let torn = std::mem::take(&mut conn.torn);
        match self.script.dialect.decode_greeting(&torn) {
            Ok(None) if torn.len() <= SURPLUS_BYTES_MAX => {
                conn.torn = torn;
                Decoded { consumed: input.len(), progress: Progress::NeedMore }
            }
            Ok(Some((reply, length))) => {
                let (_, outcome) = self.check_reply(Action::Set, 0, reply);
                done(length - kept, Replies::ONE, outcome)
            }
            Ok(None) | Err(_) => {
                self.said.note(&torn);
                Decoded { consumed: 0, progress: Progress::Broken(ErrorClass::Protocol) }
            }
        }
    }

    #[inline]
    fn next(&mut self, conn: &mut KvConn, most: u64) -> Span {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        if self.script.is_in_order {
            let span = Span { start: self.next, len: most.min(self.part.end - self.next) };
            self.next = if span.start + span.len == self.part.end { self.part.start } else { span.start + span.len };
            return span;
        }
        let span = Span { start: conn.next, len: most };
        conn.next = (conn.next + most) % self.script.positions();
        span
    }

    #[inline]
    fn encode(&self, span: Span, out: &mut Vec<u8>) {
        self.script.write_requests(span, out);
    }

    #[inline]
    fn decode(&mut self, conn: &mut KvConn, span: Span, input: &[u8]) -> Decoded {
        if conn.is_torn {
            return self.decode_torn(conn, span, input);
        }
        let expected = &self.script.replies(span)[conn.matched..];
        let used = expected.len().min(input.len());
        if input[..used] != expected[..used] {
            return self.decode_other(conn, span, input);
        }
        if input.len() == expected.len() {
            conn.matched = 0;
            return done(used, self.script.tally(span, span.len), Ok(()));
        }
        let matched = conn.matched + used;
        self.settle(conn, span, matched, used, used < input.len()).unwrap_or_else(|| {
            conn.matched = matched;
            Decoded { consumed: used, progress: Progress::NeedMore }
        })
    }

    fn on_eof(&mut self, conn: &mut KvConn, span: Span) -> EofOutcome {
        let begun = if conn.is_torn { &conn.torn[..] } else { &self.script.replies(span)[..conn.matched] };
        let is_in_value = match self.script.dialect {
            Dialect::Us => !begun.is_empty() && self.script.requested(span.start).0.is_get(),
            Dialect::Resp | Dialect::Resp3 | Dialect::Memcached | Dialect::MemcachedMeta => begun.contains(&b'\n'),
        };
        EofOutcome::Failed(if is_in_value { ErrorClass::ShortBody } else { ErrorClass::EofEarly })
    }

    fn take_failure_detail(&mut self, _conn: &mut KvConn) -> Option<u32> {
        self.said.take_last()
    }

    /// Quotes the server.
    fn failure_detail(&self, detail: u32) -> String {
        format!("`{}`", self.said.text(detail))
    }

    fn operation(&self, span: Span, index: u64) -> u32 {
        // What is prepared once more behind the end repeats what stands at the beginning.
        let place = (u64::from(span.start) + index) % u64::from(self.script.positions());
        let (action, _) = self.script.requested(u32::try_from(place).unwrap_or_default());
        action as u32
    }

    fn operation_name(&self, operation: u32) -> Cow<'_, str> {
        let action = Action::ALL.iter().find(|action| **action as u32 == operation);
        Cow::Borrowed(action.map_or("", |action| action.name()))
    }
}

fn done(consumed: usize, replies: Replies, outcome: RequestOutcome) -> Decoded {
    Decoded { consumed, progress: Progress::Done { replies, outcome, after: AfterReply::KeepAlive } }
}

/// One thread's share of `len` positions: as many as its share of `len` requests.
fn part(len: u32, thread: usize, threads: usize) -> Range<u32> {
    let share = |thread| crate::engine::share(u64::from(len), thread, threads);
    let start: u64 = (0..thread).map(share).sum();
    let edge = |position| u32::try_from(position).unwrap_or(len);
    if share(thread) == 0 { 0..len } else { edge(start)..edge(start + share(thread)) }
}
