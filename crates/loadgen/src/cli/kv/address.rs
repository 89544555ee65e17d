//! Address of a cache, as users of other clients spell it.

use loadgen::kv::Dialect;

/// Returns the port on which servers listen by custom.
fn default_port(protocol: Dialect) -> Option<u16> {
    match protocol {
        Dialect::Resp | Dialect::Resp3 => Some(6379),
        Dialect::Memcached | Dialect::MemcachedMeta => Some(11211),
        Dialect::Us => None,
    }
}

/// Removes the scheme of a URL, and adds the protocol's own port if there is none.
///
/// # Errors
/// The URL has parts that are options here.
pub(super) fn address(text: &str, protocol: Dialect) -> Result<String, String> {
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
    // The port of an IPv6 address stands behind the bracket.
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
            assert_eq!(address(text, Dialect::Resp).as_deref(), Ok(expected));
        }
        assert_eq!(address("h", Dialect::MemcachedMeta).as_deref(), Ok("h:11211"));
        assert_eq!(address("h", Dialect::Us).as_deref(), Ok("h"), "the protocol has no port of its own");
        for text in ["rediss://localhost", "redis://me:secret@localhost", "redis://localhost/1"] {
            assert!(address(text, Dialect::Resp).is_err(), "{text}");
        }
    }
}
