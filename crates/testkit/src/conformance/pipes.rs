//! Cached pipes and pages of mapped files: few system calls with a scratch pipe, and the right bytes without one.

use std::{collections::BTreeMap, thread, time::Duration};

use crate::{
    Client, FilePath, PipePath, ResourceCounts, Server, digest,
    strace::{count_calls, record_calls, strace, with_faults},
};
use anyhow::{Context, ensure};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::case::{Case, Driver, PAGE_BYTES, PIPE_BYTES, PLAIN, Setup, trace_path};

const LEN: usize = 1 << 20;
/// Length of a typical small file.
const SMALL: usize = 26_510;
const KINDS: [&str; 4] = ["pipe", "headed", "chain", "pages"];

const WITH_CONTENT: Setup = Setup { content_bytes: LEN, ..PLAIN };

/// True if pipes and pages reach the socket without being copied through memory.
fn splices(driver: Driver) -> bool {
    driver.descriptor().sends_pipes == PipePath::Splice
}

/// Requests one body; the connection stays open.
fn fetch(client: &mut Client, case: &Case<'_>, kind: &str, len: usize) -> anyhow::Result<()> {
    let line = format!("{kind} {len}\n");
    client.send(line.as_bytes())?;
    client.expect(line.as_bytes())?;
    let body = client.take(len).with_context(|| format!("{kind} {len}"))?;
    ensure!(digest(&body) == digest(&case.content.bytes()[..len]), "{kind} {len}: wrong bytes");
    Ok(())
}

fn fallbacks(client: &mut Client) -> anyhow::Result<u64> {
    client.send(b"fallbacks\n")?;
    Ok(client.read_line()?.parse()?)
}

/// Checks one body of each kind and the request after it: right bytes, and one fallback for each segment without a pipe.
fn expect_fallbacks(server: &Server, case: &Case<'_>, kinds: &[(&str, usize, u64)]) -> anyhow::Result<()> {
    let mut client = server.connect()?;
    expect_fallbacks_of(&mut client, case, kinds)
}

fn expect_fallbacks_of(client: &mut Client, case: &Case<'_>, kinds: &[(&str, usize, u64)]) -> anyhow::Result<()> {
    for &(kind, len, pieces) in kinds {
        let before = fallbacks(client)?;
        fetch(client, case, kind, len)?;
        let counted = fallbacks(client)? - before;
        // Pages need no pipe there: they are written from the mapping.
        let wanted = if !splices(case.driver) && kind == "pages" { 0 } else { pieces };
        ensure!(counted == wanted, "{kind} {len}: {counted} fallbacks instead of {wanted}");
    }
    Ok(())
}

/// Head and body in one pipe are sent by one tee and one splice, and by no other call.
pub fn a_small_cached_response_is_one_tee_and_one_splice() {
    const COUNT: usize = 5;
    const CALLS: &str =
        "tee,splice,vmsplice,sendfile,sendto,sendmsg,write,writev,pipe2,fcntl,close,ioctl,read,setsockopt";
    if strace().is_none() {
        return;
    }
    let setup = Setup { threads: &[1], parallel: 2, drivers: splices, ..WITH_CONTENT };
    setup.check_server(|server, case| {
        let mut client = server.connect()?;
        fetch(&mut client, case, "headed", SMALL)?;
        let mut calls = count_calls(server, &trace_path(case), CALLS, || {
            (0..COUNT).try_for_each(|_| fetch(&mut client, case, "headed", SMALL))
        })?;
        // Threads and loops wake each other with these.
        calls.retain(|call, _| !["read", "write", "fcntl"].contains(&&**call));
        let wanted = BTreeMap::from([("splice".to_owned(), COUNT), ("tee".to_owned(), COUNT)]);
        ensure!(calls == wanted, "{calls:?}");
        Ok(())
    });
}

/// An empty scratch pipe is used again: once there is one, no other is made.
pub fn scratch_pipes_are_used_again() {
    if strace().is_none() {
        return;
    }
    let setup = Setup { threads: &[1], parallel: 2, ..WITH_CONTENT };
    setup.check_server(|server, case| {
        let mut client = server.connect()?;
        let round = |client: &mut Client| {
            let lens = [PIPE_BYTES, PIPE_BYTES - PAGE_BYTES, LEN / 2, LEN];
            KINDS.iter().zip(lens).try_for_each(|(kind, len)| fetch(client, case, kind, len))
        };
        round(&mut client)?;
        let calls =
            count_calls(server, &trace_path(case), "pipe,pipe2", || (0..5).try_for_each(|_| round(&mut client)))?;
        ensure!(calls.is_empty(), "{calls:?}");
        ensure!(fallbacks(&mut client)? == 0, "something fell back");
        Ok(())
    });
}

/// Without any scratch pipe everything is sent in another way, and counted.
pub fn without_scratch_pipes_all_is_sent_and_counted() {
    let setup = Setup { args: &["--pipes-max", "0"], ..WITH_CONTENT };
    setup.check_server(|server, case| {
        let chain = LEN.div_ceil(PIPE_BYTES) as u64;
        let kinds = [("pipe", PIPE_BYTES, 1), ("headed", SMALL, 1), ("chain", LEN, chain), ("pages", LEN, 1)];
        expect_fallbacks(server, case, &kinds)
    });
}

/// Scratch pipes with less room than what is cached: the cached bytes are sent without a pipe, pages in small portions.
pub fn scratch_pipes_that_are_too_small_are_not_used() {
    let setup = Setup { args: &["--pipe-bytes", "16384"], ..WITH_CONTENT };
    setup.check_server(|server, case| {
        expect_fallbacks(server, case, &[("chain", LEN, 0), ("pages", LEN, 0), ("headed", 3 * PAGE_BYTES, 0)])?;
        // The kernel makes pipes of the usual size unless it is told otherwise.
        expect_fallbacks(server, case, &[("headed", 2 * PIPE_BYTES, 1), ("pipe", 2 * PIPE_BYTES, 1)])
    });
}

/// The capacity of a pipe is in pages: the head takes a page of its own, and the end of the body then finds no room.
pub fn a_tee_cut_short_is_noticed() {
    WITH_CONTENT.check_server(|server, case| {
        for _ in 0..3 {
            expect_fallbacks(server, case, &[("headed", PIPE_BYTES - 100, 1)])?;
        }
        expect_fallbacks(server, case, &[("headed", PIPE_BYTES - PAGE_BYTES, 0)])
    });
}

/// Connects readers that have stopped in the middle of a body, each of which holds a scratch pipe.
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

/// A server that is out of descriptors loses no connection: it needs none for a file.
pub fn out_of_descriptors_bodies_are_sent_without_a_pipe() {
    let setup = Setup { threads: &[1], ..WITH_CONTENT };
    setup.check_server(|server, case| {
        let mut client = server.connect()?;
        let kinds = [("headed", SMALL, 1), ("chain", 3 * PIPE_BYTES, 3), ("pages", LEN, 1)];
        kinds.iter().try_for_each(|&(kind, len, _)| fetch(&mut client, case, kind, len))?;
        // They keep the one scratch pipe that there is.
        let holders = if splices(case.driver) { ("pages", LEN) } else { ("pipe", PIPE_BYTES) };
        let stuck = stuck(server, [holders; 3])?;
        let process = Pid::from_raw(server.process().id());
        let hard = getrlimit(Resource::Nofile).maximum;
        let previous = prlimit(process, Resource::Nofile, Rlimit { current: Some(3), maximum: hard })?;
        let outcome = expect_fallbacks_of(&mut client, case, &kinds);
        prlimit(process, Resource::Nofile, previous)?;
        drop(stuck);
        outcome
    });
}

/// A refused call is replaced by another way of sending, and an interrupted one is repeated.
pub fn failing_calls_cost_no_connection_and_no_byte() {
    if strace().is_none() {
        return;
    }
    let setup = Setup { threads: &[1], parallel: 2, ..WITH_CONTENT };
    setup.check_server(|server, case| {
        let tee = [("pipe", PIPE_BYTES, 1), ("headed", SMALL, 1), ("chain", 3 * PIPE_BYTES, 3)];
        for inject in ["tee:error=EPERM", "tee:error=ENOMEM", "tee:retval=7"] {
            with_faults(server, inject, || expect_fallbacks(server, case, &tee)).context(inject)?;
        }
        for inject in ["vmsplice:error=ENOMEM", "vmsplice:error=EPERM"] {
            with_faults(server, inject, || expect_fallbacks(server, case, &[("pages", LEN, 1)])).context(inject)?;
        }
        for inject in ["tee:error=EINTR:when=1+2", "vmsplice:error=EINTR:when=1+2", "splice:error=EINTR:when=1+2"] {
            let all = KINDS.map(|kind| (kind, SMALL, 0));
            with_faults(server, inject, || expect_fallbacks(server, case, &all)).context(inject)?;
        }
        Ok(())
    });
}

/// A scratch pipe that has been read in part is never used for another connection: it is closed with its own.
pub fn a_scratch_pipe_in_use_is_closed_with_its_connection() {
    /// Descriptors of pipes that may be kept: a few for each loop.
    const SPARE: usize = 16;
    WITH_CONTENT.check_server(|server, case| {
        let lens = [PIPE_BYTES, PIPE_BYTES - PAGE_BYTES, 3 * PIPE_BYTES, LEN];
        let all =
            |client: &mut Client| KINDS.iter().zip(lens).try_for_each(|(kind, len)| fetch(client, case, kind, len));
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

/// Scratch pipes that slow readers hold have a limit. Past it, responses are sent without one and do not wait.
pub fn slow_readers_hold_no_more_scratch_pipes_than_the_limit() {
    const READERS: usize = 20;
    const PIPES: usize = 4;
    let setup = Setup { args: &["--pipes-max", "4"], ..WITH_CONTENT };
    setup.check_server(|server, case| {
        let kinds =
            [("pipe", PIPE_BYTES), ("headed", PIPE_BYTES - PAGE_BYTES), ("chain", 3 * PIPE_BYTES), ("pages", LEN)];
        kinds.iter().try_for_each(|&(kind, len)| fetch(&mut server.connect()?, case, kind, len))?;
        let before = server.process().settled_resources()?;
        let mut readers = stuck(server, kinds.into_iter().cycle().take(READERS))?;
        let held = server.process().settled_resources()?.descriptors - before.descriptors;
        // Loops that check the limit at the same moment may each make one more.
        let pipes = 2 * (PIPES + case.threads);
        // Such a driver sends a file by a second descriptor.
        let files = if case.driver.descriptor().sends_files == FilePath::Sendfile { 0 } else { READERS };
        ensure!(held <= READERS + pipes + files, "{held} descriptors for {READERS} readers");
        let mut client = server.connect()?;
        for (reader, (kind, len)) in readers.iter_mut().zip(kinds.into_iter().cycle()) {
            fetch(&mut client, case, kind, len)?;
            let line = format!("{kind} {len}\n").into_bytes();
            let stream = line.iter().chain(&case.content.bytes()[..len]).copied().cycle();
            let stream: Vec<u8> = stream.skip(1_000).take(200_000).collect();
            ensure!(reader.take(stream.len())? == stream, "{kind}: wrong bytes for a slow reader");
        }
        ensure!(fallbacks(&mut client)? > 0, "nothing fell back");
        Ok(())
    });
}

/// TCP holds a partial packet back for the bytes that follow: only the end of a chain is pushed.
pub fn only_the_last_link_of_a_chain_is_pushed() {
    if strace().is_none() {
        return;
    }
    let setup = Setup { threads: &[1], parallel: 2, drivers: splices, ..WITH_CONTENT };
    setup.check_server(|server, case| {
        let mut client = server.connect()?;
        for kind in ["chain", "pages"] {
            fetch(&mut client, case, kind, 3 * PIPE_BYTES)?;
            let calls =
                record_calls(server, &trace_path(case), "splice", || fetch(&mut client, case, kind, 3 * PIPE_BYTES))?;
            let is_pushed = |call: &String| !call.contains("SPLICE_F_MORE");
            let links = calls.iter().position(is_pushed).context("nothing is pushed")?;
            ensure!(links >= 2, "{kind}: {calls:#?}");
            ensure!(calls[links..].iter().all(is_pushed), "{kind}: {calls:#?}");
        }
        Ok(())
    });
}
