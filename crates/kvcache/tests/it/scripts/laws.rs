//! Laws of scripts that no comparison of single replies shows.

use std::{path::Path, process::Command, thread};

use anyhow::{Context, ensure};
use testkit::{Client, Server, eventually};

use crate::common::{EXE, on_every_driver, send, start};

fn ask(client: &mut Client, request: &[&str], answer: &str) -> anyhow::Result<()> {
    send(client, &request.iter().map(|arg| arg.as_bytes()).collect::<Vec<_>>())?;
    client.expect(answer.as_bytes()).with_context(|| format!("asked {request:?}"))
}

/// Sends a request and returns the first line of its reply, which must have only one.
fn line(client: &mut Client, request: &[&str]) -> anyhow::Result<String> {
    send(client, &request.iter().map(|arg| arg.as_bytes()).collect::<Vec<_>>())?;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend(client.take(1)?);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
/// Script that reads and writes a counter in two commands.
const COUNT: &str = "local n = redis.call('get', KEYS[1]) redis.call('set', KEYS[1], (n or 0) + 1) return 1";
/// The same of a counter that it does not name.
const COUNT_UNDECLARED: &str = "local n = redis.call('get', 'c') redis.call('set', 'c', (n or 0) + 1) return 1";
/// The same, after more work than is done on a client's thread.
const COUNT_LONG: &str = "local n = redis.call('get', 'c') redis.call('set', 'c', (n or 0) + 1) \
                          for i = 1, 100000 do n = i end return 1";

#[test]
fn counting_by_scripts_loses_nothing_on_every_driver() {
    on_every_driver(|driver| {
        for store in ["packed", "partitioned"] {
            let args = ["--driver", driver.name(), "--threads", "2", "--shards", "5", "--store", store];
            let server = start(&args)?;
            let clients = [(COUNT, "c"), (COUNT_UNDECLARED, "x"), (COUNT_LONG, "c"), (COUNT, "c")];
            let counting = clients.map(|(script, key)| {
                let mut client = server.connect()?;
                let counts = if script == COUNT_LONG { 20 } else { 100 };
                anyhow::Ok(thread::spawn(move || {
                    (0..counts).try_for_each(|_| ask(&mut client, &["EVAL", script, "1", key], ":1\r\n"))
                }))
            });
            for client in counting {
                client?.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
            }
            ask(&mut server.connect()?, &["GET", "c"], "$3\r\n320\r\n").context(store)?;
        }
        Ok(())
    });
}

#[test]
fn a_runaway_script_is_killed_while_others_are_told() {
    on_every_driver(|driver| {
        let limit = ["--script-time-limit", "100ms"];
        let server = start(&[&["--driver", driver.name(), "--threads", "1"], &limit[..]].concat())?;
        let (mut runaway, mut early, mut late) = (server.connect()?, server.connect()?, server.connect()?);
        ask(&mut late, &["SET", "a", "1"], "+OK\r\n")?;
        send(&mut runaway, &[b"EVAL", b"while true do pcall(function() while true do end end) end", b"0"])?;
        // This one may have to wait for the limit, and is refused then.
        eventually("others are refused", || {
            let reply = line(&mut early, &["STRLEN", "a"])?;
            ensure!(reply == ":1" || reply == BUSY, "{reply}");
            Ok(reply == BUSY)
        })?;
        ensure!(line(&mut late, &["GET", "a"])? == BUSY);
        ensure!(line(&mut late, &["PING"])? == BUSY);
        ask(&mut late, &["SCRIPT", "KILL"], "+OK\r\n")?;
        let mut reply = Vec::new();
        while !reply.ends_with(b"\r\n") {
            reply.extend(runaway.take(1)?);
        }
        let reply = String::from_utf8_lossy(&reply).into_owned();
        ensure!(reply.contains("Script killed by user with SCRIPT KILL"), "{reply}");
        ask(&mut late, &["GET", "a"], "$1\r\n1\r\n")?;
        ask(&mut runaway, &["GET", "a"], "$1\r\n1\r\n")?;
        ask(&mut late, &["SCRIPT", "KILL"], "-NOTBUSY No scripts in execution right now.\r\n")
    });
}

#[test]
fn a_script_that_has_written_cannot_be_killed() -> anyhow::Result<()> {
    let mut server = start(&["--threads", "1", "--script-time-limit", "50ms", "--drain-timeout", "1s"])?;
    let (mut runaway, mut other) = (server.connect()?, server.connect()?);
    send(&mut runaway, &[b"EVAL", b"redis.call('set', 'a', 1) while true do end", b"0"])?;
    eventually("others are refused", || Ok(line(&mut other, &["DBSIZE"])? == BUSY))?;
    ensure!(line(&mut other, &["SCRIPT", "KILL"])?.starts_with("-UNKILLABLE "));
    ensure!(line(&mut other, &["MULTI"])? == "+OK");
    ensure!(line(&mut other, &["GET", "a"])? == BUSY);
    ensure!(line(&mut other, &["EXEC"])?.starts_with("-EXECABORT "));
    // A client that watches keys may leave.
    drop(other);
    // The server can be stopped all the same.
    let status = server.stop()?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[test]
fn a_script_that_is_run_again_has_changed_nothing() -> anyhow::Result<()> {
    let server = start(&["--threads", "1"])?;
    let mut client = server.connect()?;
    // Each has written before it turns out to be long, or to need what cannot be undone.
    let long = "redis.call('incr', 'a') redis.call('append', 'b', 'x') redis.call('del', 'c') \
                for i = 1, 1000000 do end return redis.call('mget', 'a', 'b', 'c')";
    let flush = "local n = redis.call('incr', 'a') redis.call('flushdb') return n";
    for _ in 0..3 {
        ask(&mut client, &["FLUSHALL"], "+OK\r\n")?;
        ask(&mut client, &["MSET", "a", "1", "c", "3"], "+OK\r\n")?;
        ask(&mut client, &["EXPIRE", "a", "100"], ":1\r\n")?;
        ask(&mut client, &["EVAL", long, "0"], "*3\r\n$1\r\n2\r\n$1\r\nx\r\n$-1\r\n")?;
        ask(&mut client, &["TTL", "a"], ":100\r\n")?;
        ask(&mut client, &["EVAL", flush, "0"], ":3\r\n")?;
        ask(&mut client, &["DBSIZE"], ":0\r\n")?;
    }
    Ok(())
}

#[test]
fn a_script_cannot_take_more_than_its_memory() -> anyhow::Result<()> {
    let server = start(&["--threads", "1", "--script-memory", "4MiB"])?;
    let mut client = server.connect()?;
    for bomb in [
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "local t = {} while true do t[#t + 1] = {} end",
        "local t = {} for i = 1, 1e7 do t[i] = 'x' .. i end",
        "return cjson.decode(string.rep('[', 900) .. string.rep(']', 900) .. string.rep(' ', 1e8))",
        "local s = string.rep('x', 1e6) local t = {} for i = 1, 1000 do t[i] = s end return cjson.encode(t)",
        "local s = string.rep('x', 1e6) local t = {} for i = 1, 1000 do t[i] = s end return table.concat(t)",
        "return coroutine.wrap(function() local s = 'x' while true do s = s .. s end end)()",
    ] {
        let reply = line(&mut client, &["EVAL", bomb, "0"])?;
        ensure!(reply.starts_with("-ERR ") && reply.contains("not enough memory"), "{bomb}: {reply}");
        ask(&mut client, &["EVAL", "return 'fine'", "0"], "$4\r\nfine\r\n")?;
    }
    Ok(())
}

#[test]
fn nothing_of_a_script_outlives_it() -> anyhow::Result<()> {
    let server = start(&["--threads", "1"])?;
    let mut client = server.connect()?;
    for escape in [
        "x = 1",
        "_G.x = 1",
        "rawset(_G, 'x', 1)",
        "KEYS = nil",
        "string.rep = nil",
        "rawset(string, 'rep', nil)",
        "getmetatable('').__index = nil",
        "getmetatable('').__index.rep = nil",
        "getmetatable(_G).__index = nil",
        "setmetatable(_G, {})",
        "setmetatable(redis, {})",
        "redis.call = nil",
        "loadstring('x = 1')()",
        "load(function() return nil end) cjson.x = 1",
        "for _, v in pairs(string) do end pairs(redis).x = 1",
        "local s, t = pairs(redis) t.call = nil x = 1",
        "coroutine.wrap(function() x = 1 end)()",
        "assert(loadstring(string.dump(function() x = 1 end)))()",
        "return os.exit()",
        "return io.open('/etc/passwd')",
        "return require('os')",
        "return dofile('/etc/passwd')",
        "return debug.getregistry()",
        "return getfenv(0)",
        "setfenv(1, {})",
        "newproxy(true)",
        "local function f() return pcall(f) + 1 end f()",
        "local function f() local x = f() return x end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x.y",
        "return ('x'):rep(10):find(('x?'):rep(1e5))",
        "local t = {} for i = 1, 1e4 do t = {t} end return cjson.encode(t)",
        "return cjson.decode(('['):rep(1e5))",
        "return cmsgpack.unpack(('\\145'):rep(1e5))",
        "return loadstring(('('):rep(1e5))()",
    ] {
        let reply = line(&mut client, &["EVAL", escape, "0"])?;
        ensure!(reply.starts_with("-ERR "), "{escape}: {reply}");
        let sound = "return tostring(string.rep) == tostring(('').rep) and type(redis.call) == 'function' \
                     and pcall(function() return x end) == false and #KEYS";
        ask(&mut client, &["EVAL", sound, "0"], ":0\r\n").context(escape)?;
    }
    // What collectgarbage has stopped, and what has been nested too deeply to be a reply.
    ask(&mut client, &["EVAL", "collectgarbage('stop') return collectgarbage('setpause', 1)", "0"], ":0\r\n")?;
    send(&mut client, &[b"EVAL", b"local t = {} for i = 1, 1e4 do t = {t} end return t", b"0"])?;
    let mut nested = Vec::new();
    while !nested.ends_with(b"reached lua stack limit\r\n") {
        nested.extend(client.take(1)?);
    }
    Ok(())
}

#[test]
fn scripts_are_forgotten_by_a_flush_and_a_restart() {
    on_every_driver(|driver| {
        let args = ["--driver", driver.name(), "--threads", "2"];
        let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        let unknown = "-NOSCRIPT No matching script. Please use EVAL.\r\n";
        let server = start(&args)?;
        let mut clients = [server.connect()?, server.connect()?, server.connect()?];
        for round in 0..2 {
            ask(&mut clients[round], &["SCRIPT", "LOAD", "return 1"], &format!("$40\r\n{sha}\r\n"))?;
            for client in &mut clients {
                ask(client, &["EVALSHA", sha, "0"], ":1\r\n")?;
            }
            ask(&mut clients[round + 1], &["SCRIPT", "FLUSH"], "+OK\r\n")?;
            for client in &mut clients {
                ask(client, &["EVALSHA", sha, "0"], unknown)?;
            }
        }
        ask(&mut clients[0], &["EVAL", "return 1", "0"], ":1\r\n")?;
        drop(server);
        let mut command = Command::new(Path::new(EXE));
        command.args(["--listen", "127.0.0.1:0"]).args(args);
        ask(&mut Server::start_command(command, 1)?.connect()?, &["EVALSHA", sha, "0"], unknown)
    });
}
