//! Targets as the user names them: where to connect, and what to ask for there.

use std::path::{Path, PathBuf};

use http::{HeaderName, HeaderValue, Method, Uri};
use wire::hpack::push_field;

use crate::engine::{Endpoint, EndpointError};

/// Target as given, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    server: ServerAddress,
    is_tls: bool,
    /// Value of the `Host` header.
    host: String,
    /// Returns path and query.
    path: String,
}

/// Parts of a request to a target.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    pub method: &'a str,
    /// `Name: value`.
    pub headers: &'a [String],
    pub body: Option<&'a [u8]>,
}

/// Request of HTTP/2 to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2Message {
    /// Method and target.
    pub name: String,
    /// Header block, which depends on no table.
    pub block: Vec<u8>,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ServerAddress {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Problems with a target, for the user.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error(
        "`{0}` is not a URL like http://127.0.0.1:8080/path, https://localhost/path or unix:/run/server.sock:/path"
    )]
    Malformed(String),
    #[error("`{0}`: only http and https are spoken")]
    Scheme(String),
    #[error("`{0}`: credentials in a URL are not supported; use --header 'Authorization: …'")]
    Credentials(String),
    #[error("all URLs must name the same server: `{first}` and `{other}` do not")]
    SeveralServers { first: String, other: String },
    #[error("`{0}` is not a header like 'Name: value'")]
    Header(String),
    #[error("header `{0}` is set by the generator itself")]
    ReservedHeader(String),
    #[error("`{0}` is not a method that is spoken here (HEAD and CONNECT are not, for replies without a body)")]
    Method(String),
    #[error(transparent)]
    Unresolved(#[from] EndpointError),
}

impl Target {
    /// Parses `http://host:port/path`, `host:port/path`, `unix:/socket`, `unix:/socket:/path`, and with `unix` given a
    /// bare `/path`.
    pub fn parse(text: &str, unix: Option<&Path>) -> Result<Self, TargetError> {
        if let Some(rest) = text.strip_prefix("unix:") {
            let (socket, path) =
                rest.split_once(":/").map_or_else(|| (rest, "/".to_owned()), |(s, p)| (s, format!("/{p}")));
            if socket.is_empty() || unix.is_some() {
                return Err(TargetError::Malformed(text.to_owned()));
            }
            let path = parse_uri(&path, text)?.0;
            return Ok(Self {
                server: ServerAddress::Unix(socket.into()),
                is_tls: false,
                host: "localhost".to_owned(),
                path,
            });
        }
        if let Some(socket) = unix
            && text.starts_with('/')
        {
            let path = parse_uri(text, text)?.0;
            return Ok(Self {
                server: ServerAddress::Unix(socket.into()),
                is_tls: false,
                host: "localhost".to_owned(),
                path,
            });
        }
        // `host:port/path`, as ab and curl take it; with a port, or every typing error would be a host.
        let bare = format!("http://{text}");
        let is_bare = !text.contains("://") && bare.parse::<Uri>().is_ok_and(|uri| uri.port_u16().is_some());
        let (path, uri) = parse_uri(if is_bare { &bare } else { text }, text)?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(TargetError::Scheme(text.to_owned())),
            None => return Err(TargetError::Malformed(text.to_owned())),
        };
        let authority = uri.authority().ok_or_else(|| TargetError::Malformed(text.to_owned()))?;
        if authority.as_str().contains('@') {
            return Err(TargetError::Credentials(text.to_owned()));
        }
        // `http://host:/` and `http://host:99999/` are accepted by the URI parser.
        let port = match (authority.port_u16(), authority.as_str().rsplit_once(':')) {
            (Some(port), _) => port,
            (None, Some((_, after))) if !after.ends_with(']') => return Err(TargetError::Malformed(text.to_owned())),
            (None, _) if is_tls => 443,
            (None, _) => 80,
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let server = unix.map_or(ServerAddress::Tcp { host, port }, |socket| ServerAddress::Unix(socket.into()));
        Ok(Self { server, is_tls, host: authority.as_str().to_owned(), path })
    }

    /// Returns the target of another path on the same server.
    pub fn with_path(&self, path: &str) -> Result<Self, TargetError> {
        Ok(Self { path: parse_uri(path, path)?.0, ..self.clone() })
    }

    /// Returns the name that the server's certificate must be valid for, if TLS is spoken.
    #[must_use]
    pub fn tls_name(&self) -> Option<&str> {
        let host = self.host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map_or(&*self.host, |(h, _)| h);
        self.is_tls.then(|| host.trim_start_matches('[').trim_end_matches(']'))
    }

    /// Returns path and query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the path without its query, percent-encoding left alone.
    #[must_use]
    pub fn file_path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// Returns the one server that all targets name.
    pub fn endpoint(targets: &[Self]) -> Result<Endpoint, TargetError> {
        let Some(first) = targets.first() else { return Err(TargetError::Malformed(String::new())) };
        let is_other = |other: &&Self| other.server != first.server || other.is_tls != first.is_tls;
        if let Some(other) = targets.iter().find(is_other) {
            let (first, other) = (first.server_text(), other.server_text());
            return Err(TargetError::SeveralServers { first, other });
        }
        match &first.server {
            ServerAddress::Unix(path) => Ok(Endpoint::Unix(path.clone())),
            ServerAddress::Tcp { host, port } => Ok(Endpoint::resolve(host, *port)?),
        }
    }

    /// Returns the bytes of a request for this target; with a body, `Content-Length` is among its headers.
    ///
    /// # Errors
    /// A header or the method is none, or one that the generator cannot deal with.
    pub fn request(&self, message: &RequestParts<'_>) -> Result<Vec<u8>, TargetError> {
        let RequestParts { method, headers, body } = *message;
        let method = parse_method(method)?;
        let mut text = format!("{method} {} HTTP/1.1\r\n", self.path).into_bytes();
        let mut has_host = false;
        let mut extra = Vec::new();
        for header in headers {
            let (name, value) = parse_header(header)?;
            // With either of these the server would wait for a body, or answer in a way nobody expects.
            if ["content-length", "transfer-encoding", "expect", "upgrade"].contains(&name.as_str()) {
                return Err(TargetError::ReservedHeader(name.as_str().to_owned()));
            }
            has_host |= name == http::header::HOST;
            let (spelled, _) = header.split_once(':').unwrap_or_default();
            extra.extend_from_slice(spelled.trim().as_bytes());
            extra.extend_from_slice(b": ");
            extra.extend_from_slice(value.as_bytes());
            extra.extend_from_slice(b"\r\n");
        }
        if !has_host {
            text.extend_from_slice(format!("Host: {}\r\n", self.host).as_bytes());
        }
        text.extend_from_slice(&extra);
        if let Some(body) = body {
            text.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(body.unwrap_or_default());
        Ok(text)
    }

    /// Returns the parts of a request of HTTP/2 for this target; with a body, `content-length` is among its headers.
    ///
    /// # Errors
    /// A header or the method is none, or one that the generator cannot deal with.
    pub fn http2_message(&self, message: &RequestParts<'_>) -> Result<Http2Message, TargetError> {
        let RequestParts { method, headers, body } = *message;
        let method = parse_method(method)?;
        let mut authority = self.host.as_bytes().to_vec();
        let mut fields = Vec::new();
        for header in headers {
            let (name, value) = parse_header(header)?;
            // What is about one connection has no place in HTTP/2 (RFC 9113, section 8.2.2).
            let is_reserved = ["content-length", "expect", "connection", "keep-alive", "proxy-connection", "te"];
            if is_reserved.contains(&name.as_str()) || ["transfer-encoding", "upgrade"].contains(&name.as_str()) {
                return Err(TargetError::ReservedHeader(name.as_str().to_owned()));
            }
            if name == http::header::HOST {
                authority = value.as_bytes().to_vec();
            } else {
                push_field(name.as_str().as_bytes(), value.as_bytes(), &mut fields);
            }
        }
        let mut block = Vec::new();
        push_field(b":method", method.as_str().as_bytes(), &mut block);
        push_field(b":scheme", if self.is_tls { b"https" } else { b"http" }, &mut block);
        push_field(b":authority", &authority, &mut block);
        push_field(b":path", self.path.as_bytes(), &mut block);
        block.extend_from_slice(&fields);
        if let Some(body) = body {
            push_field(b"content-length", body.len().to_string().as_bytes(), &mut block);
        }
        let name = format!("{method} {}", self.path);
        Ok(Http2Message { name, block, body: body.unwrap_or_default().to_vec() })
    }

    fn server_text(&self) -> String {
        match &self.server {
            ServerAddress::Tcp { host, port } => format!("{host}:{port}"),
            ServerAddress::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

fn parse_uri(text: &str, whole: &str) -> Result<(String, Uri), TargetError> {
    let malformed = |_| TargetError::Malformed(whole.to_owned());
    let uri: Uri = text.parse().map_err(malformed)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok((path, uri))
}

fn parse_method(text: &str) -> Result<Method, TargetError> {
    let method: Method = text.parse().map_err(|_| TargetError::Method(text.to_owned()))?;
    // Their replies end by rules of their own.
    if [Method::HEAD, Method::CONNECT].contains(&method) {
        return Err(TargetError::Method(method.to_string()));
    }
    Ok(method)
}

fn parse_header(header: &str) -> Result<(HeaderName, HeaderValue), TargetError> {
    let malformed = || TargetError::Header(header.to_owned());
    let (name, value) = header.split_once(':').ok_or_else(malformed)?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| malformed())?;
    let value = HeaderValue::from_str(value.trim()).map_err(|_| malformed())?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Target, TargetError> {
        Target::parse(text, None)
    }

    #[test]
    fn targets_are_taken_apart() {
        let cases = [
            ("http://127.0.0.1:8080/a/b?c=d", "127.0.0.1:8080", "/a/b?c=d"),
            ("http://127.0.0.1", "127.0.0.1:80", "/"),
            ("http://[::1]:81?q", "::1:81", "/?q"),
            ("http://[::1]/", "::1:80", "/"),
            ("localhost:8080", "localhost:8080", "/"),
            ("127.0.0.1:8080/a?b", "127.0.0.1:8080", "/a?b"),
            ("[::1]:81/", "::1:81", "/"),
            ("unix:/run/x.sock", "unix:/run/x.sock", "/"),
            ("unix:/run/x.sock:/page", "unix:/run/x.sock", "/page"),
        ];
        for (text, server, path) in cases {
            let target = parse(text).expect(text);
            assert_eq!((target.server_text().as_str(), target.path()), (server, path), "{text}");
            assert_eq!(target.tls_name(), None);
        }
        for (text, server, name) in [
            ("https://example.test/", "example.test:443", "example.test"),
            ("https://[::1]:8443/", "::1:8443", "::1"),
            ("https://[::1]/", "::1:443", "::1"),
            ("https://127.0.0.1:1/", "127.0.0.1:1", "127.0.0.1"),
        ] {
            let target = parse(text).expect(text);
            assert_eq!((target.server_text().as_str(), target.tls_name()), (server, Some(name)), "{text}");
        }
        let socket = Path::new("/run/x.sock");
        for text in ["/page", "http://example.test/page"] {
            let target = Target::parse(text, Some(socket)).expect(text);
            assert_eq!((target.server_text().as_str(), target.path()), ("unix:/run/x.sock", "/page"));
        }
    }

    #[test]
    fn bad_targets_are_refused() {
        for text in [
            "",
            "localhost",
            "localhost:",
            "localhost:http",
            "u@x:80",
            "/path",
            "ftp://x/",
            "http://u@x/",
            "http://x:/",
            "http://x:99999/",
            "http://a b/",
            "unix:",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        let targets = [parse("http://127.0.0.1:1/").expect("valid"), parse("http://127.0.0.1:2/").expect("valid")];
        assert!(matches!(Target::endpoint(&targets), Err(TargetError::SeveralServers { .. })));
    }

    #[test]
    fn a_request_carries_host_and_headers_and_nothing_smuggled() {
        let target = parse("http://127.0.0.1:8080/x").expect("valid");
        let with =
            |header: &str| target.request(&RequestParts { method: "GET", headers: &[header.to_owned()], body: None });
        let request = with("X-A:  b ").expect("valid");
        assert_eq!(request, b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nX-A: b\r\n\r\n");
        let other_host = with("host: example").expect("valid");
        assert_eq!(other_host, b"GET /x HTTP/1.1\r\nhost: example\r\n\r\n");
        for bad in ["no colon", "a b: c", "A: b\r\nC: d", "Content-Length: 5"] {
            assert!(with(bad).is_err(), "{bad:?}");
        }
        let say = |method, body| target.request(&RequestParts { method, headers: &[], body });
        let post = b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 3\r\n\r\na=b";
        assert_eq!(say("POST", Some(b"a=b")).expect("valid"), post);
        assert!(say("PROPFIND", None).is_ok());
        for bad in ["HEAD", "CONNECT", "", "A B", "GET\r\nX: y"] {
            assert!(matches!(say(bad, None), Err(TargetError::Method(_))), "{bad:?}");
        }
    }
}
