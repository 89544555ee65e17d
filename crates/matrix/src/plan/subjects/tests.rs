use results::Arrivals;

use super::*;
use crate::samples;

fn timing() -> Timing {
    Timing { slice_s: 0.5, warmup_s: 0.3, max_warmup_s: None, client_cpus: "1".into(), client_threads: 1 }
}

fn http() -> &'static Subject {
    &SUBJECTS[0]
}

fn workloads(subject: &Subject) -> Vec<Workload> {
    let names: Vec<String> = subject.workloads(false).into_iter().map(|workload| workload.name).collect();
    select(subject, &names, &timing(), false)
}

#[test]
fn names_of_workloads_are_unique_over_all_servers() {
    let all: Vec<String> = SUBJECTS.iter().flat_map(workloads).map(|workload| workload.name).collect();
    let unique: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(unique.len(), all.len());
}

#[test]
fn calibration_is_a_closed_loop_that_the_reference_answers() {
    for subject in SUBJECTS.iter() {
        let workloads = workloads(subject);
        for open in workloads.iter().filter(|workload| workload.is_open()) {
            let is_it = |workload: &&Workload| workload.name == subject.calibration(&open.name);
            let calibration = workloads.iter().find(is_it).unwrap();
            assert_eq!(calibration.arrivals, Arrivals::Closed);
            assert!(subject.answers(Role::Ours, subject.server(), calibration));
        }
        assert!(workloads.iter().any(|workload| subject.is_quick(&workload.name)));
    }
}

#[test]
fn the_generator_is_asked_for_exactly_the_workload() {
    let mut workloads = select(http(), &["pipelined-16".into(), "get-128B-c64-open".into()], &timing(), false);
    calibrate(http(), &mut workloads, "get-128B-c64", 250_400.0, &timing());
    assert_eq!(
        workloads[0].command,
        "loadgen http -t 1 -c 64 -d 500ms --warmup 300ms -R 125000 --pin 1 --format json --server-pid PID --timeline http://ADDR/128.txt"
    );
    assert_eq!(
        workloads[1].command,
        "loadgen http -t 1 -c 64 -d 500ms --warmup 300ms -P 16 --pin 1 --format json --server-pid PID --timeline http://ADDR/128.txt"
    );
    assert_eq!(
        workloads[0].arrivals,
        Arrivals::Open { rate_rps: 125_000.0, fraction: OPEN_FRACTION, capacity_rps: 250_400.0 }
    );
    assert!(workloads.iter().all(|workload| workload.preload.is_none()));
}

#[test]
fn tls_and_http2_are_asked_for_with_the_same_choices_of_all() {
    let of = |server: &str, name: &str| {
        let workload = select(named(server).unwrap(), &[name.to_owned()], &timing(), false).remove(0);
        let preload = workload.preload.clone().unwrap_or_default();
        (workload.command.clone(), preload, workload)
    };
    let pinned = "--tls-insecure --tls-server-name localhost --tls-cipher TLS_AES_128_GCM_SHA256 --tls-group X25519";
    let (load, preload, h2) = of("http-server", "h2-site-c64");
    for words in [&load, &preload] {
        assert!(words.contains(pinned) && words.ends_with(" https://ADDR/") && !words.contains("-P "), "{words}");
        assert!(!words.contains("--tls-resume"), "{words}");
    }
    assert!(load.contains(" --http2 --streams 32 ") && preload.contains(" --http2 "), "{load} {preload}");
    assert_eq!(h2.adds, ["--tls-listen", "127.0.0.1:0", "--tls-cert", "CERTIFICATE", "--tls-key", "KEY"]);
    assert_eq!((http().listener(&h2), h2.counterpart.as_deref()), (1, Some("site-c64")));
    let (load, _, h2c) = of("http-server", "h2c-128B-c64");
    assert!(
        load.ends_with(" --http2 --streams 32 --pin 1 --format json --server-pid PID --timeline http://ADDR/128.txt")
    );
    assert!(h2c.adds.is_empty() && http().listener(&h2c) == 0);
    let (load, ..) = of("http-server", "tls-full-c64");
    assert!(load.contains(" --no-keep-alive ") && load.contains(" --tls-resume off "), "{load}");
    let (load, ..) = of("http-server", "tls-resumed-c64");
    assert!(load.contains(" --no-keep-alive ") && !load.contains("--tls-resume"), "{load}");
    let (load, preload, kv) = of("kvcache", "tls-get-P16");
    assert!(load.contains(" -P 16 ") && named("kvcache").unwrap().listener(&kv) == 1, "{load}");
    for words in [load, preload] {
        assert!(words.contains(&format!(" --tls {pinned}")), "{words}");
    }
}

#[test]
fn a_counterpart_is_the_same_load_with_less() {
    for subject in SUBJECTS.iter() {
        let workloads = workloads(subject);
        for more in workloads.iter().filter(|workload| workload.counterpart.is_some()) {
            let less = workloads.iter().find(|it| Some(&it.name) == more.counterpart.as_ref()).unwrap();
            assert_eq!((less.body_bytes, less.connections, less.keys), (more.body_bytes, more.connections, more.keys));
            let plain = less.adds.is_empty() && !less.command.contains("--http2") && !less.command.contains("tls");
            assert!(plain && less.counterpart.is_none(), "{}", less.command);
        }
    }
}

#[test]
fn a_longest_warm_up_is_asked_for_except_in_load_sweeps() {
    let timing = Timing { max_warmup_s: Some(1.2), ..timing() };
    for subject in SUBJECTS.iter() {
        let names: Vec<String> = subject.workloads(false).into_iter().map(|workload| workload.name).collect();
        for workload in select(subject, &names, &timing, false) {
            let has_one = workload.command.contains(" --warmup 300ms --max-warmup 1200ms ");
            let may = subject.warms_up_until_steady() && workload.repetitions.is_none() && !workload.is_load_sweep();
            assert_eq!(has_one, may, "{}", workload.command);
            assert!(has_one || !workload.command.contains("--max-warmup"), "{}", workload.command);
        }
    }
}

#[test]
fn loads_that_agents_cannot_share_say_why() {
    let of = |server: &str, name: &str, agents| {
        let subject = named(server).unwrap();
        cannot_be_shared(subject, &select(subject, &[name.to_owned()], &timing(), false)[0], agents)
    };
    for (server, name, agents, reason) in [
        ("http-server", "get-128B-c64", 64, None),
        ("http-server", "get-128B-c64", 65, Some("64 connections for 65 agents")),
        ("http-server", "sweep-128B-c64", 2, Some("a load sweep is made by one generator")),
        ("http-server", "sweep-128B-c64", 0, None),
        ("fileserver", "original-10x30", 2, Some("clients that pause are those of one generator")),
    ] {
        assert_eq!(of(server, name, agents).as_deref(), reason, "{name} {agents}");
    }
    let queue = named("mq-server").unwrap();
    let is_left_out = |workload: &Workload| cannot_be_shared(queue, workload, 1).is_some();
    assert!(workloads(queue).iter().all(is_left_out));
}

#[test]
fn what_cannot_run_says_why() {
    let workloads = workloads(http());
    let many = workloads.iter().find(|workload| workload.name == "conns-9000").unwrap();
    let cell = |role, driver| samples::cell("x", role, driver);
    let reason = |cell: &Cell, workload: &Workload, files, quick| cannot_run(http(), cell, workload, files, quick);
    assert!(reason(&cell(Role::Ours, Some("epoll")), many, 20_000, false).is_none());
    assert!(reason(&cell(Role::Ours, Some("epoll")), many, 9_000, false).unwrap().contains("open files"));
    assert!(reason(&cell(Role::Ours, Some("pool")), many, 20_000, false).unwrap().contains("worker per"));
    assert!(reason(&cell(Role::Ours, Some("blocking")), many, 20_000, false).unwrap().contains("thread per"));
    assert!(reason(&cell(Role::Ours, Some("pool")), &workloads[0], 20_000, true).is_none());
    assert!(reason(&cell(Role::Peer, None), &workloads[0], 20_000, true).is_none());
    assert!(reason(&cell(Role::Peer, None), &workloads[2], 20_000, true).unwrap().contains("quick"));
}
