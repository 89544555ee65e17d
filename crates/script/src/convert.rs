//! Replies of commands as Lua values, and Lua values as replies.

use mlua::{Lua, Table, Value};
use wire::resp::{Version, reply};

use crate::{
    number::{general, to_integer},
    stack::with_stack,
};

/// Depth of tables beyond which a reply is an error, as for Redis, whose limit is that of Lua's stack.
const DEPTH_MAX: usize = 300;
/// Limit of a reply; a table may hold one long string many times.
const REPLY_BYTES_MAX: usize = 512 << 20;

// --- to Lua -----------------------------------------------------------------------------------

/// Takes the next line off a reply, without its end.
fn line<'r>(rest: &mut &'r [u8]) -> &'r [u8] {
    let end = rest.iter().position(|&byte| byte == b'\r').unwrap_or(rest.len());
    let line = &rest[..end];
    *rest = rest.get(end + 2..).unwrap_or_default();
    line
}

fn parsed<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Converts the reply that `rest` begins with, and takes it off. Error replies become tables, too.
pub(crate) fn to_lua(lua: &Lua, rest: &mut &[u8]) -> mlua::Result<Value> {
    let first = line(rest);
    let (kind, text) = first.split_first().unwrap_or((&b'_', b""));
    let len = || parsed::<usize>(text);
    Ok(match kind {
        b':' => Value::Number(parsed::<i64>(text).unwrap_or(0) as f64),
        b'$' => match bulk(len(), rest) {
            Some(bytes) => Value::String(lua.create_string(bytes)?),
            None => Value::Boolean(false),
        },
        b'+' => field(lua, "ok", Value::String(lua.create_string(text)?))?,
        b'-' => {
            let error = lua.create_table()?;
            error.raw_set("err", lua.create_string(text)?)?;
            // The error has been counted.
            error.raw_set("ignore_error_stats_update", true)?;
            Value::Table(error)
        }
        b'*' | b'>' => match len() {
            Some(len) => array(lua, len, rest)?,
            None => Value::Boolean(false),
        },
        b'%' => {
            let map = lua.create_table()?;
            for _ in 0..len().unwrap_or(0) {
                let (key, value) = (to_lua(lua, rest)?, to_lua(lua, rest)?);
                map.raw_set(key, value)?;
            }
            field(lua, "map", Value::Table(map))?
        }
        b'~' => {
            let set = lua.create_table()?;
            for _ in 0..len().unwrap_or(0) {
                set.raw_set(to_lua(lua, rest)?, true)?;
            }
            field(lua, "set", Value::Table(set))?
        }
        b'#' => Value::Boolean(text == b"t"),
        b',' => field(lua, "double", Value::Number(parsed(text).unwrap_or(f64::NAN)))?,
        b'(' => field(lua, "big_number", Value::String(lua.create_string(text)?))?,
        b'=' => {
            let bytes = bulk(len(), rest).unwrap_or_default();
            let verbatim = lua.create_table()?;
            verbatim.raw_set("string", lua.create_string(bytes.get(4..).unwrap_or_default())?)?;
            verbatim.raw_set("format", lua.create_string(bytes.get(..3).unwrap_or_default())?)?;
            field(lua, "verbatim_string", Value::Table(verbatim))?
        }
        _ => Value::Nil,
    })
}

fn bulk<'r>(len: Option<usize>, rest: &mut &'r [u8]) -> Option<&'r [u8]> {
    let len = len?;
    let bytes = rest.get(..len)?;
    *rest = rest.get(len + 2..).unwrap_or_default();
    Some(bytes)
}

fn array(lua: &Lua, len: usize, rest: &mut &[u8]) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(len.min(rest.len()), 0)?;
    for index in 1..=len {
        table.raw_seti(index, to_lua(lua, rest)?)?;
    }
    Ok(Value::Table(table))
}

fn field(lua: &Lua, name: &str, value: Value) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

// --- to replies -------------------------------------------------------------------------------

/// Versions that decide about a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions {
    /// Version of the client that is answered.
    pub(crate) client: Version,
    /// Version that the script has chosen.
    pub(crate) script: Version,
}

/// Appends the reply that stands for a value. True if it is an error.
pub(crate) fn to_reply(value: &Value, versions: Versions, out: &mut Vec<u8>) -> mlua::Result<bool> {
    write(value, versions, out, 0)
}

fn write(value: &Value, versions: Versions, out: &mut Vec<u8>, depth: usize) -> mlua::Result<bool> {
    match value {
        Value::String(text) => reply::bulk(out, &text.as_bytes()),
        Value::Integer(number) => reply::integer(out, *number),
        Value::Number(number) => reply::integer(out, to_integer(*number)),
        Value::Boolean(is_true) => match (versions.script, is_true) {
            (Version::Resp3, _) => reply::boolean(out, *is_true, versions.client),
            (Version::Resp2, true) => reply::integer(out, 1),
            (Version::Resp2, false) => reply::null(out, versions.client),
        },
        Value::Table(table) => return with_stack(|| write_table(table, versions, out, depth)),
        _ => reply::null(out, versions.client),
    }
    Ok(false)
}

fn write_table(table: &Table, versions: Versions, out: &mut Vec<u8>, depth: usize) -> mlua::Result<bool> {
    if depth >= DEPTH_MAX || out.len() > REPLY_BYTES_MAX {
        reply::error(out, "ERR reached lua stack limit");
        return Ok(true);
    }
    if let Value::String(text) = table.raw_get("err")? {
        reply::error(out, until_zero(&text.as_bytes()));
        return Ok(true);
    }
    if let Value::String(text) = table.raw_get("ok")? {
        let text = one_line(&text.as_bytes());
        reply::simple(out, text);
        return Ok(false);
    }
    match table.raw_get("double")? {
        Value::Number(number) => return write_double(number, versions.client, out),
        Value::Integer(number) => return write_double(number as f64, versions.client, out),
        _ => {}
    }
    if let Value::Table(map) = table.raw_get("map")? {
        let pairs: Vec<(Value, Value)> = map.pairs().collect::<mlua::Result<_>>()?;
        reply::map(out, pairs.len(), versions.client);
        for (key, value) in &pairs {
            write(key, versions, out, depth + 1)?;
            write(value, versions, out, depth + 1)?;
        }
        return Ok(false);
    }
    if let Value::Table(set) = table.raw_get("set")? {
        let members: Vec<(Value, Value)> = set.pairs().collect::<mlua::Result<_>>()?;
        reply::set(out, members.len(), versions.client);
        for (member, _) in &members {
            write(member, versions, out, depth + 1)?;
        }
        return Ok(false);
    }
    if let Value::String(number) = table.raw_get("big_number")? {
        let text = one_line(&number.as_bytes());
        match versions.client {
            Version::Resp2 => reply::bulk(out, &text),
            Version::Resp3 => out.extend_from_slice(&[b"(", &text[..], b"\r\n"].concat()),
        }
        return Ok(false);
    }
    if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
        && let (Value::String(format), Value::String(text)) = (verbatim.raw_get("format")?, verbatim.raw_get("string")?)
    {
        let mut tag = *b"   ";
        tag.iter_mut().zip(format.as_bytes().iter()).for_each(|(to, from)| *to = *from);
        reply::verbatim(out, tag, &text.as_bytes(), versions.client);
        return Ok(false);
    }
    write_array(table, versions, out, depth)
}

/// Returns the text up to a zero, where a C string ends.
fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or(text)
}

/// Returns the text up to a zero, without line ends.
fn one_line(text: &[u8]) -> Vec<u8> {
    until_zero(text).iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}

/// Appends the elements up to the first nil: counted first, then one at a time, since mlua has places for some thousand
/// values only.
fn write_array(table: &Table, versions: Versions, out: &mut Vec<u8>, depth: usize) -> mlua::Result<bool> {
    let mut len = 0;
    while !table.raw_get::<Value>(len + 1)?.is_nil() {
        len += 1;
    }
    reply::array(out, len);
    for index in 1..=len {
        write(&table.raw_get(index)?, versions, out, depth + 1)?;
    }
    Ok(false)
}

fn write_double(number: f64, version: Version, out: &mut Vec<u8>) -> mlua::Result<bool> {
    let text = general(number, 17);
    match version {
        Version::Resp2 => reply::bulk(out, text.as_bytes()),
        Version::Resp3 => out.extend_from_slice(format!(",{text}\r\n").as_bytes()),
    }
    Ok(false)
}
