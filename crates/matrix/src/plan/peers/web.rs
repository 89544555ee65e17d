//! nginx and lighttpd: no access log, an open file cache, connections that are never closed for their age.

use std::{ffi::OsString, fs};

use anyhow::{Context, Result};

use super::{OPEN_FILES, Peer, PeerContext};

pub(crate) static PEERS: [&dyn Peer; 3] =
    [&WebServer::Nginx { sendfile: true }, &WebServer::Nginx { sendfile: false }, &WebServer::Lighttpd];

/// Words that stand for the address and the site in the configuration that is shown.
const SHOWN_ADDRESS: &str = "ADDR";
const SHOWN_DIRECTORY: &str = "SITE";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WebServer {
    Nginx { sendfile: bool },
    Lighttpd,
}

impl Peer for WebServer {
    fn name(&self) -> &'static str {
        match self {
            Self::Nginx { .. } => "nginx",
            Self::Lighttpd => "lighttpd",
        }
    }

    fn version_option(&self) -> &'static str {
        "-v"
    }

    fn id(&self) -> &'static str {
        match self {
            Self::Nginx { sendfile: true } => "nginx/sendfile-on",
            Self::Nginx { sendfile: false } => "nginx/sendfile-off",
            Self::Lighttpd => "lighttpd",
        }
    }

    fn label(&self) -> String {
        self.id().replace("/sendfile-", ", sendfile ")
    }

    fn description(&self) -> &'static str {
        match self {
            Self::Nginx { sendfile: true } => "one worker, sendfile on, open_file_cache, no access log",
            Self::Nginx { sendfile: false } => "one worker, sendfile off, open_file_cache, no access log",
            Self::Lighttpd => "one process, no access log",
        }
    }

    fn shown(&self) -> (String, Option<String>) {
        let command = match self {
            Self::Nginx { .. } => "nginx -p SCRATCH -c CONF",
            Self::Lighttpd => "lighttpd -D -f CONF",
        };
        (command.to_owned(), Some(self.config(SHOWN_ADDRESS, "PORT", SHOWN_DIRECTORY, "SCRATCH")))
    }

    fn arguments(&self, context: &PeerContext<'_>) -> Result<Vec<OsString>> {
        let path = context.scratch.join(format!("{}.conf", self.name()));
        let (ip, port) = (context.address.ip().to_string(), context.address.port().to_string());
        let config = self.config(&ip, &port, &context.site.to_string_lossy(), &context.scratch.to_string_lossy());
        fs::write(&path, config).with_context(|| format!("{}", path.display()))?;
        Ok(match self {
            Self::Nginx { .. } => vec!["-p".into(), context.scratch.into(), "-c".into(), path.into()],
            Self::Lighttpd => vec!["-D".into(), "-f".into(), path.into()],
        })
    }
}

impl WebServer {
    fn config(self, ip: &str, port: &str, site: &str, scratch: &str) -> String {
        match self {
            // master_process off: one process, whose CPU time is the server's.
            Self::Nginx { sendfile } => format!(
                "daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile {OPEN_FILES};
pid \"{scratch}/nginx.pid\";
error_log stderr warn;
events {{ worker_connections {OPEN_FILES}; use epoll; multi_accept on; }}
http {{
  access_log off;
  sendfile {};
  tcp_nopush {};
  keepalive_timeout 600s;
  keepalive_requests 1000000000;
  open_file_cache max=1000 inactive=600s;
  open_file_cache_valid 600s;
  client_body_temp_path \"{scratch}/nginx-body\";
  proxy_temp_path \"{scratch}/nginx-proxy\";
  fastcgi_temp_path \"{scratch}/nginx-fastcgi\";
  uwsgi_temp_path \"{scratch}/nginx-uwsgi\";
  scgi_temp_path \"{scratch}/nginx-scgi\";
  types {{ text/plain txt; }}
  server {{ listen {ip}:{port} backlog=4096; root \"{site}\"; }}
}}
",
                on_off(sendfile),
                on_off(sendfile),
            ),
            Self::Lighttpd => format!(
                "server.bind = \"{ip}\"
server.port = {port}
server.document-root = \"{site}\"
server.max-fds = {OPEN_FILES}
server.max-connections = {}
server.max-keep-alive-requests = 1000000000
server.max-keep-alive-idle = 600
server.listen-backlog = 4096
server.event-handler = \"linux-sysepoll\"
server.network-backend = \"sendfile\"
mimetype.assign = ( \".txt\" => \"text/plain\" )
",
                OPEN_FILES / 2,
            ),
        }
    }
}

fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_has_no_path_but_site_and_scratch() {
        let nginx = |sendfile| WebServer::Nginx { sendfile };
        for peer in [nginx(true), nginx(false), WebServer::Lighttpd] {
            let config = peer.config("127.0.0.1", "8123", "/the/site", "/the/scratch");
            assert!(config.contains("127.0.0.1") && config.contains("8123") && config.contains("/the/site"));
            let (_, shown) = peer.shown();
            assert!(!shown.unwrap().contains("/the/"));
            assert_eq!(config.matches('{').count(), config.matches('}').count());
        }
        assert!(nginx(true).config("", "", "", "").contains("sendfile on;"));
        assert!(nginx(false).config("", "", "", "").contains("sendfile off;"));
    }
}
