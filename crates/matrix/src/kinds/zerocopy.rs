//! `zerocopy`: files of five sizes that lie in its cache, asked for with GET.

use std::collections::BTreeMap;

use super::{
    super::{
        model::{Cell, Role, Workload},
        peers::{Peer, web},
        site, variants,
    },
    Kind, Spec, Target, Timing,
};

const CALIBRATION: &str = "cached-26KB-c64";
/// How often the file is asked for and hashed before it is measured: the later answers come from the cache.
const CHECKS: u32 = 16;
const CHECK_CONNECTIONS: u32 = 4;
/// What the generator hashes in a second.
const CHECK_BYTES_PER_S: f64 = 500e6;

/// What is said of a workload beside what is said of all.
struct CachedSpec {
    spec: Spec,
    /// A connection for each request, as ab without `-k` makes them.
    closes: bool,
    /// Whether a run has it that names no workloads.
    is_usual: bool,
    /// Dimensions whose choices are compared when nobody asked for others.
    varies: &'static [&'static str],
}

const BASE: CachedSpec = CachedSpec {
    spec: Spec {
        name: "",
        title: "",
        short: ["", ""],
        body_bytes: 26_510,
        connections: 64,
        pipeline: 1,
        is_open: false,
        is_climb: false,
        is_quick: false,
    },
    closes: false,
    is_usual: true,
    varies: &["strategy"],
};

const SPECS: [CachedSpec; 9] = [
    CachedSpec {
        spec: Spec {
            name: CALIBRATION,
            title: "26,510-byte file, 64 connections",
            short: ["26 KB", "c64"],
            is_quick: true,
            ..BASE.spec
        },
        varies: &["strategy", "driver"],
        ..BASE
    },
    CachedSpec {
        spec: Spec {
            name: "cached-26KB-c64-open",
            title: "26,510-byte file, 64 connections, the same offered load for all",
            short: ["26 KB", "open"],
            is_open: true,
            ..BASE.spec
        },
        varies: &["strategy", "driver"],
        ..BASE
    },
    CachedSpec {
        spec: Spec {
            name: "cached-128B-c64",
            title: "128-byte file, 64 connections",
            short: ["128 B", "c64"],
            body_bytes: 128,
            is_quick: true,
            ..BASE.spec
        },
        ..BASE
    },
    CachedSpec {
        spec: Spec {
            name: "cached-4KiB-c64",
            title: "4 KiB file, 64 connections",
            short: ["4 KiB", "c64"],
            body_bytes: 4 << 10,
            ..BASE.spec
        },
        ..BASE
    },
    CachedSpec {
        spec: Spec {
            name: "cached-100KB-c64",
            title: "100,000-byte file, 64 connections",
            short: ["100 KB", "c64"],
            body_bytes: 100_000,
            ..BASE.spec
        },
        ..BASE
    },
    CachedSpec {
        spec: Spec {
            name: "cached-1MiB-c16",
            title: "1 MiB file, 16 connections",
            short: ["1 MiB", "c16"],
            body_bytes: 1 << 20,
            connections: 16,
            is_quick: true,
            ..BASE.spec
        },
        varies: &["strategy", "driver"],
        ..BASE
    },
    CachedSpec {
        spec: Spec {
            name: "cached-26KB-c500",
            title: "26,510-byte file, 500 connections: ab -k -c500",
            short: ["26 KB", "c500"],
            connections: 500,
            ..BASE.spec
        },
        ..BASE
    },
    CachedSpec {
        spec: Spec {
            name: "cached-26KB-c500-close",
            title: "26,510-byte file, 500 at once, a connection for each request: ab -c500",
            short: ["26 KB", "c500 close"],
            connections: 500,
            ..BASE.spec
        },
        closes: true,
        is_usual: false,
        ..BASE
    },
    CachedSpec {
        spec: Spec {
            name: "climb-26KB-c64",
            title: "26,510-byte file, 64 connections, loads from a tenth of the capacity to all of it",
            short: ["26 KB", "climb"],
            is_climb: true,
            ..BASE.spec
        },
        ..BASE
    },
];

pub(super) struct Zerocopy;

impl CachedSpec {
    fn named(name: &str) -> Option<&'static Self> {
        SPECS.iter().find(|spec| spec.spec.name == variants::plain(name))
    }

    fn workload(&self) -> Workload {
        Workload { documents: Some(CHECKS), ..self.spec.workload() }
    }
}

fn url(target: &Target<'_>) -> String {
    format!("http://{}/{}", target.address, site::file_name(target.workload.body_bytes))
}

impl Kind for Zerocopy {
    fn server(&self) -> &'static str {
        "zerocopy"
    }

    fn load_command(&self, _role: Role) -> &'static str {
        "http"
    }

    fn workloads(&self, _is_quick: bool) -> Vec<Workload> {
        SPECS.iter().map(CachedSpec::workload).collect()
    }

    fn is_quick(&self, workload: &str) -> bool {
        CachedSpec::named(workload).is_some_and(|spec| spec.spec.is_quick)
    }

    fn is_usual(&self, workload: &str) -> bool {
        CachedSpec::named(workload).is_some_and(|spec| spec.is_usual)
    }

    fn calibration(&self) -> &'static str {
        CALIBRATION
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Before each visit the file is asked for 16 times and hashed; under load lengths are compared, as comparing or hashing large bodies would make the generator the limit. \
             http-server, which is ours, stands among the peers.",
        )
    }

    fn quick_note(&self) -> &'static str {
        "three of the sizes run"
    }

    fn quick_retry_budget_s(&self) -> f64 {
        165.0
    }

    fn peers(&self) -> &'static [&'static dyn Peer] {
        &web::BESIDE_ZEROCOPY
    }

    fn varies(&self, workload: &str, dimension: &str) -> bool {
        CachedSpec::named(workload).is_some_and(|spec| spec.varies.contains(&dimension))
    }

    fn pipelines(&self, workload: &str) -> bool {
        CachedSpec::named(workload).is_some_and(|spec| !spec.closes)
    }

    fn answers(&self, _role: Role, _server: &str, _workload: &Workload) -> bool {
        true
    }

    fn why_not(&self, _cell: &Cell, _workload: &Workload, _is_quick: bool) -> Option<String> {
        None
    }

    fn content_arguments(
        &self,
        _factors: &BTreeMap<String, String>,
        _workload: Option<&Workload>,
        site: &str,
    ) -> Vec<String> {
        vec![site.to_owned()]
    }

    fn null_arguments(&self, bytes: &str, _site: &str) -> Vec<String> {
        ["null", "--protocol", "http", "--listen", "127.0.0.1:0", "--body-size", bytes].map(str::to_owned).to_vec()
    }

    fn listener(&self, _workload: &Workload) -> usize {
        0
    }

    fn load_arguments(&self, target: &Target<'_>) -> Vec<String> {
        let mut words = ["--verify", "length"].map(str::to_owned).to_vec();
        let closes = CachedSpec::named(&target.workload.name).is_some_and(|spec| spec.closes);
        words.extend(closes.then(|| "--no-keep-alive".to_owned()));
        words.push(url(target));
        words
    }

    fn preload_arguments(&self, target: &Target<'_>, timing: &Timing) -> Vec<String> {
        let (checks, connections) = (CHECKS.to_string(), CHECK_CONNECTIONS.to_string());
        let load = self.load_command(target.role);
        let words = [load, "-n", &checks, "-c", &connections, "-t", "1", "--pin", &timing.client_cpus];
        let checked = ["--format", "json", "--verify", "sha256", "--content-dir", target.site];
        words.into_iter().chain(checked).map(str::to_owned).chain([url(target)]).collect()
    }

    fn preload_s(&self, workload: &Workload) -> f64 {
        f64::from(CHECKS) * workload.body_bytes as f64 / CHECK_BYTES_PER_S
    }
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

    fn workload(name: &str) -> Workload {
        select(&Zerocopy, &[name.to_owned()], &timing(), false).remove(0)
    }

    #[test]
    fn every_file_that_is_asked_for_is_on_the_site() {
        assert!(SPECS.iter().all(|spec| site::SIZES.contains(&spec.spec.body_bytes)));
    }

    #[test]
    fn everybody_is_asked_the_same_and_checked_before() {
        let common = "-d 500ms --warmup 300ms --pin 1 --format json --server-pid PID --timeline --verify length";
        let kept = workload("cached-26KB-c500");
        assert_eq!(kept.command, format!("loadgen http -t 1 -c 500 {common} http://ADDR/26510.txt"));
        let closed = workload("cached-26KB-c500-close");
        assert_eq!(closed.command, format!("loadgen http -t 1 -c 500 {common} --no-keep-alive http://ADDR/26510.txt"));
        let preload = closed.preload.clone().unwrap();
        assert!(preload.starts_with("loadgen http -n 16 -c 4 -t 1 "), "{preload}");
        assert!(preload.ends_with("--verify sha256 --content-dir SITE http://ADDR/26510.txt"), "{preload}");
        for role in [Role::Ours, Role::Peer, Role::Null, Role::Control] {
            let target = Target { workload: &closed, role, address: "ADDR", site: "SITE" };
            assert_eq!(
                closed.command,
                format!("loadgen {}", arguments(&Zerocopy, &target, &timing(), "PID").join(" "))
            );
        }
    }

    #[test]
    fn strategies_are_compared_under_every_size_and_drivers_under_some() {
        for spec in &SPECS {
            assert!(Zerocopy.varies(spec.spec.name, "strategy"), "{}", spec.spec.name);
        }
        assert!(Zerocopy.varies(CALIBRATION, "driver") && !Zerocopy.varies("cached-128B-c64", "driver"));
        assert!(!Zerocopy.is_usual("cached-26KB-c500-close"), "the preset has it");
    }
}
