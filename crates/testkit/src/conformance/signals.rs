//! Signals: drain, stop, reload, and pause.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::{Client, Server, Signal, digest, eventually};
use anyhow::{Context, anyhow, ensure};
use sys::listen::Address;

use super::case::{Case, PLAIN, Setup, ask, socket_path};

const DRAIN: Setup = Setup { args: &["--drain-timeout", "5m"], content_bytes: 8 << 20, ..PLAIN };

/// Transfers and promises in flight are finished, idle connections are closed, new ones refused, the port is free, and
/// the exit status is 0.
pub fn a_drain_finishes_what_is_in_flight() {
    DRAIN.check(|case| {
        let mut server = case.start()?;
        let mut quiet = server.connect()?;
        ask(&mut quiet, "quiet")?;
        let mut promised = server.connect()?;
        ask(&mut promised, "in")?;
        promised.send(b"a 900\nb\nc 100 big\n")?;
        let mut transfers = Vec::new();
        for kind in ["shared", "file", "mapped"] {
            let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
            let line = format!("{kind} {}\n", 8 << 20);
            client.send(line.as_bytes())?;
            client.expect(line.as_bytes())?;
            transfers.push(client);
        }
        thread::sleep(Duration::from_millis(100));
        server.terminate()?;
        quiet.expect_end().context("the idle connection")?;
        // Each loop closes its own listener in its own time.
        eventually("new connections are refused", || Ok(Client::connect(server.address()).is_err()))?;
        for (i, mut client) in transfers.into_iter().enumerate() {
            client.expect_all(case.content.bytes()).with_context(|| format!("transfer {i}"))?;
        }
        promised.expect_all(format!("a\nb\nc\n{}", "x".repeat(100_000)).as_bytes()).context("promises")?;
        let status = server.wait()?;
        ensure!(status.code() == Some(0), "{status}");
        rebind(case, server.address())
    });
}

/// Starts another server on the same address, which must be free at once.
fn rebind(case: &Case<'_>, address: &Address) -> anyhow::Result<()> {
    let mut command = case.command();
    command.args(["--listen", &address.to_string()]);
    let mut next = Server::start_command(command, 1).context("the next server on the same port")?;
    ensure!(next.address() == address, "another port");
    ensure!(next.stop()?.success(), "the next server");
    Ok(())
}

/// Requests that arrived before the signal are answered, too.
pub fn a_drain_answers_what_has_arrived() {
    PLAIN.check(|case| {
        for _ in 0..4 {
            let mut server = case.start()?;
            let mut clients = (0..6).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
            for client in &mut clients {
                ask(client, "in")?;
            }
            server.process().pause()?;
            let requests = b"0123456789\n".repeat(2_000);
            for client in &mut clients {
                client.send(&requests)?;
            }
            server.terminate()?;
            server.process().resume()?;
            for (i, client) in clients.iter_mut().enumerate() {
                client.expect_all(&requests).with_context(|| format!("connection {i}"))?;
            }
            ensure!(server.wait()?.code() == Some(0), "{}", server.stderr());
        }
        Ok(())
    });
}

/// SIGSTOP and SIGCONT (a shell's job control, a container's pause) interrupt calls that nothing else interrupts, those of
/// the kernel's own workers among them (signal(7)).
pub fn a_paused_server_loses_no_connection() {
    let setup = Setup { args: &["--workers", "8"], ..DRAIN };
    setup.check_server(|server, case| {
        let mut quiet = server.connect()?;
        ask(&mut quiet, "before")?;
        thread::scope(|scope| {
            let transfers: Vec<_> = ["shared", "file", "mapped", "pages"]
                .map(|kind| (kind, scope.spawn(move || slow_transfer(server, case, kind))))
                .into();
            while transfers.iter().any(|(_, transfer)| !transfer.is_finished()) {
                server.process().pause()?;
                thread::sleep(Duration::from_millis(5));
                server.process().resume()?;
                thread::sleep(Duration::from_millis(5));
            }
            transfers.into_iter().try_for_each(|(kind, transfer)| {
                transfer.join().map_err(|_| anyhow!("a panic"))?.with_context(|| kind.to_owned())
            })
        })?;
        ask(&mut quiet, "after")
    });
}

fn slow_transfer(server: &Server, case: &Case<'_>, kind: &str) -> anyhow::Result<()> {
    let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
    let line = format!("{kind} {}\n", 8 << 20);
    client.send(line.as_bytes())?;
    client.half_close()?;
    client.expect(line.as_bytes())?;
    let got = client.digest(64 << 10, Duration::from_millis(1))?;
    ensure!(got.sha256 == digest(case.content.bytes()), "{} bytes, or wrong ones", got.len);
    Ok(())
}

pub fn a_second_signal_stops_at_once() {
    PLAIN.check(|case| {
        let mut server = case.start()?;
        let mut client = server.connect()?;
        client.send(b"first\na 60000\n")?;
        client.expect(b"first\n")?;
        server.terminate()?;
        eventually("it drains", || Ok(server.stderr().contains("draining")))?;
        ensure!(server.is_running()?, "ended with a promise open");
        thread::sleep(Server::SIGNAL_PAUSE);
        let status = server.stop()?;
        ensure!(status.code() == Some(1), "{status}");
        client.expect_disconnect()
    });
}

/// SIGQUIT is nginx's word for what SIGTERM means to every server here.
pub fn sigquit_and_sigint_drain_like_sigterm() {
    PLAIN.check(|case| {
        for signal in [Signal::QUIT, Signal::INT] {
            let mut server = case.start()?;
            let (mut idle, mut promised) = (server.connect()?, server.connect()?);
            ask(&mut idle, "in")?;
            promised.send(b"in\na 300\nb\n")?;
            promised.expect(b"in\n")?;
            server.process().signal(signal)?;
            idle.expect_end()?;
            promised.expect_all(b"a\nb\n").context("a promise")?;
            let status = server.wait()?;
            ensure!(status.code() == Some(0), "{signal:?}: {status}: {}", server.stderr());
        }
        Ok(())
    });
}

/// Their default is to kill. Those that are asked for by mistake, or by a tool that means well (logrotate, a terminal that
/// is closed), are answered in the log.
pub fn signals_without_a_meaning_end_no_server() {
    PLAIN.check_server(|server, _| {
        let mut client = server.connect()?;
        for (signal, said) in [
            (Signal::HUP, "SIGHUP ignored: there is nothing to reload"),
            (Signal::USR1, "SIGUSR1 ignored: there is no log file to reopen"),
            (Signal::ALARM, "SIGALRM ignored"),
        ] {
            server.process().signal(signal)?;
            eventually(said, || Ok(server.stderr().contains(said)))?;
            ask(&mut client, "here")?;
        }
        server.process().signal(Signal::PIPE)?;
        ask(&mut client, "still-here")
    });
}

/// The connections notice nothing of it. A hook that fails is logged, and works again when it can.
pub fn a_server_reloads_at_sighup_and_reopens_at_sigusr1() {
    PLAIN.check(|case| {
        let path = socket_path(case).with_extension("signals");
        let mut command = case.command();
        command.arg("--signal-file").arg(&path);
        let mut server = Server::start_command(command, 1)?;
        let mut client = server.connect()?;
        ask(&mut client, "before")?;
        for (signal, line) in [(Signal::HUP, "reload\n"), (Signal::USR1, "reopen\n")] {
            let _ = fs::remove_file(&path);
            let errors = || server.stderr().matches("ERROR").count();
            let before = errors();
            server.process().signal(signal)?;
            eventually("the failure is logged", || Ok(errors() == before + 1))?;
            fs::write(&path, "")?;
            for count in 1..=3 {
                server.process().signal(signal)?;
                eventually("the hook runs", || Ok(fs::read_to_string(&path)? == line.repeat(count)))?;
                ask(&mut client, "meanwhile")?;
            }
        }
        ensure!(server.stop()?.success(), "{}", server.stderr());
        Ok(())
    });
}

/// timeout(1) sends its signal to the process and to the group that the process is in.
pub fn a_signal_that_comes_twice_at_once_is_one_signal() {
    PLAIN.check(|case| {
        let mut server = case.start()?;
        let mut client = server.connect()?;
        client.send(b"first\na 400\n")?;
        client.expect(b"first\n")?;
        server.terminate()?;
        server.terminate()?;
        client.expect_all(b"a\n")?;
        let status = server.wait()?;
        ensure!(status.code() == Some(0), "{status}: {}", server.stderr());
        Ok(())
    });
}

pub fn the_drain_timeout_is_honoured() {
    let setup = Setup { args: &["--drain-timeout", "600ms"], ..PLAIN };
    setup.check(|case| {
        let mut server = case.start()?;
        let mut client = server.connect()?;
        client.send(b"first\na 60000\n")?;
        client.expect(b"first\n")?;
        let begin = Instant::now();
        let status = server.stop()?;
        ensure!(begin.elapsed() >= Duration::from_millis(600), "early, after {:?}", begin.elapsed());
        ensure!(status.code() == Some(0), "{status}");
        client.expect_disconnect()
    });
}

/// No connection keeps the drain from ending, with several addresses too.
pub fn a_server_without_connections_drains_at_once() {
    PLAIN.check(|case| {
        let mut command = case.command();
        command.args(["--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"]);
        let mut server = Server::start_command(command, 2)?;
        for address in server.addresses() {
            ask(&mut Client::connect(address)?, "here")?;
        }
        ensure!(server.stop()?.code() == Some(0), "{}", server.stderr());
        Ok(())
    });
}

/// Connections that arrive during the drain are refused or closed, never left hanging.
pub fn connections_during_a_drain_do_not_hang() {
    PLAIN.check(|case| {
        let mut server = case.start()?;
        let mut busy = server.connect()?;
        busy.send(b"a\nb 1000\n")?;
        busy.expect(b"a\n")?;
        server.terminate()?;
        for _ in 0..100 {
            let Ok(mut late) = Client::connect(server.address()) else { break };
            let _ = late.send(b"late\n");
            let _ = late.half_close();
            let (got, _) = late.read_until_disconnect();
            ensure!(got.is_empty() || got == b"late\n", "got {:?}", got.escape_ascii().to_string());
        }
        busy.expect_all(b"b\n")?;
        ensure!(server.wait()?.code() == Some(0), "{}", server.stderr());
        Ok(())
    });
}
