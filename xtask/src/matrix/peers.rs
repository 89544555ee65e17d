//! Other people's servers: how they are configured and started. Tuned as their documentation advises for one worker
//! that serves small static files: no access log, an open file cache, connections that are never closed for their age.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::model::{Cell, Role};
use crate::workspace::first_line;

/// A server that is not ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Peer {
    Nginx { sendfile: bool },
    Lighttpd,
}

/// The names `--against` knows.
pub(crate) const PROGRAMS: [&str; 2] = ["nginx", "lighttpd"];
/// Files that one worker may have open, also in its cache of open files.
const OPEN_FILES: u32 = 20_000;
/// What stands for the address and the site in the configuration that is shown.
const SHOWN_ADDRESS: &str = "ADDR";
const SHOWN_DIRECTORY: &str = "SITE";

impl Peer {
    pub(crate) const ALL: [Self; 3] = [Self::Nginx { sendfile: true }, Self::Nginx { sendfile: false }, Self::Lighttpd];

    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Nginx { .. } => "nginx",
            Self::Lighttpd => "lighttpd",
        }
    }

    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Nginx { sendfile: true } => "nginx/sendfile-on",
            Self::Nginx { sendfile: false } => "nginx/sendfile-off",
            Self::Lighttpd => "lighttpd",
        }
    }

    /// Distributions install servers where an ordinary user's PATH does not look.
    fn executable(self) -> PathBuf {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
        let mut candidates = directories.map(|directory| directory.join(self.program()));
        candidates.find(|candidate| candidate.is_file()).unwrap_or_else(|| self.program().into())
    }

    /// The cell, or `None` when the program is not installed.
    pub(crate) fn cell(self) -> Option<Cell> {
        let version = first_line(&self.executable().to_string_lossy(), &["-v"])?;
        Some(Cell {
            id: self.id().to_owned(),
            label: self.id().replace("/sendfile-", ", sendfile "),
            role: Role::Peer,
            server: self.program().to_owned(),
            factors: [].into(),
            description: match self {
                Self::Nginx { sendfile: true } => "one worker, sendfile on, open_file_cache, no access log",
                Self::Nginx { sendfile: false } => "one worker, sendfile off, open_file_cache, no access log",
                Self::Lighttpd => "one process, no access log",
            }
            .to_owned(),
            version: Some(version.trim_start_matches("nginx version: ").to_owned()),
            command: match self {
                Self::Nginx { .. } => "nginx -p SCRATCH -c CONF",
                Self::Lighttpd => "lighttpd -D -f CONF",
            }
            .to_owned(),
            config: Some(self.config(SHOWN_ADDRESS, "PORT", SHOWN_DIRECTORY, "SCRATCH")),
        })
    }

    /// Writes the configuration into `scratch` and returns the command that serves `site` at `address`.
    pub(crate) fn command(self, address: SocketAddr, site: &Path, scratch: &Path) -> Result<Vec<OsString>> {
        let path = scratch.join(format!("{}.conf", self.program()));
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        let config = self.config(&ip, &port, &site.to_string_lossy(), &scratch.to_string_lossy());
        fs::write(&path, config).with_context(|| format!("{}", path.display()))?;
        Ok(match self {
            Self::Nginx { .. } => {
                vec![self.executable().into(), "-p".into(), scratch.into(), "-c".into(), path.into()]
            }
            Self::Lighttpd => vec![self.executable().into(), "-D".into(), "-f".into(), path.into()],
        })
    }

    fn config(self, ip: &str, port: &str, site: &str, scratch: &str) -> String {
        match self {
            // master_process off: one process, whose CPU time is the server's.
            Self::Nginx { sendfile } => format!(
                "daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile {OPEN_FILES};
pid {scratch}/nginx.pid;
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
  client_body_temp_path {scratch}/nginx-body;
  proxy_temp_path {scratch}/nginx-proxy;
  fastcgi_temp_path {scratch}/nginx-fastcgi;
  uwsgi_temp_path {scratch}/nginx-uwsgi;
  scgi_temp_path {scratch}/nginx-scgi;
  types {{ text/plain txt; }}
  server {{ listen {ip}:{port} backlog=4096; root {site}; }}
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
    fn a_configuration_names_its_address_site_and_scratch_and_nothing_else_of_the_machine() {
        for peer in Peer::ALL {
            let config = peer.config("127.0.0.1", "8123", "/the/site", "/the/scratch");
            assert!(config.contains("127.0.0.1") && config.contains("8123") && config.contains("/the/site"));
            let shown = peer.config(SHOWN_ADDRESS, "PORT", SHOWN_DIRECTORY, "SCRATCH");
            assert!(!shown.contains("/the/"), "{shown}");
            assert_eq!(config.matches('{').count(), config.matches('}').count());
        }
        assert!(Peer::ALL[0].config("", "", "", "").contains("sendfile on;"));
        assert!(Peer::ALL[1].config("", "", "", "").contains("sendfile off;"));
    }

    #[test]
    fn every_peer_belongs_to_a_program_of_the_flag() {
        assert!(Peer::ALL.iter().all(|peer| PROGRAMS.contains(&peer.program())));
    }
}
