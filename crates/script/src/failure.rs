//! Errors that functions of ours raise in Lua.
//!
//! They travel as values of mlua's; `sandbox.lua` turns them into what a script expects wherever one can be caught.

use std::{error::Error, fmt};

use mlua::{Lua, Table, Value};

use crate::host::Interrupt;

/// Error raised by a function of ours.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// Table with the field `err`, as `redis.call` raises it.
    Reply(Vec<u8>),
    /// Text, as the standard libraries raise it.
    Text(String),
    Interrupt(Interrupt),
}

/// Returns the text of an error that ends a script.
pub(crate) fn interrupt_text(interrupt: Interrupt) -> &'static str {
    match interrupt {
        Interrupt::Killed => "ERR Script killed by user with SCRIPT KILL.",
        Interrupt::Restarted => "ERR the script is run again",
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(text) => f.write_str(&String::from_utf8_lossy(text)),
            Self::Text(text) => f.write_str(text),
            Self::Interrupt(interrupt) => f.write_str(interrupt_text(*interrupt)),
        }
    }
}

impl Error for Failure {}

impl From<Failure> for mlua::Error {
    fn from(failure: Failure) -> Self {
        Self::external(failure)
    }
}

/// Returns an error with the line of the caller in front, as `luaL_error` has it.
pub(crate) fn text(lua: &Lua, message: impl fmt::Display) -> mlua::Error {
    Failure::Text(format!("{}{message}", position(lua, 1))).into()
}

/// Returns an error about an argument of the function `name`.
pub(crate) fn argument(lua: &Lua, number: usize, name: &str, message: impl fmt::Display) -> mlua::Error {
    text(lua, format_args!("bad argument #{number} to '{name}' ({message})"))
}

/// Returns an error like `bad argument #1 to 'encode' (number expected, got nil)`.
pub(crate) fn wrong_type(lua: &Lua, number: usize, name: &str, wanted: &str, got: Option<&Value>) -> mlua::Error {
    let got = got.map_or("no value", type_name);
    argument(lua, number, name, format_args!("{wanted} expected, got {got}"))
}

/// Returns an error that is a table with the field `err`.
pub(crate) fn reply(text: impl Into<Vec<u8>>) -> mlua::Error {
    Failure::Reply(text.into()).into()
}

/// Returns the name that Lua has for the type of a value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        Value::Integer(_) => "number",
        other => other.type_name(),
    }
}

/// Returns `user_script:1: `, if a Lua function runs at this level.
pub(crate) fn position(lua: &Lua, level: usize) -> String {
    let position = lua.inspect_stack(level, |debug| {
        let source = debug.source();
        debug.current_line().map(|line| format!("{}:{line}: ", source.short_src.unwrap_or_default()))
    });
    position.flatten().unwrap_or_default()
}

/// Returns the source and line of the code that has raised the error being handled.
pub(crate) fn locate(lua: &Lua, (): ()) -> mlua::Result<(Option<String>, Option<usize>)> {
    let mut level = 1;
    loop {
        let frame = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let is_ours = matches!(source.what, "C" | "tail") || source.source.as_deref() == Some("=sandbox");
            (!is_ours).then(|| (source.source.map(|text| text.into_owned()), debug.current_line()))
        });
        match frame {
            None => return Ok((None, None)),
            Some(Some(found)) => return Ok(found),
            Some(None) => level += 1,
        }
    }
}

/// Returns what a script sees of an error that it has caught.
pub(crate) fn caught(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let Value::Error(error) = error else { return Ok(error) };
    match failure_of(&error) {
        Some(Failure::Reply(text)) => Ok(Value::Table(reply_table(lua, text)?)),
        Some(other) => Ok(Value::String(lua.create_string(other.to_string())?)),
        None => Ok(Value::String(lua.create_string(plain_text(&error))?)),
    }
}

/// Returns the table of an error reply.
pub(crate) fn reply_table(lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", lua.create_string(text)?)?;
    Ok(table)
}

/// Returns the error of ours that is the cause of an error of mlua's.
pub(crate) fn failure_of(error: &mlua::Error) -> Option<&Failure> {
    match error {
        mlua::Error::CallbackError { cause, .. } => failure_of(cause),
        mlua::Error::ExternalError(error) => error.downcast_ref(),
        _ => None,
    }
}

/// Returns the first line of an error, without the stack behind it.
pub(crate) fn plain_text(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return plain_text(cause),
        mlua::Error::MemoryError(_) => return "not enough memory".to_owned(),
        mlua::Error::RuntimeError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}
