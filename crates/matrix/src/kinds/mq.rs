//! `mq-server`: files by message queue and FIFO, one large file for all and small ones as fast as they go.

use std::{
    collections::BTreeMap,
    fs::{DirBuilder, File},
    io::Write as _,
    os::unix::fs::DirBuilderExt as _,
    path::Path,
};

use anyhow::{Context, Result, bail};
use nix::sys::statvfs::statvfs;

use super::{
    super::{
        cpus::CpuList,
        model::{Cell, Role, Workload},
        peers::Peer,
        site::{self, MEMORY},
        variants,
    },
    Kind, Spec, Target, Timing, load_s, time_arguments,
};

const CALIBRATION: &str = "small-4KiB";
/// As many as the original's client started.
const CLIENTS: u32 = 20;
/// What the original's file was, 1.7 GiB, and what a quick run has instead.
const LARGE_BYTES: u64 = 1_825_361_101;
const LARGE_QUICK_BYTES: u64 = 256 << 20;
/// The directory of FIFOs, beside the files.
const FIFOS: &str = "fifos";
/// How often a file is asked for and hashed before it is measured; the large one once.
const CHECKS: u32 = 16;
const CHECK_CLIENTS: u32 = 4;
/// What the generator hashes in a second, once to know the file and once to check it.
const CHECK_BYTES_PER_S: f64 = 500e6;
/// What a client takes in a second, for the estimate of a run's time.
const READ_BYTES_PER_S: f64 = 4e9;
const SPLICE_BYTES_PER_S: f64 = 20e9;
/// Limit for one request: one of 20 that are served one after the other waits for all.
const TIMEOUT: &str = "120s";

/// What is said of a workload beside what is said of all.
struct QueueSpec {
    spec: Spec,
    sink: &'static str,
    /// Requests of each client, in a full and in a quick run; `None` is a slice of time.
    rounds: Option<[u32; 2]>,
    /// Dimensions whose choices are compared when nobody asked for others.
    varies: &'static [&'static str],
}

const BASE: QueueSpec = QueueSpec {
    spec: Spec {
        name: "",
        title: "",
        short: ["", ""],
        body_bytes: 4 << 10,
        connections: CLIENTS,
        pipeline: 1,
        is_open: false,
        is_climb: false,
        is_quick: false,
    },
    sink: "read",
    rounds: None,
    varies: &["dispatch"],
};

const SPECS: [QueueSpec; 6] = [
    QueueSpec {
        spec: Spec {
            name: "large-20x-read",
            title: "one file of 1.7 GiB (quick: 256 MiB) in memory for 20 clients that read it",
            short: ["20 × 1.7 GiB", "read"],
            body_bytes: LARGE_BYTES,
            is_quick: true,
            ..BASE.spec
        },
        rounds: Some([1, 1]),
        varies: &["copy", "dispatch"],
        ..BASE
    },
    QueueSpec {
        spec: Spec {
            name: "large-20x-splice",
            title: "the same for 20 clients that splice it to /dev/null",
            short: ["20 × 1.7 GiB", "splice"],
            body_bytes: LARGE_BYTES,
            is_quick: true,
            ..BASE.spec
        },
        sink: "splice",
        rounds: Some([2, 4]),
        varies: &["copy", "dispatch"],
    },
    QueueSpec {
        spec: Spec {
            name: "files-1MiB",
            title: "a file of 1 MiB, 20 clients that read it",
            short: ["1 MiB", "read"],
            body_bytes: 1 << 20,
            ..BASE.spec
        },
        varies: &["copy"],
        ..BASE
    },
    QueueSpec {
        spec: Spec {
            name: CALIBRATION,
            title: "a file of 4 KiB, 20 clients",
            short: ["4 KiB", "closed"],
            is_quick: true,
            ..BASE.spec
        },
        ..BASE
    },
    QueueSpec {
        spec: Spec {
            name: "small-4KiB-open",
            title: "a file of 4 KiB, 20 clients, the same offered load for all",
            short: ["4 KiB", "open"],
            is_open: true,
            ..BASE.spec
        },
        ..BASE
    },
    QueueSpec {
        spec: Spec {
            name: "climb-4KiB",
            title: "a file of 4 KiB, 20 clients, loads from a tenth of the capacity to all of it",
            short: ["4 KiB", "climb"],
            is_climb: true,
            ..BASE.spec
        },
        ..BASE
    },
];

pub(super) struct MqServer;

impl QueueSpec {
    fn named(name: &str) -> Option<&'static Self> {
        SPECS.iter().find(|spec| spec.spec.name == variants::plain(name))
    }

    fn workload(&self, is_quick: bool) -> Workload {
        let mut workload = self.spec.workload();
        let is_large = workload.body_bytes == LARGE_BYTES;
        if is_large && is_quick {
            workload.body_bytes = LARGE_QUICK_BYTES;
        }
        workload.repetitions = self.rounds.map(|[full, quick]| if is_quick { quick } else { full });
        workload.documents = Some(if is_large { 1 } else { CHECKS });
        workload
    }
}

/// A queue of this run's own: named after the temporary directory of the site.
fn queue_of(site: &str) -> String {
    let run = Path::new(site).parent().and_then(Path::file_name);
    run.map_or_else(|| "/QUEUE".to_owned(), |run| format!("/{}", run.to_string_lossy()))
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

impl Kind for MqServer {
    fn server(&self) -> &'static str {
        "mq-server"
    }

    fn load_command(&self, _role: Role) -> &'static str {
        "mq"
    }

    fn workloads(&self, is_quick: bool) -> Vec<Workload> {
        SPECS.iter().map(|spec| spec.workload(is_quick)).collect()
    }

    fn is_quick(&self, workload: &str) -> bool {
        QueueSpec::named(workload).is_some_and(|spec| spec.spec.is_quick)
    }

    fn calibration(&self) -> &'static str {
        CALIBRATION
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "The null server is the bare reference: a thread per request that splices the file into a FIFO of 1 MiB, without any check. \
             Files are in memory (tmpfs). Before each visit an answer is hashed (of small files 16); under load lengths are compared, as hashing would make the generator the limit. \
             A workload of so many requests is over with the last answer: its throughput is what all clients together got. Bytes that are spliced on both sides are never \
             copied: what is counted there are references to pages.",
        )
    }

    fn quick_note(&self) -> &'static str {
        "the large file has 256 MiB and open loops are left out"
    }

    fn quick_retry_budget_s(&self) -> f64 {
        180.0
    }

    fn peers(&self) -> &'static [&'static dyn Peer] {
        &[]
    }

    fn varies(&self, workload: &str, dimension: &str) -> bool {
        QueueSpec::named(workload).is_some_and(|spec| spec.varies.contains(&dimension))
    }

    /// A client asks again when it has its answer.
    fn pipelines(&self, _workload: &str) -> bool {
        false
    }

    fn answers(&self, _role: Role, _server: &str, _workload: &Workload) -> bool {
        true
    }

    fn why_not(&self, _cell: &Cell, _workload: &Workload, _is_quick: bool) -> Option<String> {
        None
    }

    fn prepare(&self, _cells: &[Cell], workloads: &[Workload], site: &Path, _executable: &Path) -> Result<()> {
        let memory = site.join(MEMORY);
        let fifos = memory.join(FIFOS);
        // The generator takes no other.
        let private = DirBuilder::new().recursive(true).mode(0o700).create(&fifos);
        private.with_context(|| format!("{}", fifos.display()))?;
        workloads.iter().try_for_each(|workload| write_file(&memory, workload.body_bytes))
    }

    fn server_arguments(
        &self,
        backend: &[String],
        _driver: Option<&str>,
        _cpus: &CpuList,
        connections: &str,
    ) -> Vec<String> {
        let mut words = backend.to_vec();
        // With fewer, clients wait for a worker although their FIFOs have room, as by default on one core.
        if ["pool", "handoff", "elastic", "tokio"].iter().any(|name| backend.iter().any(|word| word == name)) {
            words.extend(["--workers".to_owned(), connections.to_owned()]);
        }
        words
    }

    fn content_arguments(
        &self,
        _factors: &BTreeMap<String, String>,
        _workload: Option<&Workload>,
        site: &str,
    ) -> Vec<String> {
        let (root, queue) = (format!("{site}/{MEMORY}"), queue_of(site));
        words(["--queue", &queue, "--root", &root, "--fifo-dir", &format!("{root}/{FIFOS}")])
    }

    fn null_arguments(&self, _bytes: &str, site: &str) -> Vec<String> {
        let (root, queue) = (format!("{site}/{MEMORY}"), queue_of(site));
        let listen = format!("mq:{queue}");
        words([
            "null",
            "--protocol",
            "mq",
            "--listen",
            &listen,
            "--root",
            &root,
            "--fifo-dir",
            &format!("{root}/{FIFOS}"),
        ])
    }

    fn null_description(&self) -> &'static str {
        "the bare reference: a thread per request that splices the file into a FIFO of 1 MiB"
    }

    fn listener(&self, _workload: &Workload) -> usize {
        0
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

    /// The generator's clients may be processes, which are told before they begin when the slice does.
    fn warms_up_until_steady(&self) -> bool {
        false
    }

    fn load_s(&self, workload: &Workload, slice_s: f64, warmup_s: f64) -> f64 {
        let per_s = match QueueSpec::named(&workload.name).map(|spec| spec.sink) {
            Some("splice") => SPLICE_BYTES_PER_S,
            _ => READ_BYTES_PER_S,
        };
        let all = |each| workload.body_bytes as f64 * f64::from(workload.connections) * f64::from(each);
        workload.repetitions.map_or_else(|| load_s(workload, slice_s, warmup_s), |each| all(each) / per_s)
    }

    fn load_arguments(&self, target: &Target<'_>) -> Vec<String> {
        let sink = QueueSpec::named(&target.workload.name).map_or("read", |spec| spec.sink);
        let checked = words(["--sink", sink, "--verify", "length", "--timeout", TIMEOUT]);
        [checked, self.what(target)].concat()
    }

    fn preload_arguments(&self, target: &Target<'_>, timing: &Timing) -> Vec<String> {
        let checks = target.workload.documents.unwrap_or(1);
        let (checks, clients) = (checks.to_string(), checks.min(CHECK_CLIENTS).to_string());
        let pinned = ["--pin", &timing.client_cpus, "--format", "json", "--verify", "sha256", "--timeout", TIMEOUT];
        let asked = words([self.load_command(target.role), "-n", &checks, "--clients", &clients]);
        [asked, words(pinned), self.what(target)].concat()
    }

    fn preload_s(&self, workload: &Workload) -> f64 {
        (f64::from(workload.documents.unwrap_or(1)) + 1.0) * workload.body_bytes as f64 / CHECK_BYTES_PER_S
    }
}

impl MqServer {
    /// Whom to ask, for what, and what the answer is compared with.
    fn what(&self, target: &Target<'_>) -> Vec<String> {
        let memory = format!("{}/{MEMORY}", target.site);
        let file = site::file_name(target.workload.body_bytes);
        words(["--content", &memory, "--fifo-dir", &format!("{memory}/{FIFOS}"), target.address, &file])
    }
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
        super::{arguments, select},
        *,
    };

    fn timing() -> Timing {
        Timing { slice_s: 0.5, warmup_s: 0.3, max_warmup_s: None, client_cpus: "1".into(), client_threads: 1 }
    }

    fn workload(name: &str, is_quick: bool) -> Workload {
        select(&MqServer, &[name.to_owned()], &timing(), is_quick).remove(0)
    }

    #[test]
    fn the_generator_is_asked_for_exactly_the_workload_and_checks_it_before() {
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
        assert_eq!(workload("large-20x-splice", true).body_bytes, 256 << 20);
    }

    #[test]
    fn a_climb_takes_the_time_of_its_eleven_parts_and_every_other_workload_its_own() {
        let climb = workload("climb-4KiB", false);
        assert!(
            climb
                .command
                .starts_with("loadgen mq --clients 20 -d 167ms --warmup 100ms --rate-sweep 10%..100% --pin 1 "),
            "{}",
            climb.command
        );
        assert!((MqServer.load_s(&climb, 1.5, 0.6) - 11.0 * (0.5 + 0.2)).abs() < 1e-9);
        assert!((MqServer.load_s(&workload(CALIBRATION, false), 1.5, 0.6) - 2.1).abs() < 1e-9);
        assert!(MqServer.varies(&climb.name, "dispatch") && !MqServer.is_quick(&climb.name));
    }

    #[test]
    fn every_role_is_asked_the_same_over_a_queue_of_the_runs_own() {
        let workload = workload("large-20x-read", false);
        let of = |role| {
            let target = Target { workload: &workload, role, address: "mq:/x", site: "/tmp/run-1/site" };
            arguments(&MqServer, &target, &timing(), "7")
        };
        assert_eq!(of(Role::Null), of(Role::Ours));
        let site = "/tmp/run-1/site";
        let ours = MqServer.content_arguments(&BTreeMap::new(), None, site).join(" ");
        assert_eq!(ours, "--queue /run-1 --root /tmp/run-1/site/memory --fifo-dir /tmp/run-1/site/memory/fifos");
        let null = MqServer.null_arguments("4096", site).join(" ");
        assert!(null.starts_with("null --protocol mq --listen mq:/run-1 --root /tmp/run-1/site/memory "), "{null}");
        assert!(MqServer.content_arguments(&BTreeMap::new(), None, "SITE").contains(&"/QUEUE".to_owned()));
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
