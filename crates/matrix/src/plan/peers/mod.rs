//! Servers that ours are compared with: how they are configured and started, other people's tuned as their documentation
//! advises for one worker.

pub(crate) mod caches;
pub(crate) mod web;

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Result;
use results::{Cell, Role, Workload};
use servers::Server;

use crate::workspace::first_line;

/// Connections and files that one worker may have open.
const OPEN_FILES: u32 = 20_000;

/// A server that is not the one to be measured, in one configuration.
pub(crate) trait Peer: Sync {
    /// The name that `--against` and filters know.
    fn name(&self) -> &'static str;

    /// Program that is installed, where it is not called by that name.
    fn executable(&self) -> &'static str {
        self.name()
    }

    /// True if it is built here, under its name.
    fn is_built(&self) -> bool {
        false
    }

    /// True if it was named on the command line: nothing is known of it but that it serves.
    fn is_given(&self) -> bool {
        false
    }

    /// The option that makes it print its version.
    fn version_option(&self) -> &'static str;

    /// The cell's id.
    fn id(&self) -> &'static str {
        self.name()
    }

    fn label(&self) -> String {
        self.id().to_owned()
    }

    /// True if it understands weights (`;q=`) in Accept-Encoding.
    fn reads_weights(&self) -> bool {
        true
    }

    /// One line on how it is configured.
    fn description(&self) -> &'static str;

    /// The command and the configuration file as a report shows them.
    fn shown(&self) -> (String, Option<String>);

    /// Writes what it needs into its directory and returns the arguments that make it serve there.
    ///
    /// # Errors
    /// A file cannot be written.
    fn arguments(&self, context: &PeerContext<'_>) -> Result<Vec<OsString>>;
}

/// Surroundings of a peer while it serves, and the workload.
pub(crate) struct PeerContext<'a> {
    pub(crate) address: SocketAddr,
    /// The files that are asked for.
    pub(crate) site: &'a Path,
    /// For its configuration.
    pub(crate) scratch: &'a Path,
    pub(crate) workload: &'a Workload,
    /// Directory of the servers that are built here.
    pub(crate) binaries: &'a Path,
}

/// Returns the peers of a server, in the order of its descriptor.
///
/// # Panics
/// There is none of a name that the descriptor has, which a test finds.
pub(crate) fn of(server: &Server) -> Vec<&'static dyn Peer> {
    let others = || web::PEERS.iter().chain(&caches::PEERS).copied();
    let find = |id: &String| -> &'static dyn Peer {
        let ours = || servers::named(id).map(|server| -> &'static dyn Peer { Box::leak(Box::new(OwnServer(server))) });
        let found = others().find(|peer| peer.id() == id).or_else(ours);
        found.unwrap_or_else(|| panic!("crates/{}/bench.toml: no peer `{id}`", server.name))
    };
    server.peers.iter().map(find).collect()
}

/// Returns the names that `--against` knows.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for name in servers::all().iter().flat_map(|server| &server.peers).filter_map(|id| id.split('/').next()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The cell, or `None` when the program is not installed.
pub(crate) fn cell(peer: &dyn Peer, binaries: &Path) -> Option<Cell> {
    let version = match peer.is_given() {
        true => None,
        false => Some(first_line(&executable(peer, binaries).to_string_lossy(), &[peer.version_option()])?),
    };
    let (command, config) = peer.shown();
    Some(Cell {
        id: peer.id().to_owned(),
        label: peer.label(),
        role: Role::Peer,
        server: peer.name().to_owned(),
        factors: [].into(),
        connection: None,
        description: peer.description().to_owned(),
        version: version.map(|version| version.trim_start_matches("nginx version: ").to_owned()),
        command,
        config,
        only_under: None,
    })
}

/// The command that serves there.
pub(crate) fn command(peer: &dyn Peer, context: &PeerContext<'_>) -> Result<Vec<OsString>> {
    let mut command = vec![executable(peer, context.binaries).into_os_string()];
    command.extend(peer.arguments(context)?);
    Ok(command)
}

/// Distributions install servers where an ordinary user's PATH does not look.
pub(crate) fn executable(peer: &dyn Peer, binaries: &Path) -> PathBuf {
    if peer.is_built() {
        return binaries.join(peer.executable());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let mut candidates = directories.map(|directory| directory.join(peer.executable()));
    candidates.find(|candidate| candidate.is_file()).unwrap_or_else(|| peer.executable().into())
}

/// Returns the arguments of one of our servers, and of a program that does its work.
fn words_of(server: &Server, address: &str, site: &str) -> Vec<String> {
    let mut words = ["--listen", address, "--threads", "1"].map(str::to_owned).to_vec();
    words.extend(servers::expand(&server.arguments, &[("site", site)]));
    words
}

/// Returns a program that does the work of a server, under the name of its row. It lives as long as the process.
pub(crate) fn given(server: &'static Server, name: &str, path: &Path) -> &'static dyn Peer {
    let path: &'static str = Box::leak(path.to_string_lossy().into_owned().into_boxed_str());
    Box::leak(Box::new(Given { server, name: Box::leak(name.to_owned().into_boxed_str()), path }))
}

/// A stranger's program, which understands the arguments of one of our servers.
struct Given {
    server: &'static Server,
    name: &'static str,
    path: &'static str,
}

impl Peer for Given {
    fn name(&self) -> &'static str {
        self.name
    }

    fn executable(&self) -> &'static str {
        self.path
    }

    fn is_given(&self) -> bool {
        true
    }

    fn version_option(&self) -> &'static str {
        "--version"
    }

    fn description(&self) -> &'static str {
        "given by --program, one thread"
    }

    fn shown(&self) -> (String, Option<String>) {
        (format!("{} {}", self.name, words_of(self.server, "ADDR", "SITE").join(" ")), None)
    }

    fn arguments(&self, context: &PeerContext<'_>) -> Result<Vec<OsString>> {
        let words = words_of(self.server, &context.address.to_string(), &context.site.to_string_lossy());
        Ok(words.into_iter().map(OsString::from).collect())
    }
}

/// One of our servers with its default back end, beside another.
struct OwnServer(&'static Server);

impl Peer for OwnServer {
    fn name(&self) -> &'static str {
        &self.0.name
    }

    fn is_built(&self) -> bool {
        true
    }

    fn version_option(&self) -> &'static str {
        "--version"
    }

    fn description(&self) -> &'static str {
        "ours, one thread, default back end"
    }

    fn shown(&self) -> (String, Option<String>) {
        (format!("{} {}", self.name(), words_of(self.0, "ADDR", "SITE").join(" ")), None)
    }

    fn arguments(&self, context: &PeerContext<'_>) -> Result<Vec<OsString>> {
        let words = words_of(self.0, &context.address.to_string(), &context.site.to_string_lossy());
        Ok(words.into_iter().map(OsString::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::subjects::{SUBJECTS, Subject};

    #[test]
    fn what_is_shown_of_a_peer_names_nothing_of_the_machine() {
        for peer in SUBJECTS.iter().flat_map(Subject::peers) {
            let (command, config) = peer.shown();
            let shown = command + &config.unwrap_or_default();
            let words = ["ADDR", "PORT", "CONF"];
            assert!(words.iter().any(|word| shown.contains(word)), "{shown}");
            assert!(!shown.contains("/tmp") && !shown.contains("/usr"), "{shown}");
        }
    }

    #[test]
    fn every_peer_has_a_name_of_its_own_and_its_cells_an_id() {
        assert_eq!(names(), ["nginx", "lighttpd", "h2o", "caddy", "redis", "memcached", "http-server"]);
        for subject in SUBJECTS.iter() {
            let ids: std::collections::BTreeSet<&str> = subject.peers().iter().map(|peer| peer.id()).collect();
            assert_eq!(ids.len(), subject.peers().len());
        }
    }
}
