//! HTTPS beside plain HTTP: the redirect from one to the other, and HSTS.

use std::{
    str::FromStr,
    sync::{Arc, OnceLock},
};

use clap::Args;
use proto::Flow;
use service::{Endpoint, KernelTlsUse, TlsArgs, TlsDialect};
use sys::listen::Address;
use wire::http1::{Body, Connection, Method, Part, Request, Status, Target, target_authority};

use crate::{
    Site, page,
    responder::{Next, Responder, flow_of, requested_persistence},
    writer::Writer,
};

/// Returns TLS as servers of HTTP have it, with or without HTTP/2. The protocols are those that [`crate::WebServer`] speaks,
/// by their names in ALPN.
pub fn tls_dialect(http2: bool, kernel: KernelTlsUse) -> TlsDialect {
    let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    TlsDialect { protocols, scheme: "https", answer_to_plain: PLAIN_REQUEST, kernel }
}

/// Answer to plain HTTP on a TLS address; any other text is answered alike.
const PLAIN_REQUEST: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 48\r\n\r\nThis port speaks TLS: the URL begins with https\n";
/// Paths by which an authority checks who has a host's name (RFC 8555, section 8.3), in the clear.
const ACME_CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";
const HTTPS_PORT: u16 = 443;

/// Flags of HTTPS.
#[derive(Clone, Debug, Default, Args)]
pub struct HttpsArgs {
    #[command(flatten)]
    pub tls: TlsArgs,

    /// Send clients of the plain addresses to this port by https, or to that of the first --tls-listen; certificate
    /// authorities still get what is below /.well-known/acme-challenge/
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub https_redirect: Option<HttpsPort>,

    /// Let the kernel encrypt what follows the beginning of a large file on TLS addresses, so that sendfile can send it
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub ktls: KernelTlsUse,
}

/// Port of an https URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpsPort {
    /// The server's own.
    Auto,
    /// As seen by clients, where the address has another.
    Named(u16),
}

impl FromStr for HttpsPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            port => port.parse().map(Self::Named).map_err(|_| "not a port, such as 443, and not auto".to_owned()),
        }
    }
}

impl HttpsArgs {
    /// Checks what needs TLS. `is_plain` is true if there are plain addresses, `has_hsts` if a host has `--hsts`.
    pub(crate) fn check(&self, is_plain: bool, has_hsts: bool) -> Result<(), String> {
        let is_tls = !self.tls.tls_listen.is_empty();
        match self.https_redirect {
            Some(_) if !is_tls => return Err("--https-redirect needs --tls-listen".to_owned()),
            Some(_) if !is_plain => return Err("--https-redirect needs a plain address, too: --listen ADDR".to_owned()),
            Some(_) | None => {}
        }
        if self.ktls == KernelTlsUse::On && !is_tls {
            return Err("--ktls on needs --tls-listen".to_owned());
        }
        if has_hsts && !is_tls {
            return Err("--hsts needs --tls-listen".to_owned());
        }
        if has_hsts && is_plain && self.https_redirect.is_none() {
            return Err("--hsts beside a plain address needs --https-redirect".to_owned());
        }
        Ok(())
    }

    /// Returns the redirect of a server whose first `plain` addresses are plain.
    pub fn redirect(&self, plain: usize) -> Option<HttpsRedirect> {
        let port = match self.https_redirect? {
            HttpsPort::Auto => OnceLock::new(),
            HttpsPort::Named(port) => OnceLock::from(port),
        };
        Some(HttpsRedirect { plain, port: Arc::new(port) })
    }
}

/// Redirect of the clients of plain addresses.
#[derive(Clone, Debug)]
pub struct HttpsRedirect {
    /// Number of plain addresses.
    pub(crate) plain: usize,
    port: Arc<OnceLock<u16>>,
}

impl HttpsRedirect {
    /// Takes the port from the first TLS address, unless a flag has said one.
    pub fn listens_on(&self, endpoints: &[Endpoint]) {
        let first = endpoints.iter().find(|endpoint| endpoint.scheme.is_some());
        if let Some(Endpoint { address: Address::Tcp(address), .. }) = first {
            self.port.get_or_init(|| address.port());
        }
    }

    fn location(&self, authority: &[u8], path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
        let name = if authority.starts_with(b"[") {
            memchr::memchr(b']', authority).map_or(authority, |end| &authority[..=end])
        } else {
            memchr::memchr(b':', authority).map_or(authority, |end| &authority[..end])
        };
        let port = match self.port.get() {
            None | Some(&HTTPS_PORT) => String::new(),
            Some(port) => format!(":{port}"),
        };
        let (mark, query) = query.map_or((&b""[..], &b""[..]), |query| (b"?", query));
        [b"https://", name, port.as_bytes(), path, mark, query].concat()
    }
}

/// True for a path, in its normal form, that is served over plain HTTP in any case.
pub(crate) fn is_for_authorities(normal: &[u8]) -> bool {
    normal.starts_with(ACME_CHALLENGES)
}

impl<S: Site, W: Writer> Responder<'_, S, W> {
    /// Sends the client of a plain address to https; `None` if the request has to be answered here.
    #[cold]
    pub(crate) fn redirect_to_https(&mut self, request: &Request<'_>, head: &[u8], unread: usize) -> Option<Next<S>> {
        let redirect = self.server.https_redirect.as_ref()?;
        let Target::Path { path, query, .. } = request.target else { return None };
        let content = &self.host.settings.content;
        if content.normalise(path).is_ok_and(|normal| is_for_authorities(&normal)) {
            return None;
        }
        let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
        let is_last = request.body != Body::Empty;
        let connection = if is_last { Connection::Close } else { requested_persistence(request) };
        let flow = if is_last { Flow::Linger } else { flow_of(connection, unread > 0) };
        let Some(authority) = target_authority(head).or_else(|| request.values("host").next()) else {
            // A client of HTTP/1.0 that does not say where it is.
            self.send_status(Status::BadRequest, None, part, connection);
            return Some(Next::Flow(flow));
        };
        let is_read = matches!(request.method, Method::Get | Method::Head);
        let status = if is_read { Status::MovedPermanently } else { Status::PermanentRedirect };
        let location = redirect.location(authority, path, query);
        self.send_prepared(&page::redirect(status, &location, &content.fields_for(None)), part, connection);
        Some(Next::Flow(flow))
    }
}

/// Value of the field `Strict-Transport-Security` (RFC 6797).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hsts(pub(crate) Box<str>);

impl FromStr for Hsts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut directives = text.split(';').map(str::trim);
        let seconds = directives.next().and_then(|first| first.strip_prefix("max-age=")).map(str::parse::<u32>);
        let is_known =
            |word: &str| ["includeSubDomains", "preload"].iter().any(|known| known.eq_ignore_ascii_case(word));
        match seconds {
            Some(Ok(_)) if directives.all(is_known) => Ok(Self(text.into())),
            _ => Err("not of the form max-age=SECONDS[; includeSubDomains][; preload]".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_keeps_name_path_and_query_and_has_the_port() {
        let location = |port: u16, authority: &str, query: Option<&[u8]>| {
            let redirect = HttpsRedirect { plain: 1, port: Arc::new(OnceLock::from(port)) };
            String::from_utf8(redirect.location(authority.as_bytes(), b"/a%20b", query)).unwrap()
        };
        assert_eq!(location(443, "example.org", None), "https://example.org/a%20b");
        assert_eq!(location(443, "example.org:80", Some(b"")), "https://example.org/a%20b?");
        assert_eq!(location(8443, "example.org:8080", Some(b"x=1")), "https://example.org:8443/a%20b?x=1");
        assert_eq!(location(8443, "[::1]:8080", None), "https://[::1]:8443/a%20b");
        assert_eq!(location(443, "[::1]", None), "https://[::1]/a%20b");
    }

    #[test]
    fn the_answer_to_plain_http_has_the_length_that_it_says() {
        let text = str::from_utf8(PLAIN_REQUEST).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{} bytes", body.len());
    }

    #[test]
    fn hsts_has_an_age_and_known_directives() {
        for good in
            ["max-age=31536000", "max-age=0", "max-age=63072000; includeSubDomains; preload", "max-age=1;preload"]
        {
            assert_eq!(good.parse(), Ok(Hsts(good.into())), "{good}");
        }
        for bad in ["", "1year", "max-age=", "max-age=-1", "max-age=1; x", "includeSubDomains", "max-age=1\r\nX: y"] {
            assert!(bad.parse::<Hsts>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_needs_tls_is_refused_without_it() {
        let args = |tls: bool, redirect: bool| HttpsArgs {
            tls: TlsArgs { tls_listen: vec!["127.0.0.1:0".parse().unwrap(); usize::from(tls)], ..TlsArgs::default() },
            https_redirect: redirect.then_some(HttpsPort::Auto),
            ktls: KernelTlsUse::Auto,
        };
        for (tls, redirect, plain, hsts, is_good) in [
            (false, false, true, false, true),
            (false, true, true, false, false),
            (false, false, true, true, false),
            (true, true, false, false, false),
            (true, true, true, true, true),
            (true, false, false, true, true),
            (true, false, true, true, false),
        ] {
            assert_eq!(args(tls, redirect).check(plain, hsts).is_ok(), is_good, "{tls} {redirect} {plain} {hsts}");
        }
    }
}
