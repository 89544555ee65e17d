//! Records of requests for the access log.
//!
//! A record is begun when the head of a request has been read, and ended when its response has left; what is known only
//! then comes between the two parts of the text, or behind them. Whatever a client sends, a record is one line, and no
//! value can pass for another.

use std::{io::Write, time::Duration};

use clap::{Args, ValueEnum};
use service::{DriverSet, Host, JsonLine, LineTarget, LineWriter, OpenLinesError, Timestamp};

use wire::http1::coding::Coding;

use crate::Observer;

/// Flags of the access log.
#[derive(Args, Clone, Debug)]
pub struct AccessLogArgs {
    /// Write a line for each request to this file, or - for standard error; SIGUSR1 has the file opened anew
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<LineTarget>,

    /// Format of the access log
    #[arg(long, value_name = "FORMAT", default_value = "combined", requires = "access_log")]
    pub access_log_format: AccessLogFormat,
}

impl AccessLogArgs {
    /// Opens the access log, if there is to be one, and prepares the histograms of durations, if metrics are served.
    ///
    /// # Errors
    /// The file of the log cannot be opened.
    pub fn observer<D: DriverSet>(&self, host: &mut Host<D>) -> Result<Observer, OpenLinesError> {
        let mut observer = Observer::default();
        if host.serves_metrics() {
            observer = observer.with_durations();
        }
        if let Some(target) = &self.access_log {
            observer = observer.with_access_log(host.open_lines("access_log", target)?, self.access_log_format);
        }
        Ok(observer)
    }
}

/// Form of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AccessLogFormat {
    /// Common log format: client, time, request line, status, bytes of the body
    Common,
    /// Common log format, referer and user agent
    #[default]
    Combined,
    /// One JSON object on each line
    Json,
}

/// Access log of a server.
#[derive(Debug)]
pub(crate) struct AccessLog {
    pub(crate) writer: LineWriter,
    pub(crate) format: AccessLogFormat,
}

/// Facts about a request in a record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoggedRequest<'a> {
    /// Address of the client, without its port.
    pub(crate) client: &'a str,
    pub(crate) names: LoggedNames<'a>,
    /// Time at which the first byte arrived, since the Unix epoch.
    pub(crate) received: Duration,
    /// First line, without its CRLF; empty where none has arrived.
    pub(crate) line: &'a [u8],
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) user_agent: Option<&'a [u8]>,
}

/// Facts about a request that its head does not say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoggedNames<'a> {
    /// User, where the request needed one and was let in.
    pub(crate) user: Option<&'a [u8]>,
    /// First name of the virtual host; empty for the default one.
    pub(crate) virtual_host: &'a str,
}

/// Facts about a response in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedResponse {
    pub(crate) status: u16,
    /// Bytes that the kernel has taken.
    pub(crate) bytes: u64,
    /// Bytes of the body among them.
    pub(crate) body_bytes: u64,
    pub(crate) coding: Option<Coding>,
    /// Time from the first byte of the request to the first of the response; `None` where nothing of that was taken.
    pub(crate) first_byte: Option<Duration>,
    /// Time from the first byte of the request to the last of the response.
    pub(crate) duration: Duration,
    /// True if all of it was taken.
    pub(crate) is_complete: bool,
}

impl AccessLogFormat {
    /// Appends what is known of a request. Returns the length of the part before the status.
    pub(crate) fn begin(self, request: &LoggedRequest<'_>, text: &mut Vec<u8>) -> usize {
        let start = text.len();
        let LoggedRequest { client, names, received, line, host, referer, user_agent } = *request;
        let time = Timestamp::from(received);
        if self == Self::Json {
            let (method, target, version) = split_line(line);
            JsonLine::new(text)
                .display("time", time)
                .text("client", client.as_bytes())
                .optional_text("user", names.user)
                .optional_text("virtual_host", Some(names.virtual_host.as_bytes()).filter(|name| !name.is_empty()))
                .optional_text("method", method)
                .optional_text("target", target)
                .optional_text("version", version)
                .optional_text("host", host)
                .optional_text("referer", referer)
                .optional_text("user_agent", user_agent);
            return text.len() - start;
        }
        // Writing to memory does not fail.
        text.extend_from_slice(client.as_bytes());
        text.extend_from_slice(b" - ");
        push_user(names.user.unwrap_or(b"-"), text);
        let _ = write!(text, " [{}] \"", time.common());
        push_quoted(if line.is_empty() { b"-" } else { line }, text);
        text.extend_from_slice(b"\" ");
        let before_status = text.len() - start;
        if self == Self::Combined {
            for value in [referer, user_agent] {
                text.extend_from_slice(b" \"");
                push_quoted(value.unwrap_or(b"-"), text);
                text.push(b'"');
            }
        }
        before_status
    }

    /// Makes the whole line of a record that [`AccessLogFormat::begin`] has begun.
    pub(crate) fn end(self, text: &[u8], before_status: usize, response: &LoggedResponse, line: &mut Vec<u8>) {
        let LoggedResponse { status, bytes, body_bytes, coding, first_byte, duration, is_complete } = *response;
        let (before, after) = text.split_at(before_status);
        line.extend_from_slice(before);
        if self == Self::Json {
            let mut json = JsonLine::resume(line);
            json.number("status", status.into())
                .number("bytes", bytes)
                .number("body_bytes", body_bytes)
                .optional_text("content_coding", coding.map(|coding| coding.name().as_bytes()));
            match first_byte {
                Some(first_byte) => json.seconds("first_byte", first_byte),
                None => json.optional_text("first_byte", None),
            };
            json.seconds("duration", duration).boolean("complete", is_complete).end();
            return;
        }
        let _ = write!(line, "{status} {body_bytes}");
        line.extend_from_slice(after);
        line.push(b'\n');
    }
}

/// Appends the name of a user, which is one word: blanks are escaped, too.
fn push_user(user: &[u8], text: &mut Vec<u8>) {
    for word in user.split_inclusive(|&byte| byte == b' ') {
        push_quoted(word.strip_suffix(b" ").unwrap_or(word), text);
        text.extend_from_slice(if word.ends_with(b" ") { b"\\x20" } else { b"" });
    }
}

/// Method, target and version.
type RequestLine<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, Option<&'a [u8]>);

/// Splits a request line, well formed or not.
fn split_line(line: &[u8]) -> RequestLine<'_> {
    let mut words = line.splitn(2, |&byte| byte == b' ');
    let method = words.next().filter(|method| !method.is_empty());
    let Some(rest) = words.next() else { return (method, None, None) };
    match rest.iter().rposition(|&byte| byte == b' ') {
        Some(at) => (method, Some(&rest[..at]), Some(&rest[at + 1..])),
        None => (method, Some(rest), None),
    }
}

/// Appends a value that stands between quotes, escaped as Apache does: `\"`, `\\`, and `\xHH` for everything that is not
/// printable ASCII.
fn push_quoted(value: &[u8], text: &mut Vec<u8>) {
    for &byte in value {
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => text.push(byte),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RESPONSE: LoggedResponse = LoggedResponse {
        status: 200,
        bytes: 300,
        body_bytes: 128,
        coding: Some(Coding::Gzip),
        first_byte: Some(Duration::from_micros(1_000)),
        duration: Duration::from_micros(1_250),
        is_complete: true,
    };

    fn request<'a>(line: &'a [u8], agent: &'a [u8]) -> LoggedRequest<'a> {
        let received = Duration::new(784_111_777, 250_000_000);
        LoggedRequest {
            client: "192.0.2.7",
            names: LoggedNames::default(),
            received,
            line,
            host: Some(b"example.org"),
            user_agent: Some(agent),
            referer: None,
        }
    }

    fn line(format: AccessLogFormat, request: &LoggedRequest<'_>) -> Vec<u8> {
        // Other records may be in front of it.
        let (mut text, mut line) = (b"other".to_vec(), Vec::new());
        let before_status = format.begin(request, &mut text);
        format.end(&text[5..], before_status, &RESPONSE, &mut line);
        line
    }

    #[test]
    fn each_format_is_the_documented_one() {
        let request = request(b"GET /a%20b?c HTTP/1.1", b"curl/8 \"x\"");
        for (format, expected) in [
            (AccessLogFormat::Common, "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a%20b?c HTTP/1.1\" 200 128\n"),
            (
                AccessLogFormat::Combined,
                "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a%20b?c HTTP/1.1\" 200 128 \"-\" \"curl/8 \\\"x\\\"\"\n",
            ),
            (
                AccessLogFormat::Json,
                concat!(
                    r#"{"time":"1994-11-06T08:49:37.250000Z","client":"192.0.2.7","user":null,"virtual_host":null,"method":"GET","target":"/a%20b?c","#,
                    r#""version":"HTTP/1.1","host":"example.org","referer":null,"user_agent":"curl/8 \"x\"","#,
                    r#""status":200,"bytes":300,"body_bytes":128,"content_coding":"gzip","first_byte":0.001000,"duration":0.001250,"complete":true}"#,
                    "\n"
                ),
            ),
        ] {
            assert_eq!(String::from_utf8(line(format, &request)).unwrap(), expected);
        }
    }

    #[test]
    fn a_user_is_one_word_of_the_record() {
        let names = LoggedNames { user: Some(b"a b\" - [\n "), virtual_host: "b.org" };
        let request = LoggedRequest { names, ..request(b"GET / HTTP/1.1", b"") };
        let record = String::from_utf8(line(AccessLogFormat::Common, &request)).unwrap();
        assert!(record.starts_with("192.0.2.7 - a\\x20b\\\"\\x20-\\x20[\\x0a\\x20 [06/Nov/1994"), "{record}");
        let record: serde_json::Value = serde_json::from_slice(&line(AccessLogFormat::Json, &request)).unwrap();
        assert_eq!((&record["user"], &record["virtual_host"]), (&"a b\" - [\n ".into(), &"b.org".into()));
    }

    #[test]
    fn a_request_line_is_split_however_broken_it_is() {
        let split = |line: &'static str| {
            let (method, target, version) = split_line(line.as_bytes());
            [method, target, version].map(|part| part.map(|part| str::from_utf8(part).unwrap()))
        };
        assert_eq!(split("GET / HTTP/1.1"), [Some("GET"), Some("/"), Some("HTTP/1.1")]);
        assert_eq!(split("GET /a b HTTP/1.1"), [Some("GET"), Some("/a b"), Some("HTTP/1.1")]);
        assert_eq!(split("GET /"), [Some("GET"), Some("/"), None]);
        assert_eq!(split("\u{16}\u{3}"), [Some("\u{16}\u{3}"), None, None]);
        assert_eq!(split(""), [None, None, None]);
    }

    /// Reads a value between quotes back: its bytes, and what follows it.
    fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
        let mut rest = text.strip_prefix(b"\"")?;
        let mut value = Vec::new();
        loop {
            match rest {
                [b'"', after @ ..] => return Some((value, after)),
                [b'\\', b'x', high, low, after @ ..] => {
                    let hex = [*high, *low];
                    value.push(u8::from_str_radix(str::from_utf8(&hex).ok()?, 16).ok()?);
                    rest = after;
                }
                [b'\\', byte @ (b'"' | b'\\'), after @ ..] | [byte @ b' '..=b'~', after @ ..] => {
                    value.push(*byte);
                    rest = after;
                }
                _ => return None,
            }
        }
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let tricky = prop_oneof![Just(b'"'), Just(b'\\'), Just(b'\n'), Just(b' '), Just(b'x'), any::<u8>()];
        proptest::collection::vec(tricky, 0..60)
    }

    proptest! {
        /// Whatever a client sends, its record is one line, and every value can be read back.
        #[test]
        fn no_value_can_forge_a_record((line_bytes, agent) in (bytes(), bytes())) {
            let request = request(&line_bytes, &agent);
            for format in [AccessLogFormat::Common, AccessLogFormat::Combined, AccessLogFormat::Json] {
                let record = line(format, &request);
                prop_assert_eq!(record.iter().position(|&byte| byte == b'\n'), Some(record.len() - 1));
                prop_assert!(record[..record.len() - 1].iter().all(|&byte| byte >= b' ' && byte != 0x7f));
                if format == AccessLogFormat::Json {
                    let parsed: serde_json::Value = serde_json::from_slice(&record).unwrap();
                    prop_assert_eq!(parsed["user_agent"].as_str().unwrap(), &*String::from_utf8_lossy(&agent));
                    prop_assert_eq!(&parsed["status"], 200);
                    continue;
                }
                let at = record.iter().position(|&byte| byte == b'"').unwrap();
                let (value, rest) = unquote(&record[at..]).unwrap();
                prop_assert_eq!(&value[..], if line_bytes.is_empty() { b"-" } else { &line_bytes[..] });
                let rest = rest.strip_prefix(b" 200 128").unwrap();
                if format == AccessLogFormat::Combined {
                    let (value, end) = unquote(rest.strip_prefix(b" \"-\" ").unwrap()).unwrap();
                    prop_assert_eq!((&value, end), (&agent, &b"\n"[..]));
                }
            }
        }
    }
}
