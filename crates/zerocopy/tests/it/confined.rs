//! A server that has given up what it does not need, and serves.

use std::fs;

use anyhow::ensure;
use testkit::{DriverKind, Server, eventually, http::Http};

use crate::setup::{ALL, Combination, ONE, Setup, Site, bytes};

/// Small files and large ones, when they are seen first and from the cache.
#[test]
fn a_confined_server_sends_by_every_strategy() {
    let setup = Setup { strategies: &["auto", "pipe", "uring"], args: &["--threads", "1", "--sandbox", "on"], ..ALL };
    let sizes = [512, 26_510, 3 << 20];
    let site = Site::new(&sizes);
    setup.for_each_server(site.path(), |server, _| {
        for size in sizes.into_iter().chain(sizes) {
            let got = Http::connect(server.address())?.get(&format!("/{size}"))?;
            ensure!(got.status == 200 && got.body == bytes(size), "{size}: {}", got.status);
        }
        Ok(())
    });
}

/// To know where it lies takes a system call, which a reload needs, too.
#[test]
fn a_password_file_among_the_content_stays_hidden_when_it_is_read_again() {
    let site = Site::new(&[1]);
    let users = site.path().join("users");
    fs::write(&users, "a:$2y$05$4U76TC9VDEwEd1/cpzbGL.Kcn.iGmpAvYhajSzQaDngcj/1vo3agK\n").unwrap();
    let mut command = ONE.command(Combination { strategy: "auto", driver: DriverKind::DEFAULT }, site.path());
    command.args(["--sandbox", "on", "--basic-auth"]).arg(format!("/private*={}", users.display()));
    let mut server = Server::start_command(command, 1).unwrap();
    let status = || Http::connect(server.address()).unwrap().get("/users").unwrap().status;
    assert_eq!(status(), 404);
    server.process().hang_up().unwrap();
    eventually("it is read again", || Ok(server.stderr().contains("reloaded"))).unwrap();
    assert_eq!(status(), 404);
    assert!(server.stop().unwrap().success());
}

#[test]
fn a_confined_server_names_a_file_to_begin_with() {
    let site = Site::new(&[1]);
    let command = ONE.command(Combination { strategy: "auto", driver: DriverKind::DEFAULT }, site.path());
    let mut server = Server::start_command(command, 1).unwrap();
    eventually("it says what to try", || Ok(server.stderr().contains("try: curl"))).unwrap();
    assert!(server.stderr().contains("/1  # no index.html here, so / is 404"), "{}", server.stderr());
    assert!(server.stop().unwrap().success());
}
