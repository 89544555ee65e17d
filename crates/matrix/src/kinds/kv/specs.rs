//! The table of kvcache's workloads.

use super::Spec;

pub(super) const CALIBRATION: &str = "get-P1";
/// The law by which keys are asked for where not all can be kept.
pub(super) const ZIPF: &str = "zipf:0.99";
const CONNECTIONS: u32 = 50;
pub(super) const KEYS: u32 = 1_000_000;
const VALUE_BYTES: u64 = 12;

/// What is said of a cache's workload beside what is said of all.
pub(super) struct KvSpec {
    pub(super) spec: Spec,
    /// As `loadgen kv --protocol` takes it.
    pub(super) protocol: &'static str,
    /// The same of the servers beside ours, where that is another.
    pub(super) beside: Option<&'static str>,
    pub(super) keys: u32,
    /// More arguments of the generator: what to ask for.
    pub(super) asks: &'static [&'static str],
    pub(super) is_json: bool,
    /// Every key is asked for once, and then the load is over.
    pub(super) is_once: bool,
    /// Whether a run has it that names no workloads.
    pub(super) is_usual: bool,
    /// The server may use a fraction of the memory that all keys need.
    pub(super) evicts: bool,
    /// Dimensions whose choices are compared when nobody asked for others.
    pub(super) varies: &'static [&'static str],
}

pub(super) const BASE: Spec = Spec {
    name: "",
    title: "",
    short: ["", ""],
    body_bytes: VALUE_BYTES,
    connections: CONNECTIONS,
    pipeline: 1,
    is_open: false,
    is_climb: false,
    is_quick: false,
};

pub(super) const KV: KvSpec = KvSpec {
    spec: BASE,
    protocol: "resp",
    beside: None,
    keys: KEYS,
    asks: &[],
    is_json: false,
    is_once: false,
    is_usual: true,
    evicts: false,
    varies: &[],
};

pub(super) const SPECS: [KvSpec; 15] = [
    KvSpec {
        spec: Spec { name: CALIBRATION, title: "GET, one at a time", short: ["get", "P1"], is_quick: true, ..BASE },
        varies: &["driver"],
        ..KV
    },
    KvSpec {
        spec: Spec {
            name: "get-P1-open",
            title: "GET, the same offered load for all",
            short: ["get", "open"],
            is_open: true,
            ..BASE
        },
        varies: &["driver"],
        ..KV
    },
    KvSpec {
        spec: Spec { name: "get-P16", title: "GET, 16 at a time", short: ["get", "P16"], pipeline: 16, ..BASE },
        varies: &["driver", "store"],
        ..KV
    },
    KvSpec {
        spec: Spec {
            name: "get-P100",
            title: "GET, 100 at a time",
            short: ["get", "P100"],
            pipeline: 100,
            is_quick: true,
            ..BASE
        },
        varies: &["driver", "store"],
        ..KV
    },
    KvSpec {
        spec: Spec { name: "set-P16", title: "SET, 16 at a time", short: ["set", "P16"], pipeline: 16, ..BASE },
        asks: &["--workload", "set"],
        varies: &["driver", "store"],
        ..KV
    },
    KvSpec {
        spec: Spec {
            name: "set-P100",
            title: "SET, 100 at a time",
            short: ["set", "P100"],
            pipeline: 100,
            is_quick: true,
            ..BASE
        },
        asks: &["--workload", "set"],
        varies: &["store"],
        ..KV
    },
    KvSpec {
        spec: Spec {
            name: "get-1KiB-P100",
            title: "GET of 1 KiB, 100 at a time",
            short: ["get 1 KiB", "P100"],
            body_bytes: 1024,
            pipeline: 100,
            ..BASE
        },
        varies: &["driver", "store"],
        ..KV
    },
    KvSpec {
        spec: Spec {
            name: "set-1KiB-P100",
            title: "SET of 1 KiB, 100 at a time",
            short: ["set 1 KiB", "P100"],
            body_bytes: 1024,
            pipeline: 100,
            ..BASE
        },
        asks: &["--workload", "set"],
        varies: &["store"],
        ..KV
    },
    KvSpec {
        spec: Spec {
            name: "workflow-P100",
            title: "0x1F protocol: SET, GET, GET of a missing key, 100 at a time",
            short: ["0x1F", "P100"],
            pipeline: 100,
            ..BASE
        },
        protocol: "us",
        asks: &["--workload", "workflow"],
        varies: &["driver"],
        ..KV
    },
    KvSpec {
        spec: Spec {
            name: "conn-per-request",
            title: "a connection for each GET",
            short: ["get", "conn each"],
            ..BASE
        },
        asks: &["--workload", "connection-per-request"],
        varies: &["driver"],
        ..KV
    },
    KvSpec {
        spec: Spec {
            name: "mc-text-get-P100",
            title: "memcached's text protocol: get, 100 at a time",
            short: ["mc get", "P100"],
            pipeline: 100,
            ..BASE
        },
        protocol: "memcached",
        ..KV
    },
    KvSpec {
        spec: Spec {
            name: "mc-meta-get-P100",
            title: "memcached's meta protocol: mg, 100 at a time",
            short: ["mc mg", "P100"],
            pipeline: 100,
            ..BASE
        },
        protocol: "memcached-meta",
        ..KV
    },
    KvSpec {
        spec: Spec {
            name: "zipf-evict-P16",
            title: "9 GET to 1 SET of Zipf-distributed keys, 256-byte values, memory for a quarter of the data",
            short: ["evict", "P16"],
            body_bytes: 256,
            pipeline: 16,
            ..BASE
        },
        asks: &["--mix", "get=9,set=1", "--key-dist", ZIPF],
        evicts: true,
        varies: &["eviction", "store"],
        ..KV
    },
    KvSpec {
        spec: Spec {
            name: "json-get-P16",
            title: "GET of 1 KiB JSON documents, 16 at a time",
            short: ["json", "P16"],
            body_bytes: 1024,
            pipeline: 16,
            ..BASE
        },
        keys: KEYS / 4,
        is_json: true,
        varies: &["compression"],
        ..KV
    },
    // The climbs stand last: they have no column in the matrix.
    KvSpec {
        spec: Spec {
            name: "climb-get-P1",
            title: "GET, one at a time, loads from a tenth of the capacity to all of it",
            short: ["get", "climb"],
            is_climb: true,
            ..BASE
        },
        varies: &["driver"],
        ..KV
    },
];
