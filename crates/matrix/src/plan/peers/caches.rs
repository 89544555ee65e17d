//! Redis and memcached, one thread, nothing on disk.

use std::{ffi::OsString, path::Path};

use anyhow::Result;
use nix::unistd::geteuid;
use results::Workload;

use super::{OPEN_FILES, Peer, PeerContext};
use crate::{plan::workload_names::has_tls, run::site::tls};

pub(crate) const MEMCACHED: &str = "memcached";
pub(crate) static PEERS: [&dyn Peer; 2] = [&Redis, &Memcached];

/// More than the largest workload needs.
const MEMCACHED_MIB: u32 = 2048;

struct Redis;

impl Redis {
    /// Its addresses, where it speaks TLS and where it does not.
    fn ports(port: &str, site: Option<&Path>) -> Vec<String> {
        let Some(site) = site else { return ["--port", port].map(str::to_owned).to_vec() };
        let [certificate, key] = [tls::CERTIFICATE, tls::KEY].map(|word| tls::placed(word, site));
        let pair = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-auth-clients", "no"];
        let agreed = ["--tls-protocols", "TLSv1.3", "--tls-ciphersuites", tls::CIPHER];
        let words = ["--port", "0", "--tls-port", port].into_iter().chain(pair).chain(agreed);
        words.map(str::to_owned).collect()
    }

    fn words(ip: &str, ports: &[String], limit: &[String]) -> Vec<String> {
        let clients = OPEN_FILES.to_string();
        let fixed = ["--bind", ip, "--protected-mode", "no", "--save", "", "--appendonly", "no"];
        let rest = ["--io-threads", "1", "--maxclients", &clients];
        let fixed = fixed.into_iter().chain(rest).map(str::to_owned);
        let mut words: Vec<String> = ports.iter().cloned().chain(fixed).collect();
        words.extend_from_slice(limit);
        words
    }
}

impl Peer for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn executable(&self) -> &'static str {
        "redis-server"
    }

    fn version_option(&self) -> &'static str {
        "--version"
    }

    fn description(&self) -> &'static str {
        "one thread, no snapshots, no append-only file; under eviction allkeys-lru; over TLS `--port 0 --tls-port PORT` with TLS 1.3 and TLS_AES_128_GCM_SHA256"
    }

    fn shown(&self) -> (String, Option<String>) {
        let words = Self::words("127.0.0.1", &Self::ports("PORT", None), &["…".to_owned()]);
        let quoted: Vec<&str> = words.iter().map(|word| if word.is_empty() { "''" } else { word }).collect();
        (format!("redis-server {}", quoted.join(" ")), None)
    }

    fn arguments(&self, context: &PeerContext<'_>) -> Result<Vec<OsString>> {
        let (ip, port) = (context.address.ip().to_string(), context.address.port().to_string());
        let site = has_tls(&context.workload.name).then_some(context.site);
        let words = Self::words(&ip, &Self::ports(&port, site), &limit(context.workload));
        Ok(words.into_iter().map(OsString::from).collect())
    }
}

/// The same limit that ours gets, with the policy that Redis's documentation advises for a cache.
fn limit(workload: &Workload) -> Vec<String> {
    let mut words = workload.adds.iter().skip_while(|word| *word != "--maxmemory").take(2).cloned().collect::<Vec<_>>();
    if !words.is_empty() {
        words.extend(["--maxmemory-policy", "allkeys-lru"].map(str::to_owned));
    }
    words
}

struct Memcached;

impl Memcached {
    fn words(ip: &str, port: &str) -> Vec<String> {
        let (connections, memory) = (OPEN_FILES.to_string(), MEMCACHED_MIB.to_string());
        let words = ["-l", ip, "-p", port, "-U", "0", "-t", "1", "-c", &connections, "-m", &memory];
        let mut words: Vec<String> = words.map(str::to_owned).to_vec();
        if geteuid().is_root() {
            // It refuses to run as root unless told to; another user would lose the signal that ends it with us.
            words.extend(["-u", "root"].map(str::to_owned));
        }
        words
    }
}

impl Peer for Memcached {
    fn name(&self) -> &'static str {
        MEMCACHED
    }

    fn version_option(&self) -> &'static str {
        "-V"
    }

    fn description(&self) -> &'static str {
        "one worker thread, no UDP"
    }

    fn shown(&self) -> (String, Option<String>) {
        (format!("memcached {}", Self::words("127.0.0.1", "PORT").join(" ")), None)
    }

    fn arguments(&self, context: &PeerContext<'_>) -> Result<Vec<OsString>> {
        let (ip, port) = (context.address.ip().to_string(), context.address.port().to_string());
        Ok(Self::words(&ip, &port).into_iter().map(OsString::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::subjects::SUBJECTS;

    fn started(peer: &dyn Peer, workload: &str) -> String {
        let workloads = SUBJECTS.iter().flat_map(|subject| subject.workloads(false));
        let workload = &workloads.into_iter().find(|known| known.name == workload).unwrap();
        let address = "127.0.0.1:7001".parse().unwrap();
        let (site, scratch, binaries) = (Path::new("/s"), Path::new("/c"), Path::new("/b"));
        let context = PeerContext { address, site, scratch, workload, binaries };
        let words = peer.arguments(&context).unwrap();
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn redis_evicts_under_the_same_limit_as_ours_and_only_then() {
        assert!(!started(&Redis, "get-P100").contains("maxmemory"));
        let words = started(&Redis, "zipf-evict-P16");
        assert!(words.ends_with("--maxmemory 68000000 --maxmemory-policy allkeys-lru"), "{words}");
    }

    #[test]
    fn redis_speaks_tls_where_ours_does_and_only_then() {
        let words = started(&Redis, "tls-get-P16");
        assert!(
            words.starts_with("--port 0 --tls-port 7001 --tls-cert-file /certificate.pem --tls-key-file /key.pem "),
            "{words}"
        );
        assert!(words.contains(" --tls-protocols TLSv1.3 --tls-ciphersuites TLS_AES_128_GCM_SHA256 "), "{words}");
        assert!(!started(&Redis, "get-P16").contains("tls"));
    }

    #[test]
    fn neither_writes_to_disk_nor_uses_more_than_a_thread() {
        let redis = started(&Redis, "get-P1");
        assert!(redis.contains("--port 7001") && redis.contains("--save  --appendonly no --io-threads 1"), "{redis}");
        let memcached = started(&Memcached, "mc-text-get-P100");
        assert!(memcached.contains("-l 127.0.0.1 -p 7001 -U 0 -t 1"), "{memcached}");
    }
}
