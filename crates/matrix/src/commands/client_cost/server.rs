//! Servers that the clients ask: the null server, `http-server`, and others' as the matrix starts them.

use std::{
    ffi::OsString,
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::{Args, FILE, KEYS, Language, REDIS, Workload};
use crate::{
    plan::{
        peers::{self, PeerContext, caches, web},
        subjects,
    },
    run::process::Process,
};

/// Server on a CPU of its own; it ends when this is dropped.
pub(super) struct Server {
    pub(super) address: String,
    /// Another's.
    peer: Option<&'static str>,
    _process: Process,
    /// Its files, and what a peer needs.
    _scratch: TempDir,
}

impl Server {
    /// Starts it and fills it; `None`: it is another's, and not installed.
    pub(super) fn start(ours: &Path, workload: &Workload, args: &Args) -> Result<Option<Self>> {
        let scratch = tempfile::tempdir().context("temporary directory")?;
        let (site, log) = (scratch.path().join("site"), scratch.path().join("server.log"));
        fs::create_dir(&site).context("directory of the file")?;
        fs::write(site.join("index.html"), vec![b'x'; FILE.0]).context("the file")?;
        let (process, address) = match workload.server {
            Some(id) => {
                let Some(started) = start_peer(id, ours, workload.language, &scratch, &site, args)? else {
                    return Ok(None);
                };
                started
            }
            None => {
                let command = own_command(ours, workload.language, &site);
                let mut process = Process::start(&command, &[args.server_cpu], &log, Stdio::piped())?;
                let address = process.wait_for_ready_line(0)?;
                (process, address)
            }
        };
        let server = Self { address, peer: workload.server, _process: process, _scratch: scratch };
        if server.keeps_keys() {
            let mut fill = Command::new(ours.join("loadgen"));
            fill.args(["kv", "--workload", "preload", "--keys", KEYS.0, "-P", "100", "-t", "1", &server.address]);
            let output = fill.output().context("cannot run loadgen")?;
            if !output.status.success() {
                bail!("the keys were not stored: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
        Ok(Some(server))
    }

    /// True if it has to be asked for what it was given.
    pub(super) fn keeps_keys(&self) -> bool {
        self.peer == REDIS
    }
}

/// The null server, or `http-server` for HTTP/2.
fn own_command(ours: &Path, language: Language, site: &Path) -> Vec<OsString> {
    let listen = ["--listen", "127.0.0.1:0"].map(OsString::from);
    let (program, words, site) = match language {
        Language::Http1 => ("loadgen", &["null", "--protocol", "http"][..], None),
        Language::Resp => ("loadgen", &["null", "--protocol", "resp"][..], None),
        Language::Http2 => ("http-server", &["--driver", "epoll", "--threads", "1"][..], Some(site.into())),
    };
    let words = words.iter().map(OsString::from);
    [ours.join(program).into()].into_iter().chain(words).chain(listen).chain(site).collect()
}

/// Starts another's server as the matrix does, `None` where it is not installed.
fn start_peer(
    id: &str,
    ours: &Path,
    language: Language,
    scratch: &TempDir,
    site: &Path,
    args: &Args,
) -> Result<Option<(Process, String)>> {
    let peer = web::PEERS.iter().chain(&caches::PEERS).find(|peer| peer.id() == id);
    let peer = *peer.with_context(|| format!("no peer `{id}`"))?;
    if peers::cell(peer, ours).is_none() {
        return Ok(None);
    }
    let name = if language == Language::Resp { KEYS.1 } else { FILE.1 };
    let mut workloads = subjects::SUBJECTS.iter().flat_map(|subject| subject.workloads(false));
    let workload =
        &workloads.find(|workload| workload.name == name).with_context(|| format!("no workload `{name}`"))?;
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).context("a free port")?;
    let context = PeerContext { address, site, scratch: scratch.path(), workload, binaries: ours };
    let log = scratch.path().join("server.log");
    let mut process = Process::start(&peers::command(peer, &context)?, &[args.server_cpu], &log, Stdio::null())?;
    process.wait_for_accept(address)?;
    Ok(Some((process, address.to_string())))
}
