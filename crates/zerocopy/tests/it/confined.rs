//! A server that has given up what it does not need, and serves.

use anyhow::ensure;
use testkit::http::Http;

use crate::setup::{ALL, Setup, Site, bytes};

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
