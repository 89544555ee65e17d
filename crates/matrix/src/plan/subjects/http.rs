//! Load kind `http`: files of several sizes, asked for with GET.
//!
//! If a workload has checks, the file is asked for so many times and hashed before the load, under which lengths are
//! compared: comparing or hashing large bodies would make the generator the limit. The files of a web site are asked for in
//! turn; before the load they are compared with what every server has to deliver, and under it with what came before.

use std::path::Path;

use anyhow::{Result, bail};
use loadgen::result::{BodySeen, RunResult};
use results::{Cell, Role, Workload};
use servers::{Server, Workload as Spec};

use super::{Load, Target, Timing, base, outstanding_arguments, plain, tls_arguments, words};
use crate::{
    judge::raw,
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

/// Longest body beside which a head's size is told.
const HEAD_BODY_BYTES_MAX: u64 = 64 << 10;

/// Checks one body; without a digest its content is its server's own affair.
fn check_body(body: &BodySeen, bytes: u64, sha256: Option<&str>) -> Result<()> {
    let BodySeen { request, .. } = body;
    if body.bytes != bytes {
        bail!("{request}: answers {} bytes, and all others {bytes}", body.bytes);
    }
    if body.coding != IDENTITY {
        bail!("{request}: answers in the coding {}, and all others in none", body.coding);
    }
    match (&body.sha256, sha256) {
        (Some(own), Some(expected)) if own != expected => bail!("{request}: answers another body than all others"),
        _ => Ok(()),
    }
}

/// Coding of a body that has none.
const IDENTITY: &str = "identity";

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

    fn check_bodies(&self, spec: &Spec, workload: &Workload, role: Role, run: &RunResult) -> Result<()> {
        // The files of a site are compared before the load, and a short one does not ask for all of them.
        if spec.web_site {
            return Ok(());
        }
        let expected = site::content(workload.body_bytes, workload.body_bytes);
        // The null server has a body of its own, as long as that.
        let digest = (role != Role::Null).then(|| raw::digest(&expected));
        run.bodies.iter().try_for_each(|body| check_body(body, workload.body_bytes, digest.as_deref()))
    }

    fn head_bytes(&self, spec: &Spec, run: &RunResult) -> Option<f64> {
        // Of a large body a part comes in outside the slice, which is more than a head; heads of HTTP/2 are compressed.
        let is_plain = !spec.tls && !spec.http2;
        let longest = run.bodies.iter().map(|body| body.bytes).max().filter(|bytes| *bytes <= HEAD_BODY_BYTES_MAX)?;
        let mean = run.bodies.iter().map(|body| body.bytes as f64).sum::<f64>() / run.bodies.len() as f64;
        let is_even = spec.web_site || longest as f64 == mean;
        (is_plain && is_even && run.ok > 0).then(|| (run.bytes_in as f64 / run.ok as f64 - mean).round())
    }

    fn preload_s(&self, _server: &Server, _spec: &Spec, workload: &Workload) -> f64 {
        f64::from(workload.documents.unwrap_or(0)) * workload.body_bytes as f64 / CHECK_BYTES_PER_S
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Subject, arguments, cannot_run, named, select, takes_turns},
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

    fn body(bytes: u64, coding: &str, sha256: Option<&str>) -> BodySeen {
        let (request, sha256) = ("GET /128.txt".to_owned(), sha256.map(str::to_owned));
        BodySeen { request, bytes, coding: coding.to_owned(), sha256 }
    }

    #[test]
    fn a_cell_that_answers_less_or_other_than_all_has_no_figures() {
        let right = raw::digest(&site::content(128, 128));
        let check = |body: &BodySeen| check_body(body, 128, Some(&right)).map_err(|error| error.to_string());
        assert_eq!(check(&body(128, "identity", Some(&right))), Ok(()));
        assert_eq!(check(&body(128, "identity", None)), Ok(()), "only lengths were compared");
        let refused = |given: &BodySeen| check(given).unwrap_err();
        assert!(refused(&body(127, "identity", Some(&right))).contains("127 bytes, and all others 128"));
        assert!(refused(&body(128, "gzip", Some(&right))).contains("coding gzip"));
        assert!(refused(&body(128, "identity", Some(&"0".repeat(64)))).contains("another body"));
        assert!(check_body(&body(128, "identity", Some("0")), 128, None).is_ok(), "the null server's own");
    }

    #[test]
    fn the_file_of_a_workload_is_what_is_expected() {
        let scratch = site::Scratch::new().unwrap();
        let file = std::fs::read(scratch.site().join(site::file_name(128))).unwrap();
        assert_eq!(raw::digest(&file), raw::digest(&site::content(128, 128)));
    }

    #[test]
    fn turns_are_for_closed_loops_with_an_end_by_time_over_connections_that_open_in_a_moment() {
        let takes = |name| takes_turns(&workload("http-server", name));
        let names = ["get-128B-c64", "close-128B-c64", "get-128B-c64-open", "sweep-128B-c64", "conns-9000"];
        assert_eq!(names.map(takes), [true, true, false, false, false]);
        let takes = |name| takes_turns(&workload("mq-server", name));
        let names = ["files-1MiB", "small-4KiB", "large-20x-read", "small-4KiB-open", "sweep-4KiB"];
        assert_eq!(names.map(takes), [true, true, false, false, false]);
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
