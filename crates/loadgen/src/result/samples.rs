//! Results for tests.

use std::collections::BTreeMap;

use super::{Latency, Origin, ProtocolKind, RunResult, SCHEMA, Saturation};

/// Makes the result of a closed loop of a second in which no request was sent.
pub(crate) fn nothing() -> RunResult {
    RunResult {
        schema: SCHEMA,
        kind: ProtocolKind::Http,
        target: "http://127.0.0.1:1/".to_owned(),
        config: BTreeMap::new(),
        duration_s: 1.0,
        warmup_s: None,
        warmup_steady: None,
        requests: 0,
        ok: 0,
        errors: BTreeMap::new(),
        error_details: BTreeMap::new(),
        connections_opened: None,
        hits: None,
        misses: None,
        stores: None,
        reconnects: 0,
        bytes_in: 0,
        bytes_out: 0,
        throughput_rps: 0.0,
        latency_us: Latency::default(),
        service_us: None,
        corrected_us: None,
        lag_us: None,
        backlog: None,
        first_byte_us: None,
        handshakes: None,
        tls_sessions: Vec::new(),
        handshake_histogram: None,
        client_cpu_s: 0.5,
        client_user_s: Some(0.1),
        client_system_s: Some(0.4),
        server: None,
        saturation: Saturation { client_cpu_fraction: 0.5, ..Saturation::default() },
        clipped: 0,
        origin: Origin::default(),
        histogram: String::new(),
        service_histogram: None,
        lag_histogram: None,
        backlog_histogram: None,
        first_byte_histogram: None,
        bodies: Vec::new(),
        agents: Vec::new(),
        timeline: None,
        capacity: None,
        steps: Vec::new(),
    }
}
