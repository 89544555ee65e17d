//! Hosts and ports: the field `Host`, and the authority of a target in absolute form (RFC 9110, section 4.2; RFC 3986,
//! section 3.2).

use core::net::Ipv6Addr;

use super::byte_set::byte_set;

/// Bytes of a registered name, escapes aside.
const IN_NAME: [bool; 256] = byte_set(b"-._~!$&'()*+,;=");

/// True for a host that is not empty, with a port or without one. A user in front of it is none.
#[inline]
pub(super) fn is_host(value: &[u8]) -> bool {
    let name = value.iter().position(|&byte| !IN_NAME[byte as usize]).unwrap_or(value.len());
    match &value[name..] {
        [] => name > 0,
        [b':', port @ ..] => name > 0 && port.iter().all(u8::is_ascii_digit),
        _ => is_unusual_host(value),
    }
}

/// The same for IP literals and names with escapes.
#[cold]
fn is_unusual_host(value: &[u8]) -> bool {
    let (host_is_valid, port) = match value {
        [b'[', rest @ ..] => {
            let Some(end) = memchr::memchr(b']', rest) else { return false };
            (is_ip_literal(&rest[..end]), &rest[end + 1..])
        }
        _ => {
            let end = memchr::memchr(b':', value).unwrap_or(value.len());
            (is_escaped_name(&value[..end]), &value[end..])
        }
    };
    host_is_valid && matches!(port, [] | [b':', ..]) && port.iter().skip(1).all(u8::is_ascii_digit)
}

/// Checks the inside of the brackets: an IPv6 address, or one of a version to come (`v1.x`).
fn is_ip_literal(inside: &[u8]) -> bool {
    match inside {
        [b'v' | b'V', rest @ ..] => {
            let Some(point) = memchr::memchr(b'.', rest) else { return false };
            let (version, address) = (&rest[..point], &rest[point + 1..]);
            let is_in_address = |&byte: &u8| IN_NAME[byte as usize] || byte == b':';
            !version.is_empty()
                && version.iter().all(u8::is_ascii_hexdigit)
                && !address.is_empty()
                && address.iter().all(is_in_address)
        }
        _ => std::str::from_utf8(inside).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok()),
    }
}

fn is_escaped_name(name: &[u8]) -> bool {
    let mut rest = name;
    loop {
        rest = match rest {
            [] => return !name.is_empty(),
            [b'%', high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => behind,
            [byte, behind @ ..] if IN_NAME[*byte as usize] => behind,
            _ => return false,
        };
    }
}

/// Returns the authority of the target of a request that has been parsed, where the target is in absolute form. It goes
/// before the field `Host` (RFC 9112, section 3.2.2). `head` starts with the request line.
pub fn target_authority(head: &[u8]) -> Option<&[u8]> {
    let target = &head[memchr::memchr(b' ', head)? + 1..];
    let target = &target[..memchr::memchr2(b' ', b'\r', target)?];
    if target.starts_with(b"/") {
        return None;
    }
    let rest = &target[memchr::memmem::find(target, b"://")? + b"://".len()..];
    Some(&rest[..memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address() {
        for host in [
            "h",
            "example.com",
            "example.com:80",
            "example.com:",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "[::ffff:1.2.3.4]",
            "[v1.a:b]",
            "a%20b",
            "%7e:80",
            "a_b",
            "xn--bcher-kva.example",
        ] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            ":80",
            ":",
            "[::1",
            "::1",
            "[]",
            "[::1]x",
            "[::1]:x",
            "[1.2.3.4]",
            "[fe80::1%25eth0]",
            "[v.a]",
            "[v1.]",
            "[v1]",
            "%zz",
            "%4",
            "a%",
            "u:p@x",
            "u@x",
            "a:80:80",
            "a:-1",
            "a b",
            "a/",
            "a\\",
            "\u{fc}",
            "a\"",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn only_a_target_in_absolute_form_has_an_authority() {
        for (line, want) in [
            ("GET /a HTTP/1.1", None),
            ("GET /a?b=http://c/ HTTP/1.1", None),
            ("GET http://h:80/a HTTP/1.1", Some("h:80")),
            ("GET HTTPS://h HTTP/1.1", Some("h")),
            ("GET http://h?q HTTP/1.1", Some("h")),
            ("OPTIONS * HTTP/1.1", None),
        ] {
            assert_eq!(target_authority(format!("{line}\r\n\r\n").as_bytes()), want.map(str::as_bytes), "{line}");
        }
    }

    proptest! {
        /// Both ways to look at a host agree where both may be asked.
        #[test]
        fn usual_hosts_are_not_special(value in "[a-z0-9.:%-]{0,12}") {
            let usual = !value.contains('%');
            if usual {
                prop_assert_eq!(is_host(value.as_bytes()), is_unusual_host(value.as_bytes()));
            }
        }
    }
}
