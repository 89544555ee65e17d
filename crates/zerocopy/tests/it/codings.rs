//! Content codings by every strategy on every driver, and what the statistics say of them.

use anyhow::ensure;
use testkit::http::Http;
use web::codec;
use wire::http1::coding::Coding;

use crate::setup::{ALL, ONE, number, stats};

fn contents(number: usize) -> Vec<u8> {
    (0..3_000).flat_map(|line| format!("line {line} of {number}\n").into_bytes()).collect()
}

fn compressed(coding: Coding) -> Vec<u8> {
    codec::compress(coding, &contents(1)).unwrap().unwrap()
}

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let write = |name: &str, contents: &[u8]| std::fs::write(tree.path().join(name), contents).unwrap();
    write("made.js", &contents(0));
    write("stored.css", &contents(1));
    write("stored.css.br", &compressed(Coding::Brotli));
    write("stored.css.gz", &compressed(Coding::Gzip));
    write("alone.css.zst", &compressed(Coding::Zstd));
    tree
}

fn request(target: &str, codings: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: {codings}\r\n\r\n")
}

#[test]
fn every_strategy_sends_the_coding_that_is_accepted() {
    let tree = tree();
    ALL.for_each_server(tree.path(), |server, _| {
        let mut http = Http::connect(server.address())?;
        for round in ["first", "cached"] {
            let mut tags = Vec::new();
            for (target, accepted, coding, version) in [
                ("/made.js", "gzip, br", Coding::Brotli, 0),
                ("/made.js", "gzip", Coding::Gzip, 0),
                ("/made.js", "", Coding::Identity, 0),
                ("/stored.css", "br;q=1, gzip;q=0.8", Coding::Brotli, 1),
                ("/stored.css", "gzip", Coding::Gzip, 1),
                ("/stored.css", "br;q=0", Coding::Identity, 1),
                ("/alone.css", "zstd", Coding::Zstd, 1),
                ("/alone.css", "gzip", Coding::Identity, 1),
            ] {
                let got = http.ask(&request(target, accepted))?;
                let named = got.field("content-encoding").unwrap_or("identity");
                ensure!(named == coding.name(), "{round}: {target}, {accepted}: {:?}", got.fields);
                ensure!(got.field("vary") == Some("Accept-Encoding"), "{round}: {target}: {:?}", got.fields);
                let body = codec::decompress(coding, &got.body, u64::MAX)?;
                ensure!(body == contents(version), "{round}: {target}, {accepted}: other bytes");
                let tag = got.field("etag").unwrap_or_default().to_owned();
                let part =
                    http.ask(&request(target, &format!("{accepted}\r\nRange: bytes=5-14\r\nIf-Range: {tag}")))?;
                ensure!(part.status == 206 && part.body == got.body[5..15], "{round}: {target}: a part of another one");
                let known = http.ask(&request(target, &format!("{accepted}\r\nIf-None-Match: {tag}")))?;
                ensure!(known.status == 304, "{round}: {target}: {}", known.status);
                tags.push(tag);
            }
            tags.sort_unstable();
            tags.dedup();
            ensure!(tags.len() == 8, "{tags:?}");
        }
        Ok(())
    });
}

/// A request that waits is one request, and what has been made is given back with everything else.
#[test]
fn statistics_count_a_request_that_waited_once() {
    let tree = tree();
    ONE.for_each_server(tree.path(), |server, _| {
        let mut http = Http::connect(server.address())?;
        for _ in 0..3 {
            http.ask(&request("/made.js", "br"))?;
        }
        let stats = stats(server)?;
        ensure!(number(&stats, "/requests/total")? == 3.0, "{stats}");
        ensure!(stats["files"][0]["requests"] == 3 && stats["files"][0]["path"] == "/made.js", "{stats}");
        let reset = http.ask("POST /cache/reset/made.js HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")?;
        ensure!(reset.status == 200, "{reset:?}");
        let again = http.ask(&request("/made.js", "br"))?;
        ensure!(again.field("content-encoding") == Some("br"), "{:?}", again.fields);
        Ok(())
    });
}

#[test]
fn an_added_resource_has_no_siblings() {
    let tree = tree();
    ONE.for_each_server(tree.path(), |server, _| {
        let mut http = Http::connect(server.address())?;
        let added =
            http.ask("PUT /cache/add/stored.css HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nnew")?;
        ensure!(added.status == 201, "{added:?}");
        let got = http.ask(&request("/stored.css", "br, gzip"))?;
        ensure!(got.body == b"new" && got.field("content-encoding").is_none(), "{:?}", got.fields);
        Ok(())
    });
}
