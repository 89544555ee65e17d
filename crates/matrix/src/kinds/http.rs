//! `http-server`: files of three sizes, asked for with GET.

use std::collections::BTreeMap;

use super::{
    super::{
        model::{Cell, Role, Workload},
        peers::{Peer, web},
        site,
    },
    Kind, Spec, Target, Timing,
};

const CALIBRATION: &str = "get-128B-c64";

const SPECS: [Spec; 7] = [
    Spec {
        name: CALIBRATION,
        title: "128-byte file, 64 connections",
        short: ["128 B", "c64"],
        body_bytes: 128,
        connections: 64,
        pipeline: 1,
        is_open: false,
        is_climb: false,
        is_quick: true,
    },
    Spec {
        name: "get-128B-c64-open",
        title: "128-byte file, 64 connections, the same offered load for all",
        short: ["128 B", "open"],
        body_bytes: 128,
        connections: 64,
        pipeline: 1,
        is_open: true,
        is_climb: false,
        is_quick: true,
    },
    Spec {
        name: "get-26KB-c64",
        title: "26,510-byte file, 64 connections",
        short: ["26 KB", "c64"],
        body_bytes: 26_510,
        connections: 64,
        pipeline: 1,
        is_open: false,
        is_climb: false,
        is_quick: true,
    },
    Spec {
        name: "get-1MiB-c16",
        title: "1 MiB file, 16 connections",
        short: ["1 MiB", "c16"],
        body_bytes: 1 << 20,
        connections: 16,
        pipeline: 1,
        is_open: false,
        is_climb: false,
        is_quick: true,
    },
    Spec {
        name: "pipelined-16",
        title: "128-byte file, 64 connections, 16 requests outstanding on each",
        short: ["128 B", "piped 16"],
        body_bytes: 128,
        connections: 64,
        pipeline: 16,
        is_open: false,
        is_climb: false,
        is_quick: true,
    },
    Spec {
        name: "conns-9000",
        title: "128-byte file, 9,000 connections",
        short: ["128 B", "c9000"],
        body_bytes: 128,
        connections: 9_000,
        pipeline: 1,
        is_open: false,
        is_climb: false,
        is_quick: false,
    },
    Spec {
        name: "climb-128B-c64",
        title: "128-byte file, 64 connections, loads from a tenth of the capacity to all of it",
        short: ["128 B", "climb"],
        body_bytes: 128,
        connections: 64,
        pipeline: 1,
        is_open: false,
        is_climb: true,
        is_quick: false,
    },
];

/// What wrk asked the original for, and the same with as many connections as `pool` and `blocking` can take. wrk counted
/// 1,687 bytes per response, which are a page of this size and our header.
const ORIGINAL: [Spec; 2] = [
    Spec {
        name: "original-c10000",
        title: "1,470-byte file, 10,000 connections: wrk -c10000",
        short: ["1.5 KB", "c10000"],
        body_bytes: 1_470,
        connections: 10_000,
        is_quick: false,
        ..SPECS[0]
    },
    Spec {
        name: "original-c1000",
        title: "1,470-byte file, 1,000 connections",
        short: ["1.5 KB", "c1000"],
        body_bytes: 1_470,
        connections: 1_000,
        is_quick: false,
        ..SPECS[0]
    },
];

pub(super) struct HttpServer;

impl Kind for HttpServer {
    fn server(&self) -> &'static str {
        "http-server"
    }

    fn load_command(&self, _role: Role) -> &'static str {
        "http"
    }

    fn workloads(&self, _is_quick: bool) -> Vec<Workload> {
        SPECS.iter().chain(&ORIGINAL).map(Spec::workload).collect()
    }

    fn is_usual(&self, workload: &str) -> bool {
        ORIGINAL.iter().all(|spec| spec.name != workload)
    }

    fn is_quick(&self, workload: &str) -> bool {
        SPECS.iter().any(|spec| spec.name == workload && spec.is_quick)
    }

    fn calibration(&self) -> &'static str {
        CALIBRATION
    }

    fn note(&self) -> Option<&'static str> {
        None
    }

    fn quick_note(&self) -> &'static str {
        "peers run the 128-byte workloads only"
    }

    fn quick_retry_budget_s(&self) -> f64 {
        165.0
    }

    fn peers(&self) -> &'static [&'static dyn Peer] {
        &web::PEERS
    }

    fn varies(&self, _workload: &str, _dimension: &str) -> bool {
        true
    }

    fn answers(&self, _role: Role, _server: &str, _workload: &Workload) -> bool {
        true
    }

    fn why_not(&self, cell: &Cell, workload: &Workload, is_quick: bool) -> Option<String> {
        let is_basic = workload.body_bytes == 128 && workload.pipeline == 1;
        (is_quick && cell.role == Role::Peer && !is_basic).then(|| "left out of a quick run".to_owned())
    }

    fn content_arguments(
        &self,
        _factors: &BTreeMap<String, String>,
        _workload: Option<&Workload>,
        site: &str,
    ) -> Vec<String> {
        vec!["-d".to_owned(), site.to_owned()]
    }

    fn null_arguments(&self, bytes: &str, _site: &str) -> Vec<String> {
        ["null", "--protocol", "http", "--listen", "127.0.0.1:0", "--body-size", bytes].map(str::to_owned).to_vec()
    }

    fn listener(&self, _workload: &Workload) -> usize {
        0
    }

    fn load_arguments(&self, target: &Target<'_>) -> Vec<String> {
        vec![format!("http://{}/{}", target.address, site::file_name(target.workload.body_bytes))]
    }

    fn preload_arguments(&self, _target: &Target<'_>, _timing: &Timing) -> Vec<String> {
        Vec::new()
    }

    fn preload_s(&self, _workload: &Workload) -> f64 {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::samples, cannot_run},
        *,
    };

    #[test]
    fn every_file_that_is_asked_for_is_on_the_site() {
        assert!(SPECS.iter().chain(&ORIGINAL).all(|spec| site::SIZES.contains(&spec.body_bytes)));
        assert_eq!(SPECS.iter().filter(|spec| spec.is_quick).count(), 5);
    }

    #[test]
    fn the_originals_load_is_asked_for_by_name_or_preset_and_needs_ten_thousand_descriptors() {
        let workloads = HttpServer.workloads(false);
        let original = workloads.iter().find(|workload| workload.name == "original-c10000").unwrap();
        assert!(!HttpServer.is_usual(&original.name) && HttpServer.is_usual("conns-9000"));
        let why_not = |driver, open_files| {
            let cell = samples::cell("http-server/x", Role::Ours, Some(driver));
            cannot_run(&HttpServer, &cell, original, open_files, true)
        };
        assert_eq!(why_not("epoll", 10_200), None);
        assert!(why_not("epoll", 10_199).unwrap().contains("10199 open files"));
        assert!(why_not("pool", 1 << 20).unwrap().contains("a worker per connection"));
    }
}
