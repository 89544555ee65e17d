//! Cached pipes and pages of mapped files: few calls where all is well, and the right bytes where there is no scratch
//! pipe to be had.

use std::{collections::BTreeMap, thread, time::Duration};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use testkit::{
    Client, DriverKind, FilePath, PipePath, ResourceCounts, Server, digest,
    strace::{count_calls, record_calls, strace, with_faults},
};

use crate::case::{Bench, PLAIN, Setup, trace_path};

const LEN: usize = 1 << 20;
const PAGE: usize = 4 << 10;
/// What a new pipe holds (pipe(7)).
const PIPE_LEN: usize = 64 << 10;
/// The file that has been asked for a thousand times a second ever since this project began.
const SMALL: usize = 26_510;
const KINDS: [&str; 4] = ["pipe", "headed", "chain", "pages"];

const WITH_CONTENT: Setup = Setup { content_bytes: LEN, ..PLAIN };

/// True if pipes and pages reach the socket without being copied through memory.
fn splices(driver: DriverKind) -> bool {
    driver.descriptor().sends_pipes == PipePath::Splice
}

/// One body on a connection that goes on.
fn fetch(client: &mut Client, bench: &Bench<'_>, kind: &str, len: usize) -> anyhow::Result<()> {
    let line = format!("{kind} {len}\n");
    client.send(line.as_bytes())?;
    client.expect(line.as_bytes())?;
    let body = client.take(len).with_context(|| format!("{kind} {len}"))?;
    ensure!(digest(&body) == digest(&bench.content.bytes()[..len]), "{kind} {len}: wrong bytes");
    Ok(())
}

fn fallbacks(client: &mut Client) -> anyhow::Result<u64> {
    client.send(b"fallbacks\n")?;
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        line.extend(client.take(1)?);
    }
    Ok(String::from_utf8(line)?.trim().parse()?)
}

/// One of each kind, and a request behind it: right bytes, and as many fall-backs as there were pieces without a pipe.
fn one_of_each_falls_back(server: &Server, bench: &Bench<'_>, kinds: &[(&str, usize, u64)]) -> anyhow::Result<()> {
    let mut client = server.connect()?;
    each_falls_back(&mut client, bench, kinds)
}

fn each_falls_back(client: &mut Client, bench: &Bench<'_>, kinds: &[(&str, usize, u64)]) -> anyhow::Result<()> {
    for &(kind, len, pieces) in kinds {
        let before = fallbacks(client)?;
        fetch(client, bench, kind, len)?;
        let counted = fallbacks(client)? - before;
        // Pages need no pipe there: they are written from the mapping.
        let wanted = if !splices(bench.driver) && kind == "pages" { 0 } else { pieces };
        ensure!(counted == wanted, "{kind} {len}: {counted} fall-backs instead of {wanted}");
    }
    Ok(())
}

/// Head and body in one pipe leave by one tee and one splice, and by nothing else.
#[test]
fn a_small_cached_response_is_one_tee_and_one_splice() {
    const COUNT: usize = 5;
    const CALLS: &str =
        "tee,splice,vmsplice,sendfile,sendto,sendmsg,write,writev,pipe2,fcntl,close,ioctl,read,setsockopt";
    if strace().is_none() {
        return;
    }
    let setup = Setup { threads: &[1], at_once: 2, drivers: splices, ..WITH_CONTENT };
    setup.serve(|server, bench| {
        let mut client = server.connect()?;
        fetch(&mut client, bench, "headed", SMALL)?;
        let mut calls = count_calls(server, &trace_path(bench), CALLS, || {
            (0..COUNT).try_for_each(|_| fetch(&mut client, bench, "headed", SMALL))
        })?;
        // How threads and loops wake each other is their own affair.
        calls.retain(|call, _| !["read", "write", "fcntl"].contains(&&**call));
        let wanted = BTreeMap::from([("splice".to_owned(), COUNT), ("tee".to_owned(), COUNT)]);
        ensure!(calls == wanted, "{calls:?}");
        Ok(())
    });
}

/// A scratch pipe that was emptied is filled again: no pipe is made once there is one.
#[test]
fn scratch_pipes_are_used_again() {
    if strace().is_none() {
        return;
    }
    let setup = Setup { threads: &[1], at_once: 2, ..WITH_CONTENT };
    setup.serve(|server, bench| {
        let mut client = server.connect()?;
        let round = |client: &mut Client| {
            let lens = [PIPE_LEN, PIPE_LEN - PAGE, LEN / 2, LEN];
            KINDS.iter().zip(lens).try_for_each(|(kind, len)| fetch(client, bench, kind, len))
        };
        round(&mut client)?;
        let calls =
            count_calls(server, &trace_path(bench), "pipe,pipe2", || (0..5).try_for_each(|_| round(&mut client)))?;
        ensure!(calls.is_empty(), "{calls:?}");
        ensure!(fallbacks(&mut client)? == 0, "something fell back");
        Ok(())
    });
}

/// No scratch pipe at all: everything is sent, in another way, and counted.
#[test]
fn without_scratch_pipes_all_is_sent_and_counted() {
    let setup = Setup { args: &["--pipes-max", "0"], ..WITH_CONTENT };
    setup.serve(|server, bench| {
        let chain = LEN.div_ceil(PIPE_LEN) as u64;
        let kinds = [("pipe", PIPE_LEN, 1), ("headed", SMALL, 1), ("chain", LEN, chain), ("pages", LEN, 1)];
        one_of_each_falls_back(server, bench, &kinds)
    });
}

/// Scratch pipes with less room than what is cached: the cached bytes are sent without a pipe, pages in small portions.
#[test]
fn scratch_pipes_that_are_too_small_are_not_used() {
    let setup = Setup { args: &["--pipe-bytes", "16384"], ..WITH_CONTENT };
    setup.serve(|server, bench| {
        one_of_each_falls_back(server, bench, &[("chain", LEN, 0), ("pages", LEN, 0), ("headed", 3 * PAGE, 0)])?;
        // The kernel makes no pipe smaller than it usually is, unless it is told to.
        one_of_each_falls_back(server, bench, &[("headed", 2 * PIPE_LEN, 1), ("pipe", 2 * PIPE_LEN, 1)])
    });
}

/// Room counts in pages: a head takes one of its own, and then the last bytes of the body find none.
#[test]
fn a_tee_cut_short_is_noticed() {
    WITH_CONTENT.serve(|server, bench| {
        for _ in 0..3 {
            one_of_each_falls_back(server, bench, &[("headed", PIPE_LEN - 100, 1)])?;
        }
        one_of_each_falls_back(server, bench, &[("headed", PIPE_LEN - PAGE, 0)])
    });
}

/// Readers that have stopped in the middle, each holding a scratch pipe.
fn stuck<'a>(server: &Server, kinds: impl IntoIterator<Item = (&'a str, usize)>) -> anyhow::Result<Vec<Client>> {
    let stop = |(kind, len): (&str, usize)| -> anyhow::Result<Client> {
        let mut client = Client::connect_with_buffer(server.address(), 4 << 10)?;
        // More than any buffer on the way takes.
        client.send(format!("{kind} {len}\n").repeat(1_000).as_bytes())?;
        client.take(1_000)?;
        Ok(client)
    };
    let clients = kinds.into_iter().map(stop).collect();
    // Until the buffers on the way are full.
    thread::sleep(Duration::from_millis(400));
    clients
}

/// A server that is out of descriptors loses nobody who is connected: it needs none for a file.
#[test]
fn out_of_descriptors_bodies_are_sent_without_a_pipe() {
    let setup = Setup { threads: &[1], ..WITH_CONTENT };
    setup.serve(|server, bench| {
        let mut client = server.connect()?;
        let kinds = [("headed", SMALL, 1), ("chain", 3 * PIPE_LEN, 3), ("pages", LEN, 1)];
        kinds.iter().try_for_each(|&(kind, len, _)| fetch(&mut client, bench, kind, len))?;
        // They keep the one scratch pipe that there is.
        let holders = if splices(bench.driver) { ("pages", LEN) } else { ("pipe", PIPE_LEN) };
        let stuck = stuck(server, [holders; 3])?;
        let process = Pid::from_raw(server.process().id());
        let hard = getrlimit(Resource::Nofile).maximum;
        let usual = prlimit(process, Resource::Nofile, Rlimit { current: Some(3), maximum: hard })?;
        let outcome = each_falls_back(&mut client, bench, &kinds);
        prlimit(process, Resource::Nofile, usual)?;
        drop(stuck);
        outcome
    });
}

/// What the kernel refuses is sent in another way, and what it interrupts is done again.
#[test]
fn calls_that_go_wrong_cost_no_connection_and_no_byte() {
    if strace().is_none() {
        return;
    }
    let setup = Setup { threads: &[1], at_once: 2, ..WITH_CONTENT };
    setup.serve(|server, bench| {
        let tee = [("pipe", PIPE_LEN, 1), ("headed", SMALL, 1), ("chain", 3 * PIPE_LEN, 3)];
        for inject in ["tee:error=EPERM", "tee:error=ENOMEM", "tee:retval=7"] {
            with_faults(server, inject, || one_of_each_falls_back(server, bench, &tee)).context(inject)?;
        }
        for inject in ["vmsplice:error=ENOMEM", "vmsplice:error=EPERM"] {
            with_faults(server, inject, || one_of_each_falls_back(server, bench, &[("pages", LEN, 1)]))
                .context(inject)?;
        }
        for inject in ["tee:error=EINTR:when=1+2", "vmsplice:error=EINTR:when=1+2", "splice:error=EINTR:when=1+2"] {
            let all = KINDS.map(|kind| (kind, SMALL, 0));
            with_faults(server, inject, || one_of_each_falls_back(server, bench, &all)).context(inject)?;
        }
        Ok(())
    });
}

/// A scratch pipe that has been read in part is never used for somebody else: it goes with its connection.
#[test]
fn readers_that_leave_take_their_scratch_pipes_along() {
    /// Descriptors of pipes that may be kept: a few for each loop.
    const SPARE: usize = 16;
    WITH_CONTENT.serve(|server, bench| {
        let lens = [PIPE_LEN, PIPE_LEN - PAGE, 3 * PIPE_LEN, LEN];
        let all =
            |client: &mut Client| KINDS.iter().zip(lens).try_for_each(|(kind, len)| fetch(client, bench, kind, len));
        let before = {
            (0..10).try_for_each(|_| all(&mut server.connect()?))?;
            server.process().settled_resources()?
        };
        for _ in 0..8 {
            for (kind, len) in KINDS.into_iter().zip(lens) {
                let line = format!("{kind} {len}\n");
                let mut leaver = Client::connect_with_buffer(server.address(), 4 << 10)?;
                leaver.send(line.repeat(100).as_bytes())?;
                leaver.take(5_000)?;
                leaver.reset()?;
            }
            all(&mut server.connect()?)?;
        }
        server.process().wait_until_released(before, ResourceCounts { descriptors: SPARE, threads: 0 })
    });
}

/// Slow readers hold scratch pipes; there is a limit to them, and past it nobody has to wait.
#[test]
fn slow_readers_hold_so_many_scratch_pipes_and_no_more() {
    const READERS: usize = 20;
    const PIPES: usize = 4;
    let setup = Setup { args: &["--pipes-max", "4"], ..WITH_CONTENT };
    setup.serve(|server, bench| {
        let kinds = [("pipe", PIPE_LEN), ("headed", PIPE_LEN - PAGE), ("chain", 3 * PIPE_LEN), ("pages", LEN)];
        kinds.iter().try_for_each(|&(kind, len)| fetch(&mut server.connect()?, bench, kind, len))?;
        let before = server.process().settled_resources()?;
        let mut readers = stuck(server, kinds.into_iter().cycle().take(READERS))?;
        let held = server.process().settled_resources()?.descriptors - before.descriptors;
        // Loops that look at the same moment may each make one more.
        let pipes = 2 * (PIPES + bench.threads);
        // There, a file that is being sent has a second descriptor.
        let files = if bench.driver.descriptor().sends_files == FilePath::Sendfile { 0 } else { READERS };
        ensure!(held <= READERS + pipes + files, "{held} descriptors for {READERS} readers");
        let mut client = server.connect()?;
        for (reader, (kind, len)) in readers.iter_mut().zip(kinds.into_iter().cycle()) {
            fetch(&mut client, bench, kind, len)?;
            let line = format!("{kind} {len}\n").into_bytes();
            let stream = line.iter().chain(&bench.content.bytes()[..len]).copied().cycle();
            let stream: Vec<u8> = stream.skip(1_000).take(200_000).collect();
            ensure!(reader.take(stream.len())? == stream, "{kind}: wrong bytes for a slow reader");
        }
        ensure!(fallbacks(&mut client)? > 0, "nothing fell back");
        Ok(())
    });
}

/// TCP holds a partial packet back for what follows: only the end of a chain is pushed out.
#[test]
fn only_the_last_link_of_a_chain_is_pushed() {
    if strace().is_none() {
        return;
    }
    let setup = Setup { threads: &[1], at_once: 2, drivers: splices, ..WITH_CONTENT };
    setup.serve(|server, bench| {
        let mut client = server.connect()?;
        for kind in ["chain", "pages"] {
            fetch(&mut client, bench, kind, 3 * PIPE_LEN)?;
            let calls =
                record_calls(server, &trace_path(bench), "splice", || fetch(&mut client, bench, kind, 3 * PIPE_LEN))?;
            let is_pushed = |call: &String| !call.contains("SPLICE_F_MORE");
            let links = calls.iter().position(is_pushed).context("nothing is pushed")?;
            ensure!(links >= 2, "{kind}: {calls:#?}");
            ensure!(calls[links..].iter().all(is_pushed), "{kind}: {calls:#?}");
        }
        Ok(())
    });
}
