//! Load kind `http`: files of several sizes, asked for with GET.
//!
//! If a workload has checks, the file is asked for so many times and hashed before the load, under which lengths are
//! compared: comparing or hashing large bodies would make the generator the limit. The files of a web site are asked for in
//! turn; before the load they are compared with what every server has to deliver, and under it with what came before.

use std::path::Path;

use anyhow::Result;
use loadgen::result::RunResult;
use results::{Cell, Role, Workload};
use servers::{Server, Workload as Spec};

use super::{Load, Target, Timing, base, outstanding_arguments, plain, tls_arguments, words};
use crate::{
    plan::peers::web::site_coding,
    run::site::{self, web},
};

const CHECK_CONNECTIONS: u32 = 4;
/// Bytes that the generator hashes in a second.
const CHECK_BYTES_PER_S: f64 = 500e6;

pub(super) struct Http;

/// Returns the arguments that say what is asked for.
fn asked_for(spec: &Spec, target: &Target<'_>) -> Vec<String> {
    let scheme = if spec.tls { "https" } else { "http" };
    let base = format!("{scheme}://{}/", target.address);
    let mut words = tls_arguments(spec);
    match spec.web_site {
        false => words.push(base + &site::file_name(target.workload.body_bytes)),
        true => {
            let paths = web::paths(target.site);
            words.extend(["-H", site_coding().field(), "--paths", &paths, &base].map(str::to_owned));
        }
    }
    words
}

/// Rounds in which a site is asked for before the load: the second finds what the first made the server keep.
const SITE_ROUNDS: u32 = 2;

impl Load for Http {
    fn command(&self, _role: Role) -> &'static str {
        "http"
    }

    fn workload(&self, _server: &Server, spec: &Spec, _is_quick: bool) -> Workload {
        let checks = if spec.web_site { Some(SITE_ROUNDS * web::count()) } else { spec.checks };
        Workload { documents: checks, ..base(spec) }
    }

    /// The null server is a bare loop around one answer of HTTP/1.1.
    fn answers(&self, role: Role, _server: &str, spec: &Spec) -> bool {
        role != Role::Null || !(spec.tls || spec.http2)
    }

    fn outstanding_arguments(&self, spec: &Spec, outstanding: u32) -> Vec<String> {
        match spec.http2 {
            true => words(["--http2", "--streams", &outstanding.to_string()]),
            false => outstanding_arguments(outstanding),
        }
    }

    fn prepare(
        &self,
        server: &Server,
        _cells: &[Cell],
        workloads: &[Workload],
        site: &Path,
        _executable: &Path,
    ) -> Result<()> {
        let mut specs = workloads.iter().filter_map(|workload| server.workload(plain(&workload.name)));
        if specs.any(|spec| spec.web_site) { web::write(site) } else { Ok(()) }
    }

    fn null_arguments(&self, bytes: &str, _site: &str) -> Vec<String> {
        words(["null", "--protocol", "http", "--listen", "127.0.0.1:0", "--body-size", bytes])
    }

    fn load_arguments(&self, _server: &Server, spec: &Spec, target: &Target<'_>) -> Vec<String> {
        let mut words = Vec::new();
        let is_hashed_before = spec.checks.is_some() && !spec.web_site;
        words.extend(is_hashed_before.then_some(["--verify", "length"].map(str::to_owned)).into_iter().flatten());
        words.extend(spec.connection_per_request.then(|| "--no-keep-alive".to_owned()));
        words.extend_from_slice(&spec.load_arguments);
        words.extend(asked_for(spec, target));
        words
    }

    fn preload_arguments(&self, _server: &Server, spec: &Spec, target: &Target<'_>, timing: &Timing) -> Vec<String> {
        let checks = target.workload.documents.unwrap_or(1).to_string();
        let connections = if spec.web_site { 1 } else { CHECK_CONNECTIONS }.to_string();
        let load = self.command(target.role);
        let asked = [load, "-n", &checks, "-c", &connections, "-t", "1", "--pin", &timing.client_cpus];
        let checked = match spec.web_site {
            true => words(["--format", "json"]),
            false => words(["--format", "json", "--verify", "sha256", "--content-dir", target.site]),
        };
        let http2 = if spec.http2 { vec!["--http2".to_owned()] } else { Vec::new() };
        [words(asked), checked, http2, asked_for(spec, target)].concat()
    }

    fn check_answers(&self, spec: &Spec, site: &Path, run: &RunResult) -> Result<()> {
        if spec.web_site { web::check(site, site_coding(), &run.bodies) } else { Ok(()) }
    }

    fn preload_s(&self, _server: &Server, _spec: &Spec, workload: &Workload) -> f64 {
        f64::from(workload.documents.unwrap_or(0)) * workload.body_bytes as f64 / CHECK_BYTES_PER_S
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Subject, arguments, cannot_run, named, select},
        *,
    };
    use crate::samples;

    fn timing() -> Timing {
        Timing { slice_s: 0.5, warmup_s: 0.3, max_warmup_s: None, client_cpus: "1".into(), client_threads: 1 }
    }

    fn workload(server: &str, name: &str) -> Workload {
        select(subject(server), &[name.to_owned()], &timing(), false).remove(0)
    }

    fn subject(server: &str) -> &'static Subject {
        named(server).unwrap()
    }

    #[test]
    fn a_workload_by_name_or_preset_only_needs_its_descriptors() {
        let http = subject("http-server");
        let original = workload("http-server", "original-c10000");
        assert!(!http.is_usual(&original.name) && http.is_usual("conns-9000"));
        let why_not = |driver, open_files| {
            let cell = samples::cell("http-server/x", Role::Ours, Some(driver));
            cannot_run(http, &cell, &original, open_files, true)
        };
        assert_eq!(why_not("epoll", 10_200), None);
        assert!(why_not("epoll", 10_199).unwrap().contains("10199 open files"));
        assert!(why_not("pool", 1 << 20).unwrap().contains("a worker per connection"));
    }

    #[test]
    fn every_role_is_asked_the_same_and_checked_before() {
        let common = "-d 500ms --warmup 300ms --pin 1 --format json --server-pid PID --timeline --verify length";
        let kept = workload("zerocopy", "cached-26KB-c500");
        assert_eq!(kept.command, format!("loadgen http -t 1 -c 500 {common} http://ADDR/26510.txt"));
        let closed = workload("zerocopy", "cached-26KB-c500-close");
        assert_eq!(closed.command, format!("loadgen http -t 1 -c 500 {common} --no-keep-alive http://ADDR/26510.txt"));
        let preload = closed.preload.clone().unwrap();
        assert!(preload.starts_with("loadgen http -n 16 -c 4 -t 1 "), "{preload}");
        assert!(preload.ends_with("--verify sha256 --content-dir SITE http://ADDR/26510.txt"), "{preload}");
        for role in [Role::Ours, Role::Peer, Role::Null, Role::Control] {
            let target = Target { workload: &closed, role, address: "ADDR", site: "SITE" };
            let words = arguments(subject("zerocopy"), &target, &timing(), "PID").join(" ");
            assert_eq!(closed.command, format!("loadgen {words}"));
        }
    }

    #[test]
    fn strategies_vary_under_every_size_drivers_under_some() {
        let zerocopy = subject("zerocopy");
        for workload in zerocopy.workloads(false) {
            assert!(zerocopy.varies(&workload.name, "strategy"), "{}", workload.name);
        }
        let (some, other) = ("cached-26KB-c64", "cached-128B-c64");
        assert!(zerocopy.varies(some, "driver") && !zerocopy.varies(other, "driver"));
        assert!(!zerocopy.is_usual("cached-26KB-c500-close"), "the preset has it");
    }
}
