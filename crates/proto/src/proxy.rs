//! The PROXY protocol, versions 1 and 2: the line or block in front of a connection by which a proxy says who the client is.
//! (haproxy.org, `doc/proxy-protocol.txt`)

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest line of version 1, its end included.
const LINE_MAX: usize = 107;
const LINE_START: &[u8] = b"PROXY ";
/// First bytes of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Length of a block's fixed part: signature, version and command, family, length.
const FIXED_LEN: usize = 16;
/// Longest block that is accepted behind the fixed part, in bytes: addresses, and extensions, which are skipped.
const BLOCK_MAX: usize = 2048;

/// Header of a proxied connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ProxyHeader {
    /// Client and the address that it connected to; `None` if the proxy speaks for itself (a health check), or does not know.
    pub(crate) addresses: Option<ProxyAddresses>,
    /// Length of the header, in bytes.
    pub(crate) len: usize,
}

/// Addresses of a connection at the proxy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProxyAddresses {
    pub client: SocketAddr,
    /// Address that the client has connected to.
    pub server: SocketAddr,
}

/// Input that is no header of the PROXY protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProxyError {
    #[error("a connection from a proxy does not begin with a PROXY header")]
    Missing,
    #[error("a PROXY header is malformed")]
    Malformed,
    #[error("a PROXY header is too long")]
    TooLong,
}

/// Parses the header at the beginning of a connection; `None` while it is not whole.
///
/// # Errors
/// The input begins with something else: nothing of it can be trusted.
pub(crate) fn parse(input: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    if begins(input, LINE_START) {
        line(input)
    } else if begins(input, SIGNATURE) {
        block(input)
    } else {
        Err(ProxyError::Missing)
    }
}

/// True if `input` and `start` are alike as far as both go.
fn begins(input: &[u8], start: &[u8]) -> bool {
    let length = input.len().min(start.len());
    input[..length] == start[..length]
}

/// Version 1: `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443`.
fn line(input: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    let Some(end) = input.iter().take(LINE_MAX).position(|&byte| byte == b'\n') else {
        return if input.len() < LINE_MAX { Ok(None) } else { Err(ProxyError::TooLong) };
    };
    let line = input[..end].strip_suffix(b"\r").and_then(|line| std::str::from_utf8(line).ok());
    let line = line.ok_or(ProxyError::Malformed)?;
    let words: Vec<&str> = line.split(' ').collect();
    let addresses = match words[..] {
        ["PROXY", "UNKNOWN", ..] => None,
        ["PROXY", family @ ("TCP4" | "TCP6"), client, server, client_port, server_port] => Some(ProxyAddresses {
            client: SocketAddr::new(address(family, client)?, port(client_port)?),
            server: SocketAddr::new(address(family, server)?, port(server_port)?),
        }),
        _ => return Err(ProxyError::Malformed),
    };
    Ok(Some(ProxyHeader { addresses, len: end + 1 }))
}

fn address(family: &str, text: &str) -> Result<IpAddr, ProxyError> {
    match family {
        "TCP4" => text.parse().map(IpAddr::V4),
        _ => text.parse().map(IpAddr::V6),
    }
    .map_err(|_| ProxyError::Malformed)
}

/// Parses a port: digits alone, without zeros in front.
fn port(text: &str) -> Result<u16, ProxyError> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let port = if is_plain { text.parse().ok() } else { None };
    port.ok_or(ProxyError::Malformed)
}

/// Version 2, in binary.
fn block(input: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    let Some(&[.., version_command, family, high, low]) = input.first_chunk::<FIXED_LEN>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > BLOCK_MAX {
        return Err(ProxyError::TooLong);
    }
    let Some(fields) = input.get(FIXED_LEN..FIXED_LEN + length) else { return Ok(None) };
    let addresses = match (version_command, family) {
        (0x20, _) => None,
        (0x21, 0x11) => {
            let &[a, b, c, d, e, f, g, h, ref ports @ ..] = fields.first_chunk::<12>().ok_or(ProxyError::Malformed)?;
            Some(pair(Ipv4Addr::new(a, b, c, d).into(), Ipv4Addr::new(e, f, g, h).into(), *ports))
        }
        (0x21, 0x21) => {
            let (client, rest) = fields.split_first_chunk::<16>().ok_or(ProxyError::Malformed)?;
            let (server, rest) = rest.split_first_chunk::<16>().ok_or(ProxyError::Malformed)?;
            let ports = rest.first_chunk::<4>().ok_or(ProxyError::Malformed)?;
            Some(pair(Ipv6Addr::from(*client).into(), Ipv6Addr::from(*server).into(), *ports))
        }
        // Other families and transports: the proxy's own address is what there is.
        (0x21, _) => None,
        _ => return Err(ProxyError::Malformed),
    };
    Ok(Some(ProxyHeader { addresses, len: FIXED_LEN + length }))
}

fn pair(client: IpAddr, server: IpAddr, [a, b, c, d]: [u8; 4]) -> ProxyAddresses {
    ProxyAddresses {
        client: SocketAddr::new(client, u16::from_be_bytes([a, b])),
        server: SocketAddr::new(server, u16::from_be_bytes([c, d])),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(client: &str, server: &str, len: usize) -> ProxyHeader {
        let addresses = ProxyAddresses { client: client.parse().unwrap(), server: server.parse().unwrap() };
        ProxyHeader { addresses: Some(addresses), len }
    }

    fn version_2(command: u8, family: u8, fields: &[u8]) -> Vec<u8> {
        let length = u16::try_from(fields.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, fields].concat()
    }

    fn good() -> Vec<(Vec<u8>, ProxyHeader)> {
        let none = |len| ProxyHeader { addresses: None, len };
        let v4 = [&[192, 0, 2, 1, 198, 51, 100, 1][..], &56324_u16.to_be_bytes(), &443_u16.to_be_bytes()].concat();
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        let v6 = [&address("2001:db8::1")[..], &address("2001:db8::2"), &[0xdc, 4, 1, 187], b"\x04\0\x01x"].concat();
        vec![
            (
                b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n".to_vec(),
                header("192.0.2.1:56324", "198.51.100.1:443", 45),
            ),
            (
                b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n".to_vec(),
                header("[2001:db8::1]:56324", "[2001:db8::2]:443", 46),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), none(15)),
            (b"PROXY UNKNOWN whatever it says\r\n".to_vec(), none(32)),
            (version_2(0x21, 0x11, &v4), header("192.0.2.1:56324", "198.51.100.1:443", 28)),
            (version_2(0x21, 0x21, &v6), header("[2001:db8::1]:56324", "[2001:db8::2]:443", 56)),
            (version_2(0x20, 0, b""), none(16)),
            (version_2(0x21, 0x31, &[b'/'; 216]), none(232)),
        ]
    }

    #[test]
    fn headers_of_both_versions_are_read() {
        for (bytes, header) in good() {
            assert_eq!(parse(&bytes), Ok(Some(header)), "{bytes:?}");
            assert_eq!(parse(&[&bytes[..], b"GET /"].concat()), Ok(Some(header)), "what follows is not its own");
        }
    }

    #[test]
    fn a_torn_header_is_waited_for() {
        for (bytes, _) in good() {
            for length in 0..bytes.len() {
                assert_eq!(parse(&bytes[..length]), Ok(None), "{length} of {bytes:?}");
            }
        }
    }

    #[test]
    fn anything_else_is_refused() {
        use ProxyError::{Malformed, Missing, TooLong};
        let too_long = [b"PROXY UNKNOWN ", &[b'x'; 100][..], b"\r\n"].concat();
        for (bytes, error) in [
            (&b"GET / HTTP/1.1\r\n"[..], Missing),
            (b"PROXX", Missing),
            (b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\n", Malformed),
            (b"PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n", Malformed),
            (b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 65536\r\n", Malformed),
            (b"PROXY TCP4 192.0.2.1 198.51.100.1 +5 443\r\n", Malformed),
            (b"PROXY TCP4 192.0.2.1 198.51.100.1 05 443\r\n", Malformed),
            (b"PROXY TCP4 ::1 198.51.100.1 5 443\r\n", Malformed),
            (b"PROXY TCP6 192.0.2.1 ::1 5 443\r\n", Malformed),
            (b"PROXY UDP4 192.0.2.1 192.0.2.1 5 443\r\n", Malformed),
            (b"PROXY  TCP4 192.0.2.1 192.0.2.1 5 443\r\n", Malformed),
            (&too_long, TooLong),
            (&version_2(0x11, 0x11, &[0; 12]), Malformed),
            (&version_2(0x22, 0x11, &[0; 12]), Malformed),
            (&version_2(0x21, 0x11, &[0; 11]), Malformed),
            (&version_2(0x21, 0x21, &[0; 35]), Malformed),
            (&version_2(0x21, 0x11, &[0; 2049]), TooLong),
        ] {
            assert_eq!(parse(bytes), Err(error), "{}", String::from_utf8_lossy(bytes));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(tail: Vec<u8>, start in 0..3_usize) {
            let start = [&b""[..], LINE_START, SIGNATURE][start];
            let input = [start, &tail].concat();
            if let Ok(Some(header)) = parse(&input) {
                prop_assert!(header.len <= input.len());
            }
        }
    }
}
