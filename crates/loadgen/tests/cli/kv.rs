//! `loadgen kv` against the null server, and against real caches where they are installed.

use super::support::{Run, cache::Cache, loadgen, null_server::NullServer};

/// Panics unless a cache is verified under every kind of load.
fn exercise(cache: &Cache, protocol: &str) {
    let run = |options: &[&str]| cache.run(&[&["--protocol", protocol, "--keys", "2000", "-c", "5"], options].concat());
    let filled = run(&["--workload", "preload", "-P", "50", "--threads", "2"]);
    assert_eq!((filled.result.ok, filled.result.stores), (2_000, Some(2_000)));
    for pipeline in ["1", "7", "100"] {
        let gets = run(&["-n", "3000", "-P", pipeline]);
        assert_eq!(gets.result.hits, Some(3_000));
        let sequential = run(&["-n", "3000", "-P", pipeline, "--key-dist", "sequential", "--threads", "2"]);
        assert_eq!(sequential.result.hits, Some(3_000));
        let mixed = run(&[
            "-n",
            "3000",
            "-P",
            pipeline,
            "--mix",
            "get=2,set=1",
            "--miss-ratio",
            "0.5",
            "--key-dist",
            "zipf:0.99",
        ]);
        assert!(mixed.result.misses > Some(0) && mixed.result.stores > Some(0), "{:?}", mixed.result);
        let workflow = run(&["-n", "3000", "-P", pipeline, "--workload", "workflow"]);
        assert!(workflow.result.stores >= Some(990), "{:?}", workflow.result);
        let sets = run(&["-n", "3000", "-P", pipeline, "--workload", "set"]);
        assert_eq!(sets.result.stores, Some(3_000));
    }
    let open = run(&["-n", "500", "-R", "5000", "-P", "4"]);
    assert!(open.result.service_us.is_some() && open.result.ok == 500);
    let timed = run(&["-d", "600ms", "--warmup", "50ms", "-P", "16"]);
    assert!(timed.result.ok > 0);
    let once = run(&["-n", "50", "--workload", "connection-per-request", "--mix", "get=1,set=1"]);
    assert_eq!(once.result.reconnects, 0);
    let deleted = run(&["--workload", "del", "-n", "2000", "-P", "10", "--threads", "2"]);
    assert_eq!(deleted.result.hits, Some(2_000));
    let gone = run(&["-n", "1000", "-P", "10", "--allow-misses"]);
    assert_eq!((gone.result.hits, gone.result.misses), (Some(0), Some(1_000)));
    let documents = run(&["--preload", "-n", "2000", "-P", "20", "--json-values", "--value-size", "64..3000"]);
    assert_eq!(documents.result.hits, Some(2_000));
}

#[test]
fn redis_over_resp2() {
    let Some(redis) = Cache::redis() else { return };
    exercise(&redis, "resp");
}

#[test]
fn redis_over_resp3() {
    let Some(redis) = Cache::redis() else { return };
    exercise(&redis, "resp3");
}

#[test]
fn memcached_over_the_text_protocol() {
    let Some(memcached) = Cache::memcached() else { return };
    exercise(&memcached, "memcached");
}

#[test]
fn memcached_over_meta_commands() {
    let Some(memcached) = Cache::memcached() else { return };
    exercise(&memcached, "memcached-meta");
}

#[test]
fn keys_of_an_empty_cache_are_misses_with_a_hint() {
    let Some(redis) = Cache::redis() else { return };
    let run = Run::kv(&redis.target, &["-n", "100", "-P", "10"]);
    run.assert_errors(&[("miss", 100)]);
    assert!(run.stderr.contains("--preload"), "{}", run.stderr);
}

#[test]
fn an_evicting_cache_has_hits_and_allowed_misses() {
    let Some(redis) = Cache::start("redis-server", |socket| {
        let policy = ["--maxmemory", "8mb", "--maxmemory-policy", "allkeys-random"];
        let fixed = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", socket];
        fixed.into_iter().chain(policy).map(str::to_owned).collect()
    }) else {
        return;
    };
    let options = ["-c", "5", "--keys", "50000", "--value-size", "200", "--mix", "get=4,set=1", "--preload"];
    let run = redis.run(&[&options[..], &["--allow-misses", "-n", "20000", "-P", "20"]].concat());
    assert!(run.result.hits > Some(0) && run.result.misses > Some(0), "{:?}", run.result);
}

#[test]
fn replies_of_the_null_server_are_verified() {
    for (value_bytes, pipeline) in [("12", "1"), ("12", "100"), ("1024", "16"), ("200000", "3"), ("0", "50")] {
        let null = NullServer::start("resp", "127.0.0.1:0", &["--value-size", value_bytes]);
        let fixed = ["-c", "5", "-P", pipeline, "--constant-values", "--value-size", value_bytes, "--keys", "1000"];
        for options in
            [&["-n", "1000"][..], &["-n", "1000", "--mix", "get=2,set=1"], &["-n", "1000", "--workload", "del"]]
        {
            let run = Run::kv(&null.address, &[&fixed[..], options].concat());
            run.assert_errors(&[]);
            assert_eq!(run.result.ok, 1_000);
        }
        assert_eq!(null.stop(), Some(0));
    }
}

#[test]
fn wrong_value_sizes_are_found() {
    let null = NullServer::start("resp", "127.0.0.1:0", &["--value-size", "13"]);
    Run::kv(&null.address, &["-c", "2", "-n", "100", "-P", "10", "--constant-values"])
        .assert_errors(&[("length", 100)]);
    Run::kv(&null.address, &["-c", "2", "-n", "100", "-P", "10", "--value-size", "13"])
        .assert_errors(&[("content", 100)]);
}

#[test]
fn the_result_records_the_settings() {
    let null = NullServer::start("resp", "127.0.0.1:0", &[]);
    let run = Run::kv(
        &null.address,
        &["-n", "64", "-P", "8", "--constant-values", "--mix", "set=1,get=1", "--key-dist", "zipf:1.1"],
    );
    let config = &run.result.config;
    assert_eq!((run.result.kind.name(), run.result.target.as_str()), ("kv", null.address.as_str()));
    for (name, value) in [
        ("protocol", "resp"),
        ("workload", "mix"),
        ("mix", "get=1,set=1"),
        ("key_dist", "zipf:1.1"),
        ("value_bytes", "12"),
        ("values", "constant"),
        ("verify", "content"),
        ("mode", "closed"),
    ] {
        assert_eq!(config[name], value, "{name}");
    }
    assert_eq!((&config["keys"], &config["pipeline"]), (&1_000_000.into(), &8.into()));
    let text = loadgen(&["kv", "-n", "7", "--constant-values", &null.address]);
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    assert!(text.contains("\nresp, get, closed loop"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("  hits") && line.ends_with(" 7")), "{text}");
    let csv = loadgen(&["kv", "-n", "7", "--constant-values", "--format", "csv", &null.address]);
    let csv = String::from_utf8(csv.stdout).expect("UTF-8");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let value = |name| lines[1][lines[0].iter().position(|column| *column == name).expect(name)];
    assert_eq!((value("hits"), value("misses"), value("error_miss")), ("7", "0", "0"));
}

#[test]
fn a_trace_is_replayed() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace");
    std::fs::write(&trace, "user:1\nuser:2\nuser:1\npage:9\n").expect("a file");
    let replay = format!("replay:{}", trace.display());
    let null = NullServer::start("resp", "127.0.0.1:0", &[]);
    for mix in ["get=1", "get=1,set=1"] {
        let options = ["-n", "1000", "-P", "7", "-c", "3", "--threads", "2", "--constant-values", "--keys", "3"];
        let run = Run::kv(&null.address, &[&options[..], &["--mix", mix, "--key-dist", &replay]].concat());
        assert_eq!((run.result.ok, &run.result.config["key_dist"]), (1_000, &replay.as_str().into()));
        assert_eq!(run.result.config["prepared_requests"], 4);
    }
    let complaint = |keys: &str, law: &str| {
        let output = loadgen(&["kv", "--keys", keys, "--key-dist", law, &null.address]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    assert!(complaint("2", &replay).contains("the trace has 3 different keys, more than the 2 that there are"));
    assert!(complaint("3", "replay:/nowhere/trace").contains("/nowhere/trace: No such file or directory"));
    std::fs::write(&trace, "\n").expect("a file");
    assert!(complaint("3", &replay).contains("a key on each line is needed"));
}

#[test]
fn bad_usage_has_exit_status_2() {
    let target = "127.0.0.1:9";
    let cases: &[&[&str]] = &[
        &["kv"],
        &["kv", "--protocol", "us", "nowhere"],
        &["kv", "rediss://127.0.0.1:6379"],
        &["kv", "unix:"],
        &["kv", "--protocol", "gopher", target],
        &["kv", "--keys", "0", target],
        &["kv", "--keys", "1000", "--key-size", "3", target],
        &["kv", "--key-size", "251", "--protocol", "memcached", target],
        &["kv", "--key-dist", "zipf", target],
        &["kv", "--value-size", "9..8", target],
        &["kv", "--json-values", "--value-size", "12", target],
        &["kv", "--json-values", "--constant-values", target],
        &["kv", "--protocol", "us", "--value-size", "0..5", target],
        &["kv", "--mix", "get", target],
        &["kv", "--mix", "get=1", "--workload", "set", target],
        &["kv", "--miss-ratio", "2", target],
        &["kv", "--miss-ratio", "0.5", "--workload", "set", target],
        &["kv", "--workload", "del", target],
        &["kv", "--workload", "del", "--keys", "10", "-n", "11", target],
        &["kv", "--mix", "get=1,del=1", target],
        &["kv", "--workload", "preload", "-n", "5", target],
        &["kv", "--workload", "preload", "--key-dist", "uniform", target],
        &["kv", "--workload", "connection-per-request", "-P", "2", target],
        &["kv", "--workload", "connection-per-request", "-R", "2", target],
        &["null", "--protocol", "resp", "--body-size", "5", "--listen", "127.0.0.1:0"],
        &["null", "--protocol", "http", "--value-size", "5", "--listen", "127.0.0.1:0"],
    ];
    for arguments in cases {
        let output = loadgen(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}
