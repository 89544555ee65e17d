//! `--source-address`, `--fast-open` and `--linger-zero`: the begin and end of TCP connections.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    str::FromStr,
};

use anyhow::Context as _;
use clap::Args;
use loadgen::engine::Endpoint;

use super::Failure;

/// Limit of the number of source addresses, each of which is tried before the run.
const ADDRESSES_MAX: usize = 4_096;

#[derive(Args, Debug)]
pub(super) struct TcpArgs {
    /// TCP: connect from these addresses of this machine in turn, each of which has local ports of its own:
    /// 127.0.0.1-127.0.0.8, or a list
    #[arg(long, value_name = "ADDR[-ADDR]", value_delimiter = ',')]
    source_address: Vec<Addresses>,
    /// TCP Fast Open: send the first bytes of a connection with its SYN, once the server has given a cookie for it. For
    /// servers that listen with TCP_FASTOPEN, and one request per connection
    #[arg(long)]
    pub(super) fast_open: bool,
    /// TCP: reset connections instead of closing them (SO_LINGER of 0 s), so that no local port stays in TIME_WAIT. The server
    /// may lose what it has not read yet, and may count resets
    #[arg(long)]
    pub(super) linger_zero: bool,
}

/// One address, or all from one to another.
#[derive(Clone, Debug)]
struct Addresses(Vec<IpAddr>);

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || {
            format!("not an IP address like 127.0.0.1, nor a range of at most {ADDRESSES_MAX} like 127.0.0.1-127.0.0.8")
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last): (IpAddr, IpAddr) =
            (first.parse().map_err(|_| problem())?, last.parse().map_err(|_| problem())?);
        let addresses: Vec<_> = match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => (first.to_bits()..=last.to_bits())
                .take(ADDRESSES_MAX + 1)
                .map(|bits| Ipv4Addr::from_bits(bits).into())
                .collect(),
            (IpAddr::V6(first), IpAddr::V6(last)) => (first.to_bits()..=last.to_bits())
                .take(ADDRESSES_MAX + 1)
                .map(|bits| Ipv6Addr::from_bits(bits).into())
                .collect(),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => Vec::new(),
        };
        if (1..=ADDRESSES_MAX).contains(&addresses.len()) { Ok(Self(addresses)) } else { Err(problem()) }
    }
}

impl TcpArgs {
    /// Returns all source addresses, in the order in which they were given.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.source_address.iter().flat_map(|Addresses(addresses)| addresses).copied().collect()
    }

    /// Refuses options that are impossible on the way to `endpoint`.
    pub(super) fn check(&self, endpoint: &Endpoint) -> Result<(), Failure> {
        if self.fast_open {
            endpoint.try_fast_open().with_context(|| {
                format!("--fast-open to {endpoint} is not possible (it is for TCP, and net.ipv4.tcp_fastopen must have bit 1)")
            })?;
        }
        if self.linger_zero
            && let Endpoint::Unix(_) = endpoint
        {
            return Err(Failure::Usage(format!(
                "--linger-zero: {endpoint} is a unix socket, which has no TIME_WAIT and is never reset"
            )));
        }
        let addresses = self.addresses();
        if addresses.is_empty() {
            return Ok(());
        }
        let refuse = |problem: String| Err(Failure::Usage(format!("--source-address: {problem}")));
        let server = match endpoint {
            Endpoint::Unix(_) => {
                return refuse(format!("{endpoint} is a unix socket, which is reached from no address"));
            }
            Endpoint::Tcp(server) => server,
        };
        if addresses.len() > ADDRESSES_MAX {
            return refuse(format!("there are {} addresses, and {ADDRESSES_MAX} is the most", addresses.len()));
        }
        if let Some(other) = addresses.iter().find(|address| address.is_ipv4() != server.is_ipv4()) {
            return refuse(format!("nothing gets from {other} to {server}: one is IPv4 and the other IPv6"));
        }
        // No connection is needed to find out whether an address is one of ours.
        let is_ours = |address: &IpAddr| UdpSocket::bind((*address, 0)).map(drop);
        for address in &addresses {
            is_ours(address).with_context(|| format!("--source-address: cannot come from {address}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Vec<String>> {
        let Addresses(addresses) = text.parse().ok()?;
        Some(addresses.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_range_has_both_ends_and_a_limit() {
        let expect = |text, addresses: &[&str]| {
            assert_eq!(parsed(text), Some(addresses.iter().map(ToString::to_string).collect()), "{text}");
        };
        expect("127.0.0.1", &["127.0.0.1"]);
        expect("127.0.0.254-127.0.1.1", &["127.0.0.254", "127.0.0.255", "127.0.1.0", "127.0.1.1"]);
        expect("::1-::2", &["::1", "::2"]);
        assert_eq!(parsed("10.0.0.0-10.0.15.255").map(|addresses| addresses.len()), Some(ADDRESSES_MAX));
        for text in ["", "x", "127.0.0.1-", "127.0.0.2-127.0.0.1", "127.0.0.1-::1", "10.0.0.0-10.0.16.0", "localhost"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
