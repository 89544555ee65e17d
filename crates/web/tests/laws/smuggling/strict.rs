//! A reader of requests that takes RFC 9112 at its word, as a careful proxy does: what it finds malformed or ambiguous it ends at. It
//! shares nothing with the servers' own parser.

/// Returns the targets of the messages at the start of a stream, up to the first one whose head or end is not certain. A message whose
/// body goes wrong counts, as its head has been understood.
pub(super) fn targets(mut stream: &[u8]) -> Vec<String> {
    let mut targets = Vec::new();
    loop {
        while let Some(rest) = stream.strip_prefix(b"\r\n") {
            stream = rest;
        }
        let Some((target, framing, behind)) = head(stream) else { return targets };
        targets.push(target);
        let rest = match framing {
            Framing::Length(length) => usize::try_from(length).ok().and_then(|length| behind.get(length..)),
            Framing::Chunked => chunked(behind),
        };
        let Some(rest) = rest else { return targets };
        stream = rest;
    }
}

enum Framing {
    Length(u64),
    Chunked,
}

fn head(stream: &[u8]) -> Option<(String, Framing, &[u8])> {
    let (request_line, mut rest) = line(stream)?;
    let words: Vec<_> = request_line.split(|&byte| byte == b' ').collect();
    let [method, target, version] = words[..] else { return None };
    let is_visible = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    let is_old = version == b"HTTP/1.0";
    let is_version = matches!(version, [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9']);
    if !is_token(method) || target.is_empty() || !target.iter().all(is_visible) || !is_version {
        return None;
    }
    let (mut hosts, mut lengths, mut codings) = (0, Vec::new(), Vec::new());
    loop {
        let (line, behind) = line(rest)?;
        rest = behind;
        if line.is_empty() {
            break;
        }
        let (name, value) = field(line)?;
        match &name.to_ascii_lowercase()[..] {
            b"host" => hosts += 1,
            b"content-length" => lengths.push(value),
            b"transfer-encoding" => codings.push(value),
            _ => {}
        }
    }
    if hosts > 1 || hosts == 0 && !is_old {
        return None;
    }
    let framing = match (&lengths[..], &codings[..]) {
        ([], []) => Framing::Length(0),
        ([length], []) if length.iter().all(u8::is_ascii_digit) => {
            Framing::Length(str::from_utf8(length).ok()?.parse().ok()?)
        }
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") && !is_old => Framing::Chunked,
        _ => return None,
    };
    Some((String::from_utf8_lossy(target).into_owned(), framing, rest))
}

/// Returns what is behind a body in chunks.
fn chunked(mut stream: &[u8]) -> Option<&[u8]> {
    loop {
        let (size, rest) = line(stream)?;
        let digits = size.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let extension = size[digits..].trim_ascii_start();
        if !(extension.is_empty() || extension.starts_with(b";")) {
            return None;
        }
        let size = usize::from_str_radix(str::from_utf8(&size[..digits]).ok()?, 16).ok()?;
        stream = rest;
        if size == 0 {
            break;
        }
        stream = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
    loop {
        let (trailer, rest) = line(stream)?;
        stream = rest;
        if trailer.is_empty() {
            return Some(stream);
        }
        field(trailer)?;
    }
}

/// Splits a line off, which ends with CRLF and has no other control character than tabs.
fn line(stream: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = stream.windows(2).position(|two| two == b"\r\n")?;
    let has_controls = stream[..end].iter().any(|&byte| byte.is_ascii_control() && byte != b'\t');
    (!has_controls).then_some((&stream[..end], &stream[end + 2..]))
}

fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let value = &line[colon + 1..];
    let start = value.iter().take_while(|byte| blank(byte)).count();
    let end = value.len() - value.iter().rev().take_while(|byte| blank(byte)).count();
    is_token(&line[..colon]).then_some((&line[..colon], value.get(start..end).unwrap_or_default()))
}

fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}
