//! The table of fileserver's workloads.

use super::{
    super::Spec,
    documents::{self, Documents},
};

pub(super) const CALIBRATION: &str = "framed-10KB";
/// The law by which documents are asked for where not all fit into the cache.
pub(super) const ZIPF: &str = "zipf:0.99";
/// As many as the original's table has.
const REQUESTORS: u32 = 10;
const REPETITIONS: u32 = 30;

/// What is said of a file server's workload beside what is said of all.
pub(super) struct FileSpec {
    pub(super) spec: Spec,
    pub(super) documents: &'static Documents,
    /// As server and generator take it.
    pub(super) protocol: &'static str,
    /// More arguments of the generator: what to ask for.
    pub(super) asks: &'static [&'static str],
    /// More arguments of the server.
    pub(super) adds: &'static [&'static str],
    pub(super) repetitions: Option<u32>,
    /// Dimensions whose choices are compared when nobody asked for others.
    pub(super) varies: &'static [&'static str],
}

const BASE: Spec = Spec {
    name: "",
    title: "",
    short: ["", ""],
    body_bytes: 0,
    connections: 16,
    pipeline: 1,
    is_open: false,
    is_climb: false,
    is_quick: false,
};

const ORIGINAL: FileSpec = FileSpec {
    spec: BASE,
    documents: &documents::KB10,
    protocol: "original",
    asks: &[],
    adds: &[],
    repetitions: None,
    varies: &[],
};
const FRAMED: FileSpec = FileSpec { protocol: "framed", ..ORIGINAL };

pub(super) const SPECS: [FileSpec; 14] = [
    FileSpec {
        spec: Spec {
            name: "original-mixed",
            title: "original protocol: 30 documents of 100 KiB to 2 MiB, a connection for each request, 8 at once",
            short: ["orig", "0.1–2 MiB"],
            connections: 8,
            is_quick: true,
            ..BASE
        },
        documents: &documents::MIXED,
        varies: &["driver", "cache-map"],
        ..ORIGINAL
    },
    FileSpec {
        spec: Spec {
            name: "original-mixed-zipf",
            title: "the same in Zipf's order, with room for 10 of the 30 in the cache",
            short: ["orig", "Zipf"],
            connections: 8,
            is_quick: true,
            ..BASE
        },
        documents: &documents::MIXED,
        asks: &["--id-dist", ZIPF],
        adds: &["--cache-entries", "10"],
        varies: &["eviction"],
        ..ORIGINAL
    },
    FileSpec {
        spec: Spec {
            name: "original-10KB",
            title: "original protocol: 10 KB documents, a connection for each request, 16 at once",
            short: ["orig", "10 KB"],
            is_quick: true,
            ..BASE
        },
        varies: &["driver"],
        ..ORIGINAL
    },
    FileSpec {
        spec: Spec {
            name: "original-10KB-zipf",
            title: "the same in Zipf's order, with room for 20 of the 100 in the cache",
            short: ["10 KB", "Zipf"],
            ..BASE
        },
        asks: &["--id-dist", ZIPF],
        adds: &["--cache-entries", "20"],
        varies: &["request-map", "cache-map", "eviction", "layout"],
        ..ORIGINAL
    },
    FileSpec {
        spec: Spec {
            name: "original-miss",
            title: "original protocol: ids of which there is no document",
            short: ["orig", "miss"],
            ..BASE
        },
        asks: &["--miss-ratio", "1"],
        varies: &["driver", "request-map", "layout"],
        ..ORIGINAL
    },
    FileSpec {
        spec: Spec {
            name: CALIBRATION,
            title: "framed protocol: 10 KB documents on 16 connections that are kept",
            short: ["framed", "10 KB"],
            ..BASE
        },
        varies: &["driver", "request-map", "cache-map", "backend", "layout"],
        ..FRAMED
    },
    FileSpec {
        spec: Spec {
            name: "framed-10KB-open",
            title: "the same, the same offered load for all",
            short: ["framed", "open"],
            is_open: true,
            ..BASE
        },
        varies: &["driver", "backend"],
        ..FRAMED
    },
    FileSpec {
        spec: Spec {
            name: "framed-10KB-P16",
            title: "the same with 16 requests outstanding on each connection",
            short: ["framed", "P16"],
            pipeline: 16,
            is_quick: true,
            ..BASE
        },
        varies: &["driver", "eviction"],
        ..FRAMED
    },
    FileSpec {
        spec: Spec {
            name: "framed-miss-P16",
            title: "framed protocol: ids of which there is no document, 16 at a time",
            short: ["miss", "P16"],
            pipeline: 16,
            ..BASE
        },
        asks: &["--miss-ratio", "1"],
        varies: &["driver", "backend", "layout"],
        ..FRAMED
    },
    FileSpec {
        spec: Spec {
            name: "framed-100KB",
            title: "framed protocol: 100 KB documents, 16 connections",
            short: ["framed", "100 KB"],
            ..BASE
        },
        documents: &documents::KB100,
        varies: &["backend"],
        ..FRAMED
    },
    FileSpec {
        spec: Spec {
            name: "framed-1MB",
            title: "framed protocol: 1 MB documents, 8 connections",
            short: ["framed", "1 MB"],
            connections: 8,
            is_quick: true,
            ..BASE
        },
        documents: &documents::MB1,
        varies: &["backend"],
        ..FRAMED
    },
    FileSpec {
        spec: Spec {
            name: "framed-2MB",
            title: "framed protocol: 2 MB documents, 8 connections",
            short: ["framed", "2 MB"],
            connections: 8,
            ..BASE
        },
        documents: &documents::MB2,
        varies: &["backend"],
        ..FRAMED
    },
    FileSpec {
        spec: Spec {
            name: "original-10x30",
            title: "the original client: 10 requestors × 30 documents of 100 KiB to 2 MiB, asleep for 100 ± 50 ms after each",
            short: ["orig", "10 × 30"],
            connections: REQUESTORS,
            ..BASE
        },
        documents: &documents::MIXED,
        repetitions: Some(REPETITIONS),
        ..ORIGINAL
    },
    FileSpec {
        spec: Spec {
            name: "climb-framed-10KB",
            title: "framed protocol: 10 KB documents, 16 connections, loads from a tenth of the capacity to all of it",
            short: ["framed", "climb"],
            is_climb: true,
            ..BASE
        },
        varies: &["driver"],
        ..FRAMED
    },
];
