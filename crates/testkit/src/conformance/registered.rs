//! Registered memory: sent without a copy by the driver that can, and like other memory by the rest.

use std::{process::Command, time::Duration};

use crate::{
    Client, Server, digest, run_to_end,
    strace::{strace, with_faults},
};
use anyhow::ensure;
use sys::listen::Address;

use super::case::{Case, PLAIN, Setup, probe, socket_path};

const LEN: usize = 4 << 20;
const SETUP: Setup = Setup { content_bytes: LEN, args: &["--registered"], ..PLAIN };

fn requests(count: usize) -> (Vec<u8>, Vec<usize>) {
    let lens: Vec<usize> = [1, 700, 40_000, 300_001, LEN].into_iter().cycle().take(count).collect();
    (lens.iter().flat_map(|len| format!("registered {len}\n").into_bytes()).collect(), lens)
}

fn replies(case: &Case<'_>, lens: &[usize]) -> Vec<u8> {
    let reply = |&len: &usize| [format!("registered {len}\n").as_bytes(), &case.content.bytes()[..len]].concat();
    lens.iter().flat_map(reply).collect()
}

/// A small receive window makes sends partial; each goes on where the last one stopped.
pub fn registered_memory_arrives_whole_and_in_order() {
    SETUP.check_server(|server, case| {
        let (requests, lens) = requests(12);
        for window in [8 << 10, 1 << 20] {
            let mut client = Client::connect_with_buffer(server.address(), window)?;
            client.send_and_half_close(&requests)?;
            let got = client.digest(30_000, Duration::from_micros(200))?;
            let wanted = replies(case, &lens);
            ensure!(got.len == wanted.len() as u64 && got.sha256 == digest(&wanted), "window {window}: wrong bytes");
        }
        Ok(())
    });
}

/// Files and pipes between registered segments do not change the order.
pub fn registered_memory_keeps_its_place_among_other_segments() {
    SETUP.check_server(|server, case| {
        let kinds = [("registered", 30_000), ("file", 30_000), ("headed", 9_000), ("registered", 9), ("shared", 5_000)];
        let (mut requests, mut wanted) = (Vec::new(), Vec::new());
        for (kind, len) in kinds.into_iter().cycle().take(100) {
            let line = format!("{kind} {len}\n");
            requests.extend(line.bytes());
            wanted.extend(line.bytes());
            wanted.extend(&case.content.bytes()[..len]);
        }
        let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
        client.send_and_half_close(&requests)?;
        client.expect_all(&wanted)
    });
}

/// The kernel owns pages for longer than a send takes, since TCP may have to send them again. They must not be written
/// to before the client has received them.
pub fn sent_pages_are_not_reused_before_they_have_arrived() {
    SETUP.check_server(|server, case| {
        let lens: Vec<usize> = (0..60).map(|n| 250_000 + 7_001 * (n % 11)).collect();
        let mut client = Client::connect_with_buffer(server.address(), 4 << 10)?;
        let requests: String = lens.iter().map(|len| format!("lent {len}\n")).collect();
        client.send_and_half_close(requests.as_bytes())?;
        // Until the buffers on the way are full.
        std::thread::sleep(Duration::from_millis(100));
        for len in lens {
            client.expect(format!("lent {len}\n").as_bytes())?;
            let body = client.take(len)?;
            ensure!(body == case.content.bytes()[len..2 * len], "lent {len}: bytes of another reply");
        }
        Ok(())
    });
}

/// After clients that disconnect while the kernel still reads, the next ones in their slots get the right bytes.
pub fn disconnects_during_sends_leak_nothing() {
    SETUP.check_server(|server, case| {
        probe(server)?;
        let before = server.process().settled_resources()?;
        for round in 0..40 {
            let mut leaver = Client::connect_with_buffer(server.address(), 4 << 10)?;
            leaver.send(format!("registered {LEN}\n").repeat(3).as_bytes())?;
            leaver.take(1_000 * round + 1)?;
            match round % 2 {
                0 => leaver.reset()?,
                _ => drop(leaver),
            }
            let mut client = server.connect()?;
            client.send_and_half_close(b"registered 40000\n")?;
            client.expect_all(&replies(case, &[40_000]))?;
        }
        server.process().wait_until_released(before, crate::ResourceCounts { descriptors: 0, threads: 1 })
    });
}

/// The kernel reads the region itself, not a copy.
pub fn uring_sends_registered_memory_without_copying_it() {
    if strace().is_none() {
        return;
    }
    let setup = Setup { drivers: |driver| driver.descriptor().registers_memory, threads: &[1], ..SETUP };
    setup.check_server(|server, case| {
        // Every other way of sending fails.
        with_faults(server, "sendto,sendmsg,sendfile,splice:error=EPERM", || {
            let mut client = server.connect()?;
            client.send_and_half_close(format!("registered {LEN}\n").as_bytes())?;
            client.expect_all(&replies(case, &[LEN]))
        })
    });
}

/// A refusal by the kernel is an error at the start. The server never falls back to another way of sending.
pub fn a_refusal_by_the_kernel_is_an_error_at_start() {
    let setup = Setup { threads: &[1], ..SETUP };
    setup.check(|case| {
        let address = Address::Unix(socket_path(case).with_extension("registered"));
        let mut command = case.command();
        command.args(["--listen", &address.to_string()]);
        refused_or_served(case, command, "TCP only")?;
        if strace().is_none() {
            return Ok(());
        }
        for nth in [1, 2] {
            let mut command = Command::new("strace");
            command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=io_uring_register"]);
            command.args(["-e", &format!("inject=io_uring_register:error=EPERM:when={nth}")]);
            let server = case.command();
            command.arg(server.get_program()).args(server.get_args());
            if case.driver.descriptor().registers_memory {
                refused_or_served(case, command, "the kernel refuses registered memory")?;
            }
        }
        Ok(())
    });
}

fn refused_or_served(case: &Case<'_>, command: Command, why: &str) -> anyhow::Result<()> {
    if case.driver.descriptor().registers_memory {
        let ended = run_to_end(command)?;
        ensure!(ended.code() == Some(1), "{:?}", ended.status);
        ensure!(ended.stderr.contains(why), "{}", ended.stderr);
        ensure!(!ended.stdout.contains("listening"), "{}", ended.stdout);
        return Ok(());
    }
    let mut server = Server::start_command(command, 1)?;
    let mut client = server.connect()?;
    client.send(b"registered 40000\n")?;
    client.half_close()?;
    client.expect_all(&replies(case, &[40_000]))?;
    ensure!(server.stop()?.success(), "{}", server.stderr());
    Ok(())
}
