//! Command line, addresses, and the errors of a server that cannot start.

use std::{
    os::unix::net::{UnixListener, UnixStream},
    process::Command,
};

use crate::{Client, Finished, Server, eventually, run_to_end, strace::strace};
use anyhow::{Context, ensure};

use super::case::{Driver, PLAIN, Setup, ask, exe, socket_path};

fn expect_one_error_line(finished: &Finished, code: i32, about: &[&str]) -> anyhow::Result<()> {
    ensure!(finished.code() == Some(code), "{finished:?}");
    ensure!(finished.stdout.is_empty(), "{finished:?}");
    let errors: Vec<_> = finished.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    ensure!(errors.len() == 1, "{finished:?}");
    for word in about {
        ensure!(errors[0].contains(word), "no {word:?} in {finished:?}");
    }
    Ok(())
}

pub fn a_unix_socket_serves_and_leaves_no_file() {
    let setup = Setup { content_bytes: 1 << 20, ..PLAIN };
    setup.check(|case| {
        let path = socket_path(case);
        let listen = format!("unix:{}", path.display());
        // The socket file of a server that has ended.
        drop(UnixListener::bind(&path)?);
        // A process that another test is forking may hold the listener until its exec.
        eventually("nobody listens", || Ok(UnixStream::connect(&path).is_err()))?;
        let mut command = case.command();
        command.args(["--listen", &listen]);
        let mut server = Server::start_command(command, 1).context("over a stale file")?;
        for kind in ["shared", "file", "pipe", "mapped"] {
            let len = if kind == "pipe" { 60_000 } else { 1 << 20 };
            let line = format!("{kind} {len}\n");
            let mut client = server.connect()?;
            client.send(b"soon 20\n")?;
            client.send(line.as_bytes())?;
            client.half_close()?;
            client.expect(b"soon\n")?;
            client.expect(line.as_bytes())?;
            client.expect_all(&case.content.bytes()[..len]).context(line)?;
        }
        let mut several = (0..20).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        several.iter_mut().try_for_each(|client| ask(client, "here"))?;
        drop(several);
        let mut second = case.command();
        second.args(["--listen", &listen]);
        expect_one_error_line(&run_to_end(second)?, 1, &["cannot listen", &listen])?;
        ask(&mut server.connect()?, "the-first-is-still-there")?;
        ensure!(server.stop()?.code() == Some(0), "{}", server.stderr());
        ensure!(!path.exists(), "the socket file is still there");
        Ok(())
    });
}

/// Two servers of one user never share a port silently.
pub fn a_port_in_use_is_one_clear_error() {
    PLAIN.check(|case| {
        let mut first = case.start()?;
        let mut second = case.command();
        second.args(["--listen", &first.address().to_string()]);
        expect_one_error_line(&run_to_end(second)?, 1, &["cannot listen", &first.address().to_string(), "in use"])?;
        ask(&mut first.connect()?, "the-first-is-still-there")?;
        ensure!(first.stop()?.success(), "{}", first.stderr());
        Ok(())
    });
}

pub fn bad_usage_is_exit_status_2() {
    for args in [
        &["--no-such-flag"][..],
        &["--driver", "select"],
        &["--threads", "0"],
        &["--listen", "nowhere"],
        &["--idle-timeout", "soon"],
        &["--pin", "x"],
        &["--max-connections", "many"],
        &["surplus"],
    ] {
        let mut command = Command::new(exe());
        command.args(args);
        let finished = run_to_end(command).unwrap();
        assert_eq!(finished.code(), Some(2), "{args:?}: {finished:?}");
        assert!(finished.stderr.starts_with("error: "), "{args:?}: {finished:?}");
        assert!(finished.stdout.is_empty(), "{args:?}: {finished:?}");
    }
}

/// Nothing falls back silently: the error names the driver, the reason and the alternative.
pub fn io_uring_refused_by_the_kernel_is_one_clear_error() {
    if strace().is_none() {
        return;
    }
    let setup = Setup { threads: &[1], drivers: |driver| driver.descriptor().needs == Some("io_uring"), ..PLAIN };
    setup.check(|case| {
        for error in ["EPERM", "ENOSYS"] {
            let mut command = strace().context("strace")?;
            command.args(["-e", &format!("inject=io_uring_setup:error={error}"), exe()]);
            command.args(["--driver", case.driver.name()]);
            expect_one_error_line(&run_to_end(command)?, 1, &[case.driver.name(), "io_uring", "--driver epoll"])?;
        }
        Ok(())
    });
}

/// `bench-matrix` takes its list from here.
pub fn every_driver_is_listed_with_a_description() {
    let mut command = Command::new(exe());
    command.args(["--list-backends", "--format", "json"]);
    let finished = run_to_end(command).unwrap();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    for driver in Driver::all() {
        assert!(finished.stdout.contains(&format!("\"{driver}\"")), "{driver}: {finished:?}");
        assert!(finished.stdout.contains(driver.descriptor().about), "{driver}: {finished:?}");
    }
}

/// Port 0 gives each server a free port.
pub fn port_0_is_announced_as_the_chosen_port() {
    PLAIN.check(|case| {
        let (mut one, mut other) = (case.start()?, case.start()?);
        ensure!(one.address() != other.address(), "both at {}", one.address());
        for server in [&mut one, &mut other] {
            ask(&mut Client::connect(server.address())?, "here")?;
            ensure!(server.stop()?.success(), "{}", server.stderr());
        }
        Ok(())
    });
}
