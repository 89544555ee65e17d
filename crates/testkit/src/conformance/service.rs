//! Services of the host to a server: front ends, counters, a drain of its own, an action at the end.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::{Client, ConnectionModel, Process, Server, eventually, expect_failure, run_to_end};
use anyhow::{Context, bail, ensure};
use sys::listen::{Address, ListenOptions};

use super::case::{Case, Driver, PLAIN, Setup, ask, exe, socket_path};

/// Sends a line and returns the numbers of its reply.
fn numbers(client: &mut Client, line: &str) -> anyhow::Result<Vec<usize>> {
    client.send(format!("{line}\n").as_bytes())?;
    let reply = client.read_line()?;
    reply.split_whitespace().map(|word| word.parse().with_context(|| format!("{line}: {reply}"))).collect()
}

fn exit_file(case: &Case<'_>) -> PathBuf {
    socket_path(case).with_extension("last")
}

/// Front ends are numbered in the order of their ready lines, whatever their kind; those of other flags come last.
pub fn every_front_end_knows_its_number() {
    PLAIN.check(|case| {
        let path = socket_path(case);
        let mut command = case.command();
        command.args(["--more-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"]);
        command.args(["--listen", &format!("unix:{}", path.display()), "--more-listen", "[::1]:0"]);
        let mut server = Server::start_command(command, 4)?;
        ensure!(matches!(server.addresses()[1], Address::Unix(_)), "{:?}", server.addresses());
        for (number, address) in server.addresses().iter().enumerate().cycle().take(12) {
            let listener = numbers(&mut Client::connect(address)?, "listener")?;
            ensure!(listener[..2] == [number, 2], "{address}: {listener:?}");
        }
        ensure!(server.stop()?.success(), "{}", server.stderr());
        Ok(())
    });
}

/// An IPv4 client of an IPv6 socket has its IPv4 address.
pub fn a_protocol_sees_the_address_of_its_client() {
    PLAIN.check(|case| {
        let mut command = case.command();
        command.args(["--listen", "127.0.0.1:0", "--listen", "[::]:0"]);
        command.args(["--listen", &format!("unix:{}", socket_path(case).display())]);
        let mut server = Server::start_command(command, 3)?;
        let [Address::Tcp(four), Address::Tcp(six), unix] = server.addresses() else { bail!("{server:?}") };
        let through = |ip: IpAddr, port| Address::Tcp((ip, port).into());
        for address in [
            through(Ipv4Addr::LOCALHOST.into(), four.port()),
            through(Ipv6Addr::LOCALHOST.into(), six.port()),
            through(Ipv4Addr::LOCALHOST.into(), six.port()),
            unix.clone(),
        ] {
            let mut client = Client::connect(&address)?;
            let wanted = client.local_address().map_or_else(|| "unix:".to_owned(), |address| address.to_string());
            client.send(b"peer\n")?;
            client.expect(format!("{wanted}\n").as_bytes()).with_context(|| address.to_string())?;
        }
        ensure!(server.stop()?.success(), "{}", server.stderr());
        Ok(())
    });
}

/// A server reads its own counters, which include the connection that it answers on.
pub fn a_server_reads_the_counters_of_its_driver() {
    let setup = Setup { args: &["--max-connections", "3"], ..PLAIN };
    setup.check_server(|server, _| {
        let mut inside = (0..3).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        inside.iter_mut().try_for_each(|client| ask(client, "in"))?;
        server.connect()?.expect_all(b"full\n")?;
        eventually("3 accepted, 1 refused, 3 open", || Ok(numbers(&mut inside[0], "counts")? == [3, 1, 3]))?;
        inside.truncate(1);
        eventually("2 have left", || Ok(numbers(&mut inside[0], "counts")? == [3, 1, 1]))?;
        drop(inside);
        eventually("there is room again", || super::case::is_admitted(server))
    });
}

/// The server's own drain is that of SIGTERM: the reply is sent, promises are kept, idle connections are closed, and the
/// exit status is 0.
pub fn a_server_may_stop_itself() {
    PLAIN.check(|case| {
        let mut command = case.command();
        command.arg("--exit-file").arg(exit_file(case));
        let mut server = Server::start_command(command, 1)?;
        let (mut idle, mut promised) = (server.connect()?, server.connect()?);
        ask(&mut idle, "in")?;
        promised.send(b"in\na 600\nb\n")?;
        promised.expect(b"in\n")?;
        let mut client = server.connect()?;
        client.send(b"before\nstop\n")?;
        client.expect_all(b"before\nstop\n")?;
        idle.expect_end().context("the idle connection")?;
        ensure!(!exit_file(case).exists(), "the action ran before the end");
        promised.expect_all(b"a\nb\n").context("promises")?;
        let status = server.wait()?;
        ensure!(status.code() == Some(0), "{status}: {}", server.stderr());
        ensure!(fs::read(exit_file(case))? == b"the end\n", "other content");
        Ok(())
    });
}

/// The drain ends at its timeout, and the action at the end runs, if a signal began the drain and if the server did.
pub fn the_action_at_the_end_runs_after_a_drain_timeout() {
    let setup = Setup { args: &["--drain-timeout", "300ms"], ..PLAIN };
    setup.check(|case| {
        for by_signal in [true, false] {
            let mut command = case.command();
            command.arg("--exit-file").arg(exit_file(case));
            let mut server = Server::start_command(command, 1)?;
            let mut stuck = server.connect()?;
            stuck.send(b"in\na 60000\n")?;
            stuck.expect(b"in\n")?;
            match by_signal {
                true => server.terminate()?,
                false => ask(&mut server.connect()?, "stop")?,
            }
            let status = server.wait()?;
            ensure!(status.code() == Some(0), "{status}: {}", server.stderr());
            ensure!(server.stderr().contains("drain timeout of 300ms"), "{}", server.stderr());
            fs::remove_file(exit_file(case)).context("the file of the action")?;
        }
        Ok(())
    });
}

pub fn a_failing_action_at_the_end_is_an_error() {
    for (args, request) in [(&[][..], &b"stop\n"[..]), (&["--drain-timeout", "300ms"], b"a 60000\nstop\n")] {
        let setup = Setup { args, threads: &[1], ..PLAIN };
        setup.check(|case| {
            let mut command = case.command();
            command.arg("--exit-file").arg(case.content.dir().join("missing/file"));
            let mut server = Server::start_command(command, 1)?;
            let mut client = server.connect()?;
            client.send(request)?;
            let status = server.wait()?;
            ensure!(status.code() == Some(1), "{status}: {}", server.stderr());
            let said = server.stderr();
            let errors = said.lines().filter(|line| line.starts_with("error: cannot write ")).count();
            ensure!(errors == 1, "{said}");
            Ok(())
        });
    }
}

/// The size comes from the flag, else from the usual variable, else from a variable of another name. The kernel doubles
/// it.
pub fn connections_have_the_configured_buffers() {
    PLAIN.check(|case| {
        for (other, usual, flag, bytes) in [
            (Some("20480"), None, None, 40_960),
            (Some("1"), Some("24KiB"), None, 49_152),
            (Some("1"), Some("1"), Some("32KiB"), 65_536),
            (None, None, Some("32KiB"), 65_536),
        ] {
            let mut command = case.command();
            command.envs(other.map(|value| ("ALIAS_BUFFER_SIZE", value)));
            command.envs(usual.map(|value| ("TESTKIT_SERVER_SOCKET_BUFFER", value)));
            command.args(flag.map(|value| format!("--socket-buffer={value}")));
            let mut server = Server::start_command(command, 1)?;
            for _ in 0..4 {
                let listener = numbers(&mut server.connect()?, "listener")?;
                ensure!(listener[2..] == [bytes, bytes], "{other:?} {usual:?} {flag:?}: {listener:?}");
            }
            ensure!(server.stop()?.success(), "{}", server.stderr());
        }
        Ok(())
    });
}

/// The backlog is tested on a unix socket, where connecting fails at once when it is full. The kernel takes one more.
pub fn the_backlog_is_the_configured_one() {
    let setup =
        Setup { drivers: |driver| driver.descriptor().connection == ConnectionModel::Thread, threads: &[1], ..PLAIN };
    setup.check(|case| {
        let address = format!("unix:{}", socket_path(case).display());
        for (variable, args, backlog) in
            [("5", &[][..], 5), ("5", &["--backlog", "7"], 7), ("", &["--backlog", "3"], 3)]
        {
            let mut command = case.command();
            command.args(["--listen", &address]).args(args);
            if !variable.is_empty() {
                command.env("ALIAS_QUEUE_LIMIT", variable);
            }
            let mut server = Server::start_command(command, 1)?;
            // It sits in accept(2), and takes one more when it goes on.
            server.process().pause()?;
            eventually("it is paused", || server.process().is_paused())?;
            let waiting: Vec<_> = (0..20).map_while(|_| Client::connect_nonblocking(server.address()).ok()).collect();
            server.process().resume()?;
            ensure!(waiting.len() == backlog + 1, "{} connections wait, {backlog} were asked for", waiting.len());
            drop(waiting);
            ensure!(server.stop()?.success(), "{}", server.stderr());
        }
        Ok(())
    });
}

pub fn bad_values_of_variables_are_bad_usage() {
    for (variable, value) in [
        ("ALIAS_QUEUE_LIMIT", "many"),
        ("ALIAS_QUEUE_LIMIT", "0"),
        ("ALIAS_BUFFER_SIZE", "2GiB"),
        ("TESTKIT_SERVER_BACKLOG", "-1"),
    ] {
        let mut command = Command::new(exe());
        command.env(variable, value);
        let finished = run_to_end(command).unwrap();
        assert_eq!(finished.code(), Some(2), "{variable}: {finished:?}");
        assert!(finished.stderr.contains(value), "{variable}: {finished:?}");
        assert!(finished.stderr.contains(variable) && !finished.stderr.contains("digit"), "{variable}: {finished:?}");
    }
}

pub fn limits_of_the_machine_are_judged_by_the_flags() {
    for (backlog, code, said) in
        [("1", 0, "ok       net.core.somaxconn = "), ("2147483647", 1, "lacking  net.core.somaxconn = ")]
    {
        let mut command = Command::new(exe());
        command.args(["--check-machine", "--max-connections", "1", "--backlog", backlog]);
        let finished = run_to_end(command).unwrap();
        assert_eq!(finished.code(), Some(code), "{finished:?}");
        assert!(finished.stdout.lines().any(|line| line.starts_with(said)), "{finished:?}");
        assert!(finished.stdout.lines().all(|line| line.contains(" = ")), "{finished:?}");
    }
}

pub fn limits_that_would_serve_nobody_are_bad_usage() {
    for flag in ["--max-request-size", "--max-output-buffer", "--idle-timeout", "--request-timeout", "--stall-timeout"]
    {
        for value in ["0", "some"] {
            let mut command = Command::new(exe());
            command.args([flag, value]);
            let finished = expect_failure(command, 2);
            let why = if value == "0" { ": must be " } else { ", like " };
            assert!(finished.stderr.contains(flag) && finished.stderr.contains(why), "{finished:?}");
        }
    }
}

pub fn a_busy_port_of_metrics_is_found_before_it_listens() {
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let mut command = Command::new(exe());
    command.args(["--metrics", &address]);
    let finished = expect_failure(command, 1);
    assert!(finished.stderr.contains(&address) && finished.stderr.contains("in use"), "{finished:?}");
}

/// A server may have its own defaults: the backlog of this one differs from the usual one.
pub fn help_shows_the_defaults_of_the_server() {
    let mut command = Command::new(exe());
    command.arg("--help");
    let finished = run_to_end(command).unwrap();
    assert_ne!(ListenOptions::BACKLOG, 4_000);
    assert!(finished.stdout.contains("[default: 4000]"), "{finished:?}");
}

pub fn a_server_may_have_a_default_address_of_metrics() {
    let setup = Setup { drivers: Driver::is_default, threads: &[1], ..PLAIN };
    setup.check(|case| {
        let (usual, said) = (socket_path(case).with_extension("usual"), socket_path(case).with_extension("said"));
        for (args, served, other) in [(None, &usual, &said), (Some(&said), &said, &usual)] {
            let mut command = case.command();
            command.args(["--default-metrics", &format!("unix:{}", usual.display())]);
            if let Some(path) = args {
                command.args(["--metrics", &format!("unix:{}", path.display())]);
            }
            let mut server = Server::start_command(command, 1)?;
            eventually("metrics are served", || Ok(Client::connect(&Address::Unix(served.clone())).is_ok()))?;
            ensure!(!other.exists(), "at both addresses");
            ensure!(server.stop()?.success(), "{}", server.stderr());
        }
        let mut command = case.command();
        command.args(["--default-metrics", "nowhere"]);
        let finished = run_to_end(command)?;
        ensure!(
            finished.code() == Some(1) && finished.stderr.contains("\"nowhere\" is not an address"),
            "{finished:?}"
        );
        Ok(())
    });
}

/// The program that started the server and read its output may have ended.
pub fn a_signal_is_obeyed_without_a_reader_of_standard_error() {
    for format in ["text", "json"] {
        let mut command = Command::new(exe());
        command.args(["--listen", "127.0.0.1:0", "--log", format]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        drop(child.stderr.take());
        Process::new(child.id()).terminate().unwrap();
        let ended = eventually("it ends", || Ok(child.try_wait()?.is_some()));
        let _ = child.kill();
        let status = child.wait().unwrap();
        assert!(ended.is_ok() && status.code() == Some(0), "{format}: {ready}{status}");
    }
}
