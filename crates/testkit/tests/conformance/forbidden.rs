//! A machine that forbids io_uring, as container runtimes do by default.

use std::{path::Path, process::Command};

use anyhow::Context;
use servers::LoadKind;
use testkit::{
    Server, drivers_with, expect_failure,
    seccomp::{check_profile, check_server, without_calls},
    workspace_program,
};

use crate::EXE;

const RING_CALLS: [&str; 3] = ["io_uring_setup", "io_uring_enter", "io_uring_register"];

fn server(driver: &str) -> Command {
    let mut command = Command::new(EXE);
    command.args(["--driver", driver, "--threads", "1"]);
    command
}

#[test]
fn a_driver_that_a_filter_forbids_says_so_and_how_to_allow_it() {
    let drivers = drivers_with(|descriptor| descriptor.needs.is_some());
    assert!(!drivers.is_empty());
    for driver in drivers {
        let said = without_calls(&RING_CALLS, || Ok(expect_failure(server(driver.name()), 1).stderr)).unwrap();
        for part in ["a seccomp filter forbids io_uring", "--driver epoll", "deploy/seccomp"] {
            assert!(said.contains(part), "{driver}: {said}");
        }
    }
}

#[test]
fn auto_falls_back_where_a_filter_forbids_the_best_and_says_so() {
    let mut server = without_calls(&RING_CALLS, || Server::start_command(server("auto"), 1)).unwrap();
    let mut client = server.connect().unwrap();
    client.send(b"probe\n").unwrap();
    assert_eq!(client.take(6).unwrap(), b"probe\n");
    drop(client);
    server.wait_for_stderr("driver epoll: a seccomp filter forbids io_uring").unwrap();
    assert!(server.stop().unwrap().success(), "{}", server.stderr());
}

/// With a ring and without.
#[test]
fn each_server_runs_under_the_profile_that_is_shipped_for_it() {
    let content = tempfile::tempdir().unwrap();
    for server in servers::all() {
        let Some(program) = workspace_program(Path::new(EXE), &server.name).unwrap() else { continue };
        let checked = match server.load {
            LoadKind::Mq => check_profile(&program, &server.name).map(drop),
            LoadKind::Kv => check_server(&program, &server.name, &[]),
            LoadKind::Http | LoadKind::File => check_server(&program, &server.name, &[content.path()]),
        };
        checked.with_context(|| server.name.clone()).unwrap();
    }
}
