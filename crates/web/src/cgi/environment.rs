//! Meta-variables of a CGI program (RFC 3875, section 4.1), which are all of its environment.

use std::{
    ffi::{OsStr, OsString},
    io,
    net::SocketAddr,
    os::{
        fd::AsFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
};

use proto::ProxyAddresses;
use sys::{listen::Address, socket};
use wire::http1::{Request, Target, Version};

/// Search path of programs where the server has none.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Fields that no program gets: what the server has dealt with, and what would give a user's password away.
const WITHHELD: [&str; 9] = [
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "keep-alive",
    // Programs would take HTTP_PROXY for a setting of theirs (httpoxy).
    "proxy",
    "proxy-authorization",
    "transfer-encoding",
];

/// Facts about a request that its head does not give.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    /// Name of the method, as it was sent.
    pub(super) method: &'a [u8],
    /// Target, as it was sent.
    pub(super) target: &'a [u8],
    /// Path of the program in the URL, decoded.
    pub(super) script_name: &'a [u8],
    /// Rest of the path, decoded; empty or with a slash in front.
    pub(super) path_info: &'a [u8],
    pub(super) script_file: &'a Path,
    pub(super) document_root: &'a Path,
    /// Length of the body, if there is one.
    pub(super) body_len: Option<usize>,
    pub(super) peer: &'a Addresses,
    /// User who was let in, where one is needed.
    pub(super) user: Option<&'a [u8]>,
}

/// Addresses of a connection, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) remote_address: String,
    pub(crate) remote_port: String,
    pub(crate) local_address: String,
    pub(crate) local_port: String,
    pub(crate) is_secure: bool,
}

impl Addresses {
    /// Asks the kernel for the addresses of a connection; those of a unix socket are the word `unix:`.
    pub(crate) fn of(socket: impl AsFd) -> Self {
        let name = |address: io::Result<Address>| match address {
            Ok(Address::Tcp(address)) => (address.ip().to_canonical().to_string(), address.port().to_string()),
            Ok(Address::Unix(_)) | Err(_) => ("unix:".to_owned(), String::new()),
        };
        let (remote_address, remote_port) = name(socket::peer(socket.as_fd()));
        let (local_address, local_port) = name(socket::local(socket.as_fd()));
        Self { remote_address, remote_port, local_address, local_port, is_secure: false }
    }

    /// Takes over what a proxy says.
    pub(crate) fn set_proxied(&mut self, addresses: ProxyAddresses) {
        let name = |address: SocketAddr| (address.ip().to_canonical().to_string(), address.port().to_string());
        (self.remote_address, self.remote_port) = name(addresses.client);
        (self.local_address, self.local_port) = name(addresses.server);
    }
}

/// Returns the environment of the program that answers a request.
pub(super) fn environment(request: &Request<'_>, facts: &Facts<'_>) -> Vec<(OsString, OsString)> {
    let peer = facts.peer;
    let query = match request.target {
        Target::Path { query, .. } => query.unwrap_or_default(),
        Target::Server | Target::Authority(_) => b"",
    };
    let (server_name, named_port) = host(request);
    let server_name = server_name.unwrap_or(peer.local_address.as_bytes());
    let server_port = if peer.local_port.is_empty() { named_port.unwrap_or(b"80") } else { peer.local_port.as_bytes() };
    let protocol: &[u8] = match request.version {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
        Version::Http2 => b"HTTP/2.0",
    };
    let mut variables: Vec<(&str, Vec<u8>)> = vec![
        ("DOCUMENT_ROOT", facts.document_root.as_os_str().as_bytes().to_vec()),
        ("GATEWAY_INTERFACE", b"CGI/1.1".to_vec()),
        ("PATH_INFO", facts.path_info.to_vec()),
        ("QUERY_STRING", query.to_vec()),
        ("REMOTE_ADDR", peer.remote_address.clone().into_bytes()),
        ("REMOTE_HOST", peer.remote_address.clone().into_bytes()),
        ("REMOTE_PORT", peer.remote_port.clone().into_bytes()),
        ("REQUEST_METHOD", facts.method.to_vec()),
        ("REQUEST_SCHEME", if peer.is_secure { b"https".to_vec() } else { b"http".to_vec() }),
        ("REQUEST_URI", facts.target.to_vec()),
        ("SCRIPT_FILENAME", facts.script_file.as_os_str().as_bytes().to_vec()),
        ("SCRIPT_NAME", facts.script_name.to_vec()),
        ("SERVER_ADDR", peer.local_address.clone().into_bytes()),
        ("SERVER_NAME", server_name.to_vec()),
        ("SERVER_PORT", server_port.to_vec()),
        ("SERVER_PROTOCOL", protocol.to_vec()),
        ("SERVER_SOFTWARE", concat!("quintet/", env!("CARGO_PKG_VERSION")).into()),
    ];
    if !facts.path_info.is_empty() {
        variables.push(("PATH_TRANSLATED", [facts.document_root.as_os_str().as_bytes(), facts.path_info].concat()));
    }
    if let Some(user) = facts.user {
        variables.push(("AUTH_TYPE", b"Basic".to_vec()));
        variables.push(("REMOTE_USER", user.to_vec()));
    }
    if peer.is_secure {
        variables.push(("HTTPS", b"on".to_vec()));
    }
    if let Some(len) = facts.body_len {
        variables.push(("CONTENT_LENGTH", len.to_string().into_bytes()));
    }
    if let Some(content_type) = request.values("content-type").next() {
        variables.push(("CONTENT_TYPE", content_type.to_vec()));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| PATH.into());
    let mut environment = vec![(OsString::from("PATH"), path)];
    environment.extend(variables.into_iter().map(|(name, value)| (name.into(), OsString::from_vec(value))));
    environment.extend(fields(request));
    environment
}

/// Returns the fields of a request as `HTTP_…`. Values of a repeated one are joined.
fn fields(request: &Request<'_>) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    for (name, value) in request.fields() {
        // A name with an underscore could not be told from one with a hyphen.
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        if !name.iter().all(is_plain) || WITHHELD.iter().any(|held| name.eq_ignore_ascii_case(held.as_bytes())) {
            continue;
        }
        let letter = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
        let variable = OsString::from_vec(b"HTTP_".iter().copied().chain(name.iter().map(letter)).collect());
        let value = OsStr::from_bytes(value);
        match variables.iter_mut().find(|(known, _)| *known == variable) {
            Some((_, values)) => {
                values.push(if name.eq_ignore_ascii_case(b"cookie") { "; " } else { ", " });
                values.push(value);
            }
            None => variables.push((variable, value.to_owned())),
        }
    }
    variables
}

/// Splits the `Host` of a request, which has been checked, into name and port.
fn host<'a>(request: &Request<'a>) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
    let Some(host) = request.values("host").next().filter(|host| !host.is_empty()) else { return (None, None) };
    match host.iter().rposition(|&byte| byte == b':') {
        // Not a colon within the brackets of an IPv6 address.
        Some(colon) if !host[colon..].contains(&b']') => (Some(&host[..colon]), Some(&host[colon + 1..])),
        _ => (Some(host), None),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use wire::http1::{HeadLimits, HeadParser};

    use super::*;

    fn variables(head: &str, path_info: &str, body_len: Option<usize>) -> HashMap<String, String> {
        variables_for(head, path_info, body_len, None)
    }

    fn variables_for(
        head: &str,
        path_info: &str,
        body_len: Option<usize>,
        user: Option<&[u8]>,
    ) -> HashMap<String, String> {
        let request = HeadParser::default().parse(head.as_bytes(), &HeadLimits::default());
        let request = request.unwrap().unwrap();
        let peer = Addresses {
            remote_address: "192.0.2.1".into(),
            remote_port: "4711".into(),
            local_address: "192.0.2.2".into(),
            local_port: "8080".into(),
            is_secure: false,
        };
        let facts = Facts {
            method: b"POST",
            target: b"/cgi-bin/a%20b/x?q=1",
            script_name: b"/cgi-bin/a b",
            path_info: path_info.as_bytes(),
            script_file: Path::new("/srv/cgi/a b"),
            document_root: Path::new("/srv/www"),
            body_len,
            peer: &peer,
            user,
        };
        let text = |text: OsString| text.into_string().unwrap();
        let environment = environment(&request, &facts);
        let (count, variables) =
            (environment.len(), environment.into_iter().map(|(name, value)| (text(name), text(value))));
        let variables: HashMap<_, _> = variables.collect();
        assert_eq!(variables.len(), count, "no name twice");
        variables
    }

    #[test]
    fn meta_variables_describe_the_request() {
        let head = "POST /cgi-bin/a%20b/x?q=1 HTTP/1.1\r\nHost: example.org:80\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\n";
        let got = variables(head, "/x", Some(5));
        for (name, value) in [
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("REQUEST_METHOD", "POST"),
            ("SCRIPT_NAME", "/cgi-bin/a b"),
            ("PATH_INFO", "/x"),
            ("PATH_TRANSLATED", "/srv/www/x"),
            ("QUERY_STRING", "q=1"),
            ("REQUEST_URI", "/cgi-bin/a%20b/x?q=1"),
            ("CONTENT_LENGTH", "5"),
            ("CONTENT_TYPE", "a/b"),
            ("SERVER_NAME", "example.org"),
            ("SERVER_PORT", "8080"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("REMOTE_ADDR", "192.0.2.1"),
            ("REMOTE_PORT", "4711"),
            ("HTTP_HOST", "example.org:80"),
        ] {
            assert_eq!(got.get(name).map(String::as_str), Some(value), "{name}");
        }
        let got = variables("GET /cgi-bin/x HTTP/1.1\r\nHost: [::1]:99\r\n\r\n", "", None);
        assert_eq!(got["SERVER_NAME"], "[::1]");
        for absent in ["CONTENT_LENGTH", "CONTENT_TYPE", "PATH_TRANSLATED", "HTTPS"] {
            assert!(!got.contains_key(absent), "{absent}");
        }
        assert_eq!((&*got["PATH_INFO"], &*got["QUERY_STRING"]), ("", ""));
        assert_eq!(variables("GET /cgi-bin/x HTTP/1.0\r\n\r\n", "", None)["SERVER_NAME"], "192.0.2.2");
    }

    #[test]
    fn fields_become_variables_unless_they_are_secret_or_ambiguous() {
        let head = "GET / HTTP/1.1\r\nHost: h\r\nProxy: http://evil/\r\nAuthorization: Basic x\r\nX_A: underscore\r\nX-A: b\r\n\
            x-a: c\r\nCookie: d=e\r\nCookie: f=g\r\nX.Y: dot\r\nConnection: close\r\n\r\n";
        let got = variables(head, "", None);
        let mut fields: Vec<_> = got.iter().filter(|(name, _)| name.starts_with("HTTP_")).collect();
        fields.sort();
        let fields: Vec<_> = fields.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(fields, ["HTTP_COOKIE=d=e; f=g", "HTTP_HOST=h", "HTTP_X_A=b, c"]);
    }

    #[test]
    fn a_user_is_named_only_where_one_was_let_in() {
        let head = "GET /cgi-bin/x HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YTpi\r\n\r\n";
        let got = variables_for(head, "", None, Some(b"ada"));
        assert_eq!((&*got["REMOTE_USER"], &*got["AUTH_TYPE"]), ("ada", "Basic"));
        let got = variables(head, "", None);
        assert!(!got.contains_key("REMOTE_USER") && !got.contains_key("AUTH_TYPE"));
    }

    #[test]
    fn nothing_of_the_servers_own_environment_is_passed_on() {
        let got = variables("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "", None);
        let ours: Vec<_> = std::env::vars().map(|(name, _)| name).filter(|name| name != "PATH").collect();
        assert!(ours.iter().all(|name| !got.contains_key(name)), "{got:?}");
    }
}
