mod binary;
mod observed;
mod replies;
mod tearing;

use super::{FatalError, Limits, MetaKey, Parsed, Request, RequestParser};

/// Returns the meaning of a stream: requests in short, errors in memcached's words, a fatal error as `†`, and `…` for a
/// torn rest.
fn parse_to_text(input: &[u8], limits: &Limits) -> String {
    parse_torn_to_text(input, &[usize::MAX], limits)
}

/// Returns the [`parse_to_text`] of input that arrives in pieces, each offered after the unread part of earlier ones.
fn parse_torn_to_text(input: &[u8], sizes: &[usize], limits: &Limits) -> String {
    let mut parser = RequestParser::default();
    let (mut start, mut end, mut parts) = (0, 0, Vec::new());
    let mut sizes = sizes.iter().cycle();
    'arrival: while end < input.len() {
        end = input.len().min(end.saturating_add(*sizes.next().unwrap_or(&1)));
        while start < end {
            start += match parser.parse(&input[start..end], limits) {
                Ok(Parsed::Complete { request, consumed }) => {
                    parts.push(describe(&request));
                    consumed
                }
                Ok(Parsed::Refused { refusal, consumed }) => {
                    parts.push(refusal.text().to_owned());
                    consumed
                }
                Ok(Parsed::Skipped { consumed }) => consumed,
                Ok(Parsed::Incomplete { need }) => {
                    assert!(parser.is_mid_request() && need <= limits.item_bytes_max);
                    continue 'arrival;
                }
                Err(FatalError::Http | FatalError::Magic | FatalError::LineTooLong) => {
                    parts.push("†".to_owned());
                    return parts.join(" | ");
                }
            };
        }
    }
    if start < end || parser.is_mid_request() {
        parts.push("…".to_owned());
    }
    parts.join(" | ")
}

fn describe(request: &Request<'_>) -> String {
    let words = |keys: super::Keys<'_>| keys.into_iter().map(text).collect::<Vec<_>>().join(" ");
    match *request {
        Request::Get { keys, with_cas } => format!("get{} {}", if with_cas { "s" } else { "" }, words(keys)),
        Request::GetAndTouch { expiry, keys, with_cas } => {
            format!("gat{} {expiry:?} {}", if with_cas { "s" } else { "" }, words(keys))
        }
        Request::Store { mode, key, flags, expiry, value, noreply } => {
            format!("{mode:?} {} {flags} {expiry:?}{} = {}", text(key), quiet(noreply), text(value))
        }
        Request::TooLarge { outdated, noreply } => {
            format!("too large{}, {}", quiet(noreply), outdated.map_or_else(|| "-".to_owned(), |key| meta_key(&key)))
        }
        Request::Touch { key, expiry, noreply } => format!("touch {} {expiry:?}{}", text(key), quiet(noreply)),
        Request::Delete { key, noreply } => format!("delete {}{}", text(key), quiet(noreply)),
        Request::Arithmetic { direction, key, delta, noreply } => {
            format!("{direction:?} {} {delta}{}", text(key), quiet(noreply))
        }
        Request::FlushAll { delay, noreply } => format!("flush {delay:?}{}", quiet(noreply)),
        Request::Version => "version".to_owned(),
        Request::Verbosity { level, noreply } => format!("verbosity {level}{}", quiet(noreply)),
        Request::Stats { args } => format!("stats {}", words(args)),
        Request::Quit => "quit".to_owned(),
        Request::Shutdown(mode) => format!("shutdown {mode:?}"),
        Request::MetaGet { key, flags } => format!("mg {}{}", meta_key(&key), meta_flags(&flags)),
        Request::MetaSet { key, mode, flags, value } => {
            format!("ms {mode:?} {}{} = {}", meta_key(&key), meta_flags(&flags), text(value))
        }
        Request::MetaDelete { key, flags } => format!("md {}{}", meta_key(&key), meta_flags(&flags)),
        Request::MetaArithmetic { key, direction, flags } => {
            format!("ma {direction:?} {}{}", meta_key(&key), meta_flags(&flags))
        }
        Request::MetaDebug { key } => format!("me {}", meta_key(&key)),
        Request::MetaNoop => "mn".to_owned(),
        Request::Slabs { command, noreply } => {
            format!("slabs {}{}", command.map_or_else(super::Refusal::text, |()| "ok"), quiet(noreply))
        }
        Request::CacheMemoryLimit { mebibytes, noreply } => format!("memory limit {mebibytes:?}{}", quiet(noreply)),
        Request::Binary(request) => format!("{request:?}"),
    }
}

fn quiet(noreply: bool) -> &'static str {
    if noreply { " quietly" } else { "" }
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn meta_key(key: &MetaKey<'_>) -> String {
    text(key.bytes(&mut [0; super::KEY_BYTES_MAX]))
}

fn meta_flags(flags: &super::MetaFlags<'_>) -> String {
    flags.iter().map(|(letter, token)| format!(" {}{}", char::from(letter), text(token))).collect()
}
