//! The library `cmsgpack`: MessagePack as lua-cmsgpack 0.4.0 writes and reads it.

use mlua::{Lua, MultiValue, Table, Value};

use crate::{
    failure::{argument, text, wrong_type},
    number::to_integer,
    stack::with_stack,
};

/// Depth beyond which tables are written as nil.
const WRITE_DEPTH_MAX: usize = 16;
/// Depth of values that are read.
const READ_DEPTH_MAX: usize = 300;
/// Limit of what is written; a table may hold one long string many times.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Makes the table `cmsgpack`.
pub(crate) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    let unpack = |lua: &Lua, args: MultiValue| {
        let data = data(lua, &args, "unpack")?;
        read_values(lua, &data, None, 0.0)
    };
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    let unpack_one = |lua: &Lua, args: MultiValue| {
        let data = data(lua, &args, "unpack_one")?;
        read_values(lua, &data, Some(1.0), integer(lua, &args, 1, "unpack_one", Some(0.0))?)
    };
    table.raw_set("unpack_one", lua.create_function(unpack_one)?)?;
    let unpack_limit = |lua: &Lua, args: MultiValue| {
        let data = data(lua, &args, "unpack_limit")?;
        let limit = integer(lua, &args, 1, "unpack_limit", None)?;
        read_values(lua, &data, Some(limit), integer(lua, &args, 2, "unpack_limit", Some(0.0))?)
    };
    table.raw_set("unpack_limit", lua.create_function(unpack_limit)?)?;
    Ok(table)
}

fn data(lua: &Lua, args: &MultiValue, name: &str) -> mlua::Result<Vec<u8>> {
    let data = args.front().map(|arg| lua.coerce_string(arg.clone())).transpose()?.flatten();
    Ok(data.ok_or_else(|| wrong_type(lua, 1, name, "string", args.front()))?.as_bytes().to_vec())
}

fn integer(lua: &Lua, args: &MultiValue, index: usize, name: &str, default: Option<f64>) -> mlua::Result<f64> {
    match (args.get(index), default) {
        (None | Some(Value::Nil), Some(default)) => Ok(default),
        (arg, _) => {
            let number = arg.map(|arg| lua.coerce_number(arg.clone())).transpose()?.flatten();
            number.map(f64::trunc).ok_or_else(|| wrong_type(lua, index + 1, name, "number", arg))
        }
    }
}

// --- writing ----------------------------------------------------------------------------------

fn pack(lua: &Lua, args: MultiValue) -> mlua::Result<mlua::LuaString> {
    if args.is_empty() {
        return Err(argument(lua, 0, "pack", "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for arg in &args {
        write(lua, arg, &mut out, 0)?;
    }
    lua.create_string(out)
}

/// Appends a length behind the first of the codes that has room for it.
fn write_len(out: &mut Vec<u8>, len: usize, fixed: (usize, u8), codes: (Option<u8>, u8, u8)) {
    match (len, codes) {
        (len, _) if len < fixed.0 => out.push(fixed.1 | len as u8),
        (0..=0xff, (Some(code), ..)) => out.extend_from_slice(&[code, len as u8]),
        (0..=0xffff, (_, code, _)) => {
            out.push(code);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        (_, (.., code)) => {
            out.push(code);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

fn write(lua: &Lua, value: &Value, out: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    if out.len() > OUTPUT_BYTES_MAX {
        return Err(text(lua, "not enough memory"));
    }
    match value {
        Value::String(text) => {
            let bytes = text.as_bytes();
            write_len(out, bytes.len(), (32, 0xa0), (Some(0xd9), 0xda, 0xdb));
            out.extend_from_slice(&bytes);
        }
        Value::Boolean(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => write_integer(out, *number),
        Value::Number(number) => {
            let integer = to_integer(*number);
            if integer as f64 == *number {
                write_integer(out, integer);
            } else if f64::from(*number as f32) == *number {
                out.push(0xca);
                out.extend_from_slice(&(*number as f32).to_be_bytes());
            } else {
                out.push(0xcb);
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
        Value::Table(table) if depth < WRITE_DEPTH_MAX => write_table(lua, table, out, depth)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn write_integer(out: &mut Vec<u8>, number: i64) {
    match number {
        -32..=127 => out.push(number as u8),
        128..=0xff => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend_from_slice(&number.to_be_bytes());
        }
        -128..=-33 => out.extend_from_slice(&[0xd0, number as u8]),
        -0x8000..=-129 => {
            out.push(0xd1);
            out.extend_from_slice(&(number as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend_from_slice(&(number as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

fn write_table(lua: &Lua, table: &Table, out: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    let (mut count, mut most, mut is_array) = (0_usize, 0.0_f64, true);
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair?;
        count += 1;
        let index = match &key {
            Value::Integer(index) => Some(*index as f64),
            Value::Number(index) => Some(*index),
            _ => None,
        };
        match index {
            Some(index) if index > 0.0 && index.fract() == 0.0 && index < 2_147_483_648.0 => most = most.max(index),
            _ => is_array = false,
        }
    }
    if is_array && most == count as f64 {
        let len = table.raw_len();
        write_len(out, len, (16, 0x90), (None, 0xdc, 0xdd));
        for index in 1..=len {
            write(lua, &table.raw_get(index)?, out, depth + 1)?;
        }
        return Ok(());
    }
    write_len(out, count, (16, 0x80), (None, 0xde, 0xdf));
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        write(lua, &key, out, depth + 1)?;
        write(lua, &value, out, depth + 1)?;
    }
    Ok(())
}

// --- reading ----------------------------------------------------------------------------------

/// Reason for which nothing more can be read.
enum Bad {
    Missing,
    Format,
    Lua(mlua::Error),
}

impl From<mlua::Error> for Bad {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

/// Reads all values, or so many of them: then the position behind them is in front, or -1 at the end.
fn read_values(lua: &Lua, data: &[u8], limit: Option<f64>, offset: f64) -> mlua::Result<MultiValue> {
    let count_max = limit.unwrap_or(f64::MAX);
    if offset < 0.0 || count_max < 0.0 {
        let message = format!("Invalid request to unpack with offset of {offset} and limit of {}.", data.len());
        return Err(text(lua, message));
    }
    let start = offset as usize;
    let Some(mut rest) = data.get(start..) else {
        return Err(text(lua, format_args!("Start offset {start} greater than input length {}.", data.len())));
    };
    let mut values = MultiValue::new();
    while !rest.is_empty() && (values.len() as f64) < count_max {
        match read(lua, &mut rest, 0) {
            Ok(value) => values.push_back(value),
            Err(Bad::Missing) => return Err(text(lua, "Missing bytes in input.")),
            Err(Bad::Format) => return Err(text(lua, "Bad data format in input.")),
            Err(Bad::Lua(error)) => return Err(error),
        }
        if values.len() > VALUES_MAX {
            return Err(text(lua, "too many return values at once; use unpack_one or unpack_limit instead."));
        }
    }
    if limit.is_some() {
        let next = if rest.is_empty() { -1.0 } else { (data.len() - rest.len()) as f64 };
        values.push_front(Value::Number(next));
    }
    Ok(values)
}

/// Limit of the values that a function returns.
const VALUES_MAX: usize = 7000;

fn bytes<'d>(rest: &mut &'d [u8], len: usize) -> Result<&'d [u8], Bad> {
    let (bytes, after) = rest.split_at_checked(len).ok_or(Bad::Missing)?;
    *rest = after;
    Ok(bytes)
}

fn unsigned(rest: &mut &[u8], len: usize) -> Result<u64, Bad> {
    Ok(bytes(rest, len)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn len(rest: &mut &[u8], size: usize) -> Result<usize, Bad> {
    usize::try_from(unsigned(rest, size)?).map_err(|_| Bad::Missing)
}

fn read(lua: &Lua, rest: &mut &[u8], depth: usize) -> Result<Value, Bad> {
    with_stack(|| read_here(lua, rest, depth))
}

fn read_here(lua: &Lua, rest: &mut &[u8], depth: usize) -> Result<Value, Bad> {
    if depth > READ_DEPTH_MAX {
        return Err(Bad::Format);
    }
    let code = bytes(rest, 1)?[0];
    let number = |number: f64| Ok(Value::Number(number));
    match code {
        0x00..=0x7f => number(code.into()),
        0xe0..=0xff => number(code.cast_signed().into()),
        0xc0 => Ok(Value::Nil),
        0xc2 | 0xc3 => Ok(Value::Boolean(code == 0xc3)),
        0xcc..=0xce => number(unsigned(rest, 1 << (code - 0xcc))? as f64),
        0xd0 => number((unsigned(rest, 1)? as i8).into()),
        0xd1 => number((unsigned(rest, 2)? as i16).into()),
        0xd2 => number((unsigned(rest, 4)? as i32).into()),
        // Both are signed there.
        0xcf | 0xd3 => number(unsigned(rest, 8)?.cast_signed() as f64),
        0xca => number(f32::from_bits(unsigned(rest, 4)? as u32).into()),
        0xcb => number(f64::from_bits(unsigned(rest, 8)?)),
        0xa0..=0xbf => string(lua, rest, usize::from(code & 0x1f)),
        0xd9..=0xdb => {
            let len = len(rest, 1 << (code - 0xd9))?;
            string(lua, rest, len)
        }
        0x90..=0x9f => array(lua, rest, usize::from(code & 0xf), depth),
        0xdc | 0xdd => {
            let len = len(rest, 2 << (code - 0xdc))?;
            array(lua, rest, len, depth)
        }
        0x80..=0x8f => map(lua, rest, usize::from(code & 0xf), depth),
        0xde | 0xdf => {
            let len = len(rest, 2 << (code - 0xde))?;
            map(lua, rest, len, depth)
        }
        _ => Err(Bad::Format),
    }
}

fn string(lua: &Lua, rest: &mut &[u8], len: usize) -> Result<Value, Bad> {
    Ok(Value::String(lua.create_string(bytes(rest, len)?)?))
}

fn array(lua: &Lua, rest: &mut &[u8], len: usize, depth: usize) -> Result<Value, Bad> {
    let table = lua.create_table()?;
    for index in 1..=len {
        table.raw_seti(index, read(lua, rest, depth + 1)?)?;
    }
    Ok(Value::Table(table))
}

fn map(lua: &Lua, rest: &mut &[u8], len: usize, depth: usize) -> Result<Value, Bad> {
    let table = lua.create_table()?;
    for _ in 0..len {
        let (key, value) = (read(lua, rest, depth + 1)?, read(lua, rest, depth + 1)?);
        table.raw_set(key, value)?;
    }
    Ok(Value::Table(table))
}
