//! Large files: to slow readers, to readers that leave, and while the server drains.

use std::{thread, time::Duration};

use anyhow::{Context, ensure};
use testkit::{
    Client, Digest, DriverKind, PipePath, ResourceCounts, Server, digest, eventually,
    http::{Http, get, get_and_close},
};

use crate::setup::{ALL, PIPE, Setup, Site, bytes, number, stats};

/// Size of a file that exceeds the buffers of one connection, so that a transfer can be stopped in the middle.
const LARGE: usize = 8 << 20;

/// Connects a client with a small receive buffer, which has read the head of the response and nothing of the file yet.
fn begin(server: &Server, request: &str) -> anyhow::Result<Client> {
    let mut client = Http::from_client(Client::connect_with_buffer(server.address(), 16 << 10)?)?;
    client.send(request)?;
    client.skip_head()
}

fn large() -> String {
    format!("/{LARGE}")
}

#[test]
fn a_slow_reader_gets_every_byte() {
    let whole = Digest { sha256: digest(bytes(LARGE)), len: LARGE as u64 };
    ALL.for_each_server(Site::new(&[LARGE]).path(), |server, _| {
        let got = begin(server, &get_and_close(&large()))?.digest(256 << 10, Duration::from_millis(1))?;
        ensure!(got == whole, "{} bytes, or wrong ones", got.len);
        Ok(())
    });
}

#[test]
fn resets_in_mid_transfer_leave_nothing_behind() {
    let setup = Setup { args: &["--threads", "1", "--idle-evict", "300ms"], concurrency: 3, ..ALL };
    setup.for_each_server(Site::new(&[LARGE, 26_510]).path(), |server, _| {
        let round = |count: usize| -> anyhow::Result<()> {
            for _ in 0..count {
                begin(server, &(get(&large()).repeat(2) + &get("/26510")))?.reset()?;
            }
            Ok(())
        };
        round(20)?; // Scratch pipes and worker threads exist now.
        let idle = || -> anyhow::Result<()> {
            eventually("what was evicted is forgotten", || {
                let stats = stats(server)?;
                let held =
                    ["/files_total", "/zombies", "/memory/descriptors", "/memory/pipe_mem_used", "/memory/mapped"];
                held.iter().try_fold(true, |so_far, held| Ok(so_far && number(&stats, held)? == 0.0))
            })
        };
        idle()?;
        let before = server.process().settled_resources()?;
        round(150)?;
        idle()?;
        // Pipes are kept for reuse, up to a limit; a leak would be in the hundreds.
        server.process().wait_until_released(before, ResourceCounts { descriptors: 40, threads: 4 })?;
        let head = Http::connect(server.address())?.ask(&format!("HEAD /{LARGE} HTTP/1.1\r\nHost: h\r\n\r\n"))?;
        ensure!(head.field("content-length") == Some(&*LARGE.to_string()), "{head:?}");
        Ok(())
    });
}

/// Readers that take nothing hold all scratch pipes. All others are answered meanwhile, and in the end those readers, too.
#[test]
fn slow_readers_that_hold_pipes_do_not_hold_up_others() {
    const SLOW: usize = 300;
    // `pool` and `blocking` have a thread with each slow reader, and that is all that they have.
    let setup = Setup {
        strategies: &["pipe", "vmsplice", "auto"],
        drivers: &crate::setup::EVENT_LOOPS,
        args: &["--threads", "1", "--pipe-size", "64KiB", "--socket-buffer", "32KiB"],
        concurrency: 2,
    };
    setup.for_each_server(Site::new(&[1 << 20, 26_510]).path(), |server, combination| {
        let slow = (0..SLOW).map(|_| begin(server, &get_and_close("/1048576"))).collect::<anyhow::Result<Vec<_>>>()?;
        let mut client = Http::connect(server.address())?;
        for _ in 0..100 {
            let got = client.get("/26510")?;
            ensure!(got.status == 200 && got.body == bytes(26_510), "{} beside slow readers", got.status);
        }
        let lacked = number(&stats(server)?, "/fallbacks/scratch")?;
        // A driver that reads pipes into memory keeps none with a slow reader.
        let splices = combination.driver.descriptor().sends_pipes == PipePath::Splice;
        ensure!(lacked > 0.0 || !splices, "there were pipes for all of them");
        let whole = digest(bytes(1 << 20));
        for mut reader in slow {
            let got = reader.digest(1 << 20, Duration::ZERO)?;
            ensure!(got == Digest { sha256: whole, len: 1 << 20 }, "{} bytes, or wrong ones", got.len);
        }
        Ok(())
    });
}

/// An evicted file is sent to its end, counts until then, and no longer.
#[test]
fn an_evicted_file_counts_until_its_last_request_ends() {
    let setup = Setup { args: &["--threads", "1", "--idle-evict", "200ms"], ..ALL };
    let whole = Digest { sha256: digest(bytes(LARGE)), len: LARGE as u64 };
    // tokio-uring reads files into memory, but holds on to what it reads from as the others do.
    setup.for_each_server(Site::new(&[LARGE]).path(), |server, combination| {
        let mut reader = begin(server, &get_and_close(&large()))?;
        eventually("the file is evicted", || Ok(number(&stats(server)?, "/files_total")? == 0.0))?;
        let during = stats(server)?;
        // A copy in registered memory is accounted for by that memory itself.
        if combination.strategy != "uring" {
            ensure!(number(&during, "/zombies")? >= 1.0, "{during}");
            ensure!(number(&during, "/memory/descriptors")? >= 1.0, "{during}");
        }
        ensure!(reader.digest(1 << 20, Duration::ZERO)? == whole, "wrong bytes");
        eventually("nothing is left of it", || {
            let stats = stats(server)?;
            Ok(number(&stats, "/zombies")? == 0.0 && number(&stats, "/memory/descriptors")? == 0.0)
        })
    });
}

/// A file that is cut in mid transfer ends the connection, and nothing else.
#[test]
fn a_file_cut_in_mid_transfer_ends_its_connection_only() {
    ALL.for_each_combination(|combination| {
        let site = Site::new(&[LARGE, 100]);
        crate::setup::settle();
        let mut server = ALL.start(combination, site.path())?;
        let mut reader = begin(&server, &get_and_close(&large()))?;
        let path = site.path().join(LARGE.to_string());
        std::fs::File::options().write(true).open(&path)?.set_len(1 << 20)?;
        let (body, _) = reader.read_until_disconnect();
        // A copy is whole, and pages in pipes have been cleared; everything else ends where the file does.
        let is_kept = matches!(combination.strategy, "uring" | "pipe");
        ensure!(is_kept || body.len() < LARGE, "{} bytes of a file that was cut", body.len());
        let mut pairs = body.iter().zip(bytes(LARGE));
        ensure!(pairs.all(|(got, want)| got == want || *got == 0), "bytes that were never there");
        let got = Http::connect(server.address())?.get("/100")?;
        ensure!(got.status == 200 && got.body == bytes(100), "the others are served: {}", got.status);
        server.drain()
    });
}

/// The head of a response was queued before the file was cut, and leaves although the body cannot.
#[test]
fn a_file_cut_behind_its_head_is_sent_as_far_as_it_is_there() {
    const SMALL: usize = 10_000;
    ALL.for_each_combination(|combination| {
        for (left, is_cut) in [(0, true), (5_000, true), (2 * SMALL, false)] {
            let site = Site::new(&[LARGE, SMALL]);
            let mut server = ALL.start(combination, site.path())?;
            let requests = get(&large()) + &get_and_close(&format!("/{SMALL}"));
            let mut reader = begin(&server, &requests)?;
            thread::sleep(Duration::from_millis(50)); // Both have been queued.
            let path = site.path().join(SMALL.to_string());
            std::fs::File::options().write(true).open(&path)?.set_len(left as u64)?;
            let (got, _) = reader.read_until_disconnect();
            let (first, second) = got.split_at_checked(LARGE).context("the file before it")?;
            ensure!(first == bytes(LARGE), "{left}: the file before it");
            let body = second.windows(4).position(|end| end == b"\r\n\r\n").context("no head")? + 4;
            let (head, body) = second.split_at(body);
            ensure!(head.starts_with(b"HTTP/1.1 200 OK\r\n"), "{left}: {}", head.escape_ascii());
            // What has been asked for too late has the new length.
            let is_whole = body.len() == SMALL || body.len() == left;
            ensure!(is_whole || is_cut && body.len() >= left && body.len() < SMALL, "{left}: {} bytes", body.len());
            let mut pairs = body.iter().zip(bytes(SMALL));
            ensure!(pairs.all(|(got, want)| got == want || *got == 0), "{left}: bytes that were never there");
            server.drain()?;
        }
        Ok(())
    });
}

/// A file that is cut or emptied is sent as it is now by strategies that would send zeros for lost pages.
#[test]
fn a_mapped_file_that_has_been_cut_is_sent_as_it_is() {
    /// Lengths before and after, each a file of its own: one that has just changed is looked at again after a second.
    const CUTS: [(usize, usize); 6] =
        [(3_000, 1_500), (3_001, 0), (3_002, 7), (10_000, 5_000), (10_001, 0), (10_002, 7)];
    let setup = Setup { strategies: &["mmap-write", "vmsplice", "pipe", "auto"], ..ALL };
    setup.for_each_combination(|combination| {
        let site = Site::new(&CUTS.map(|(before, _)| before));
        crate::setup::settle();
        let mut server = setup.start(combination, site.path())?;
        let mut client = Http::connect(server.address())?;
        for (before, after) in CUTS {
            let target = format!("/{before}");
            ensure!(client.get(&target)?.body == bytes(before), "{before}");
            let path = site.path().join(before.to_string());
            std::fs::File::options().write(true).open(&path)?.set_len(after as u64)?;
            thread::sleep(Duration::from_millis(20)); // The coarse clock goes on.
            let got = client.get(&target)?;
            ensure!(got.status == 200 && got.body == bytes(before)[..after], "{before}: {} bytes", got.body.len());
        }
        server.drain()
    });
}

#[test]
fn a_drain_finishes_what_is_in_flight() {
    let whole = Digest { sha256: digest(bytes(LARGE)), len: LARGE as u64 };
    let site = Site::new(&[LARGE]);
    PIPE.for_each_combination(|combination| {
        let mut server = PIPE.start(combination, site.path())?;
        let transfers = (0..3).map(|_| begin(&server, &get(&large()))).collect::<anyhow::Result<Vec<_>>>()?;
        server.drain_with_transfers(transfers, whole, || Ok(()))
    });
}

/// Nothing of idle files stays, and a file that is requested again comes back.
#[test]
fn idle_files_leave_and_come_back() {
    let setup = Setup { args: &["--threads", "1", "--idle-evict", "200ms"], drivers: &[DriverKind::DEFAULT], ..ALL };
    setup.for_each_server(Site::new(&[26_510]).path(), |server, _| {
        for _ in 0..3 {
            let mut client = Http::connect(server.address())?;
            ensure!(client.get("/26510")?.body == bytes(26_510), "wrong bytes");
            ensure!(number(&stats(server)?, "/files_total")? == 1.0, "it is cached");
            eventually("it is evicted", || Ok(number(&stats(server)?, "/files_total")? == 0.0))?;
            let stats = stats(server)?;
            ensure!(number(&stats, "/memory/descriptors")? == 0.0, "{}", stats["memory"]);
            thread::sleep(Duration::from_millis(20));
        }
        ensure!(number(&stats(server)?, "/evictions")? == 3.0, "each time");
        Ok(())
    });
}
