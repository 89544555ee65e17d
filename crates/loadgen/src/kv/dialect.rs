//! Protocols of string caches: requests, the replies that they should get, and decoding of the replies that they got.

use clap::ValueEnum;
use wire::{memcached, resp, us};

use crate::protocol::Replies;

/// A protocol of string caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dialect {
    /// RESP2, Redis's protocol
    Resp,
    /// RESP3: every connection begins with HELLO 3
    Resp3,
    /// The text protocol with 0x1F behind every request and reply
    Us,
    /// memcached's text protocol
    Memcached,
    /// memcached's meta commands
    MemcachedMeta,
}

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Get,
    /// A get of a key that was never written.
    GetMissing,
    Set,
    Del,
    /// A get by `SCRIPT`; RESP alone has scripts.
    Script,
}

/// Script of [`Action::Script`], and its SHA-1 in hexadecimal digits.
const SCRIPT: &[u8] = b"return redis.call('GET', KEYS[1])";
const SCRIPT_SHA1: &[u8] = b"d3c21d0c2b9ca22f82737626a27bcaf5d288f99f";

impl Action {
    pub(super) const ALL: [Self; 5] = [Self::Get, Self::GetMissing, Self::Set, Self::Del, Self::Script];

    /// Returns the name that a log of requests has.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::GetMissing => "get-missing",
            Self::Set => "set",
            Self::Del => "del",
            Self::Script => "script",
        }
    }

    pub(super) fn is_get(self) -> bool {
        matches!(self, Self::Get | Self::GetMissing | Self::Script)
    }

    /// Returns how `count` replies of a right server are counted.
    pub(super) fn replies(self, count: u64) -> Replies {
        let found = matches!(self, Self::Get | Self::Del | Self::Script);
        Replies { count, hits: if found { count } else { 0 }, misses: if self == Self::GetMissing { count } else { 0 } }
    }
}

/// User name and password for Redis's protocol.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: Option<String>,
    pub password: String,
}

/// Shows no password.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Login {
    /// `HELLO` wants a name in any case.
    fn user_or_default(&self) -> &[u8] {
        self.user.as_ref().map_or(b"default", String::as_bytes)
    }
}

/// Complete reply, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecodedReply<'a> {
    Value(&'a [u8]),
    /// There is no such key.
    Absent,
    Stored,
    Deleted,
    /// An error, and what the server says about it.
    Refused(&'a [u8]),
    /// A reply, but none that belongs to the request.
    Unexpected,
}

/// The bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Dialect {
    /// Keys may be this long.
    #[must_use]
    pub fn key_bytes_max(self) -> usize {
        match self {
            Self::Resp | Self::Resp3 | Self::Us => 64 << 10,
            Self::Memcached | Self::MemcachedMeta => memcached::KEY_BYTES_MAX,
        }
    }

    pub(super) fn request(self, action: Action, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match (self, action) {
            (Self::Resp | Self::Resp3, Action::Get | Action::GetMissing) => resp::client::command(out, &[b"GET", key]),
            (Self::Resp | Self::Resp3, Action::Set) => resp::client::command(out, &[b"SET", key, value]),
            (Self::Resp | Self::Resp3, Action::Del) => resp::client::command(out, &[b"DEL", key]),
            (Self::Resp | Self::Resp3, Action::Script) => {
                resp::client::command(out, &[b"EVALSHA", SCRIPT_SHA1, b"1", key]);
            }
            (Self::Us, Action::Get | Action::GetMissing | Action::Script) => us::client::get(out, key),
            (Self::Us, Action::Set) => us::client::set(out, key, value),
            (Self::Us, Action::Del) => us::client::del(out, key),
            (Self::Memcached, Action::Get | Action::GetMissing | Action::Script) => memcached::client::get(out, &[key]),
            (Self::Memcached, Action::Set) => memcached::client::set(out, key, 0, 0, value),
            (Self::Memcached, Action::Del) => memcached::client::delete(out, key),
            (Self::MemcachedMeta, Action::Get | Action::GetMissing | Action::Script) => {
                memcached::client::meta_get(out, key, b"v");
            }
            (Self::MemcachedMeta, Action::Set) => memcached::client::meta_set(out, key, b"", value),
            (Self::MemcachedMeta, Action::Del) => memcached::client::meta_delete(out, key, b""),
        }
    }

    /// Appends the reply to a get of this key that has this value, byte for byte.
    pub fn found(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.reply(Action::Get, key, value, out);
    }

    /// Appends the reply of a server that has the key, byte for byte.
    pub(super) fn reply(self, action: Action, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let fixed: &[u8] = match (self, action) {
            (Self::Resp | Self::Resp3, Action::Get | Action::Script) => return resp::reply::bulk(out, value),
            (Self::Us, Action::Get | Action::Script) => return us::reply::value(out, value),
            (Self::Memcached, Action::Get | Action::Script) => {
                out.extend_from_slice(b"VALUE ");
                out.extend_from_slice(key);
                out.extend_from_slice(format!(" 0 {}\r\n", value.len()).as_bytes());
                out.extend_from_slice(value);
                b"\r\nEND\r\n"
            }
            (Self::MemcachedMeta, Action::Get | Action::Script) => {
                out.extend_from_slice(format!("VA {}\r\n", value.len()).as_bytes());
                out.extend_from_slice(value);
                b"\r\n"
            }
            (Self::Resp, Action::GetMissing) => b"$-1\r\n",
            (Self::Resp3, Action::GetMissing) => b"_\r\n",
            (Self::Us, Action::GetMissing) => b"(nil)\x1f",
            (Self::Memcached, Action::GetMissing) => b"END\r\n",
            (Self::MemcachedMeta, Action::GetMissing) => b"EN\r\n",
            (Self::Resp | Self::Resp3, Action::Set) => b"+OK\r\n",
            (Self::Resp | Self::Resp3, Action::Del) => b":1\r\n",
            (Self::Us, Action::Set | Action::Del) => b"OK\x1f",
            (Self::Memcached, Action::Set) => b"STORED\r\n",
            (Self::Memcached, Action::Del) => b"DELETED\r\n",
            (Self::MemcachedMeta, Action::Set | Action::Del) => b"HD\r\n",
        };
        out.extend_from_slice(fixed);
    }

    /// Returns what a connection sends first: nothing, or one command.
    pub(super) fn greeting(self, login: Option<&Login>) -> Vec<u8> {
        let mut words: Vec<&[u8]> = Vec::new();
        match (self, login) {
            (Self::Resp3, Some(login)) => {
                words.extend([b"HELLO", &b"3"[..], b"AUTH", login.user_or_default(), login.password.as_bytes()]);
            }
            (Self::Resp3, None) => words.extend([b"HELLO", &b"3"[..]]),
            (Self::Resp, Some(login)) => {
                words.push(b"AUTH");
                words.extend(login.user.as_ref().map(String::as_bytes));
                words.push(login.password.as_bytes());
            }
            (Self::Resp, None) | (Self::Us | Self::Memcached | Self::MemcachedMeta, _) => {}
        }
        let mut greeting = Vec::new();
        if !words.is_empty() {
            resp::client::command(&mut greeting, &words);
        }
        greeting
    }

    /// Returns what a connection sends first whose requests are [`Action::Script`].
    pub(super) fn script_greeting(self) -> Vec<u8> {
        let mut greeting = Vec::new();
        resp::client::command(&mut greeting, &[b"SCRIPT", b"LOAD", SCRIPT]);
        greeting
    }

    /// Decodes the reply to [`Self::greeting`] or [`Self::script_greeting`], and its length; `None` while it is incomplete.
    pub(super) fn decode_greeting(self, input: &[u8]) -> Result<Option<(DecodedReply<'_>, usize)>, Broken> {
        Ok(resp_reply(input)?.map(|(reply, length)| {
            if let resp::client::Reply::Error(text) = reply {
                return (DecodedReply::Refused(text), length);
            }
            let describes = match self {
                Self::Resp => {
                    matches!(reply, resp::client::Reply::Simple(b"OK") | resp::client::Reply::Bulk(SCRIPT_SHA1))
                }
                Self::Resp3 | Self::Us | Self::Memcached | Self::MemcachedMeta => {
                    matches!(reply, resp::client::Reply::Map(_) | resp::client::Reply::Array(_))
                }
            };
            (if describes { DecodedReply::Stored } else { DecodedReply::Unexpected }, length)
        }))
    }

    /// Decodes the reply to `action` on `key` at the start of `input`, and its length; `None` while it is incomplete.
    pub(super) fn decode<'a>(
        self,
        action: Action,
        key: &[u8],
        input: &'a [u8],
    ) -> Result<Option<(DecodedReply<'a>, usize)>, Broken> {
        match self {
            Self::Resp | Self::Resp3 => {
                Ok(resp_reply(input)?.map(|(reply, length)| (decoded_resp(action, &reply), length)))
            }
            Self::Us => {
                let decoded = us::client::ReplyDecoder::default().decode(input);
                Ok(decoded.map(|(reply, length)| (decoded_us(action, reply), length)))
            }
            Self::Memcached => {
                let Some((reply, length)) = memcached_reply(input)? else { return Ok(None) };
                let memcached::client::Reply::Value { key: named, value, .. } = reply else {
                    return Ok(Some((decoded_memcached(action, reply), length)));
                };
                let Some((end, end_length)) = memcached_reply(&input[length..])? else { return Ok(None) };
                let is_ours = action.is_get() && named == key && end == memcached::client::Reply::End;
                Ok(Some((
                    if is_ours { DecodedReply::Value(value) } else { DecodedReply::Unexpected },
                    length + end_length,
                )))
            }
            Self::MemcachedMeta => {
                Ok(memcached_reply(input)?.map(|(reply, length)| (decoded_meta(action, reply), length)))
            }
        }
    }
}

/// Decodes a reply of RESP. Decoders start afresh with every piece: only replies that are not as expected get here, and
/// few of those are torn.
fn resp_reply(input: &[u8]) -> Result<Option<(resp::client::Reply<'_>, usize)>, Broken> {
    resp::client::ReplyDecoder::default().decode(input).map_err(|_| Broken)
}

fn memcached_reply(input: &[u8]) -> Result<Option<(memcached::client::Reply<'_>, usize)>, Broken> {
    memcached::client::ReplyDecoder::default().decode(input).map_err(|_| Broken)
}

fn decoded_resp<'a>(action: Action, reply: &resp::client::Reply<'a>) -> DecodedReply<'a> {
    use resp::client::Reply;
    match (action, reply) {
        (_, Reply::Error(text)) => DecodedReply::Refused(text),
        (Action::Get | Action::GetMissing | Action::Script, Reply::Bulk(value)) => DecodedReply::Value(value),
        (Action::Get | Action::GetMissing | Action::Script, Reply::Null) | (Action::Del, Reply::Integer(0)) => {
            DecodedReply::Absent
        }
        (Action::Set, Reply::Simple(b"OK")) => DecodedReply::Stored,
        (Action::Del, Reply::Integer(1)) => DecodedReply::Deleted,
        _ => DecodedReply::Unexpected,
    }
}

/// Interprets a reply of the 0x1F protocol. Values of ours never begin like an error or read like another reply.
fn decoded_us(action: Action, reply: us::client::Reply<'_>) -> DecodedReply<'_> {
    use us::client::Reply;
    match (action, reply) {
        (Action::Set, Reply::Ok) => DecodedReply::Stored,
        (Action::Del, Reply::Ok) => DecodedReply::Deleted,
        (Action::Get | Action::GetMissing | Action::Script | Action::Del, Reply::Nil) => DecodedReply::Absent,
        (Action::Del, Reply::Value(b"ERROR: Key does not exist")) => DecodedReply::Absent,
        (_, Reply::Value(text)) if text.starts_with(b"ERROR") => DecodedReply::Refused(text),
        (Action::Get | Action::GetMissing | Action::Script, Reply::Value(value)) => DecodedReply::Value(value),
        (Action::Get | Action::GetMissing | Action::Script, Reply::Ok) => DecodedReply::Value(b"OK"),
        (Action::Set, Reply::Nil) | (Action::Set | Action::Del, Reply::Value(_)) => DecodedReply::Unexpected,
    }
}

fn decoded_memcached(action: Action, reply: memcached::client::Reply<'_>) -> DecodedReply<'_> {
    use memcached::client::Reply;
    match (action, reply) {
        (_, Reply::Error(text)) | (Action::Set, Reply::Line(text @ b"NOT_STORED")) => DecodedReply::Refused(text),
        (Action::Get | Action::GetMissing | Action::Script, Reply::End) | (Action::Del, Reply::Line(b"NOT_FOUND")) => {
            DecodedReply::Absent
        }
        (Action::Set, Reply::Line(b"STORED")) => DecodedReply::Stored,
        (Action::Del, Reply::Line(b"DELETED")) => DecodedReply::Deleted,
        _ => DecodedReply::Unexpected,
    }
}

fn decoded_meta(action: Action, reply: memcached::client::Reply<'_>) -> DecodedReply<'_> {
    use memcached::client::Reply;
    match (action, reply) {
        (_, Reply::Error(text)) => DecodedReply::Refused(text),
        (Action::Get | Action::GetMissing | Action::Script, Reply::MetaValue { value, .. }) => {
            DecodedReply::Value(value)
        }
        (Action::Get | Action::GetMissing | Action::Script, Reply::Meta { code: [b'E', b'N'], .. })
        | (Action::Del, Reply::Meta { code: [b'N', b'F'], .. }) => DecodedReply::Absent,
        (Action::Set, Reply::Meta { code: [b'H', b'D'], .. }) => DecodedReply::Stored,
        (Action::Set, Reply::Meta { code: [b'N', b'S'], .. }) => DecodedReply::Refused(b"NS"),
        (Action::Del, Reply::Meta { code: [b'H', b'D'], .. }) => DecodedReply::Deleted,
        _ => DecodedReply::Unexpected,
    }
}
