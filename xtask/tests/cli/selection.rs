//! Previews: nothing is measured here.

use crate::directory::{TINY, TestDirectory, measuring};

const ALL: [&str; 5] = ["http-server", "kvcache", "fileserver", "zerocopy", "mq-server"];

fn listed(directory: &TestDirectory, words: &[&str]) -> Vec<String> {
    let listed = directory.run(&measuring(&[words, &["--list"]].concat())).expect(0);
    listed.stdout.lines().map(str::to_owned).collect()
}

/// The cells of a list: the first word of a line that has a cell.
fn cells(lines: &[String]) -> Vec<&str> {
    lines.iter().filter(|line| !line.contains(" visits in ")).filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn a_list_names_cells_and_time_and_the_seed_decides_the_plan() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    let lines = listed(&directory, &TINY);
    assert_eq!(cells(&lines), ["http-server/epoll", "null", "control-aa"]);
    assert!(lines[3].starts_with("3 visits in 1 blocks, about "), "{lines:?}");
    let plan = |seed| {
        let words =
            [&TINY[..], &["--workload", "get-26KB-c64", "--workload", "pipelined-16", "--dry-run", "--seed", seed]]
                .concat();
        let text = directory.run(&measuring(&words)).expect(0).stdout;
        text.lines().filter(|line| line.starts_with("   ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (first, second) = (plan("1"), plan("2"));
    assert_eq!(first.len(), 9, "{first:?}");
    assert!(first == plan("1") && first != second);
    assert!(!directory.path("bench-results").exists(), "nothing is written");
}

#[test]
fn dimensions_vary_one_by_one_around_what_is_fixed() {
    let Some(directory) = TestDirectory::with(&["kvcache"]) else { return };
    let words = [
        "--servers",
        "kvcache",
        "--vary",
        "driver",
        "--fix",
        "store=std",
        "--workload",
        "get-P16",
        "--against",
        "none",
    ];
    let lines = listed(&directory, &words);
    let cells = cells(&lines);
    assert!(cells.contains(&"kvcache/epoll/std") && cells.contains(&"kvcache/uring/std"), "{cells:?}");
    assert!(cells.iter().all(|cell| !cell.starts_with("kvcache/") || cell.ends_with("/std")), "{cells:?}");
}

#[test]
fn a_time_budget_chooses_what_fits_or_is_refused() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    let words =
        ["--servers", "http-server", "--filter", "driver=epoll", "--workload", "get-128B-c64", "--against", "none"];
    let planned = |budget| directory.run(&measuring(&[&words[..], &["--time-budget", budget, "--dry-run"]].concat()));
    let minute = planned("1m").expect(0).stdout;
    // Three visits of 2.45 s and a tenth spare: seven blocks.
    assert!(minute.contains("Time budget of 1 min 00 s: 7 blocks of 1.5 s slices"), "{minute}");
    assert_eq!(minute.matches("\nhttp-server, block ").count(), 7);
    let refused = planned("2s").expect(2);
    assert!(refused.stderr.contains("--time-budget 2 s: the smallest run"), "{}", refused.stderr);
}

#[test]
fn presets_select_what_they_say_and_can_be_limited_to_servers() {
    let Some(directory) = TestDirectory::with(&ALL) else { return };
    for (preset, servers, has) in [
        ("seeds", &ALL[..], "fileserver/epoll/request-map=std/cache-map=none/mutex"),
        ("drivers", &["http-server", "kvcache", "fileserver", "zerocopy", "mq-server"], "kvcache/uring"),
        ("stores", &["kvcache", "fileserver"], "fileserver/epoll/sqlite"),
        ("strategies", &["zerocopy", "mq-server"], "zerocopy/epoll/vmsplice"),
        ("scaling", &["http-server", "kvcache", "fileserver", "zerocopy"], "kvcache/epoll"),
        ("runtimes", &["http-server"], "http-server/glommio"),
        ("unbalanced", &["http-server"], "http-server/tokio/threads=2"),
        ("idle", &["http-server"], "http-server/smol"),
        ("threads", &["http-server"], "http-server/monoio/threads=2"),
        ("handshakes", &["http-server"], "http-server/compio"),
    ] {
        let lines = listed(&directory, &["--preset", preset, "--against", "none"]);
        let cells = cells(&lines);
        let of = |server: &str| cells.iter().any(|cell| cell.starts_with(&format!("{server}/")));
        assert!(ALL.iter().all(|server| of(server) == servers.contains(server)), "{preset}: {cells:?}");
        assert!(cells.iter().any(|cell| cell.starts_with(has)), "{preset}: {cells:?}");
    }
    let lines = listed(&directory, &["--preset", "stores", "--servers", "kvcache", "--against", "none"]);
    let cells = cells(&lines);
    assert!(
        cells.contains(&"kvcache/epoll/std") && !cells.iter().any(|cell| cell.starts_with("fileserver")),
        "{cells:?}"
    );
}
