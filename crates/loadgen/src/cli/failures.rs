//! Failures in words: what the server answered, and what to try.

use loadgen::{
    error::ErrorClass,
    http::Target,
    result::{ProtocolKind, RunResult},
    units::{Grouped, plural},
};
use rustix::process::{Resource, getrlimit};

/// Different causes that are listed; there may be as many as a server has error texts.
const CAUSES_MAX: usize = 8;

/// One cause of failures.
struct Cause<'a> {
    class: ErrorClass,
    /// The server's own words.
    detail: Option<&'a str>,
    count: u64,
}

/// Returns the lines that say why requests failed; none if none did.
pub(super) fn explain(result: &RunResult) -> Vec<String> {
    let causes = causes(result);
    let failed = result.requests - result.ok;
    let mut lines = match &causes[..] {
        [] => Vec::new(),
        [only] if result.ok == 0 => vec![all_failed(result, only, failed)],
        [only] => {
            let of = format!("{} of {} failed", Grouped(failed), plural(result.requests, "request"));
            vec![with_advice(format!("{of}: {}", words(result, only)), advice(result, only))]
        }
        _ => {
            let mut lines = vec![format!("{} of {} failed:", Grouped(failed), plural(result.requests, "request"))];
            let width = Grouped(causes[0].count).to_string().len();
            lines.extend(causes.iter().take(CAUSES_MAX).map(|cause| {
                let said = format!("  {:>width$}  {}", Grouped(cause.count), words(result, cause));
                with_advice(said, advice(result, cause))
            }));
            lines.extend((causes.len() > CAUSES_MAX).then(|| "  … (the result has all)".to_owned()));
            lines
        }
    };
    lines.extend(missing_connections(result));
    lines
}

/// Returns the causes of the failures in one line.
pub(super) fn list_causes(result: &RunResult) -> String {
    let said = |cause: &Cause<'_>| with_advice(words(result, cause), advice(result, cause));
    causes(result).iter().take(CAUSES_MAX).map(said).collect::<Vec<_>>().join("; ")
}

fn all_failed(result: &RunResult, cause: &Cause<'_>, failed: u64) -> String {
    let words = words(result, cause);
    let said = match failed {
        1 => format!("the only request failed: {words}"),
        _ => format!("{words} for every request, {} in all", Grouped(failed)),
    };
    with_advice(said, advice(result, cause))
}

fn with_advice(said: String, advice: Option<String>) -> String {
    match advice {
        Some(advice) => format!("{said}: {advice}"),
        None => said,
    }
}

/// Divides the failures by what is known of them, the most frequent first.
fn causes(result: &RunResult) -> Vec<Cause<'_>> {
    let mut causes = Vec::new();
    for (name, &count) in &result.errors {
        let Some(class) = ErrorClass::from_name(name) else { continue };
        let details = result.error_details.get(name);
        let mut rest = count;
        for (detail, &count) in details.into_iter().flatten() {
            causes.push(Cause { class, detail: Some(detail), count });
            rest = rest.saturating_sub(count);
        }
        if rest > 0 {
            causes.push(Cause { class, detail: None, count: rest });
        }
    }
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
    causes
}

/// Names a cause.
fn words(result: &RunResult, cause: &Cause<'_>) -> String {
    let setting = |name: &str| result.config.get(name).and_then(serde_json::Value::as_f64);
    let within = |name: &str| setting(name).map(|seconds| format!(" within {seconds} s")).unwrap_or_default();
    let is_http = result.kind == ProtocolKind::Http;
    let text = match (cause.class, cause.detail) {
        (ErrorClass::Status, Some(status)) if is_http => return status.to_owned(),
        (ErrorClass::Status, Some(said)) if result.kind == ProtocolKind::Kv => return format!("error reply {said}"),
        (ErrorClass::Status, Some(said)) => return said.to_owned(),
        (ErrorClass::Protocol, Some(said)) => format!("a reply that is not {}, {said}", protocol_name(result)),
        (ErrorClass::Fifo, Some(why)) => format!("no FIFO for the reply, {why}"),
        (ErrorClass::Timeout, _) => format!("no complete reply{}", within("timeout_s")),
        (ErrorClass::TimeoutFirstByte, _) => format!("no byte of a reply{}", within("first_byte_timeout_s")),
        (ErrorClass::ConnectTimeout, _) => format!("no connection{}", within("connect_timeout_s")),
        (ErrorClass::Status, None) => "an error status".to_owned(),
        (ErrorClass::Protocol, None) => format!("a reply that is not {}", protocol_name(result)),
        (ErrorClass::ConnectRefused, _) => "connection refused".to_owned(),
        (ErrorClass::ConnectFailed, _) => "no connection".to_owned(),
        (ErrorClass::Tls, _) => "no TLS handshake".to_owned(),
        (ErrorClass::Reset, _) => "connection reset by the server".to_owned(),
        (ErrorClass::EofEarly, _) => "connection closed before the reply".to_owned(),
        (ErrorClass::WriteError, _) => "request not taken by the server".to_owned(),
        (ErrorClass::StreamReset, Some(said)) => format!("request given up by the server, {said}"),
        (ErrorClass::StreamReset, None) => "request given up by the server".to_owned(),
        (ErrorClass::ShortBody, _) => "connection closed inside the reply".to_owned(),
        (ErrorClass::Length, _) if result.kind == ProtocolKind::Kv => "a value of the wrong length".to_owned(),
        (ErrorClass::Length, _) => "a body of the wrong length".to_owned(),
        (ErrorClass::Content, _) if result.kind == ProtocolKind::Kv => "a wrong value".to_owned(),
        (ErrorClass::Content, _) => "a wrong body".to_owned(),
        (ErrorClass::Encoding, _) => "another Content-Encoding than before".to_owned(),
        (ErrorClass::Miss, _) if result.kind == ProtocolKind::Kv => "key not found".to_owned(),
        (ErrorClass::Miss, _) => "document not found".to_owned(),
        (ErrorClass::NoPort, _) => "no local port left".to_owned(),
        (ErrorClass::QueueFull, _) => format!("message queue full{}", within("timeout_s")),
        (ErrorClass::Fifo, None) => "no FIFO for the reply".to_owned(),
        (ErrorClass::FdLimit, _) => "no file descriptor left".to_owned(),
        (ErrorClass::NotSent, _) => "due, but never sent".to_owned(),
        (ErrorClass::NotOpened, _) => "connection never opened".to_owned(),
    };
    format!("{text} ({})", cause.class.name())
}

fn protocol_name(result: &RunResult) -> String {
    let protocol = result.config.get("protocol").and_then(serde_json::Value::as_str);
    match (result.kind, protocol) {
        (ProtocolKind::Http, _) if is_set(result, "http2") => "HTTP/2".to_owned(),
        (ProtocolKind::Http, _) => "HTTP/1.1".to_owned(),
        (_, Some(protocol)) => format!("of --protocol {protocol}"),
        (_, None) => "valid".to_owned(),
    }
}

/// Returns what to try, where something is likely to help.
fn advice(result: &RunResult, cause: &Cause<'_>) -> Option<String> {
    let detail = cause.detail.unwrap_or_default();
    let fixed = match (cause.class, result.kind) {
        (ErrorClass::Status, ProtocolKind::Http) => {
            return status_advice(result, detail).map(str::to_owned).or_else(|| {
                detail.starts_with("404").then(|| match &path(result)[..] {
                    [one] if !has_paths(result) => format!("is there a file at {one}?"),
                    _ if has_paths(result) => "is there a file at each of the --paths?".to_owned(),
                    _ => "is there a file at each of the URLs?".to_owned(),
                })
            });
        }
        (ErrorClass::Status, ProtocolKind::Kv) => return error_reply_advice(detail).map(str::to_owned),
        (ErrorClass::Status, ProtocolKind::Mq) if detail.contains("file-missing") => {
            "is the file beneath the server's --root?"
        }
        (ErrorClass::Status, ProtocolKind::Mq) if detail.contains("fifo-refused") => {
            "was the server started with the same --fifo-dir?"
        }
        (ErrorClass::Protocol, ProtocolKind::Http) if detail.starts_with("`\\u{15}\\u{3}") => {
            "that is TLS: does the URL begin with https?"
        }
        (ErrorClass::Protocol, ProtocolKind::Http) if is_set(result, "http2") && detail.starts_with("`HTTP/1.") => {
            "the server speaks HTTP/1.1 there: leave --http2 out"
        }
        (ErrorClass::Protocol, _) => "is this the server and the protocol that you meant?",
        (ErrorClass::ConnectRefused, _) => "has the server ended?",
        (ErrorClass::Timeout | ErrorClass::TimeoutFirstByte, ProtocolKind::Mq) => {
            "is a server running on this queue, with the same --fifo-dir?"
        }
        (ErrorClass::Timeout | ErrorClass::TimeoutFirstByte | ErrorClass::ConnectTimeout, _) => {
            "is the server stopped or overloaded?"
        }
        (ErrorClass::EofEarly | ErrorClass::Reset | ErrorClass::ShortBody, ProtocolKind::Http | ProtocolKind::Kv) => {
            "the server's log may say why"
        }
        (ErrorClass::EofEarly, ProtocolKind::Mq) => "is the file beneath the server's --root? --framed would say more",
        (ErrorClass::Miss, ProtocolKind::Kv) if !is_set(result, "preload") => {
            "--preload stores the keys first; --allow-misses counts misses as right"
        }
        (ErrorClass::Content | ErrorClass::Length, ProtocolKind::Kv) => {
            "were the values stored with the same --value-size and kind of values? (a null server has --constant-values)"
        }
        (ErrorClass::Miss | ErrorClass::Length | ErrorClass::Content | ErrorClass::ShortBody, ProtocolKind::File) => {
            "are the directory and --layout those of the server?"
        }
        (ErrorClass::Content | ErrorClass::Length | ErrorClass::Encoding, ProtocolKind::Http) => {
            "--verify status if replies are meant to differ"
        }
        (ErrorClass::QueueFull, _) => "is a server reading this queue?",
        (ErrorClass::NotSent, ProtocolKind::Mq) => "the server cannot keep up: a lower --rate, or more --clients",
        (ErrorClass::NotSent, _) => "the server cannot keep up: a lower --rate, or more --connections",
        (ErrorClass::NoPort, _) => {
            "--source-address 127.0.0.1-127.0.0.8 has as many again for each address of this machine; --linger-zero keeps \
             none in TIME_WAIT"
        }
        (ErrorClass::FdLimit, _) => return Some(descriptor_advice()),
        (ErrorClass::NotOpened, _) => "the time was too short for so many; --ramp 30s opens them before measuring",
        _ => return None,
    };
    Some(fixed.to_owned())
}

/// True if the paths came from a file.
fn has_paths(result: &RunResult) -> bool {
    result.config.get("paths").is_some_and(|file| !file.is_null())
}

fn is_set(result: &RunResult, name: &str) -> bool {
    result.config.get(name).is_some_and(|value| value == true)
}

fn descriptor_advice() -> String {
    let most = getrlimit(Resource::Nofile).maximum;
    let most = most.map(|most| format!(", now {most},")).unwrap_or_default();
    format!("fewer --connections, or a higher hard limit of open files{most} set with `ulimit -Hn`")
}

/// Returns the paths that were asked for.
fn path(result: &RunResult) -> Vec<String> {
    let unix = result.config.get("unix").and_then(serde_json::Value::as_str).map(std::path::Path::new);
    let paths = result.target.split(' ').filter_map(|url| Target::parse(url, unix).ok());
    paths.map(|target| target.path().to_owned()).collect()
}

fn status_advice(result: &RunResult, status: &str) -> Option<&'static str> {
    let has_body = result.config.get("body_bytes").is_some_and(|bytes| !bytes.is_null());
    Some(match status.get(..3)? {
        "301" | "302" | "303" | "307" | "308" => "redirects are not followed: ask for the new address itself",
        "304" => "leave out the header that makes the request conditional",
        "400" if !has_body => "does the server want another --header or path?",
        "401" | "403" => "does it need a login? (--header 'Authorization: …')",
        "405" => "does the path allow this --method?",
        "413" | "414" | "431" => "the request is too large for the server",
        "429" => "the server limits the rate: a lower --rate or fewer --connections",
        "500" | "502" | "504" => "the server's log may say why",
        "503" => "is the server overloaded? fewer --connections, or a lower --rate",
        _ => return None,
    })
}

fn error_reply_advice(text: &str) -> Option<&'static str> {
    let advice = [
        ("NOAUTH", "the server wants a password: --auth"),
        ("WRONGPASS", "check --auth"),
        ("invalid password", "check --auth"),
        ("OOM", "the memory limit of the server is reached: fewer --keys, or let it evict"),
        ("out of memory", "the memory limit of the server is reached: fewer --keys, or let it evict"),
        ("'HELLO'", "the server has no RESP3: --protocol resp"),
        ("max number of clients", "fewer --connections, or a higher limit of the server"),
        ("MOVED", "clusters are not followed: name the node of the keys"),
        ("READONLY", "this is a replica: name the primary"),
    ];
    advice.iter().find(|(word, _)| text.contains(word)).map(|&(_, advice)| advice)
}

/// Says that connections were asked for and never opened, where the failures do not.
fn missing_connections(result: &RunResult) -> Option<String> {
    let (asked, opened) = result.missing_connections()?;
    Some(format!("{} asked for, {} opened", plural(asked, "connection"), Grouped(opened)))
}
