//! Load kind `mq`: files by message queue and FIFO, one large file for all clients and small ones as fast as they go.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{DirBuilder, File},
    io::Write as _,
    os::unix::fs::DirBuilderExt as _,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result, bail};
use nix::sys::statvfs::statvfs;
use results::{Cell, Role, Workload};
use servers::{Server, Workload as Spec};

use super::{Load, Target, Timing, base, load_s, time_arguments, words};
use crate::{
    plan::cpus::CpuList,
    run::site::{self, MEMORY},
};

/// Directory of FIFOs, beside the files.
const FIFOS: &str = "fifos";
const CHECK_CLIENTS: u32 = 4;
/// Bytes that the generator hashes in a second, once to know the file and once to check it.
const CHECK_BYTES_PER_S: f64 = 500e6;
/// Bytes that a client takes in a second, for the estimate of a run's time.
const READ_BYTES_PER_S: f64 = 4e9;
const SPLICE_BYTES_PER_S: f64 = 20e9;
/// Limit for one request: one of 20 that are served one after the other waits for all.
const TIMEOUT: &str = "120s";

pub(super) struct Mq;

/// Returns a queue of this run's own, named after the temporary directory of the site.
fn queue_of(site: &str) -> String {
    let run = Path::new(site).parent().and_then(Path::file_name);
    run.map_or_else(|| "/QUEUE".to_owned(), |run| format!("/{}", run.to_string_lossy()))
}

fn sink(spec: &Spec) -> &str {
    spec.sink.as_deref().unwrap_or("read")
}

impl Load for Mq {
    fn command(&self, _role: Role) -> &'static str {
        "mq"
    }

    fn workload(&self, _server: &Server, spec: &Spec, is_quick: bool) -> Workload {
        let body_bytes = spec.quick_body_bytes.filter(|_| is_quick).unwrap_or(spec.body_bytes);
        let repetitions = spec.rounds.map(|[full, quick]| if is_quick { quick } else { full });
        Workload { body_bytes, repetitions, documents: Some(spec.checks.unwrap_or(1)), ..base(spec) }
    }

    /// A client asks again when it has its answer.
    fn pipelines(&self, _spec: &Spec) -> bool {
        false
    }

    fn prepare(
        &self,
        _server: &Server,
        _cells: &[Cell],
        workloads: &[Workload],
        site: &Path,
        _executable: &Path,
    ) -> Result<()> {
        let memory = site.join(MEMORY);
        let fifos = memory.join(FIFOS);
        // The generator takes no other.
        let private = DirBuilder::new().recursive(true).mode(0o700).create(&fifos);
        private.with_context(|| format!("{}", fifos.display()))?;
        workloads.iter().try_for_each(|workload| write_file(&memory, workload.body_bytes))
    }

    fn places(
        &self,
        _server: &Server,
        _factors: &BTreeMap<String, String>,
        _spec: Option<&Spec>,
        site: &str,
    ) -> Vec<(&'static str, String)> {
        let memory = format!("{site}/{MEMORY}");
        vec![("queue", queue_of(site)), ("fifos", format!("{memory}/{FIFOS}")), ("memory", memory)]
    }

    /// It listens at a queue, and its threads are those that serve clients.
    fn server_arguments(&self, backend: &[String], _cpus: &CpuList) -> Vec<String> {
        backend.to_vec()
    }

    fn null_arguments(&self, _bytes: &str, site: &str) -> Vec<String> {
        let (root, listen) = (format!("{site}/{MEMORY}"), format!("mq:{}", queue_of(site)));
        let fifos = format!("{root}/{FIFOS}");
        words(["null", "--protocol", "mq", "--listen", &listen, "--root", &root, "--fifo-dir", &fifos])
    }

    fn null_description(&self) -> &'static str {
        "the bare reference: a thread per request that splices the file into a FIFO of 1 MiB"
    }

    /// A client is a thread: there is no number of threads beside.
    fn amount_arguments(&self, workload: &Workload, timing: &Timing) -> Vec<String> {
        let mut words = words(["--clients", &workload.connections.to_string()]);
        match workload.repetitions {
            Some(each) => words.extend(["-n".to_owned(), (workload.connections * each).to_string()]),
            None => words.extend(time_arguments(workload, timing)),
        }
        words
    }

    /// Each server has a queue of its own.
    fn apart(&self, command: Vec<OsString>, site: &str) -> Vec<OsString> {
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        let (queue, number) = (queue_of(site), SERVERS.fetch_add(1, Ordering::Relaxed));
        let is_queue = |word: &OsString| word.to_str().is_some_and(|word| word.trim_start_matches("mq:") == queue);
        let own = |word: OsString| if is_queue(&word) { format!("{}-{number}", word.display()).into() } else { word };
        command.into_iter().map(own).collect()
    }

    /// Its clients are requestors, and its replies come by FIFO.
    fn has_agents(&self) -> bool {
        false
    }

    fn warms_up_until_steady(&self) -> bool {
        false
    }

    fn load_s(&self, spec: Option<&Spec>, workload: &Workload, slice_s: f64, warmup_s: f64) -> f64 {
        let round_s = self.round_s(spec, workload).zip(workload.repetitions);
        round_s.map_or_else(|| load_s(workload, slice_s, warmup_s), |(round_s, each)| round_s * f64::from(each))
    }

    fn round_s(&self, spec: Option<&Spec>, workload: &Workload) -> Option<f64> {
        let per_s = if spec.is_some_and(|spec| sink(spec) == "splice") { SPLICE_BYTES_PER_S } else { READ_BYTES_PER_S };
        let all = workload.body_bytes as f64 * f64::from(workload.connections);
        workload.repetitions.map(|_| all / per_s)
    }

    fn load_arguments(&self, _server: &Server, spec: &Spec, target: &Target<'_>) -> Vec<String> {
        let checked = words(["--sink", sink(spec), "--verify", "length", "--timeout", TIMEOUT]);
        [checked, spec.load_arguments.clone(), request(target)].concat()
    }

    fn preload_arguments(&self, _server: &Server, _spec: &Spec, target: &Target<'_>, timing: &Timing) -> Vec<String> {
        let checks = target.workload.documents.unwrap_or(1);
        let (checks, clients) = (checks.to_string(), checks.min(CHECK_CLIENTS).to_string());
        let pinned = ["--pin", &timing.client_cpus, "--format", "json", "--verify", "sha256", "--timeout", TIMEOUT];
        let asked = words([self.command(target.role), "-n", &checks, "--clients", &clients]);
        [asked, words(pinned), request(target)].concat()
    }

    fn preload_only_checks(&self) -> bool {
        true
    }

    fn preload_s(&self, _server: &Server, _spec: &Spec, workload: &Workload) -> f64 {
        (f64::from(workload.documents.unwrap_or(1)) + 1.0) * workload.body_bytes as f64 / CHECK_BYTES_PER_S
    }
}

/// Returns the server to ask, the file to ask for, and the content to compare with.
fn request(target: &Target<'_>) -> Vec<String> {
    let memory = format!("{}/{MEMORY}", target.site);
    let file = site::file_name(target.workload.body_bytes);
    words(["--content", &memory, "--fifo-dir", &format!("{memory}/{FIFOS}"), target.address, &file])
}

/// Writes a file of so many bytes, unless it is there: blocks of 1 MiB, no two alike.
fn write_file(memory: &Path, bytes: u64) -> Result<()> {
    const BLOCK_BYTES: u64 = 1 << 20;
    let path = memory.join(site::file_name(bytes));
    if path.exists() {
        return Ok(());
    }
    let place = statvfs(memory).with_context(|| format!("{}", memory.display()))?;
    let free = place.blocks_available() as u64 * place.fragment_size() as u64;
    if free < bytes + bytes / 8 {
        bail!(
            "{}: {} MiB are free, a file of {} MiB is to be written (--quick has a smaller one)",
            memory.display(),
            free >> 20,
            bytes >> 20
        );
    }
    let write = || {
        let mut file = File::create(&path)?;
        let mut block = site::content(BLOCK_BYTES, bytes);
        for begin in (0..bytes).step_by(BLOCK_BYTES as usize) {
            block[..8].copy_from_slice(&begin.to_be_bytes());
            file.write_all(&block[..(bytes - begin).min(BLOCK_BYTES) as usize])?;
        }
        Ok::<(), std::io::Error>(())
    };
    write().with_context(|| format!("{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Subject, arguments, named, select},
        *,
    };

    fn mq() -> &'static Subject {
        named("mq-server").unwrap()
    }

    fn timing() -> Timing {
        Timing { slice_s: 0.5, warmup_s: 0.3, max_warmup_s: None, client_cpus: "1".into(), client_threads: 1 }
    }

    fn workload(name: &str, is_quick: bool) -> Workload {
        select(mq(), &[name.to_owned()], &timing(), is_quick).remove(0)
    }

    #[test]
    fn the_generator_gets_the_workload_and_checks_it_first() {
        let what = "--content SITE/memory --fifo-dir SITE/memory/fifos ADDR";
        let small = workload("small-4KiB", false);
        assert_eq!(
            small.command,
            format!(
                "loadgen mq --clients 20 -d 500ms --warmup 300ms --pin 1 --format json --server-pid PID --timeline --sink read --verify length --timeout 120s {what} 4096.txt"
            )
        );
        assert_eq!(
            small.preload.unwrap(),
            format!(
                "loadgen mq -n 16 --clients 4 --pin 1 --format json --verify sha256 --timeout 120s {what} 4096.txt"
            )
        );
        let large = workload("large-20x-splice", false);
        assert!(large.command.starts_with("loadgen mq --clients 20 -n 40 --pin 1 "), "{}", large.command);
        assert!(large.command.contains("--sink splice") && large.command.ends_with("1825361101.txt"));
        assert!(large.preload.unwrap().starts_with("loadgen mq -n 1 --clients 1 "));
        assert_eq!(workload("large-20x-splice", true).body_bytes, 64 << 20);
    }

    #[test]
    fn a_load_sweep_takes_the_time_of_its_eleven_parts() {
        let sweep = workload("sweep-4KiB", false);
        assert!(
            sweep
                .command
                .starts_with("loadgen mq --clients 20 -d 167ms --warmup 100ms --rate-sweep 10%..100% --pin 1 "),
            "{}",
            sweep.command
        );
        assert!((mq().load_s(&sweep, 1.5, 0.6) - 11.0 * (0.5 + 0.2)).abs() < 1e-9);
        assert!((mq().load_s(&workload(mq().calibration("small-4KiB-open"), false), 1.5, 0.6) - 2.1).abs() < 1e-9);
        assert!(mq().varies(&sweep.name, "dispatch") && !mq().is_quick(&sweep.name));
    }

    #[test]
    fn every_role_is_asked_the_same_over_a_queue_of_the_runs_own() {
        let workload = workload("large-20x-read", false);
        let of = |role| {
            let target = Target { workload: &workload, role, address: "mq:/x", site: "/tmp/run-1/site" };
            arguments(mq(), &target, &timing(), "7")
        };
        assert_eq!(of(Role::Null), of(Role::Ours));
        let site = "/tmp/run-1/site";
        let ours = mq().content_arguments(&BTreeMap::new(), None, site).join(" ");
        assert_eq!(ours, "--queue /run-1 --root /tmp/run-1/site/memory --fifo-dir /tmp/run-1/site/memory/fifos");
        let null = mq().null_arguments("4096", site).join(" ");
        assert!(null.starts_with("null --protocol mq --listen mq:/run-1 --root /tmp/run-1/site/memory "), "{null}");
        assert!(mq().content_arguments(&BTreeMap::new(), None, "SITE").contains(&"/QUEUE".to_owned()));
    }

    #[test]
    fn two_servers_of_a_run_have_a_queue_each() {
        let site = "/tmp/run-1/site";
        let ours = mq().content_arguments(&BTreeMap::new(), None, site);
        let null = mq().null_arguments("4096", site);
        let started = |words: &[String]| {
            let words = words.iter().map(OsString::from).collect();
            mq().apart(words, site).into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>()
        };
        let (first, second, third) = (started(&ours), started(&ours), started(&null));
        let queue = |words: &[String]| {
            let own = words.iter().filter(|word| word.trim_start_matches("mq:").starts_with("/run-1-"));
            own.cloned().collect::<Vec<_>>()
        };
        let queues = [queue(&first), queue(&second), queue(&third)].concat();
        assert!(queues.len() == 3 && queues[0] != queues[1] && queues[2].starts_with("mq:"), "{queues:?}");
        assert_eq!(first.len(), ours.len());
        let others = |words: &[String]| {
            words
                .iter()
                .filter(|word| !word.contains("/run-1") || word.starts_with("/tmp"))
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(others(&first), others(&ours));
    }

    #[test]
    fn files_have_their_length_and_no_two_blocks_are_alike() {
        let directory = tempfile::tempdir().unwrap();
        let bytes = (3 << 20) + 5;
        write_file(directory.path(), bytes).unwrap();
        let file = std::fs::read(directory.path().join(site::file_name(bytes))).unwrap();
        assert_eq!(file.len() as u64, bytes);
        let blocks: std::collections::BTreeSet<&[u8]> = file.chunks(1 << 20).collect();
        assert_eq!(blocks.len(), 4);
        let error = write_file(directory.path(), u64::MAX / 16).unwrap_err().to_string();
        assert!(error.contains("MiB are free"), "{error}");
    }
}
