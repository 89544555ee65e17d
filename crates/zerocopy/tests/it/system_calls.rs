//! Number of system calls for a response, as strace(1) counts them.

use std::{collections::BTreeMap, sync::LazyLock};

use anyhow::ensure;
use testkit::{
    DriverKind, PipePath, Server, drivers_with,
    http::Http,
    strace::{count_calls, strace},
};

use crate::setup::{Combination, PIPE, Setup, Site, bytes};

const REQUESTS: usize = 200;

fn counted(
    server: &Server,
    site: &Site,
    combination: Combination,
    size: usize,
) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut client = Http::connect(server.address())?;
    ensure!(client.get(&format!("/{size}"))?.body == bytes(size), "before");
    let log = site.path().join(format!("{}-{}-{size}.trace", combination.strategy, combination.driver));
    let calls = "tee,splice,vmsplice,sendfile,write,writev,sendto,sendmsg,openat2,statx,newfstatat,pipe2";
    count_calls(server, &log, calls, || {
        for _ in 0..REQUESTS {
            ensure!(client.get(&format!("/{size}"))?.body == bytes(size), "wrong bytes");
        }
        Ok(())
    })
}

/// A file in a pipe behind its head is one tee and one splice; the other calls are for a new date or a check, once a second.
#[test]
fn a_small_cached_response_is_one_tee_and_one_splice() {
    if strace().is_none() {
        return;
    }
    let site = Site::new(&[1, 4_096, 26_510, 61_440]);
    static SPLICING: LazyLock<Vec<DriverKind>> =
        LazyLock::new(|| drivers_with(|facts| facts.sends_pipes == PipePath::Splice));
    Setup { drivers: &SPLICING, concurrency: 1, ..PIPE }.for_each_server(site.path(), |server, combination| {
        for size in [1, 4_096, 26_510, 61_440] {
            let calls = counted(server, &site, combination, size)?;
            let count = |name: &str| calls.get(name).copied().unwrap_or(0);
            ensure!(count("tee") == REQUESTS, "{size}: {calls:?}");
            // One more for each new date: the file is spliced into the new pipe.
            let renewed = count("pipe2");
            ensure!(count("splice") == REQUESTS + renewed && renewed < REQUESTS / 4, "{size}: {calls:?}");
            for other in ["vmsplice", "sendfile", "writev", "sendto", "sendmsg", "openat2"] {
                ensure!(count(other) == 0, "{size}: {calls:?}");
            }
            // A worker wakes its loop by one.
            let wakes = if combination.driver.descriptor().has_workers_beside_loops() { REQUESTS } else { 0 };
            ensure!(count("write") <= wakes + renewed, "{size}: {calls:?}");
        }
        Ok(())
    });
}
