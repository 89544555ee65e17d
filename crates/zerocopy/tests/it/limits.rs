//! Budgets that are too small for the requests, and kernels that refuse.

use std::{path::Path, process::Command};

use anyhow::{Context, ensure};
use testkit::{
    Client, Server, eventually,
    http::{Http, get},
    installed_program,
    open_files::{Exchange, connections_come_first},
    strace::{strace, with_faults},
};

use crate::setup::{
    ALL, Combination, EVENT_LOOPS, LOOPS_ALONE, ONE, PIPE, Setup, Site, bytes, number, of_strategy, stats,
};

const FILES: usize = 1_500;
const SIZE: usize = 26_510;

/// Makes `count` files that differ, with numbers as names.
fn many(count: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..count {
        std::fs::write(dir.path().join(number.to_string()), contents(number)).unwrap();
    }
    dir
}

fn contents(number: usize) -> Vec<u8> {
    bytes(SIZE + number % 3)[..].iter().map(|byte| byte ^ number as u8).chain(number.to_le_bytes()).collect()
}

/// Requests all of them, in pipelines, on several connections.
fn all_are_right(server: &Server, count: usize) -> anyhow::Result<()> {
    let mut client = Http::connect(server.address())?;
    let numbers: Vec<_> = (0..count).collect();
    for batch in numbers.chunks(20) {
        let requests: String =
            batch.iter().map(|number| format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
        client.send(&requests)?;
        for &number in batch {
            let got = client.response("GET")?;
            ensure!(got.status == 200 && got.body == contents(number), "{number}: {}", got.status);
        }
    }
    Ok(())
}

/// With a budget for a few files, these are in pipes, the others are served as well, and the budget holds.
#[test]
fn thousands_of_files_are_served_with_a_small_pipe_budget() {
    let setup = Setup { args: &["--threads", "1", "--pipe-budget", "1MiB", "--idle-evict", "1min"], ..PIPE };
    setup.for_each_server(many(FILES).path(), |server, _| {
        for _ in 0..2 {
            all_are_right(server, FILES)?;
        }
        let stats = stats(server)?;
        let used = number(&stats, "/memory/pipe_mem_used")?;
        ensure!(used > 0.9 && used <= 1.0, "{used} MiB of pipes");
        // A pipe for a file of this size has 8 slots: 32 KiB.
        ensure!(of_strategy(&stats, "pipe", "files")? == 32.0, "{}", stats["strategies"]);
        ensure!(number(&stats, "/fallbacks/pipe-budget")? >= (FILES - 32) as f64, "{}", stats["fallbacks"]);
        ensure!(number(&stats, "/files_total")? == FILES as f64, "{}", stats["files_total"]);
        Ok(())
    });
}

/// Files make room for each other, with every strategy.
#[test]
fn a_small_limit_of_descriptors_holds_and_files_are_served() {
    const ARGS: &[&str] = &["--threads", "1", "--cache-descriptors", "40", "--idle-evict", "1min"];
    Setup { args: ARGS, ..ALL }.for_each_server(many(300).path(), |server, combination| {
        let before = server.process().descriptors()?;
        for _ in 0..2 {
            all_are_right(server, 300)?;
        }
        let stats = stats(server)?;
        let used = number(&stats, "/memory/descriptors")?;
        ensure!((20.0..=40.0).contains(&used), "{used} descriptors of the cache");
        // Beside them there are scratch pipes, a connection or two, and descriptors that are about to be closed.
        let after = server.process().descriptors()?;
        ensure!(after <= before + 40 + 24, "{before} before, {after} after");
        let fell_back = number(&stats, "/fallbacks/descriptors")?;
        ensure!(combination.strategy != "pipe" || fell_back > 0.0, "{}", stats["fallbacks"]);
        ensure!(combination.strategy != "sendfile" || fell_back == 0.0, "{}", stats["fallbacks"]);
        // Files that are no longer in use are evicted.
        std::thread::sleep(std::time::Duration::from_millis(150));
        let got = Http::connect(server.address())?.get("/299")?;
        ensure!(got.body == contents(299), "wrong bytes");
        ensure!(number(&crate::setup::stats(server)?, "/evictions")? > 0.0, "{}", stats["evictions"]);
        Ok(())
    });
}

#[test]
fn a_small_limit_of_mapped_bytes_holds_and_files_are_served() {
    const ARGS: &[&str] = &["--threads", "1", "--mapped-bytes", "300000", "--idle-evict", "1min"];
    Setup { strategies: &["mmap-write", "vmsplice"], args: ARGS, ..ALL }.for_each_server(
        many(60).path(),
        |server, _| {
            all_are_right(server, 60)?;
            let stats = stats(server)?;
            let used = number(&stats, "/memory/mapped")? * 1_048_576.0;
            ensure!(used > 250_000.0 && used <= 300_000.0, "{used} bytes mapped");
            ensure!(number(&stats, "/fallbacks/mapping")? == 49.0, "{}", stats["fallbacks"]);
            Ok(())
        },
    );
}

#[test]
fn full_registered_memory_holds_and_files_are_served() {
    const ARGS: &[&str] = &["--threads", "1", "--registered-bytes", "280KiB", "--idle-evict", "1min"];
    Setup { strategies: &["uring"], args: ARGS, ..ALL }.for_each_server(many(60).path(), |server, _| {
        all_are_right(server, 60)?;
        let stats = stats(server)?;
        // 7 pages each.
        ensure!(of_strategy(&stats, "uring", "files")? == 10.0, "{}", stats["strategies"]);
        ensure!(number(&stats, "/fallbacks/pipe-budget")? == 50.0, "{}", stats["fallbacks"]);
        Ok(())
    });
}

/// Without entries every request is a miss.
#[test]
fn without_a_cache_all_files_are_served_right() {
    for args in [&["--threads", "1", "--cache-entries", "0"][..], &["--threads", "1", "--cache-descriptors", "0"]] {
        Setup { args, ..ALL }.for_each_server(many(20).path(), |server, _| {
            for _ in 0..2 {
                all_are_right(server, 20)?;
            }
            let stats = stats(server)?;
            let figures = (number(&stats, "/files_total")?, number(&stats, "/requests/hits")?);
            ensure!(figures == (0.0, 0.0) && number(&stats, "/requests/misses")? == 40.0, "{stats}");
            ensure!(number(&stats, "/memory/pipe_mem_used")? == 0.0 && number(&stats, "/zombies")? == 0.0, "{stats}");
            Ok(())
        });
    }
}

/// Where few files may be open, connections come before the cache, and as many are served as the server says at its start.
#[test]
fn connections_come_first_where_few_files_may_be_open() {
    let Some(prlimit) = installed_program("prlimit").unwrap() else { return };
    let site = Site::new(&[100]);
    ONE.for_each_combination(|combination| {
        let zerocopy = ONE.command(combination, site.path());
        let mut command = Command::new(&prlimit);
        command.arg("--nofile=96").arg(zerocopy.get_program()).args(zerocopy.get_args());
        let mut server = Server::start_command(command, 1)?;
        eventually("it says what the limit allows", || Ok(server.stderr().contains(" connections and ")))?;
        let said = server.stderr();
        let connections = said.split_once("96 open files allow ").and_then(|(_, rest)| rest.split(' ').next());
        let connections: usize = connections.with_context(|| said.clone())?.parse()?;
        ensure!(connections >= 40, "{said}");
        let mut clients = Vec::new();
        for _ in 0..connections {
            let mut client = Http::connect(server.address())?;
            ensure!(client.get("/100")?.body == bytes(100), "there is room for it");
            clients.push(client);
        }
        let (refusal, _) = Client::connect(server.address())?.read_until_disconnect();
        ensure!(refusal.starts_with(b"HTTP/1.1 503 "), "{}", refusal.escape_ascii());
        let status = server.stop()?;
        ensure!(status.success() && server.stderr().contains("connections are refused"), "{}", server.stderr());
        Ok(())
    });
}

/// Error of the kernel while files enter the cache, the reason that the fallback is counted as, and the least count.
const REFUSALS: &[(&str, &str, &str)] = &[
    ("pipe", "fcntl:error=EPERM", "kernel"),
    ("pipe", "pipe2:error=EMFILE", "descriptors"),
    ("pipe", "pipe2:error=ENFILE", "descriptors"),
    ("pipe", "splice:error=EINVAL", "kernel"),
    ("mmap-write", "mmap:error=ENOMEM", "mapping"),
    ("vmsplice", "mmap:error=ENODEV", "mapping"),
];

fn refused(server: &Server, site: &Path, faults: &str, counted: &str) -> anyhow::Result<()> {
    // By now, the driver has all that it needs for a connection and for itself.
    let mut client = Http::connect(server.address())?;
    client.get("/missing")?;
    let sizes = [100, 26_510, 300_000];
    with_faults(server, faults, || {
        for size in sizes {
            let got = client.get(&format!("/{size}"))?;
            ensure!(got.status == 200 && got.body == bytes(size), "{size}: {} {}", got.status, got.body.len());
        }
        Ok(())
    })?;
    let stats = stats(server)?;
    let fell_back = number(&stats, &format!("/fallbacks/{counted}"))?;
    ensure!(fell_back >= sizes.len() as f64, "{} in {}", stats["fallbacks"], site.display());
    Ok(())
}

/// A pipe is filled and emptied by `splice`: where that always fails, `sendfile` is left.
#[test]
fn what_the_kernel_refuses_falls_back_and_is_counted() {
    if strace().is_none() {
        return;
    }
    let site = Site::new(&[100, 26_510, 300_000]);
    for &(strategy, faults, counted) in REFUSALS {
        let strategies: &'static [&'static str] = std::slice::from_ref(
            crate::setup::STRATEGIES.iter().find(|known| **known == strategy).expect("a strategy"),
        );
        // A thread for each connection maps its stack, and a driver that reads into memory of its own maps that.
        let drivers: &[_] = if faults.starts_with("mmap") { &LOOPS_ALONE } else { &EVENT_LOOPS };
        Setup { strategies, drivers, concurrency: 3, ..ALL }.for_each_server(site.path(), |server, _| {
            refused(server, site.path(), faults, counted).with_context(|| faults.to_owned())
        });
    }
}

/// Neither a file nor a pipe can be opened: that is 503, and passes.
#[test]
fn a_process_without_descriptors_answers_503_and_recovers() {
    if strace().is_none() {
        return;
    }
    let site = Site::new(&[100]);
    Setup { drivers: &EVENT_LOOPS, concurrency: 3, ..PIPE }.for_each_server(site.path(), |server, _| {
        let mut client = Http::connect(server.address())?;
        ensure!(client.get("/missing")?.status == 404, "before");
        with_faults(server, "openat2:error=EMFILE", || {
            ensure!(client.get("/100")?.status == 503, "there is no descriptor for it");
            Ok(())
        })?;
        let got = client.get("/100")?;
        ensure!(got.status == 200 && got.body == bytes(100), "it passes: {}", got.status);
        Ok(())
    });
}

/// Files, mappings and pipes of the cache hold descriptors, and connections come first.
#[test]
fn connections_come_first_with_few_open_files() {
    let site = many(300);
    let request = get("/0");
    let exchange = Exchange { request: request.as_bytes(), answer: b"HTTP/1.1 200 OK\r\n" };
    let setup = Setup { args: &["--threads", "2"], ..ONE };
    let command = |driver| setup.command(Combination { strategy: "auto", driver }, site.path());
    connections_come_first(command, exchange, |server| all_are_right(server, 300));
}
