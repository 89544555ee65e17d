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
