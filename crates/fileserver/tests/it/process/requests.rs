//! Requests in every shape in which they can arrive.

use std::{thread, time::Duration};

use anyhow::{Context, ensure};
use fileserver::ProtocolKind;
use layouts::LayoutKind;
use testkit::Client;
use wire::file::Status;

use crate::{
    common::{Collection, DOCUMENTS, contents, frame},
    process::setup::{ALL, FRAMED, ORIGINAL, Setup, reply},
};

fn whole(number: usize) -> (Status, Vec<u8>) {
    let (id, size) = DOCUMENTS[number];
    (Status::Found, contents(id, size))
}

#[test]
fn every_driver_serves_both_protocols_from_both_back_ends() {
    let collection = Collection::new(LayoutKind::Flat);
    for setup in ALL {
        setup.for_each_server(&collection, |server| {
            for _ in 0..2 {
                for (number, (id, _)) in DOCUMENTS.iter().enumerate() {
                    let got = setup.get(server.address(), id.as_bytes())?;
                    ensure!(got == whole(number), "{id}: {:?}, {} bytes", got.0, got.1.len());
                }
                ensure!(setup.get(server.address(), b"MISSING9")?.0 == Status::Missing, "a miss");
            }
            Ok(())
        });
    }
}

/// With its content in reach, and nothing else.
#[test]
fn a_confined_server_serves_both_back_ends() {
    let collection = Collection::new(LayoutKind::Flat);
    for setup in [ORIGINAL, FRAMED, ALL[2]] {
        let setup = Setup { args: &["--sandbox", "on"], ..setup };
        setup.for_each_server(&collection, |server| {
            for (number, (id, _)) in DOCUMENTS.iter().enumerate() {
                ensure!(setup.get(server.address(), id.as_bytes())? == whole(number), "{id}");
            }
            ensure!(setup.get(server.address(), b"MISSING9")?.0 == Status::Missing, "a miss");
            Ok(())
        });
    }
}

/// A byte at a time, so that each is a read of its own.
#[test]
fn replies_do_not_depend_on_how_requests_are_torn() {
    let collection = Collection::new(LayoutKind::Flat);
    for setup in ALL {
        setup.for_each_server(&collection, |server| {
            for (number, (id, _)) in DOCUMENTS.iter().enumerate().skip(2) {
                let request = match setup.protocol {
                    ProtocolKind::Original => id.as_bytes().to_vec(),
                    ProtocolKind::Framed => frame(id.as_bytes()),
                };
                let mut client = Client::connect(server.address())?;
                for byte in request {
                    client.send(&[byte])?;
                    thread::sleep(Duration::from_millis(2));
                }
                let got = match setup.protocol {
                    ProtocolKind::Original => (Status::Found, client.read_to_end()?),
                    ProtocolKind::Framed => reply(&mut client)?,
                };
                ensure!(got == whole(number), "{id}: {:?}, {} bytes", got.0, got.1.len());
            }
            Ok(())
        });
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let collection = Collection::new(LayoutKind::Flat);
    for setup in ALL.into_iter().filter(|setup| setup.protocol == ProtocolKind::Framed) {
        setup.for_each_server(&collection, |server| {
            let picks: Vec<usize> = (0..400).map(|n| n * 7 % (DOCUMENTS.len() - 1)).collect();
            let requests: Vec<u8> = picks.iter().flat_map(|&pick| frame(DOCUMENTS[pick].0.as_bytes())).collect();
            let mut client = Client::connect(server.address())?;
            client.send(&requests)?;
            for (n, &pick) in picks.iter().enumerate() {
                let got = reply(&mut client).with_context(|| format!("reply {n}"))?;
                ensure!(got == whole(pick), "reply {n}: {:?}, {} bytes", got.0, got.1.len());
            }
            client.half_close()?;
            client.expect_end()
        });
    }
}

/// Requests before the end of the input are answered after it.
#[test]
fn a_half_closed_client_gets_its_answers() {
    let collection = Collection::new(LayoutKind::Flat);
    for setup in ALL {
        setup.for_each_server(&collection, |server| {
            for number in [2, 5] {
                let id = DOCUMENTS[number].0.as_bytes();
                let mut client = Client::connect(server.address())?;
                let got = match setup.protocol {
                    ProtocolKind::Original => {
                        client.send_and_half_close(id)?;
                        (Status::Found, client.read_to_end()?)
                    }
                    ProtocolKind::Framed => {
                        client.send_and_half_close(&[frame(id), frame(b"MISSING9")].concat())?;
                        let got = reply(&mut client)?;
                        ensure!(reply(&mut client)?.0 == Status::Missing, "the second reply");
                        client.expect_end()?;
                        got
                    }
                };
                ensure!(got == whole(number), "{:?}, {} bytes", got.0, got.1.len());
            }
            Ok(())
        });
    }
}

/// More than an id, at once and later: no reset cuts the end of the document off.
#[test]
fn a_client_that_sends_too_much_gets_every_byte() {
    let collection = Collection::new(LayoutKind::Flat);
    for setup in ALL.into_iter().filter(|setup| setup.protocol == ProtocolKind::Original) {
        setup.for_each_server(&collection, |server| {
            let (id, size) = DOCUMENTS[5];
            for more in [1, 100, 100_000] {
                let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
                client.send(&[id.as_bytes(), &vec![b'X'; more]].concat())?;
                let got = client.read_to_end().with_context(|| format!("{more} bytes too many"))?;
                ensure!(got == contents(id, size), "{} bytes after {more} too many", got.len());
            }
            Ok(())
        });
    }
}

/// More than an id once the document is on its way, or has arrived: it is whole, and so is its end.
#[test]
fn a_client_that_keeps_sending_gets_every_byte_and_the_end() {
    let collection = Collection::new(LayoutKind::Flat);
    for setup in ALL.into_iter().filter(|setup| setup.protocol == ProtocolKind::Original) {
        setup.for_each_server(&collection, |server| {
            for number in [2, 4, 5] {
                let (id, size) = DOCUMENTS[number];
                // Of the last one most has not been sent yet, as its reader has little room.
                let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
                client.send(id.as_bytes())?;
                let mut got = client.take(1)?;
                for _ in 0..3 {
                    // The server may have closed by now, once all has been delivered.
                    let _ = client.send(&[b'X'; 1_000]);
                    thread::sleep(Duration::from_millis(2));
                }
                got.extend(client.read_to_end().with_context(|| format!("{id}, and 3,000 bytes too many"))?);
                ensure!(got == contents(id, size), "{} bytes of {id}", got.len());
            }
            Ok(())
        });
    }
}

#[test]
fn a_malformed_request_is_answered_and_the_connection_ends() {
    let collection = Collection::new(LayoutKind::Flat);
    ORIGINAL.for_each_server(&collection, |server| {
        for request in [&b"small002"[..], b"\0\0\0\0\0\0\0\0", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"] {
            let mut client = Client::connect(server.address())?;
            client.send(request)?;
            client.expect_all(&[0])?;
        }
        Ok(())
    });
    FRAMED.for_each_server(&collection, |server| {
        for lost in [&[0_u8, 0][..], &[4, 1, 7], b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"] {
            let mut client = Client::connect(server.address())?;
            client.send(&[&frame(b"a\0b"), &frame(b"MISSING9"), lost].concat())?;
            for wanted in [Status::Malformed, Status::Missing, Status::Malformed] {
                ensure!(reply(&mut client)? == (wanted, Vec::new()), "{wanted:?} was to be said");
            }
            client.expect_end()?;
        }
        Ok(())
    });
}

/// A silent client and one that stops in the middle of a request are both disconnected.
#[test]
fn half_a_request_and_none_have_their_deadlines() {
    let collection = Collection::new(LayoutKind::Flat);
    const ARGS: &[&str] = &["--request-timeout", "300ms", "--idle-timeout", "500ms"];
    for (setup, half, said) in [
        (ORIGINAL, &b"SMAL"[..], vec![0]),
        (FRAMED, b"\0\x08SM", vec![Status::Malformed.byte(), 0, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        Setup { args: ARGS, ..setup }.for_each_server(&collection, |server| {
            let mut silent = Client::connect(server.address())?;
            let mut halting = Client::connect(server.address())?;
            halting.send(half)?;
            halting.expect_all(&said).context("half a request")?;
            silent.expect_end().context("no request")
        });
    }
}
