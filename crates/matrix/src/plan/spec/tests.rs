use clap::Parser as _;

use super::*;
use crate::{UsageError, plan::pace::without_budget};

/// On a machine with `cores` cores, of which `siblings` are the first.
fn spec_on(cores: u32, siblings: &[usize], words: &[&str]) -> Result<RunSpec> {
    let args = Args::try_parse_from(std::iter::once("bench-matrix").chain(words.iter().copied())).unwrap();
    RunSpec::from_args(args, cores, siblings)
}

fn spec(words: &[&str]) -> Result<RunSpec> {
    spec_on(2, &[0], words)
}

fn refusal(words: &[&str]) -> String {
    let error = spec(words).err().expect("a usage error");
    assert!(error.is::<UsageError>(), "{error}");
    error.to_string()
}

fn workloads(words: &[&str]) -> Vec<String> {
    spec(words).unwrap().subjects.into_iter().flat_map(|it| it.workloads).collect()
}

fn peers(words: &[&str]) -> Vec<&'static str> {
    spec(words).unwrap().subjects.into_iter().flat_map(|it| it.peers).map(Peer::id).collect()
}

#[test]
fn quick_sets_defaults_and_explicit_flags_win() {
    let pace = |words: &[&str]| {
        let spec = spec(words).unwrap();
        let pace = without_budget(spec.pace);
        (pace.blocks, pace.slice_s, spec.warmup_s)
    };
    assert_eq!(pace(&["--quick", "--slice", "0.2s"]), (3, 0.2, 0.2));
    assert_eq!(pace(&[]), (7, 1.5, 0.5));
    let many = "conns-9000".to_owned();
    assert!(!workloads(&["--quick"]).contains(&many) && workloads(&[]).contains(&many));
    assert_eq!(workloads(&["--quick", "--workload", "conns-9000,set-P16"]), ["conns-9000", "set-P16"]);
    assert!(!workloads(&["--servers", "kvcache"]).contains(&many));
}

#[test]
fn a_release_takes_turns_on_this_machine_unless_it_is_told_not_to() {
    let pairs = |words: &[&str]| spec(words).unwrap().turns.map(|turns| turns.pairs);
    assert_eq!([pairs(&[]), pairs(&["--quick"]), pairs(&["--turns", "3"])], [Some(10), Some(5), Some(3)]);
    assert_eq!([pairs(&["--turns", "0"]), pairs(&["--profile", "dev"])], [None, None]);
    assert_eq!(pairs(&["--profile", "dev", "--turns", "2"]), Some(2));
    let far = ["--server-exec", "ssh far", "--server-host", "10.0.0.2"];
    assert_eq!(pairs(&far), None);
    assert!(refusal(&[&far[..], &["--turns", "5"]].concat()).contains("--server-exec"));
}

#[test]
fn two_programs_are_a_base_and_a_change_of_one_server() {
    let programs = |words: &[&str]| {
        let args = Args::try_parse_from(std::iter::once("bench-matrix").chain(words.iter().copied())).unwrap();
        ProgramsSpec::from_args(&args, 2, &[0])
    };
    let own = std::env::current_exe().unwrap();
    let [base, change] = ["base", "change"].map(|name| format!("{name}={}", own.display()));
    let both = ["--program", &base, "--program", &change];
    let spec = programs(&[&["--servers", "kvcache", "--fail-on-regression", "2%"], &both[..]].concat()).unwrap();
    assert_eq!((spec.programs, spec.gate.fail_on_regression), ([own.clone(), own], Some(0.02)));
    assert!(!spec.workloads.is_empty() && spec.workloads.iter().all(|name| spec.subject.is_quick(name)));
    let refused = |words: &[&str]| programs(words).err().expect("a usage error").to_string();
    assert!(refused(&both).contains("name one server"));
    assert!(refused(&["--servers", "kvcache", "--program", &base]).contains("one base=PATH and one change=PATH"));
    let twice = ["--servers", "kvcache", "--program", &base, "--program", &base, "--program", &change];
    assert!(refused(&twice).contains("one base=PATH"));
    let missing = ["--servers", "kvcache", "--program", &base, "--program", "change=/no/such/program"];
    assert!(refused(&missing).contains("is no file"));
    for ignored in [&["--list"][..], &["--conns", "1"], &["--pipeline", "4"], &["--rate", "0.5x"], &["--seed", "1"]] {
        let words = [&["--servers", "kvcache"], ignored, &both[..]].concat();
        assert!(refused(&words).contains(&format!("{} exclude each other", ignored[0])), "{ignored:?}");
    }
    for words in [["--program", "Other=x"], ["--program", "base="], ["--program", "x"]] {
        assert!(Args::try_parse_from(std::iter::once("bench-matrix").chain(words)).is_err(), "{words:?}");
    }
}

#[test]
fn a_strangers_program_is_a_row_of_the_one_server_whose_work_it_does() {
    let own = format!("mine={}", std::env::current_exe().unwrap().display());
    let given = ["--program", own.as_str()];
    assert_eq!(peers(&[&["--servers", "kvcache", "--against", "none"], &given[..]].concat()), ["mine"]);
    assert!(peers(&[&["--servers", "kvcache"], &given[..]].concat()).contains(&"mine"));
    assert!(refusal(&given).contains("name one server"));
    assert!(refusal(&[&["--servers", "mq-server"], &given[..]].concat()).contains("not one of another program"));
    let taken = own.replace("mine=", "redis=");
    assert!(refusal(&["--servers", "kvcache", "--program", &taken]).contains("a row of that name"));
    let twice = [&["--servers", "kvcache"], &given[..], &given].concat();
    assert!(refusal(&twice).contains("a row of that name"));
    assert!(refusal(&["--servers", "kvcache", "--program", "mine=/no/such"]).contains("is no file"));
}

#[test]
fn names_that_do_not_exist_are_usage_errors_with_a_hint() {
    let error = refusal(&["--workload", "get-128-c64"]);
    assert!(error.contains("did you mean `get-128B-c64`?"), "{error}");
    assert!(refusal(&["--servers", "http-server", "--workload", "get-P1"]).contains("unknown"));
    let error = refusal(&["--against", "ngin"]);
    assert!(error.contains("did you mean `nginx`?"), "{error}");
    assert!(refusal(&["--servers", "mqserver"]).contains("mq-server"));
}

#[test]
fn a_preset_alone_says_servers_filter_and_workloads() {
    let words = ["--preset", "seeds"];
    let of_the_originals = [
        "original-c10000",
        "original-c1000",
        "original-get",
        "original-get-P100",
        "original-set-P100",
        "original-del-P100",
        "original-workflow-P100",
        "original-mixed",
        "original-10x30",
        "cached-26KB-c500",
        "cached-26KB-c500-close",
        "large-20x-read",
        "large-20x-splice",
    ];
    assert_eq!(workloads(&words), of_the_originals);
    let spec = spec(&words).unwrap();
    let filter = |at: usize| spec.subjects[at].filter.as_ref().unwrap().to_string();
    assert_eq!(spec.subjects.len(), 5);
    assert!(filter(2).contains("request-map=std"), "{}", filter(2));
    assert!(filter(3).contains("strategy=sendfile"), "{}", filter(3));
    let usual = workloads(&[]);
    for name in ["original-10x30", "original-c10000", "original-get"] {
        assert!(!usual.iter().any(|it| it == name), "{name} takes long and says little");
    }
    for flags in [["--filter", "driver=epoll"], ["--workload", "get-P1"]] {
        let words = ["bench-matrix", "--preset", "seeds"].into_iter().chain(flags);
        assert!(Args::try_parse_from(words).is_err(), "{flags:?}");
    }
}

#[test]
fn a_preset_is_limited_to_some_of_its_servers_only() {
    assert_eq!(
        workloads(&["--preset", "seeds", "--servers", "zerocopy"]),
        ["cached-26KB-c500", "cached-26KB-c500-close"]
    );
    let error = refusal(&["--preset", "stores", "--servers", "kvcache,http-server"]);
    assert!(error.contains("`http-server`: the preset `stores`"), "{error}");
    assert_eq!(spec(&[]).unwrap().subjects.len(), SUBJECTS.len(), "all, where none is named");
}

#[test]
fn an_unreadable_filter_is_refused_before_a_build() {
    let error = refusal(&["--filter", "driver=epoll", "--filter", "driver="]);
    assert!(error.contains("expected a value"), "{error}");
}

#[test]
fn every_peer_stands_beside_the_server_it_belongs_to() {
    assert!(peers(&["--against", "none"]).is_empty());
    assert_eq!(peers(&["--against", "lighttpd,redis"]), ["lighttpd", "redis"]);
    assert_eq!(peers(&["--servers", "kvcache"]), ["redis", "memcached"]);
}

#[test]
fn cpus_must_exist() {
    let placed = |cores, words: &[&str]| spec_on(cores, &[0], words).map(|spec| spec.placement);
    assert!(placed(2, &["--server-cpus", "0-3"]).is_err());
    let Placement { server, client } = placed(2, &[]).unwrap();
    assert!(!server.shares_with(&client));
    let Placement { server, client } = placed(1, &[]).unwrap();
    assert!(server.shares_with(&client), "one core is shared, and said to be");
    let remote = ["--server-exec", "ssh host", "--server-host", "10.0.0.1", "--server-cpus", "0-3"];
    assert_eq!(placed(2, &remote).unwrap().server.len(), 4, "another host has CPUs of its own");
}

#[test]
fn the_generator_avoids_hyperthreads_of_the_servers_core() {
    let client = |cores, siblings: &[usize]| spec_on(cores, siblings, &[]).unwrap().placement.client.text().to_owned();
    assert_eq!((client(4, &[0, 2]), client(4, &[0, 1]), client(2, &[0, 1])), ("1".into(), "2".into(), "1".into()));
}

#[test]
fn a_remote_is_a_command_and_an_address() {
    let words = ["--server-exec", "ip netns exec ns1", "--server-host", "::1", "--agent", "ssh a", "--agent", "ssh b"];
    let remote = spec(&words).unwrap().remote.unwrap();
    assert_eq!(remote.agents, ["ssh a", "ssh b"]);
    assert_eq!((remote.prefix.join("|"), remote.host.to_string()), ("ip|netns|exec|ns1".into(), "::1".into()));
    let here = spec(&["--server-host", "10.0.0.1", "--agent", "ssh a"]).unwrap();
    assert_eq!((here.remote.unwrap().prefix.join("|"), here.turns.is_some()), ("env".into(), false));
    for (words, why) in [
        (&["--server-host", "10.0.0.1"][..], "goes with --server-exec or --agent"),
        (&["--server-host", "10.0.0.1", "--agent", "ssh a", "--turns", "5"], "--turns are for"),
    ] {
        let error = spec(words).err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
    }
    for words in [
        &["--agent", "ssh a"][..],
        &["--server-host", "10.0.0.1", "--agent", "ssh a", "--hist"],
        &["--server-host", "10.0.0.1", "--agent", "ssh a", "--syscalls"],
    ] {
        assert!(Args::try_parse_from(["bench-matrix"].iter().chain(words)).is_err(), "{words:?}");
    }
}

#[test]
fn a_quick_run_of_everything_has_time_for_its_repeats() {
    let spec = spec(&["--quick"]).unwrap();
    let repeats_s: f64 = spec.subjects.iter().map(|own| own.subject.quick_retry_budget_s()).sum();
    let limit_s = spec.session.ends_within_s.unwrap();
    assert!(repeats_s <= limit_s && limit_s < 300.0, "{repeats_s} of {limit_s} s");
    for own in &spec.subjects {
        let workloads = own.subject.workloads(true);
        let quick: Vec<_> = workloads.iter().filter(|workload| own.workloads.contains(&workload.name)).collect();
        assert!(!quick.is_empty());
        assert!(quick.iter().all(|workload| !workload.is_open()), "a calibration would come before the first visit");
    }
    for more in [&["--blocks", "9"][..], &["--slice", "2s"], &["--preset", "seeds"], &["--workload", "get-P1"]] {
        let words = [&["--quick"], more].concat();
        assert_eq!(self::spec(&words).unwrap().session.ends_within_s, None, "{more:?}: the user's choice");
    }
}

#[test]
fn what_stands_beside_quoted_figures_has_their_size() {
    for (words, is_scaled_down) in [(&["--quick", "--preset", "seeds"][..], false), (&["--quick"], true), (&[], false)]
    {
        let spec = spec(words).unwrap();
        assert!(spec.subjects.iter().all(|own| own.is_scaled_down == is_scaled_down), "{words:?}");
    }
    let mq = |words: &[&str]| {
        let spec = spec(&[&["--preset", "seeds", "--servers", "mq-server"], words].concat()).unwrap();
        spec.subjects[0].blocks(7, &spec)
    };
    assert_eq!((mq(&[]), mq(&["--quick"]), mq(&["--blocks", "7"])), (3, 1, 7));
}
