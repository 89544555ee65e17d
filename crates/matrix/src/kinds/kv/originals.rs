//! The workloads of kvcache's original: what its test asked, by so many clients, whatever the server was.

use super::{
    Spec,
    specs::{BASE, KEYS, KV, KvSpec},
};

/// As many as the original's test had processes.
const CLIENTS: u32 = 96;
const BATCH: u32 = 100;

/// Its own protocol, and Redis's where it asked Redis.
const ORIGINAL: KvSpec =
    KvSpec { protocol: "us", beside: Some("resp"), keys: KEYS / 2, is_usual: false, varies: &["driver"], ..KV };
const CLIENT: Spec = Spec { connections: CLIENTS, ..BASE };

/// A batch at a time.
const fn batched(name: &'static str, title: &'static str, short: [&'static str; 2]) -> Spec {
    Spec { name, title, short, pipeline: BATCH, ..CLIENT }
}

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
        spec: batched("original-get-P100", "the original's GET, 100 at a time", ["original get", "P100"]),
        ..ORIGINAL
    },
    KvSpec {
        spec: batched("original-set-P100", "the original's SET, 100 at a time", ["original set", "P100"]),
        asks: &["--workload", "set"],
        ..ORIGINAL
    },
    KvSpec {
        spec: batched(
            "original-del-P100",
            "the original's DEL, 100 at a time: each key once, until none is left",
            ["original del", "P100"],
        ),
        asks: &["--workload", "del"],
        keys: KEYS,
        is_once: true,
        ..ORIGINAL
    },
    KvSpec {
        spec: batched(
            "original-workflow-P100",
            "the original's workflow: SET, GET, GET of a missing key, 100 at a time",
            ["original flow", "P100"],
        ),
        asks: &["--workload", "workflow"],
        ..ORIGINAL
    },
];
