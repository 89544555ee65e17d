//! Made-up runs for tests.

use results::{
    Arrivals, Cell, Connection, Git, Host, Pinning, RELEASE, Role, Setup, Summary, Workload,
    record::{HostDuring, Measured, Planned, ServerCost, Visit},
};

use crate::{judge::analysis, plan::order};

pub(crate) fn cell(id: &str, role: Role, driver: Option<&str>) -> Cell {
    Cell {
        id: id.to_owned(),
        label: id.to_owned(),
        role,
        server: id.split('/').next().unwrap_or(id).to_owned(),
        factors: driver.map(|driver| ("driver".to_owned(), driver.to_owned())).into_iter().collect(),
        connection: match driver {
            Some("blocking") => Some(Connection::Thread),
            Some("pool") => Some(Connection::Worker),
            _ => driver.map(|_| Connection::Loop),
        },
        description: String::new(),
        version: None,
        command: String::new(),
        config: None,
        only_under: None,
    }
}

fn workload(name: &str, arrivals: Arrivals) -> Workload {
    Workload {
        name: name.to_owned(),
        title: name.to_owned(),
        short: ["a".to_owned(), "b".to_owned()],
        body_bytes: 128,
        keys: None,
        documents: None,
        repetitions: None,
        allows_misses: false,
        connections: 64,
        pipeline: 1,
        arrivals,
        adds: Vec::new(),
        command: String::new(),
        preload: None,
        counterpart: None,
    }
}

/// Three drivers, a peer, the null server and the control under a closed and an open workload.
pub(crate) fn setup() -> Setup {
    Setup {
        server: "http-server".to_owned(),
        created_utc: "2026-01-01T00:00:00Z".to_owned(),
        git: Git { sha: "0123456".to_owned(), dirty: false },
        rustc: "rustc 1.95.0".to_owned(),
        profile: RELEASE.to_owned(),
        command: "cargo xtask bench-matrix".to_owned(),
        quick: false,
        seed: 7,
        blocks: 3,
        slice_s: 1.5,
        warmup_s: 0.5,
        max_warmup_s: None,
        turns: None,
        calibration: None,
        retries_max: 2,
        retry_budget_s: None,
        time_budget_s: None,
        reference: "http-server/epoll".to_owned(),
        cells: vec![
            cell("http-server/epoll", Role::Ours, Some("epoll")),
            cell("http-server/uring", Role::Ours, Some("uring")),
            cell("http-server/pool", Role::Ours, Some("pool")),
            cell("nginx/sendfile-on", Role::Peer, None),
            cell("null", Role::Null, None),
            cell("control-aa", Role::Control, Some("epoll")),
        ],
        workloads: vec![
            workload("closed", Arrivals::Closed),
            workload("open", Arrivals::Open { rate_rps: 1e5, fraction: 0.5, capacity_rps: 2e5 }),
        ],
        not_run: Vec::new(),
        pinning: Pinning { server_cpus: "0".to_owned(), client_cpus: "1".to_owned(), shared: false },
        remote: None,
        syscalls: false,
        instructions: false,
        histograms: false,
        host: Host::default(),
        notes: Vec::new(),
        quotes: None,
    }
}

pub(crate) fn measured(cpu_us: f64) -> Measured {
    Measured {
        duration_s: 1.5,
        warmup_s: None,
        warmup_steady: None,
        requests: 1_000,
        ok: 1_000,
        errors: [].into(),
        reconnects: 0,
        bytes_in: 1,
        bytes_out: 1,
        throughput_rps: 1e6 / cpu_us,
        server: Some(ServerCost {
            cpu_us,
            user_us: cpu_us / 4.0,
            system_us: cpu_us * 3.0 / 4.0,
            busy: 1.0,
            rss_bytes: 1 << 20,
            context_switches_voluntary: 0,
            context_switches_involuntary: 0,
            instructions: None,
        }),
        client_cpu_us: 3.5,
        client_user_us: None,
        client_system_us: None,
        client_busy: 0.8,
        response: None,
        service: None,
        process: None,
        windows: Vec::new(),
        lag_p99_us: None,
        bytes_per_key: None,
        hit_ratio: None,
        steps: Vec::new(),
        turns: None,
        head_bytes: None,
        note: String::new(),
    }
}

pub(crate) fn visit() -> Visit {
    Visit {
        v: 2,
        matrix: "http-server".to_owned(),
        block: 0,
        slot: 0,
        attempt: 1,
        cell: "http-server/epoll".to_owned(),
        workload: "closed".to_owned(),
        started_utc: "2026-01-01T00:00:00Z".to_owned(),
        elapsed_s: 2.0,
        ready_s: Some(0.01),
        valid: true,
        flags: Vec::new(),
        failure: None,
        measured: Some(measured(4.0)),
        host: HostDuring::default(),
    }
}

/// A visit of every cell under every workload: all cost the same, and bytes per key are known of the closed one.
pub(crate) fn summary() -> Summary {
    let mut setup = setup();
    setup.cells[3].version = Some("Redis server v=7.0.15 sha=0".to_owned());
    let planned = Planned { plan: order::shuffled(&setup), setup };
    let visits: Vec<Visit> = (planned.setup.selected())
        .map(|(cell, workload)| {
            let mut measured = measured(4.0);
            measured.bytes_per_key = (workload.name == "closed").then_some(50.04);
            let (cell, workload) = (cell.id.clone(), workload.name.clone());
            Visit { cell, workload, measured: Some(measured), ..visit() }
        })
        .collect();
    analysis::summarise(&planned, &visits)
}
