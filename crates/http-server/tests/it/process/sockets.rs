//! The table of the README through real sockets.

use anyhow::{Context, ensure};
use testkit::{Client, DriverKind, http::Response};

use crate::{
    probes::{grow_tree, probes},
    process::setup::{Http, PLAIN, TWO_THREADS, get},
};

/// The whole table on the default driver, and overlapping parts of it on the others, with one and with two threads.
#[test]
fn every_probe_is_answered_as_the_table_says() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path().join("root");
    std::fs::create_dir(&root).unwrap();
    grow_tree(&root);
    for setup in [PLAIN, TWO_THREADS] {
        setup.for_each_server(&root, |server, driver| {
            let share = DriverKind::ALL.iter().position(|&kind| kind == driver).unwrap_or_default();
            let is_ours = |index: usize| driver == DriverKind::DEFAULT || !(index + share).is_multiple_of(3);
            for (_, probe) in probes().iter().enumerate().filter(|(index, _)| is_ours(*index)) {
                let shown = || format!("{:?}", probe.shown());
                let mut client = Http::connect(server.address())?;
                client.send(&probe.request).with_context(shown)?;
                probe.check(&client.response(probe.method()).with_context(shown)?);
                match probe.closes {
                    true => client.expect_end().with_context(shown)?,
                    false => ensure!(client.get("/a.txt")?.body == b"0123456789", "after {}", shown()),
                }
            }
            Ok(())
        });
    }
}

#[test]
fn a_client_that_sends_byte_by_byte_gets_what_others_get() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("a.txt"), "0123456789").unwrap();
    PLAIN.for_each_server(tree.path(), |server, _| {
        let mut client = Http::connect(server.address())?;
        let requests = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\nHEAD /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";
        for byte in requests.split_inclusive(|_: char| true) {
            client.send(byte)?;
        }
        let (got, head) = (client.response("GET")?, client.response("HEAD")?);
        ensure!(got.status == 200 && got.body == b"0123456789", "{got:?}");
        let expected = Response { body: Vec::new(), ..with_date_of(&got, &head) };
        ensure!(head == expected, "HEAD is GET without the body: {head:?} {got:?}");
        Ok(())
    });
}

#[test]
fn what_the_client_has_is_not_sent_again() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("small"), "small").unwrap();
    std::fs::write(tree.path().join("large"), vec![b'l'; 300_000]).unwrap();
    PLAIN.for_each_server(tree.path(), |server, _| {
        for target in ["/small", "/large"] {
            let mut client = Http::connect(server.address())?;
            let full = client.get(target)?;
            let field = |name: &str| full.field(name).with_context(|| format!("no {name}")).map(str::to_owned);
            let (etag, modified) = (field("etag")?, field("last-modified")?);
            for condition in [format!("If-None-Match: {etag}"), format!("If-Modified-Since: {modified}")] {
                let got = client.ask(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n{condition}\r\n\r\n"))?;
                ensure!((got.status, got.field("etag")) == (304, Some(&*etag)), "{condition}: {got:?}");
                let next = client.get(target)?;
                ensure!(next == with_date_of(&full, &next), "the next one is whole");
            }
        }
        Ok(())
    });
}

/// The second may have passed between two responses.
fn with_date_of(response: &Response, later: &Response) -> Response {
    let mut same = response.clone();
    for (name, value) in &mut same.fields {
        if let (true, Some(date)) = (name.eq_ignore_ascii_case("date"), later.field("date")) {
            date.clone_into(value);
        }
    }
    same
}

#[test]
fn a_pipeline_is_answered_in_order_after_a_half_close() {
    const FILES: usize = 8;
    let tree = tempfile::tempdir().unwrap();
    // Behind the head, beside it, and from a descriptor.
    let contents = |file: usize| format!("{file} ").repeat([10, 1_500, 20_000][file % 3]);
    for file in 0..FILES {
        std::fs::write(tree.path().join(file.to_string()), contents(file)).unwrap();
    }
    PLAIN.for_each_server(tree.path(), |server, _| {
        let requests: String = (0..200).map(|i| get(&format!("/{}", i % FILES))).collect();
        let mut client = Http::from_client(Client::connect_with_buffer(server.address(), 32 << 10)?)?;
        client.send(&requests)?;
        client.half_close()?;
        for i in 0..200 {
            let got = client.response("GET").with_context(|| format!("response {i}"))?;
            ensure!(got.status == 200 && got.body == contents(i % FILES).as_bytes(), "response {i}: {}", got.status);
        }
        client.expect_end()
    });
}
