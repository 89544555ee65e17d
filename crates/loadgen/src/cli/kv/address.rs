//! Where the server is, as users of other clients spell it.

use super::ProtocolArg;

/// Where servers listen by custom.
fn default_port(protocol: ProtocolArg) -> Option<u16> {
    match protocol {
        ProtocolArg::Resp | ProtocolArg::Resp3 => Some(6379),
        ProtocolArg::Memcached | ProtocolArg::MemcachedMeta => Some(11211),
        ProtocolArg::Us => None,
    }
}

/// With the scheme of a URL left out, and the protocol's own port put in.
///
/// # Errors
/// A URL that says what its options say here.
pub(super) fn address(text: &str, protocol: ProtocolArg) -> Result<String, String> {
    if text.starts_with("unix:") {
        return Ok(text.to_owned());
    }
    if text.starts_with("rediss://") {
        return Err(format!("`{text}`: TLS is --tls, and the address HOST:PORT"));
    }
    let rest = match text.strip_prefix("redis://") {
        None => text,
        Some(rest) => rest.strip_suffix('/').unwrap_or(rest),
    };
    if text.len() != rest.len() && rest.contains(['@', '/', '?']) {
        return Err(format!("`{text}`: of a redis:// URL only host and port are understood"));
    }
    // Behind the bracket of an IPv6 address, if it is one.
    let has_port = rest.rsplit_once(']').map_or(rest, |(_, after)| after).contains(':');
    match default_port(protocol).filter(|_| !has_port && !rest.is_empty() && !rest.contains('/')) {
        Some(port) => Ok(format!("{rest}:{port}")),
        None => Ok(rest.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_and_ports_may_be_left_out() {
        for (text, expected) in [
            ("127.0.0.1:7000", "127.0.0.1:7000"),
            ("127.0.0.1", "127.0.0.1:6379"),
            ("[::1]", "[::1]:6379"),
            ("[::1]:7000", "[::1]:7000"),
            ("redis://localhost", "localhost:6379"),
            ("redis://localhost:7000/", "localhost:7000"),
            ("unix:/run/x.sock", "unix:/run/x.sock"),
        ] {
            assert_eq!(address(text, ProtocolArg::Resp).as_deref(), Ok(expected));
        }
        assert_eq!(address("h", ProtocolArg::MemcachedMeta).as_deref(), Ok("h:11211"));
        assert_eq!(address("h", ProtocolArg::Us).as_deref(), Ok("h"), "the protocol has no port of its own");
        for text in ["rediss://localhost", "redis://me:secret@localhost", "redis://localhost/1"] {
            assert!(address(text, ProtocolArg::Resp).is_err(), "{text}");
        }
    }
}
