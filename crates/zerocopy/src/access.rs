//! Access rules of `/cache/`: who may read the statistics, and who may change what is served.

use std::net::{IpAddr, Ipv6Addr};

use sys::listen::Address;
use wire::http1::{Method, Request, Status};

/// Access rules, which follow from the addresses that the server listens on.
#[derive(Clone, Debug)]
pub struct Access {
    token: Option<Box<[u8]>>,
    /// True if only this machine can connect.
    is_local: bool,
}

/// Rule for `/cache/`, for the person who starts the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRule {
    /// Everybody on this machine has access.
    Open,
    /// Holders of the token have access.
    Token,
    /// Nobody has access: the server listens beyond this machine and has no token.
    Closed,
}

/// Reason why a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) status: Status,
    pub(crate) why: &'static str,
}

const fn forbidden(why: &'static str) -> Denial {
    Denial { status: Status::Forbidden, why }
}

impl Access {
    /// Makes the rules. With a token, its holders have access; without one, everybody has, and only where all `addresses`
    /// are local and no proxy brings clients from elsewhere.
    pub fn new(token: Option<&str>, addresses: &[Address], has_proxies: bool) -> Self {
        let is_local = |address: &Address| match address {
            Address::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Address::Unix(_) => true,
        };
        Self {
            token: token.map(|token| token.as_bytes().into()),
            is_local: !has_proxies && addresses.iter().all(is_local),
        }
    }

    /// Returns the rule that follows from the token and the addresses.
    pub fn rule(&self) -> AccessRule {
        match &self.token {
            Some(_) => AccessRule::Token,
            None if self.is_local => AccessRule::Open,
            None => AccessRule::Closed,
        }
    }

    /// Checks a request that reads.
    ///
    /// # Errors
    /// See [`Denial`].
    pub(crate) fn check(&self, request: &Request<'_>) -> Result<(), Denial> {
        match &self.token {
            Some(token) if !has_token(request, token) => {
                Err(Denial { status: Status::Unauthorized, why: "admin token missing or wrong" })
            }
            None if !self.is_local => {
                Err(forbidden("/cache/ is closed: others than this machine can connect and there is no --admin-token"))
            }
            // A name that resolves to this machine may belong to a stranger, whose page would be of the same origin.
            None if !has_local_host(request) => {
                Err(forbidden("without an admin token, Host must be localhost or an IP address"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks a request that changes something.
    ///
    /// # Errors
    /// See [`Denial`].
    pub(crate) fn check_change(&self, request: &Request<'_>) -> Result<(), Denial> {
        self.check(request)?;
        if matches!(request.method, Method::Get | Method::Head) && !self.is_local {
            return Err(forbidden("GET may reset only on a server that listens on loopback alone; use POST or DELETE"));
        }
        if is_cross_site(request) {
            return Err(forbidden("cross-site request"));
        }
        Ok(())
    }
}

fn has_token(request: &Request<'_>, token: &[u8]) -> bool {
    let bearer = request.values("authorization").filter_map(|value| {
        let (scheme, given) = value.split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| given.trim_ascii())
    });
    bearer.chain(request.values("x-admin-token")).any(|given| is_equal(given, token))
}

/// Compares in the same time wherever the first difference is.
fn is_equal(given: &[u8], token: &[u8]) -> bool {
    given.len() == token.len() && given.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn has_local_host(request: &Request<'_>) -> bool {
    request.values("host").all(|host| {
        let Ok(host) = str::from_utf8(host) else { return false };
        let name = without_port(host);
        name.parse::<IpAddr>().is_ok()
            || name
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
                .is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok())
            || name.eq_ignore_ascii_case("localhost")
    })
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// True if a browser says that a page of another site has made the request. Other clients send neither field.
fn is_cross_site(request: &Request<'_>) -> bool {
    let elsewhere = |site: &[u8]| !matches!(site, b"same-origin" | b"none");
    let foreign = |origin: &[u8]| {
        let authority = [&b"http://"[..], b"https://"].iter().find_map(|scheme| origin.strip_prefix(*scheme));
        !request.values("host").any(|host| authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host)))
    };
    request.values("sec-fetch-site").any(elsewhere) || request.values("origin").any(foreign)
}

#[cfg(test)]
mod tests {
    use wire::http1::{HeadLimits, HeadParser};

    use super::*;

    fn access(token: Option<&str>, addresses: &[&str]) -> Access {
        let addresses: Vec<_> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Access::new(token, &addresses, false)
    }

    /// Returns the statuses of a request with these fields: as one that reads, and as one that changes.
    fn statuses(access: &Access, method: &str, fields: &str) -> (u16, u16) {
        let head = format!("{method} /cache/reset/a HTTP/1.1\r\n{fields}\r\n");
        let mut parser = HeadParser::default();
        let request = parser.parse(head.as_bytes(), &HeadLimits::default()).unwrap().unwrap();
        let code = |outcome: Result<(), Denial>| outcome.map_or_else(|denial| denial.status.code(), |()| 200);
        (code(access.check(&request)), code(access.check_change(&request)))
    }

    const LOCAL: &[&str] = &["127.0.0.1:8081", "[::1]:0", "unix:/run/z.sock"];
    const OPEN: &[&str] = &["127.0.0.1:8081", "0.0.0.0:80"];

    #[test]
    fn only_loopback_needs_no_token() {
        let host = "Host: 127.0.0.1:8081\r\n";
        assert_eq!(statuses(&access(None, LOCAL), "POST", host), (200, 200));
        assert_eq!(statuses(&access(None, LOCAL), "GET", host), (200, 200));
        assert_eq!(statuses(&access(None, OPEN), "POST", host), (403, 403));
        assert_eq!(statuses(&access(None, &["[::]:0"]), "POST", host), (403, 403));
        for (fields, want) in [
            ("Host: h\r\nAuthorization: Bearer secret\r\n", (200, 200)),
            ("Host: h\r\nauthorization: bearer  secret \r\n", (200, 200)),
            ("Host: h\r\nX-Admin-Token: secret\r\n", (200, 200)),
            ("Host: h\r\nX-Admin-Token: secreT\r\n", (401, 401)),
            ("Host: h\r\nX-Admin-Token: secre\r\n", (401, 401)),
            ("Host: h\r\nX-Admin-Token:\r\n", (401, 401)),
            ("Host: h\r\nAuthorization: Basic secret\r\n", (401, 401)),
            ("Host: h\r\n", (401, 401)),
        ] {
            for addresses in [LOCAL, OPEN] {
                assert_eq!(statuses(&access(Some("secret"), addresses), "POST", fields), want, "{fields:?}");
            }
        }
    }

    #[test]
    fn get_changes_nothing_where_others_can_connect() {
        let fields = "Host: h\r\nX-Admin-Token: secret\r\n";
        assert_eq!(statuses(&access(Some("secret"), OPEN), "GET", fields), (200, 403));
        assert_eq!(statuses(&access(Some("secret"), LOCAL), "GET", fields), (200, 200));
    }

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        let local = access(None, LOCAL);
        for (fields, want) in [
            ("Host: localhost:8081\r\nOrigin: http://localhost:8081\r\nSec-Fetch-Site: same-origin\r\n", (200, 200)),
            ("Host: localhost:8081\r\nSec-Fetch-Site: none\r\n", (200, 200)),
            ("Host: localhost:8081\r\nSec-Fetch-Site: cross-site\r\n", (200, 403)),
            ("Host: localhost:8081\r\nSec-Fetch-Site: same-site\r\n", (200, 403)),
            ("Host: localhost:8081\r\nOrigin: http://evil.example\r\n", (200, 403)),
            ("Host: localhost:8081\r\nOrigin: null\r\n", (200, 403)),
            ("Host: localhost:8081\r\nOrigin: http://localhost:9999\r\n", (200, 403)),
            // Names that a stranger lets point here.
            ("Host: evil.example:8081\r\nOrigin: http://evil.example:8081\r\n", (403, 403)),
            ("Host: 127.0.0.1.evil.example\r\n", (403, 403)),
            ("Host: localhost.evil.example\r\n", (403, 403)),
            ("Host: [::1]:8081\r\n", (200, 200)),
            ("Host: [::1]\r\n", (200, 200)),
            ("Host: LOCALHOST\r\n", (200, 200)),
        ] {
            assert_eq!(statuses(&local, "POST", fields), want, "{fields:?}");
        }
    }
}
