//! COMMAND, compared with that of Redis.

use std::collections::BTreeMap;

use anyhow::{bail, ensure};
use testkit::{Client, installed_program};
use wire::resp::client::{Reply, ReplyDecoder};

use crate::{
    common::{send, start},
    differential::servers::Redis,
};

/// Description of one command; whatever has no order is sorted.
type Command = Vec<String>;

/// Returns commands and subcommands by name.
fn commands(client: &mut Client) -> anyhow::Result<BTreeMap<String, Command>> {
    send(client, &[b"COMMAND"])?;
    let (mut got, mut decoder) = (Vec::new(), ReplyDecoder::default());
    loop {
        let mut chunk = [0; 65536];
        let n = client.read(&mut chunk)?;
        ensure!(n > 0, "the connection has ended");
        got.extend_from_slice(&chunk[..n]);
        let Some((reply, _)) = decoder.decode(&got)? else { continue };
        let mut commands = BTreeMap::new();
        add(&reply, &mut commands)?;
        return Ok(commands);
    }
}

fn add(list: &Reply<'_>, commands: &mut BTreeMap<String, Command>) -> anyhow::Result<()> {
    let Reply::Array(list) = list else { bail!("no array: {list:?}") };
    for command in list.iter() {
        let Reply::Array(parts) = command else { bail!("no array: {command:?}") };
        ensure!(parts.len() == 10, "{parts:?}");
        let Reply::Bulk(name) = &parts[0] else { bail!("no name: {parts:?}") };
        // Key specifications have an order; flags, categories and tips do not.
        let sorted = |part: &Reply<'_>| {
            let Reply::Array(items) = part else { return format!("{part:?}") };
            let mut items: Vec<_> = items.iter().map(|item| format!("{item:?}")).collect();
            items.sort();
            items.join(" ")
        };
        commands.insert(String::from_utf8_lossy(name).into_owned(), parts[1..9].iter().map(sorted).collect());
        add(&parts[9], commands)?;
    }
    Ok(())
}

#[test]
fn commands_are_described_as_by_redis() -> anyhow::Result<()> {
    let Some(exe) = installed_program("redis-server")? else { return Ok(()) };
    let (redis, server) = (Redis::start(&exe)?, start(&[])?);
    let theirs = commands(&mut Client::connect(redis.address())?)?;
    let ours = commands(&mut server.connect()?)?;
    let mut own = Vec::new();
    for (name, command) in &ours {
        match theirs.get(name) {
            Some(wanted) => assert_eq!(command, wanted, "{name}"),
            None => own.push(name.as_str()),
        }
    }
    let of_fields = [
        "hexpire",
        "hexpireat",
        "hexpiretime",
        "hgetdel",
        "hgetex",
        "hpersist",
        "hpexpire",
        "hpexpireat",
        "hpexpiretime",
        "hpttl",
        "hsetex",
        "httl",
    ];
    let others = ["client|no-touch", "client|setinfo", "perf", "perf|help", "perf|reset"];
    let mut wanted = [&of_fields[..], &others].concat();
    wanted.sort_unstable();
    assert_eq!(own, wanted);
    Ok(())
}
