//! Requests that are hidden in others: what a careful proxy in front takes for a body is never answered as a request.

mod mutations;
mod strict;

use std::{
    panic,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, bail, ensure};
use testkit::{Client, DriverKind, Server, check_each, http::Response};

use super::{command, write};

/// Files of the tree, each with its name in it.
const NAMES: [&str; 3] = ["first", "hidden", "next"];

/// Sends a stream and its end. Returns the responses.
fn responses(server: &Server, stream: &[u8]) -> anyhow::Result<Vec<Response>> {
    let mut client = Client::connect(server.address())?;
    // The server may have refused it before all has been sent.
    if client.send(stream).is_ok() {
        let _ = client.half_close();
    }
    let (got, _) = client.read_until_disconnect();
    let (mut rest, mut responses) = (&got[..], Vec::new());
    while !rest.is_empty() {
        let split = panic::catch_unwind(|| Response::split(rest, "GET"));
        let split = split.map_err(|_| anyhow::anyhow!("a malformed response: {}", rest.escape_ascii()))?;
        let (response, behind) = split.with_context(|| format!("a torn response: {}", rest.escape_ascii()))?;
        responses.push(response);
        rest = behind;
    }
    Ok(responses)
}

/// Checks that the responses are those to a beginning of the messages, with a refusal behind them at most. True if all are answered.
fn is_prefix(targets: &[String], responses: &[Response]) -> anyhow::Result<bool> {
    for (at, response) in responses.iter().enumerate() {
        match response.status {
            200 => {
                let name = NAMES.iter().find(|name| response.body == name.as_bytes()).context("another body")?;
                let Some(target) = targets.get(at) else { bail!("/{name} is answered, which is no message") };
                ensure!(target.contains(name), "/{name} is answered as message {at}, which is {target}");
            }
            // The last one, perhaps about what comes behind the messages.
            400..600 if at + 1 == responses.len() => ensure!(at <= targets.len(), "a response too many"),
            400..600 => ensure!(at < targets.len(), "response {at} is about no message: {response:?}"),
            status => bail!("a status of {status}"),
        }
    }
    Ok(responses.len() == targets.len())
}

#[test]
fn no_mutation_smuggles_a_request() {
    let tree = tempfile::tempdir().unwrap();
    for name in NAMES {
        write(tree.path(), name, name).unwrap();
    }
    let mutations: Vec<_> = mutations::all().into_iter().map(|stream| (strict::targets(&stream), stream)).collect();
    let understood = AtomicUsize::new(0);
    let drivers = testkit::sample(DriverKind::ALL);
    check_each(&drivers, drivers.len(), |&driver| {
        let mut server = Server::start_command(command(driver, tree.path(), &[]), 1)?;
        for (targets, stream) in &mutations {
            let shown = || format!("{driver}: {:?} are the messages of {}", targets, stream.escape_ascii());
            let all = is_prefix(targets, &responses(&server, stream).with_context(shown)?).with_context(shown)?;
            understood.fetch_add(usize::from(all && targets.len() > 1), Ordering::Relaxed);
        }
        server.drain()
    });
    let understood = understood.into_inner() / drivers.len();
    println!(
        "{} mutations, {understood} of which are several requests to the server and to a careful proxy",
        mutations.len()
    );
    assert!(understood > mutations.len() / 25, "nearly everything is refused: {understood} of {}", mutations.len());
}
