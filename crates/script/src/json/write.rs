//! From Lua values to JSON.

use mlua::{Lua, Table, Value};

use super::{Config, DEPTH_MAX, Invalid};
use crate::{
    failure::{text, type_name},
    number::{general, whole},
    stack::with_stack,
};

/// Limit of what is written; a table may hold one long string many times.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Appends a value.
pub(super) fn value(lua: &Lua, config: &Config, value: &Value, out: &mut Vec<u8>, depth: i32) -> mlua::Result<()> {
    if out.len() > OUTPUT_BYTES_MAX {
        return Err(text(lua, "not enough memory"));
    }
    match value {
        Value::String(text) => string(&text.as_bytes(), out),
        Value::Integer(number) => self::number(lua, config, *number as f64, out)?,
        Value::Number(number) => self::number(lua, config, *number, out)?,
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Nil => out.extend_from_slice(b"null"),
        Value::LightUserData(pointer) if pointer.0.is_null() => out.extend_from_slice(b"null"),
        Value::Table(table) => with_stack(|| self::table(lua, config, table, out, depth + 1))?,
        other => return Err(refused(lua, other, "type not supported")),
    }
    Ok(())
}

fn refused(lua: &Lua, value: &Value, why: &str) -> mlua::Error {
    text(lua, format_args!("Cannot serialise {}: {why}", type_name(value)))
}

fn number(lua: &Lua, config: &Config, number: f64, out: &mut Vec<u8>) -> mlua::Result<()> {
    if !number.is_finite() {
        match config.encodes_invalid {
            Invalid::Refused => return Err(refused(lua, &Value::Number(number), "must not be NaN or Inf")),
            Invalid::Null => {
                out.extend_from_slice(b"null");
                return Ok(());
            }
            Invalid::Written if number.is_nan() => {
                out.extend_from_slice(b"nan");
                return Ok(());
            }
            Invalid::Written => {}
        }
    }
    match whole(number).filter(|_| config.precision == 14) {
        Some(integer) => out.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes()),
        None => out.extend_from_slice(general(number, usize::try_from(config.precision).unwrap_or(14)).as_bytes()),
    }
    Ok(())
}

fn string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' | b'/' => out.extend_from_slice(&[b'\\', byte]),
            b'\x08' => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\x0c' => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..=31 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

fn table(lua: &Lua, config: &Config, table: &Table, out: &mut Vec<u8>, depth: i32) -> mlua::Result<()> {
    if depth > config.encode_depth.min(DEPTH_MAX) {
        return Err(text(lua, format_args!("Cannot serialise, excessive nesting ({depth})")));
    }
    match array_len(lua, config, table)? {
        Some(len) => {
            out.push(b'[');
            for index in 1..=len {
                if index > 1 {
                    out.push(b',');
                }
                value(lua, config, &table.raw_get(index)?, out, depth)?;
            }
            out.push(b']');
        }
        None => {
            out.push(b'{');
            let mut is_first = true;
            for pair in table.pairs::<Value, Value>() {
                let (key, element) = pair?;
                if !std::mem::take(&mut is_first) {
                    out.push(b',');
                }
                match &key {
                    Value::String(name) => string(&name.as_bytes(), out),
                    Value::Integer(_) | Value::Number(_) => {
                        out.push(b'"');
                        value(lua, config, &key, out, depth)?;
                        out.push(b'"');
                    }
                    other => return Err(refused(lua, other, "table key must be a number or string")),
                }
                out.push(b':');
                value(lua, config, &element, out, depth)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

/// Returns the length of a table that is an array; an empty one is none.
fn array_len(lua: &Lua, config: &Config, table: &Table) -> mlua::Result<Option<usize>> {
    let (mut most, mut count, mut is_array) = (0.0_f64, 0.0_f64, true);
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair?;
        let index = match key {
            Value::Integer(index) => index as f64,
            Value::Number(index) => index,
            _ => 0.0,
        };
        is_array &= index >= 1.0 && index.fract() == 0.0;
        (most, count) = (most.max(index), count + 1.0);
    }
    if !is_array || count == 0.0 {
        return Ok(None);
    }
    let ratio = f64::from(config.sparse_ratio);
    if ratio > 0.0 && most > count * ratio && most > f64::from(config.sparse_safe) {
        return match config.sparse_converts {
            true => Ok(None),
            false => Err(refused(lua, &Value::Table(table.clone()), "excessively sparse array")),
        };
    }
    Ok(Some(most as usize))
}
