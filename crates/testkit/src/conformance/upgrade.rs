//! Upgrades: the program is started anew with the sockets that there are, and the old process comes to its end.

use std::{
    fs,
    os::unix::fs::symlink,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crate::{Client, Server, Successor, eventually, with_descriptors};
use anyhow::{Context, anyhow, ensure};
use sys::listen::Address;

use super::case::{Case, Driver, PLAIN, Setup, ask, exe, probe, socket_path};

const TRANSFERS: Setup = Setup { args: &["--drain-timeout", "5m"], content_bytes: 8 << 20, ..PLAIN };
/// Time between two connections of a client.
const PAUSE: Duration = Duration::from_millis(5);

/// A process that comes to its end waits for a request for [`proto::RETIRE_AFTER`]: a client of this test that was kept from
/// running for so long between connecting and asking may find the connection closed.
const LATE: Duration = Duration::from_millis(500);

/// Connects and asks again and again until told to stop. Returns how often.
fn ask_until(address: &Address, is_over: &AtomicBool) -> anyhow::Result<u32> {
    let mut count = 0;
    while !is_over.load(Relaxed) {
        let begun = Instant::now();
        let mut client = Client::connect(address).with_context(|| format!("connection {count}"))?;
        let line = format!("{count}\n");
        let asked = client.send(line.as_bytes());
        let is_late = begun.elapsed() > LATE;
        match asked.and_then(|()| client.expect(line.as_bytes())) {
            Err(_) if is_late => {}
            answered => answered.with_context(|| format!("request {count}"))?,
        }
        count += 1;
        thread::sleep(PAUSE);
    }
    Ok(count)
}

/// Each process ends by itself, and the next one goes on with its sockets.
pub fn upgrades_refuse_no_connection_and_lose_no_request() {
    PLAIN.check(|case| {
        let mut server = case.start()?;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let (address, is_over) = (server.address().clone(), &is_over);
            let clients: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn({
                        let address = address.clone();
                        move || ask_until(&address, is_over)
                    })
                })
                .collect();
            let last = upgrade_twice(&mut server);
            is_over.store(true, Relaxed);
            for client in clients {
                let count = client.join().map_err(|_| anyhow!("a panic"))??;
                ensure!(count > 0, "nobody asked");
            }
            let last = last?;
            last.process().terminate()?;
            eventually("the last process ends", || Ok(last.process().has_ended()))
        })
        .with_context(|| format!("it said: {}", server.stderr()))?;
        rebind(case, server.address())
    });
}

/// Returns the second successor, once it is the only process.
fn upgrade_twice(server: &mut Server) -> anyhow::Result<Successor> {
    let first = server.upgrade(server.process())?;
    // A service manager waits for none but its own children.
    ensure!(!first.process().descends_from(server.process())?, "the successor is a child of the process before it");
    let second = server.upgrade(first.process())?;
    let status = server.wait_for_exit()?;
    ensure!(status.code() == Some(0), "{status}");
    eventually("the first successor comes to its end", || Ok(first.process().has_ended()))?;
    probe(server)?;
    Ok(second)
}

/// Starts another server on the same address, which must be free.
fn rebind(case: &Case<'_>, address: &Address) -> anyhow::Result<()> {
    let mut command = case.command();
    command.args(["--listen", &address.to_string()]);
    let mut next = Server::start_command(command, 1).context("the next server on the same port")?;
    ensure!(next.stop()?.success(), "the next server");
    Ok(())
}

pub fn transfers_survive_an_upgrade() {
    TRANSFERS.check(|case| {
        let mut server = case.start()?;
        let mut transfers = Vec::new();
        for kind in ["shared", "file", "mapped"] {
            let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
            let line = format!("{kind} {}\n", 8 << 20);
            client.send(line.as_bytes())?;
            client.expect(line.as_bytes())?;
            transfers.push(client);
        }
        let successor = server.upgrade(server.process())?;
        eventually("the drain begins", || Ok(server.stderr().contains(" has taken over: draining")))?;
        ensure!(server.is_running()?, "it has not waited for its transfers");
        probe(&server).context("the successor")?;
        for (at, mut client) in transfers.into_iter().enumerate() {
            client
                .expect_all(case.content.bytes())
                .with_context(|| format!("transfer {at}; it said: {}", server.stderr()))?;
        }
        let status = server.wait_for_exit()?;
        ensure!(status.code() == Some(0), "{status}: {}", server.stderr());
        successor.process().terminate()?;
        server.wait_for_successors()
    });
}

/// The old process goes on, and says why.
pub fn a_successor_that_does_not_start_replaces_nobody() {
    PLAIN.check(|case| {
        // A link, since a program that has just been written may still be open for writing in a child of another thread.
        let program = socket_path(case).with_extension("program");
        symlink(exe(), &program)?;
        let mut command = Command::new(&program);
        command.args(case.command().get_args());
        let mut server = Server::start_command(command, 1)?;
        let mut client = server.connect()?;
        ask(&mut client, "before")?;
        for (target, said) in [("/bin/false", "exit status: 1"), ("/nowhere", "it cannot be started")] {
            fs::remove_file(&program)?;
            symlink(target, &program)?;
            server.process().signal(crate::Signal::USR2)?;
            eventually("it says why", || Ok(server.stderr().contains(said)))
                .with_context(|| format!("it said: {}", server.stderr()))?;
            ask(&mut client, "after")?;
            probe(&server)?;
        }
        ensure!(server.stderr().contains("this process goes on"), "{}", server.stderr());
        ensure!(server.stop()?.success(), "{}", server.stderr());
        Ok(())
    });
}

pub fn the_file_of_a_unix_socket_goes_with_its_last_listener() {
    PLAIN.check(|case| {
        let path = socket_path(case).with_extension("upgraded");
        let mut command = case.command();
        command.arg("--listen").arg(Address::Unix(path.clone()).to_string());
        let mut server = Server::start_command(command, 1)?;
        let successor = server.upgrade(server.process())?;
        let status = server.wait_for_exit()?;
        ensure!(status.code() == Some(0) && path.exists(), "{status}: {}", server.stderr());
        probe(&server)?;
        successor.process().terminate()?;
        server.wait_for_successors()?;
        ensure!(!path.exists(), "the file has stayed");
        Ok(())
    });
}

/// Properties that one driver has given a socket do not disturb another.
pub fn an_upgrade_may_change_the_driver() {
    PLAIN.check(|case| {
        let path = socket_path(case).with_extension("toml");
        let configure = |driver: Driver| fs::write(&path, format!("driver = \"{driver}\"\n"));
        configure(case.driver)?;
        let mut command = Command::new(exe());
        command.arg("--config").arg(&path).args(["--threads", &case.threads.to_string()]);
        let mut server = Server::start_command(command, 1)?;
        let at = Driver::all().iter().position(|driver| *driver == case.driver).context("no driver")?;
        configure(Driver::all()[(at + 1) % Driver::all().len()])?;
        let successor = server.upgrade(server.process())?;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let (address, is_over) = (server.address().clone(), &is_over);
            let client = scope.spawn(move || ask_until(&address, is_over));
            let status = server.wait_for_exit();
            is_over.store(true, Relaxed);
            client.join().map_err(|_| anyhow!("a panic"))??;
            ensure!(status?.success(), "{}", server.stderr());
            Ok(())
        })?;
        probe(&server)?;
        successor.process().terminate()?;
        server.wait_for_successors()
    });
}

/// As sd_listen_fds(3) has it: the sockets are there before the server is.
pub fn sockets_of_a_service_manager_are_taken_or_refused() {
    PLAIN.check(|case| {
        let socket = std::net::TcpListener::bind("127.0.0.1:0")?;
        let address = socket.local_addr()?.to_string();
        let start = |listen: &str| {
            let mut command = with_descriptors(exe(), vec![("any.socket", socket.try_clone()?.into())])?;
            command.args(case.command().get_args()).args(["--listen", listen]);
            anyhow::Ok(command)
        };
        let mut server = Server::start_command(start(&address)?, 1)?;
        ensure!(server.address().to_string() == address, "another address");
        probe(&server)?;
        ensure!(server.stop()?.success(), "{}", server.stderr());
        let refused = crate::run_to_end(start("127.0.0.2:0")?)?;
        let said = format!("the inherited socket on {address} is not asked for");
        ensure!(refused.code() == Some(1) && refused.stderr.contains(&said), "{refused:?}");
        Ok(())
    });
}
