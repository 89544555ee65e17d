//! A server that has given up what it does not need, and serves.

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

#[test]
fn a_confined_server_names_a_file_to_begin_with() {
    let site = Site::new(&[1]);
    let command = ONE.command(Combination { strategy: "auto", driver: DriverKind::DEFAULT }, site.path());
    let mut server = Server::start_command(command, 1).unwrap();
    eventually("it says what to try", || Ok(server.stderr().contains("try: curl"))).unwrap();
    assert!(server.stderr().contains("/1  # no index.html here, so / is 404"), "{}", server.stderr());
    assert!(server.stop().unwrap().success());
}
