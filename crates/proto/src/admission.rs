//! Rules about who may connect, and whom proxies speak for.

use core::net::IpAddr;
use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{ClientConnections, PeerAddress};

/// Rules about who may connect. They live as long as the process, so that each connection can name them.
pub struct Admission {
    /// Limit of the connections of one client. Clients of unix sockets are not counted.
    pub clients: Option<ClientConnections>,
    /// Peers whose connections begin with a PROXY header.
    pub proxies: Vec<Network>,
    /// Time in which the header must have arrived.
    pub header_max: Duration,
    /// Writes to the log. It may be called often.
    pub report: fn(fmt::Arguments<'_>),
    pub(crate) headers_refused: AtomicU64,
}

impl Admission {
    /// Returns rules that admit everybody.
    pub fn new(header_max: Duration, report: fn(fmt::Arguments<'_>)) -> Self {
        Self { clients: None, proxies: Vec::new(), header_max, report, headers_refused: AtomicU64::new(0) }
    }

    /// True if a connection from there begins with a PROXY header.
    pub fn is_proxy(&self, peer: PeerAddress) -> bool {
        self.proxies.iter().any(|network| network.contains(peer))
    }

    /// Number of connections of proxies that have not begun with a PROXY header, or not in time.
    pub fn headers_refused(&self) -> u64 {
        self.headers_refused.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("clients", &self.clients)
            .field("proxies", &self.proxies)
            .finish_non_exhaustive()
    }
}

/// Network of peers: an address, addresses with a common prefix, or all unix sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Ip { address: IpAddr, prefix_len: u8 },
    Unix,
}

impl Network {
    fn contains(self, peer: PeerAddress) -> bool {
        match (self, peer) {
            (Self::Unix, PeerAddress::Unix) => true,
            (Self::Ip { address: IpAddr::V4(network), prefix_len }, PeerAddress::Tcp(peer)) => {
                let IpAddr::V4(peer) = peer.ip().to_canonical() else { return false };
                u64::from(network.to_bits() ^ peer.to_bits()) >> (32 - prefix_len) == 0
            }
            (Self::Ip { address: IpAddr::V6(network), prefix_len }, PeerAddress::Tcp(peer)) => {
                let IpAddr::V6(peer) = peer.ip().to_canonical() else { return false };
                (network.to_bits() ^ peer.to_bits()).checked_shr(128 - u32::from(prefix_len)).unwrap_or(0) == 0
            }
            (Self::Unix | Self::Ip { .. }, _) => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unix:" || text == "unix" {
            return Ok(Self::Unix);
        }
        let wrong = || format!("{text:?} is no network like 192.0.2.0/24, 2001:db8::/32, 127.0.0.1 or unix:");
        let (address, prefix_len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix_len = prefix_len.map_or(Ok(longest), |len| len.parse().map_err(|_| wrong()))?;
        let network = Self::Ip { address, prefix_len };
        if prefix_len > longest {
            return Err(wrong());
        }
        let has_host_bits = match address {
            IpAddr::V4(address) => u64::from(address.to_bits()) << prefix_len & 0xffff_ffff != 0,
            IpAddr::V6(address) => address.to_bits().checked_shl(prefix_len.into()).unwrap_or(0) != 0,
        };
        if has_host_bits {
            return Err(format!("{text:?} has bits behind its first {prefix_len}; a network has none"));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip { address, prefix_len } => write!(f, "{address}/{prefix_len}"),
            Self::Unix => f.write_str("unix:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        for (network, address, is_in) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.0/24", "::ffff:192.0.2.1", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "192.0.2.1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::", false),
            ("::1", "::1", true),
            ("::1", "::2", false),
        ] {
            let peer = PeerAddress::Tcp((address.parse::<IpAddr>().unwrap(), 1).into());
            assert_eq!(network.parse::<Network>().unwrap().contains(peer), is_in, "{network} {address}");
        }
        let unix: Network = "unix:".parse().unwrap();
        let any = PeerAddress::Tcp(([192, 0, 2, 1], 1).into());
        assert!(unix.contains(PeerAddress::Unix) && !unix.contains(any) && !unix.contains(PeerAddress::Unknown));
        assert!(!"0.0.0.0/0".parse::<Network>().unwrap().contains(PeerAddress::Unix));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for bad in ["", "localhost", "192.0.2.0/33", "::/129", "192.0.2.1/24", "192.0.2.0/", "2001:db8::1/32", "1/2/3"]
        {
            let why = bad.parse::<Network>().unwrap_err();
            assert!(why.contains("network"), "{bad}: {why}");
        }
        for good in ["192.0.2.0/24", "0.0.0.0/0", "::/0", "2001:db8::/32"] {
            assert_eq!(good.parse::<Network>().unwrap().to_string(), good);
        }
    }
}
