//! The workloads of kvcache's original: what its test asked, by so many clients, whatever the server was.

use super::Spec;
use super::specs::{BASE, KEYS, KV, KvSpec};

/// As many as the original's test had processes.
const CLIENTS: u32 = 96;
const BATCH: u32 = 100;

/// Its own protocol, and Redis's where it asked Redis.
const ORIGINAL: KvSpec =
    KvSpec { protocol: "us", beside: Some("resp"), keys: KEYS / 2, is_usual: false, varies: &["driver"], ..KV };
const CLIENT: Spec = Spec { connections: CLIENTS, ..BASE };

pub(super) const SPECS: [KvSpec; 5] = [
    KvSpec {
        spec: Spec {
            name: "original-get",
            title: "the original's GET: 0x1F protocol (Redis: RESP), 96 clients, one at a time",
            short: ["original get", "P1"],
            ..CLIENT
        },
        ..ORIGINAL
    },
    KvSpec {
        spec: Spec {
            name: "original-get-P100",
            title: "the original's GET, 100 at a time",
            short: ["original get", "P100"],
            pipeline: BATCH,
            ..CLIENT
        },
        ..ORIGINAL
    },
    KvSpec {
        spec: Spec {
            name: "original-set-P100",
            title: "the original's SET, 100 at a time",
            short: ["original set", "P100"],
            pipeline: BATCH,
            ..CLIENT
        },
        asks: &["--workload", "set"],
        ..ORIGINAL
    },
    KvSpec {
        spec: Spec {
            name: "original-del-P100",
            title: "the original's DEL, 100 at a time: each key once, until none is left",
            short: ["original del", "P100"],
            pipeline: BATCH,
            ..CLIENT
        },
        asks: &["--workload", "del"],
        keys: KEYS,
        is_once: true,
        ..ORIGINAL
    },
    KvSpec {
        spec: Spec {
            name: "original-workflow-P100",
            title: "the original's workflow: SET, GET, GET of a missing key, 100 at a time",
            short: ["original flow", "P100"],
            pipeline: BATCH,
            ..CLIENT
        },
        asks: &["--workload", "workflow"],
        ..ORIGINAL
    },
];
