//! Scripts: the requests of a run and the replies that they should get, prepared before the clock starts.
//!
//! Choosing keys, encoding requests and decoding replies cost more than moving their bytes. So a long sequence of
//! requests is prepared together with the replies that a right server gives, and a run sends slices of the one and
//! compares what arrives with slices of the other. Threads share it.

use super::{
    dialect::{Action, Dialect, Login},
    space::KeySpace,
};
use crate::{
    key_distribution::{DistributionError, KeyDistribution, KeyGenerator},
    protocol::{Batch, Replies},
};

/// Number of random requests that are prepared; as many as there are keys if there are more keys.
const PREPARED_MIN: u64 = 1 << 20;
/// Limit of requests and replies together, in bytes. Offsets fit 32 bits even with a batch of this size behind it.
const PREPARED_BYTES_MAX: usize = 256 << 20;

/// Shares of the actions in a random sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    pub get: u32,
    pub set: u32,
    pub del: u32,
}

/// Kind of a sequence of requests.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptPlan {
    /// Actions and keys by chance, `miss_ratio` of the gets for missing keys.
    Mixed { mix: Mix, keys: KeyDistribution, miss_ratio: f64 },
    /// The same three actions over and over: set a key, get it, get a missing one.
    Workflow { keys: KeyDistribution },
    /// Gets of keys by chance, each by a script.
    Scripted { keys: KeyDistribution },
    /// This action on every key, one after the other.
    Each(Action),
}

/// Reasons why there is no such script.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ScriptError {
    #[error("{keys} different keys need at least {key_bytes_min} bytes each")]
    KeysTooShort { keys: u32, key_bytes_min: usize },
    #[error("JSON documents need at least {} bytes", super::space::JSON_BYTES_MIN)]
    JsonTooShort,
    #[error(transparent)]
    Distribution(#[from] DistributionError),
    #[error("a whole pipeline of such requests does not fit {} MiB", PREPARED_BYTES_MAX >> 20)]
    BatchTooLarge,
    #[error("what is asked for in order does not fit {} MiB: use fewer keys, or random ones", PREPARED_BYTES_MAX >> 20)]
    SequenceTooLarge,
}

/// Positions in a script that make one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Batch for Span {
    #[inline]
    fn left(self) -> u64 {
        u64::from(self.len)
    }

    #[inline]
    fn without(self, count: u64) -> Self {
        // Never more than there are.
        let count = u32::try_from(count).unwrap_or(self.len).min(self.len);
        Self { start: self.start + count, len: self.len - count }
    }
}

/// Sequence of requests, and the replies that they should get.
#[derive(Debug)]
pub struct Script {
    pub(super) space: KeySpace,
    pub(super) dialect: Dialect,
    /// Bytes that every connection sends first.
    pub(super) greeting: Vec<u8>,
    content: Content,
    /// Number of positions before it starts again.
    len: u32,
    /// Number of positions that belong together: sequences may be entered at multiples of it.
    pub(super) unit: u32,
    /// Every position must be taken by one connection only, in order.
    pub(super) is_in_order: bool,
}

#[derive(Debug)]
enum Content {
    Prepared(Prepared),
    /// All replies are the same, and requests are written when they are sent.
    Each {
        action: Action,
        replies: Vec<u8>,
        reply_bytes: usize,
    },
}

#[derive(Debug, Default)]
struct Prepared {
    requested: Vec<(Action, u32)>,
    requests: Vec<u8>,
    replies: Vec<u8>,
    /// Offsets at which each request begins, and one more.
    marks: Vec<Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    request: u32,
    reply: u32,
    /// Counts of all requests before it.
    hits: u32,
    misses: u32,
}

impl Script {
    /// Prepares `plan` for batches of up to `batch`, but no more than a run of `requests` can use.
    ///
    /// # Errors
    /// It would not fit the memory that is meant for it, or the plan makes no sense.
    pub fn new(
        space: KeySpace,
        dialect: Dialect,
        plan: &ScriptPlan,
        batch: u32,
        requests: Option<u64>,
        seed: u64,
    ) -> Result<Self, ScriptError> {
        if let ScriptPlan::Each(action @ (Action::Set | Action::Del | Action::GetMissing)) = *plan {
            let mut replies = Vec::new();
            dialect.reply(action, b"", b"", &mut replies);
            let reply_bytes = replies.len();
            let content = Content::Each { action, replies: replies.repeat(batch as usize), reply_bytes };
            let len = space.keys();
            let greeting = dialect.greeting(None);
            return Ok(Self { space, dialect, greeting, content, len, unit: 1, is_in_order: true });
        }
        let (distribution, unit) = match plan {
            ScriptPlan::Mixed { keys, .. } | ScriptPlan::Scripted { keys } => (keys, 1),
            ScriptPlan::Workflow { keys } => (keys, 3),
            ScriptPlan::Each(_) => (&KeyDistribution::Sequential, 1),
        };
        let keys = u64::from(space.keys());
        let (is_in_order, wanted) = match distribution {
            KeyDistribution::Sequential => (true, keys * u64::from(unit)),
            KeyDistribution::Replay(trace) => (true, trace.len() as u64 * u64::from(unit)),
            KeyDistribution::Uniform | KeyDistribution::Zipf(_) | KeyDistribution::Hot { .. } => {
                (false, keys.max(PREPARED_MIN))
            }
        };
        let wanted = wanted.min(requests.unwrap_or(u64::MAX)).next_multiple_of(u64::from(unit));
        let mut generator = KeyGenerator::new(distribution, space.keys(), seed)?;
        let mut writer =
            Writer { space: &space, dialect, prepared: Prepared::default(), key: Vec::new(), value: Vec::new() };
        while (writer.prepared.requested.len() as u64) < wanted && writer.bytes() < PREPARED_BYTES_MAX {
            writer.write_unit(plan, &mut generator);
        }
        let len = writer.prepared.requested.len();
        if is_in_order && (len as u64) < wanted {
            return Err(ScriptError::SequenceTooLarge);
        }
        // A batch may begin at any position and goes on where the sequence starts again.
        for position in 0..batch as usize {
            let (action, key) = writer.prepared.requested[position % len];
            writer.write(action, key);
            if writer.bytes() > 2 * PREPARED_BYTES_MAX {
                return Err(ScriptError::BatchTooLarge);
            }
        }
        writer.mark();
        let content = Content::Prepared(writer.prepared);
        // At most `keys` or PREPARED_MIN, and limited by the bytes.
        let len = u32::try_from(len).map_err(|_| ScriptError::SequenceTooLarge)?;
        let greeting = match plan {
            ScriptPlan::Scripted { .. } => dialect.script_greeting(),
            ScriptPlan::Mixed { .. } | ScriptPlan::Workflow { .. } | ScriptPlan::Each(_) => dialect.greeting(None),
        };
        Ok(Self { space, dialect, greeting, content, len, unit, is_in_order })
    }

    /// Adds a login for a server that demands one. Only Redis's protocol has a command for that.
    #[must_use]
    pub fn with_login(self, login: &Login) -> Self {
        Self { greeting: self.dialect.greeting(Some(login)), ..self }
    }

    /// Returns the number of different positions; the last is followed by the first.
    #[must_use]
    pub fn positions(&self) -> u32 {
        self.len
    }

    /// Appends the requests.
    #[inline]
    pub(super) fn write_requests(&self, span: Span, out: &mut Vec<u8>) {
        match &self.content {
            Content::Prepared(prepared) => {
                let (from, to) = (prepared.mark(span.start), prepared.mark(span.start + span.len));
                out.extend_from_slice(&prepared.requests[from.request as usize..to.request as usize]);
            }
            Content::Each { action, .. } => {
                let (mut key, mut value) = (Vec::new(), Vec::new());
                for number in span.start..span.start + span.len {
                    self.space.key(number, &mut key);
                    if *action == Action::Set {
                        self.space.value(number, &mut value);
                    }
                    self.dialect.request(*action, &key, &value, out);
                }
            }
        }
    }

    /// Returns the replies of a correct server.
    #[inline]
    pub(super) fn replies(&self, span: Span) -> &[u8] {
        match &self.content {
            Content::Prepared(prepared) => {
                let (from, to) = (prepared.mark(span.start), prepared.mark(span.start + span.len));
                &prepared.replies[from.reply as usize..to.reply as usize]
            }
            Content::Each { replies, reply_bytes, .. } => &replies[..span.len as usize * reply_bytes],
        }
    }

    /// Returns the number of the span's replies that lie within the first `bytes` of [`Self::replies`], and the offset
    /// at which the last of them ends.
    pub(super) fn whole_replies(&self, span: Span, bytes: usize) -> (u32, usize) {
        match &self.content {
            Content::Prepared(prepared) => {
                let marks = &prepared.marks[span.start as usize..=(span.start + span.len) as usize];
                let begin = marks[0].reply as usize;
                let count = marks[1..].partition_point(|mark| mark.reply as usize - begin <= bytes);
                (u32::try_from(count).unwrap_or(span.len), marks[count].reply as usize - begin)
            }
            Content::Each { reply_bytes, .. } => {
                let count = bytes / reply_bytes;
                (u32::try_from(count).unwrap_or(span.len), count * reply_bytes)
            }
        }
    }

    /// Returns the offset of the reply behind the first `count`.
    pub(super) fn reply_offset(&self, span: Span, count: u32) -> usize {
        match &self.content {
            Content::Prepared(prepared) => {
                (prepared.mark(span.start + count).reply - prepared.mark(span.start).reply) as usize
            }
            Content::Each { reply_bytes, .. } => count as usize * reply_bytes,
        }
    }

    /// Returns how the first `count` replies of a span are counted, if they are right.
    #[inline]
    pub(super) fn tally(&self, span: Span, count: u32) -> Replies {
        match &self.content {
            Content::Prepared(prepared) => {
                let (from, to) = (prepared.mark(span.start), prepared.mark(span.start + count));
                Replies {
                    count: u64::from(count),
                    hits: u64::from(to.hits - from.hits),
                    misses: u64::from(to.misses - from.misses),
                }
            }
            Content::Each { action, .. } => action.replies(u64::from(count)),
        }
    }

    /// Returns the request at a position: the action, and the number of its key.
    pub(super) fn requested(&self, position: u32) -> (Action, u32) {
        match &self.content {
            Content::Prepared(prepared) => prepared.requested[position as usize],
            Content::Each { action, .. } => (*action, position),
        }
    }
}

impl Prepared {
    #[inline]
    fn mark(&self, position: u32) -> Mark {
        self.marks[position as usize]
    }
}

/// Writes a prepared script.
struct Writer<'a> {
    space: &'a KeySpace,
    dialect: Dialect,
    prepared: Prepared,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Writer<'_> {
    fn bytes(&self) -> usize {
        self.prepared.requests.len() + self.prepared.replies.len()
    }

    fn write_unit(&mut self, plan: &ScriptPlan, generator: &mut KeyGenerator) {
        let key = generator.key();
        match *plan {
            ScriptPlan::Each(action) => self.write(action, key),
            ScriptPlan::Scripted { .. } => self.write(Action::Script, key),
            ScriptPlan::Workflow { .. } => {
                for action in [Action::Set, Action::Get, Action::GetMissing] {
                    self.write(action, key);
                }
            }
            ScriptPlan::Mixed { mix, miss_ratio, .. } => {
                let chosen = generator.below(mix.get + mix.set + mix.del);
                let action = match chosen {
                    _ if chosen < mix.set => Action::Set,
                    _ if chosen < mix.set + mix.del => Action::Del,
                    _ if miss_ratio > 0.0 && generator.has_chance(miss_ratio) => Action::GetMissing,
                    _ => Action::Get,
                };
                self.write(action, key);
            }
        }
    }

    fn write(&mut self, action: Action, number: u32) {
        self.mark();
        match action {
            Action::GetMissing => self.space.missing_key(number, &mut self.key),
            Action::Get | Action::Set | Action::Del | Action::Script => self.space.key(number, &mut self.key),
        }
        if matches!(action, Action::Get | Action::Set | Action::Script) {
            self.space.value(number, &mut self.value);
        }
        self.dialect.request(action, &self.key, &self.value, &mut self.prepared.requests);
        self.dialect.reply(action, &self.key, &self.value, &mut self.prepared.replies);
        self.prepared.requested.push((action, number));
    }

    /// Notes where the next request begins.
    fn mark(&mut self) {
        let prepared = &mut self.prepared;
        let before = prepared.requested.last().map_or_else(Replies::default, |(action, _)| action.replies(1));
        let last = prepared.marks.last().map_or((0, 0), |mark| (mark.hits, mark.misses));
        // Both buffers stay far below 4 GiB, see PREPARED_BYTES_MAX.
        let offset = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        prepared.marks.push(Mark {
            request: offset(&prepared.requests),
            reply: offset(&prepared.replies),
            hits: last.0 + u32::from(before.hits > 0),
            misses: last.1 + u32::from(before.misses > 0),
        });
    }
}
