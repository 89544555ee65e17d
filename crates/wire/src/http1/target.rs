//! Request targets (RFC 9112, section 3.2).

use super::{Method, Refusal, authority::is_host};

/// The target of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// Origin form, or absolute form without its scheme and authority.
    Path {
        /// Path that starts with `/`; not decoded, dot segments not removed.
        path: &'a [u8],
        /// Query, behind the first `?`.
        query: Option<&'a [u8]>,
        /// True if `path` contains a `%`.
        is_encoded: bool,
    },
    /// `OPTIONS *`: the server as a whole.
    Server,
    /// `CONNECT host:port`.
    Authority(&'a [u8]),
}

const BAD: u8 = 1;
const PERCENT: u8 = 2;
const QUERY: u8 = 4;

/// Blanks, controls and `#` are not allowed in a target. Bytes above ASCII, and the few printable ones that the RFC
/// wants encoded, are accepted as they are, since common clients send them so.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte <= b' ' as usize {
        class[byte] = BAD;
        byte += 1;
    }
    class[0x7f] = BAD;
    class[b'#' as usize] = BAD;
    class[b'%' as usize] = PERCENT;
    class[b'?' as usize] = QUERY;
    class
};

impl<'a> Target<'a> {
    /// Splits a target in origin form off a request line: it ends where a byte comes that none can have.
    #[inline(always)]
    pub(super) fn split_off(line: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (mut seen, mut len) = (0, 0);
        loop {
            match CLASS[usize::from(*line.get(len)?)] {
                BAD => break,
                class => seen |= class,
            }
            len += 1;
        }
        let (raw, behind) = line.split_at(len);
        let target = match raw.first() {
            Some(b'/') if seen == 0 => Target::Path { path: raw, query: None, is_encoded: false },
            Some(b'/') => Self::split(raw),
            _ => return None,
        };
        Some((target, behind))
    }

    #[inline(always)]
    pub(super) fn parse(raw: &'a [u8], method: Method) -> Result<Self, Refusal> {
        let seen = raw.iter().fold(0, |seen, &byte| seen | CLASS[byte as usize]);
        if seen & BAD != 0 {
            return Err(Refusal::Malformed);
        }
        match raw.first() {
            Some(b'/') if seen == 0 && method != Method::Connect => {
                Ok(Target::Path { path: raw, query: None, is_encoded: false })
            }
            Some(b'/') if method != Method::Connect => Ok(Self::split(raw)),
            _ => Self::unusual(raw, method),
        }
    }

    fn split(raw: &'a [u8]) -> Self {
        let question = memchr::memchr(b'?', raw);
        let path = &raw[..question.unwrap_or(raw.len())];
        Target::Path { path, query: question.map(|at| &raw[at + 1..]), is_encoded: path.contains(&b'%') }
    }

    #[cold]
    fn unusual(raw: &'a [u8], method: Method) -> Result<Self, Refusal> {
        if method == Method::Connect {
            return if is_host(raw) { Ok(Target::Authority(raw)) } else { Err(Refusal::Malformed) };
        }
        if raw == b"*" && method == Method::Options {
            return Ok(Target::Server);
        }
        let rest = [&b"http://"[..], b"https://"].iter().find_map(|scheme| {
            let (start, rest) = raw.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        });
        let rest = rest.ok_or(Refusal::Malformed)?;
        let authority = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        match rest[authority..].first() {
            _ if !is_host(&rest[..authority]) => Err(Refusal::Malformed),
            Some(b'/') => Ok(Self::split(&rest[authority..])),
            Some(_) => Ok(Target::Path { path: b"/", query: Some(&rest[authority + 1..]), is_encoded: false }),
            // RFC 9112, section 3.2.1: an empty path is sent as "/"; for OPTIONS it means the server.
            None if method == Method::Options => Ok(Target::Server),
            None => Ok(Target::Path { path: b"/", query: None, is_encoded: false }),
        }
    }
}
