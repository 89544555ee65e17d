//! TLS: every strategy has the bytes ready that are then encrypted.

use anyhow::ensure;
use testkit::{
    Server,
    tls::{Certificates, TLS12, TLS13},
};

use crate::setup::{ALL, ONE, Site, bytes, settle};

const SIZES: &[usize] = &[0, 1, 4_097, 26_510, 65_537, 200_000, 3 << 20];

#[test]
fn every_strategy_sends_whole_files_and_parts_over_tls() {
    let (certificates, site) = (Certificates::new().unwrap(), Site::new(SIZES));
    settle();
    ALL.for_each_combination(|combination| {
        let mut command = ALL.command(combination, site.path());
        command.args(certificates.flags("server"));
        let mut server = Server::start_command(command, 2)?;
        for version in [&TLS12, &TLS13] {
            let mut client = certificates.connect(&server.addresses()[1], version)?;
            // The second time, it is sent from the cache.
            for &size in SIZES.iter().chain(SIZES) {
                let got = client.ask(&format!("GET /{size} HTTP/1.1\r\nHost: h\r\n\r\n"))?;
                ensure!(got.status == 200 && got.body == bytes(size), "{size}: {} bytes", got.body.len());
            }
            let part = client.ask("GET /200000 HTTP/1.1\r\nHost: h\r\nRange: bytes=99999-150000\r\n\r\n")?;
            ensure!(part.status == 206 && part.body == bytes(200_000)[99_999..=150_000], "{}", part.body.len());
        }
        server.drain()
    });
}

#[test]
fn the_administration_is_there_over_tls_and_sees_its_requests() {
    let (certificates, site) = (Certificates::new().unwrap(), Site::new(&[26_510]));
    ONE.for_each_combination(|combination| {
        let mut command = ONE.command(combination, site.path());
        command.args(certificates.flags("server")).args(["--https-redirect", "--hsts"]);
        let mut server = Server::start_command(command, 2)?;
        let mut client = certificates.connect(&server.addresses()[1], &TLS13)?;
        ensure!(client.ask("GET /26510 HTTP/1.1\r\nHost: h\r\n\r\n")?.field("strict-transport-security").is_some());
        let stats = client.ask("GET /cache/stats HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        ensure!(stats.status == 200 && !stats.body.is_empty());
        let mut plain = testkit::http::Http::connect(server.address())?;
        ensure!(plain.ask("GET /cache/stats HTTP/1.1\r\nHost: localhost\r\n\r\n")?.status == 301, "not in the clear");
        server.drain()
    });
}
