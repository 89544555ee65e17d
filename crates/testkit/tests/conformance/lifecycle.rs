//! The command line, addresses, and what a server says when it cannot serve.

use std::{
    os::unix::net::{UnixListener, UnixStream},
    process::Command,
};

use anyhow::{Context, ensure};
use testkit::{Client, DriverKind, Finished, Server, eventually, run_to_end, strace::strace};

use crate::case::{EXE, PLAIN, Setup, ask, socket_path};

fn says_one_error_line(finished: &Finished, code: i32, about: &[&str]) -> anyhow::Result<()> {
    ensure!(finished.code() == Some(code), "{finished:?}");
    ensure!(finished.stdout.is_empty(), "{finished:?}");
    let errors: Vec<_> = finished.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    ensure!(errors.len() == 1, "{finished:?}");
    for word in about {
        ensure!(errors[0].contains(word), "no {word:?} in {finished:?}");
    }
    Ok(())
}

#[test]
fn a_unix_socket_serves_and_leaves_no_file() {
    let setup = Setup { content_bytes: 1 << 20, ..PLAIN };
    setup.examine(|bench| {
        let path = socket_path(bench);
        let listen = format!("unix:{}", path.display());
        // The file of a server that is gone.
        drop(UnixListener::bind(&path)?);
        // A process that another test is just starting may hold on to it until it has become another program.
        eventually("nobody listens", || Ok(UnixStream::connect(&path).is_err()))?;
        let mut command = bench.command();
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
            client.expect_all(&bench.content.bytes()[..len]).context(line)?;
        }
        let mut several = (0..20).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        several.iter_mut().try_for_each(|client| ask(client, "here"))?;
        drop(several);
        let mut second = bench.command();
        second.args(["--listen", &listen]);
        says_one_error_line(&run_to_end(second)?, 1, &["cannot listen", &listen])?;
        ask(&mut server.connect()?, "the-first-is-still-there")?;
        ensure!(server.stop()?.code() == Some(0), "{}", server.stderr());
        ensure!(!path.exists(), "the socket file is still there");
        Ok(())
    });
}

/// Pitfall 17: two servers of one user never share a port without a word.
#[test]
fn a_port_in_use_is_one_clear_error() {
    PLAIN.examine(|bench| {
        let mut first = bench.start()?;
        let mut second = bench.command();
        second.args(["--listen", &first.address().to_string()]);
        says_one_error_line(&run_to_end(second)?, 1, &["cannot listen", &first.address().to_string(), "in use"])?;
        ask(&mut first.connect()?, "the-first-is-still-there")?;
        ensure!(first.stop()?.success(), "{}", first.stderr());
        Ok(())
    });
}

#[test]
fn bad_usage_is_exit_status_2() {
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
        let mut command = Command::new(EXE);
        command.args(args);
        let finished = run_to_end(command).unwrap();
        assert_eq!(finished.code(), Some(2), "{args:?}: {finished:?}");
        assert!(finished.stderr.starts_with("error: "), "{args:?}: {finished:?}");
        assert!(finished.stdout.is_empty(), "{args:?}: {finished:?}");
    }
}

/// Never a silent fall-back: an error that names the driver, the reason and the alternative.
#[test]
fn io_uring_refused_by_the_kernel_is_one_clear_error() {
    if strace().is_none() {
        return;
    }
    let setup = Setup { threads: &[1], drivers: |driver| driver.descriptor().needs == Some("io_uring"), ..PLAIN };
    setup.examine(|bench| {
        for error in ["EPERM", "ENOSYS"] {
            let mut command = strace().context("strace")?;
            command.args(["-e", &format!("inject=io_uring_setup:error={error}"), EXE]);
            command.args(["--driver", bench.driver.name()]);
            says_one_error_line(&run_to_end(command)?, 1, &[bench.driver.name(), "io_uring", "--driver epoll"])?;
        }
        Ok(())
    });
}

/// `bench-matrix` takes its list from here.
#[test]
fn every_driver_is_listed_with_a_description() {
    let mut command = Command::new(EXE);
    command.args(["--list-backends", "--format", "json"]);
    let finished = run_to_end(command).unwrap();
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    for driver in DriverKind::ALL {
        assert!(finished.stdout.contains(&format!("\"{driver}\"")), "{driver}: {finished:?}");
        assert!(finished.stdout.contains(driver.descriptor().about), "{driver}: {finished:?}");
    }
}

/// Port 0 is a free port, and another one for the next server.
#[test]
fn port_0_is_announced_as_the_port_it_became() {
    PLAIN.examine(|bench| {
        let (mut one, mut other) = (bench.start()?, bench.start()?);
        ensure!(one.address() != other.address(), "both at {}", one.address());
        for server in [&mut one, &mut other] {
            ask(&mut Client::connect(server.address())?, "here")?;
            ensure!(server.stop()?.success(), "{}", server.stderr());
        }
        Ok(())
    });
}
