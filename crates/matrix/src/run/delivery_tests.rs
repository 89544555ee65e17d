//! Other people's web servers as they are configured here: each delivers the files of the web site in the same codings, byte
//! for byte.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Stdio,
};

use loadgen::{http::digest_text, result::BodySeen};
use wire::http1::client::{Event, HeadTemplate, ResponseDecoder};

use crate::{
    plan::{
        peers::{self, PeerContext, web::site_coding},
        subjects::{self, Timing},
    },
    run::{
        process::Process,
        site::{Scratch, web},
    },
};

/// Asks for a path and reads to the end of the connection.
fn fetch(address: SocketAddr, path: &str, field: &str) -> BodySeen {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: {address}\r\n{field}\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    connection.read_to_end(&mut reply).unwrap();
    let (mut decoder, mut template, mut rest) = (ResponseDecoder::new(), HeadTemplate::new(), &reply[..]);
    let (mut body, mut coding) = (Vec::new(), None);
    loop {
        match decoder.next(&mut template, &mut rest).unwrap() {
            Event::NewHead(head, named) => {
                assert_eq!(head.status, 200, "{path}");
                coding = named;
            }
            Event::Body(piece) => body.extend_from_slice(piece),
            Event::End => break,
            Event::Head(_) | Event::NeedMore => panic!("{path}: half a reply"),
        }
    }
    let (bytes, sha256) = (body.len() as u64, Some(digest_text(&body)));
    BodySeen { request: format!("GET {path}"), bytes, coding: coding.unwrap().name().to_owned(), sha256 }
}

#[test]
fn every_peer_delivers_the_same_site() {
    let scratch = Scratch::new().unwrap();
    let site = scratch.site();
    web::write(&site).unwrap();
    let paths = fs::read_to_string(web::paths(&site.to_string_lossy())).unwrap();
    let timing = Timing { slice_s: 0.5, warmup_s: 0.3, max_warmup_s: None, client_cpus: "0".into(), client_threads: 1 };
    let subject = subjects::named("http-server").unwrap();
    let workload = &subjects::select(subject, &["site-c64".to_owned()], &timing, false)[0];
    for peer in peers::web::PEERS {
        if testkit::installed_program(peer.executable()).unwrap().is_none() {
            continue;
        }
        let address = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let context = PeerContext { address, site: &site, scratch: scratch.path(), workload, binaries: Path::new("") };
        let command = peers::command(peer, &context).unwrap();
        let mut server = Process::start(&command, &[0], &scratch.path().join("log"), Stdio::null()).unwrap();
        server.wait_for_accept(address).unwrap();
        let coding = site_coding();
        let field = if peer.reads_weights() { coding.field() } else { coding.field_without_weights() };
        let bodies: Vec<BodySeen> = paths.lines().map(|path| fetch(address, path, field)).collect();
        let checked = web::check(&site, coding, &bodies);
        assert!(checked.is_ok(), "{}: {checked:?}", peer.id());
        drop(server.terminate());
    }
}
