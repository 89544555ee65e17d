//! The library `cjson`: JSON as lua-cjson 2.1.0 writes and reads it.
//!
//! Configuration by a script lasts as long as the state of Lua; see `Engine::run`.

mod read;
mod write;

use std::{cell::Cell, rc::Rc};

use mlua::{Lua, MultiValue, Table, Value};

use crate::failure::{argument, wrong_type};

/// Limit of the depths that can be set; deeper ones would need a stack of their own.
const DEPTH_MAX: i32 = 1000;

/// Configuration, with lua-cjson's defaults.
#[derive(Clone, Copy, Debug)]
struct Config {
    sparse_converts: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth: i32,
    decode_depth: i32,
    encodes_invalid: Invalid,
    decodes_invalid: bool,
    keeps_buffer: bool,
    precision: i32,
}

/// Treatment of numbers that JSON does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sparse_converts: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: DEPTH_MAX,
            decode_depth: DEPTH_MAX,
            encodes_invalid: Invalid::Refused,
            decodes_invalid: true,
            keeps_buffer: true,
            precision: 14,
        }
    }
}

/// Makes a table `cjson` with the default configuration.
pub(crate) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let config = Rc::new(Cell::new(Config::default()));
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    table.raw_set("null", Value::NULL)?;
    let state = Rc::clone(&config);
    let encode = move |lua: &Lua, args: MultiValue| {
        let value = only(lua, &args, "encode")?;
        let mut out = Vec::new();
        write::value(lua, &state.get(), value, &mut out, 0)?;
        lua.create_string(out)
    };
    table.raw_set("encode", lua.create_function(encode)?)?;
    let state = Rc::clone(&config);
    let decode = move |lua: &Lua, args: MultiValue| {
        let value = only(lua, &args, "decode")?;
        let text = lua.coerce_string(value.clone())?;
        let text = text.ok_or_else(|| wrong_type(lua, 1, "decode", "string", Some(value)))?;
        read::document(lua, &state.get(), &text.as_bytes())
    };
    table.raw_set("decode", lua.create_function(decode)?)?;
    add_settings(lua, &table, &config)?;
    table.raw_set("new", lua.create_function(|lua, ()| self::table(lua))?)?;
    Ok(table)
}

fn only<'a>(lua: &Lua, args: &'a MultiValue, name: &str) -> mlua::Result<&'a Value> {
    match args.len() {
        1 => Ok(&args[0]),
        _ => Err(argument(lua, 1, name, "expected 1 argument")),
    }
}

/// Adds the functions that change the configuration and return it.
fn add_settings(lua: &Lua, table: &Table, config: &Rc<Cell<Config>>) -> mlua::Result<()> {
    type Change = fn(&Lua, &mut Config, &MultiValue) -> mlua::Result<MultiValue>;
    let settings: [(&str, Change); 7] = [
        ("encode_sparse_array", |lua, config, args| {
            flag(lua, args, 0, "encode_sparse_array", &mut config.sparse_converts)?;
            number(lua, args, 1, "encode_sparse_array", 0, i32::MAX, &mut config.sparse_ratio)?;
            number(lua, args, 2, "encode_sparse_array", 0, i32::MAX, &mut config.sparse_safe)?;
            let numbers = [config.sparse_ratio, config.sparse_safe].map(|number| Value::Number(number.into()));
            Ok(std::iter::once(Value::Boolean(config.sparse_converts)).chain(numbers).collect())
        }),
        ("encode_max_depth", |lua, config, args| {
            number(lua, args, 0, "encode_max_depth", 1, i32::MAX, &mut config.encode_depth)?;
            Ok(MultiValue::from_iter([Value::Number(config.encode_depth.into())]))
        }),
        ("decode_max_depth", |lua, config, args| {
            number(lua, args, 0, "decode_max_depth", 1, i32::MAX, &mut config.decode_depth)?;
            Ok(MultiValue::from_iter([Value::Number(config.decode_depth.into())]))
        }),
        ("encode_number_precision", |lua, config, args| {
            number(lua, args, 0, "encode_number_precision", 1, 14, &mut config.precision)?;
            Ok(MultiValue::from_iter([Value::Number(config.precision.into())]))
        }),
        ("encode_keep_buffer", |lua, config, args| {
            flag(lua, args, 0, "encode_keep_buffer", &mut config.keeps_buffer)?;
            Ok(MultiValue::from_iter([Value::Boolean(config.keeps_buffer)]))
        }),
        ("decode_invalid_numbers", |lua, config, args| {
            flag(lua, args, 0, "decode_invalid_numbers", &mut config.decodes_invalid)?;
            Ok(MultiValue::from_iter([Value::Boolean(config.decodes_invalid)]))
        }),
        ("encode_invalid_numbers", |lua, config, args| {
            let is_null = matches!(args.front(), Some(Value::String(text)) if text.as_bytes()[..] == *b"null");
            let mut is_written = config.encodes_invalid == Invalid::Written;
            if is_null {
                config.encodes_invalid = Invalid::Null;
            } else if !args.is_empty() {
                flag(lua, args, 0, "encode_invalid_numbers", &mut is_written)?;
                config.encodes_invalid = if is_written { Invalid::Written } else { Invalid::Refused };
            }
            let value = match config.encodes_invalid {
                Invalid::Null => Value::String(lua.create_string("null")?),
                other => Value::Boolean(other == Invalid::Written),
            };
            Ok(MultiValue::from_iter([value]))
        }),
    ];
    for (name, change) in settings {
        let state = Rc::clone(config);
        let run = move |lua: &Lua, args: MultiValue| {
            let mut config = state.get();
            let shown = change(lua, &mut config, &args)?;
            state.set(config);
            Ok(shown)
        };
        table.raw_set(name, lua.create_function(run)?)?;
    }
    Ok(())
}

fn flag(lua: &Lua, args: &MultiValue, index: usize, name: &str, to: &mut bool) -> mlua::Result<()> {
    match args.get(index) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(value)) => *to = *value,
        Some(Value::String(text)) if text.as_bytes()[..] == *b"on" => *to = true,
        Some(Value::String(text)) if text.as_bytes()[..] == *b"off" => *to = false,
        Some(other) => return Err(wrong_type(lua, index + 1, name, "boolean", Some(other))),
    }
    Ok(())
}

fn number(
    lua: &Lua,
    args: &MultiValue,
    index: usize,
    name: &str,
    least: i32,
    most: i32,
    to: &mut i32,
) -> mlua::Result<()> {
    let Some(arg) = args.get(index).filter(|arg| !arg.is_nil()) else { return Ok(()) };
    let number = lua.coerce_number(arg.clone())?;
    let number = number.ok_or_else(|| wrong_type(lua, index + 1, name, "number", Some(arg)))? as i32;
    if !(least..=most).contains(&number) {
        let message = format!("expected integer between {least} and {most}");
        return Err(argument(lua, index + 1, name, message));
    }
    *to = number;
    Ok(())
}
