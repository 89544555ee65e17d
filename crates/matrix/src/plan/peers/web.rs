//! nginx, lighttpd, h2o and Caddy: no access log, open files kept where they can be, connections that are never closed for
//! their age, and under a web site the compressed files beside the texts.

mod config;

use std::{ffi::OsString, fs, path::Path, sync::LazyLock};

use anyhow::{Context, Result};

use self::config::{Pair, Place};
use super::{Peer, PeerContext, executable};
use crate::{
    plan::workload_names::{asks_for_site, has_http2, has_tls},
    run::site::{tls, web::Coding},
};

pub(crate) static PEERS: [&dyn Peer; 5] = [
    &WebServer::Nginx { sendfile: true },
    &WebServer::Nginx { sendfile: false },
    &WebServer::Lighttpd,
    &WebServer::H2o,
    &WebServer::Caddy,
];

/// Place that stands for another in the configuration that is shown.
const SHOWN: Place<'_> = Place {
    ip: "ADDR",
    port: "PORT",
    site: "SITE",
    scratch: "SCRATCH",
    modules: "MODULES",
    coding: None,
    tls: None,
    has_http2: false,
};
/// Files that stand for others there.
const SHOWN_PAIR: Pair<'_> = Pair { certificate: tls::CERTIFICATE, key: tls::KEY };

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WebServer {
    Nginx { sendfile: bool },
    Lighttpd,
    H2o,
    Caddy,
}

impl Peer for WebServer {
    fn name(&self) -> &'static str {
        match self {
            Self::Nginx { .. } => "nginx",
            Self::Lighttpd => "lighttpd",
            Self::H2o => "h2o",
            Self::Caddy => "caddy",
        }
    }

    fn version_option(&self) -> &'static str {
        match self {
            Self::Nginx { .. } | Self::Lighttpd | Self::H2o => "-v",
            Self::Caddy => "version",
        }
    }

    fn id(&self) -> &'static str {
        match self {
            Self::Nginx { sendfile: true } => "nginx/sendfile-on",
            Self::Nginx { sendfile: false } => "nginx/sendfile-off",
            Self::Lighttpd | Self::H2o | Self::Caddy => self.name(),
        }
    }

    fn label(&self) -> String {
        self.id().replace("/sendfile-", ", sendfile ")
    }

    fn reads_weights(&self) -> bool {
        *self != Self::H2o
    }

    fn description(&self) -> &'static str {
        match self {
            Self::Nginx { sendfile: true } => "one worker, sendfile on, open_file_cache, no access log",
            Self::Nginx { sendfile: false } => "one worker, sendfile off, open_file_cache, no access log",
            Self::Lighttpd => "one process, no access log",
            Self::H2o => "one thread, no access log; asked without weights in Accept-Encoding, which it does not read",
            Self::Caddy => "on one CPU, no access log, no administration",
        }
    }

    fn shown(&self) -> (String, Option<String>) {
        let command = match self {
            Self::Nginx { .. } => "nginx -p SCRATCH -c CONF",
            Self::Lighttpd => "lighttpd -D -f CONF",
            Self::H2o => "h2o -c CONF",
            Self::Caddy => "caddy run --config CONF",
        };
        let mut text = self.config(&SHOWN);
        let more = [
            ("where a web site is asked for", Place { coding: Some(site_coding()), ..SHOWN }),
            ("over TLS", Place { tls: Some(SHOWN_PAIR), ..SHOWN }),
            ("over HTTP/2", Place { has_http2: true, ..SHOWN }),
            ("over HTTP/2 and TLS", Place { tls: Some(SHOWN_PAIR), has_http2: true, ..SHOWN }),
        ];
        for (place, with) in more {
            let more = added(&text, &self.config(&with));
            if !more.is_empty() {
                text.push_str(&format!("\n# Also {place}:\n{more}"));
            }
        }
        (command.to_owned(), Some(text))
    }

    fn arguments(&self, context: &PeerContext<'_>) -> Result<Vec<OsString>> {
        let path = context.scratch.join(format!("{}.conf", self.name()));
        let (ip, port) = (context.address.ip().to_string(), context.address.port().to_string());
        let [certificate, key] = [tls::CERTIFICATE, tls::KEY].map(|word| tls::placed(word, context.site));
        let place = Place {
            ip: &ip,
            port: &port,
            site: &context.site.to_string_lossy(),
            scratch: &context.scratch.to_string_lossy(),
            modules: MODULES.unwrap_or_default(),
            coding: asks_for_site(&context.workload.name).then(site_coding),
            tls: has_tls(&context.workload.name).then_some(Pair { certificate: &certificate, key: &key }),
            has_http2: has_http2(&context.workload.name),
        };
        fs::write(&path, self.config(&place)).with_context(|| format!("{}", path.display()))?;
        let words: Vec<OsString> = match self {
            Self::Nginx { .. } => vec!["-p".into(), context.scratch.into(), "-c".into()],
            Self::Lighttpd => vec!["-D".into(), "-f".into()],
            Self::H2o => vec!["-c".into()],
            Self::Caddy => ["run", "--config"].map(OsString::from).to_vec(),
        };
        Ok(words.into_iter().chain([path.into()]).collect())
    }
}

impl WebServer {
    fn config(self, place: &Place<'_>) -> String {
        match self {
            Self::Nginx { sendfile } => config::nginx(place, sendfile),
            Self::Lighttpd => config::lighttpd(place),
            Self::H2o => config::h2o(place),
            Self::Caddy => config::caddy(place),
        }
    }
}

/// Returns the lines of `long` that are not in `short`.
fn added(short: &str, long: &str) -> String {
    let known: Vec<&str> = short.lines().collect();
    long.lines().filter(|line| !known.contains(line)).map(|line| format!("{line}\n")).collect()
}

/// nginx's module for files that are compressed by brotli, which distributions have in a package of its own.
const BROTLI_MODULE: &str = "ngx_http_brotli_static_module.so";
const MODULE_DIRECTORIES: [&str; 4] =
    ["/usr/lib/nginx/modules", "/usr/lib64/nginx/modules", "/usr/share/nginx/modules", "/usr/local/nginx/modules"];

/// Directory of nginx's modules, if it has that module.
static MODULES: LazyLock<Option<&str>> = LazyLock::new(|| {
    MODULE_DIRECTORIES.into_iter().find(|directory| Path::new(directory).join(BROTLI_MODULE).is_file())
});

/// Returns the coding in which every server of a run delivers texts: brotli, unless nginx is here and cannot.
pub(crate) fn site_coding() -> Coding {
    if lacks_brotli() { Coding::Gzip } else { Coding::Brotli }
}

/// True if nginx is installed without the module for files that are compressed by brotli.
pub(crate) fn lacks_brotli() -> bool {
    let nginx = WebServer::Nginx { sendfile: true };
    MODULES.is_none() && executable(&nginx, Path::new("")).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_has_no_path_but_site_and_scratch() {
        let nginx = |sendfile| WebServer::Nginx { sendfile };
        for peer in [nginx(true), nginx(false), WebServer::Lighttpd, WebServer::H2o, WebServer::Caddy] {
            for coding in [None, Some(Coding::Gzip), Some(Coding::Brotli)] {
                let place =
                    Place { ip: "127.0.0.1", port: "8123", site: "/the/site", scratch: "/the/scratch", ..SHOWN };
                let pair = Pair { certificate: "/the/certificate", key: "/the/key" };
                for tls in [None, Some(pair)] {
                    let config = peer.config(&Place { coding, tls, has_http2: tls.is_some(), ..place });
                    let has_pair = config.contains(pair.certificate) && config.contains(pair.key);
                    assert_eq!(has_pair, tls.is_some() && peer != WebServer::Lighttpd, "{config}");
                    assert_eq!(config.matches('{').count(), config.matches('}').count());
                }
                let config = peer.config(&Place { coding, ..place });
                assert!(config.contains("127.0.0.1") && config.contains("8123") && config.contains("/the/site"));
                assert_eq!(config.matches('{').count(), config.matches('}').count());
            }
            let (_, shown) = peer.shown();
            assert!(!shown.unwrap().contains("/the/"));
        }
        assert!(nginx(true).config(&SHOWN).contains("sendfile on;"));
        assert!(nginx(false).config(&SHOWN).contains("sendfile off;"));
    }

    #[test]
    fn every_peer_has_the_same_tls_as_far_as_it_can_be_told() {
        let pair = Some(SHOWN_PAIR);
        let nginx = WebServer::Nginx { sendfile: true };
        let over = |peer: WebServer, tls, has_http2| peer.config(&Place { tls, has_http2, ..SHOWN });
        let secure = over(nginx, pair, true);
        for words in [
            "listen ADDR:PORT ssl http2 ",
            "Ciphersuites TLS_AES_128_GCM_SHA256;",
            "ssl_ecdh_curve X25519;",
            "TLSv1.3;",
        ] {
            assert!(secure.contains(words), "{secure}");
        }
        assert!(over(nginx, None, true).contains("listen ADDR:PORT http2 "));
        assert!(over(nginx, pair, false).contains("listen ADDR:PORT ssl backlog"));
        assert!(over(WebServer::H2o, pair, true).contains("minimum-version: TLSv1.3"));
        let protocols = |tls, has_http2| {
            let config = over(WebServer::Caddy, tls, has_http2);
            let [_, after] = config.split("\"protocols\": [").collect::<Vec<_>>()[..] else { panic!("{config}") };
            after.split(']').next().unwrap().to_owned()
        };
        assert_eq!([protocols(pair, false), protocols(None, false)], ["\"h1\"", "\"h1\""]);
        assert_eq!([protocols(pair, true), protocols(None, true)], ["\"h1\", \"h2\"", "\"h1\", \"h2c\""]);
        let shown = nginx.shown().1.unwrap();
        assert!(shown.contains("# Also over TLS:") && shown.contains("ssl_certificate \"CERTIFICATE\";"), "{shown}");
    }

    #[test]
    fn what_only_a_web_site_needs_is_shown_apart() {
        for peer in PEERS {
            let shown = peer.shown().1.unwrap();
            let (before, after) = shown.split_once("# Also where a web site is asked for:").unwrap();
            let after = after.split("# Also over").next().unwrap();
            let names = ["_static", "send-compressed", "precompressed", "Content-Encoding"];
            assert!(names.iter().any(|name| after.contains(name)), "{after}");
            assert!(!names.iter().any(|name| before.contains(name)), "{before}");
        }
    }
}
