//! Lua values as replies.
//!
//! All functions may raise errors, as they may ask for more stack: they must be called within a guarded call, by frames
//! that own nothing. They run in the frame of [`super::enter`], whose upvalues are the names of fields.

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};
use wire::resp::{Version, reply};

use super::{FIRST_FIELD, text_at};
use crate::number::{general, to_integer};

/// Depth of tables beyond which a reply is an error, as for Redis, whose limit is that of Lua's stack.
const DEPTH_MAX: usize = 300;
/// Limit of a reply; a table may hold one long string many times.
const REPLY_BYTES_MAX: usize = 512 << 20;
/// Places on the stack that one table needs, beside those in it.
const PLACES: c_int = 8;

/// Names of the fields that decide about the reply of a table.
pub(super) const FIELDS: [&str; 9] =
    ["err", "ok", "double", "map", "set", "big_number", "verbatim_string", "format", "string"];
/// Places of them.
const ERR: c_int = 0;
const OK: c_int = 1;
const DOUBLE: c_int = 2;
const MAP: c_int = 3;
const SET: c_int = 4;
const BIG_NUMBER: c_int = 5;
const VERBATIM_STRING: c_int = 6;
const FORMAT: c_int = 7;
const STRING: c_int = 8;

/// Versions that decide about a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Versions {
    /// Version of the client that is answered.
    pub(super) client: Version,
    /// Version that the script has chosen.
    pub(super) script: Version,
}

/// Appends the reply that stands for the value on top of the stack, and takes the value off.
///
/// # Safety
/// See the module.
pub(super) unsafe fn write(state: *mut lua_State, versions: Versions, out: &mut Vec<u8>, depth: usize) {
    // SAFETY: as above. The bytes of a string are copied before it leaves the stack.
    unsafe {
        match ffi::lua_type(state, -1) {
            ffi::LUA_TSTRING => reply::bulk(out, text_at(state, -1).unwrap_or_default()),
            ffi::LUA_TNUMBER => reply::integer(out, to_integer(ffi::lua_tonumber(state, -1))),
            ffi::LUA_TBOOLEAN => {
                let is_true = ffi::lua_toboolean(state, -1) != 0;
                match (versions.script, is_true) {
                    (Version::Resp3, _) => reply::boolean(out, is_true, versions.client),
                    (Version::Resp2, true) => reply::integer(out, 1),
                    (Version::Resp2, false) => reply::null(out, versions.client),
                }
            }
            ffi::LUA_TTABLE => write_table(state, versions, out, depth),
            _ => reply::null(out, versions.client),
        }
        ffi::lua_pop(state, 1);
    }
}

/// Appends the reply that stands for the table on top of the stack.
///
/// # Safety
/// See the module.
unsafe fn write_table(state: *mut lua_State, versions: Versions, out: &mut Vec<u8>, depth: usize) {
    // SAFETY: as above.
    unsafe {
        if depth >= DEPTH_MAX || out.len() > REPLY_BYTES_MAX || ffi::lua_checkstack(state, PLACES) == 0 {
            return reply::error(out, "ERR reached lua stack limit");
        }
        let has_field = |field, wanted| {
            push_field(state, field);
            let is_wanted = ffi::lua_type(state, -1) == wanted;
            if !is_wanted {
                ffi::lua_pop(state, 1);
            }
            is_wanted
        };
        if has_field(ERR, ffi::LUA_TSTRING) {
            reply::error(out, until_zero(text_at(state, -1).unwrap_or_default()));
        } else if has_field(OK, ffi::LUA_TSTRING) {
            reply::simple(out, one_line(text_at(state, -1).unwrap_or_default()));
        } else if has_field(DOUBLE, ffi::LUA_TNUMBER) {
            write_double(ffi::lua_tonumber(state, -1), versions.client, out);
        } else if has_field(MAP, ffi::LUA_TTABLE) {
            write_pairs(state, versions, out, depth);
        } else if has_field(SET, ffi::LUA_TTABLE) {
            write_members(state, versions, out, depth);
        } else if has_field(BIG_NUMBER, ffi::LUA_TSTRING) {
            write_big_number(text_at(state, -1).unwrap_or_default(), versions.client, out);
        } else if !has_field(VERBATIM_STRING, ffi::LUA_TTABLE) {
            return write_array(state, versions, out, depth);
        } else if !write_verbatim(state, versions.client, out) {
            ffi::lua_pop(state, 1);
            return write_array(state, versions, out, depth);
        }
        ffi::lua_pop(state, 1);
    }
}

/// Pushes a field of the table on top of the stack.
///
/// # Safety
/// See the module.
unsafe fn push_field(state: *mut lua_State, field: c_int) {
    // SAFETY: as above; neither takes memory.
    unsafe {
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(FIRST_FIELD + field));
        ffi::lua_rawget_(state, -2);
    }
}

/// Returns the text up to a zero, where a C string ends.
fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or(text)
}

/// Returns the text up to a zero, without line ends.
fn one_line(text: &[u8]) -> Vec<u8> {
    until_zero(text).iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}

fn write_double(number: f64, version: Version, out: &mut Vec<u8>) {
    let text = general(number, 17);
    match version {
        Version::Resp2 => reply::bulk(out, text.as_bytes()),
        Version::Resp3 => out.extend_from_slice(format!(",{text}\r\n").as_bytes()),
    }
}

fn write_big_number(number: &[u8], version: Version, out: &mut Vec<u8>) {
    let text = one_line(number);
    match version {
        Version::Resp2 => reply::bulk(out, &text),
        Version::Resp3 => out.extend_from_slice(&[b"(", &text[..], b"\r\n"].concat()),
    }
}

/// Counts the pairs of the table on top of the stack.
///
/// # Safety
/// See the module.
unsafe fn pairs(state: *mut lua_State) -> usize {
    let mut count = 0;
    // SAFETY: as above; `lua_next` takes the key that it has given.
    unsafe {
        ffi::lua_pushnil(state);
        while ffi::lua_next(state, -2) != 0 {
            ffi::lua_pop(state, 1);
            count += 1;
        }
    }
    count
}

/// Appends the table on top of the stack as a map.
///
/// # Safety
/// See the module.
unsafe fn write_pairs(state: *mut lua_State, versions: Versions, out: &mut Vec<u8>, depth: usize) {
    // SAFETY: as above. A copy of the key is written, so that the key stays as it is.
    unsafe {
        reply::map(out, pairs(state), versions.client);
        ffi::lua_pushnil(state);
        while ffi::lua_next(state, -2) != 0 {
            ffi::lua_pushvalue(state, -2);
            write(state, versions, out, depth + 1);
            write(state, versions, out, depth + 1);
        }
    }
}

/// Appends the keys of the table on top of the stack as a set.
///
/// # Safety
/// See the module.
unsafe fn write_members(state: *mut lua_State, versions: Versions, out: &mut Vec<u8>, depth: usize) {
    // SAFETY: as above. A copy of the key takes the value's place.
    unsafe {
        reply::set(out, pairs(state), versions.client);
        ffi::lua_pushnil(state);
        while ffi::lua_next(state, -2) != 0 {
            ffi::lua_pop(state, 1);
            ffi::lua_pushvalue(state, -1);
            write(state, versions, out, depth + 1);
        }
    }
}

/// Appends the table on top of the stack as a text with a format. False if it is none.
///
/// # Safety
/// See the module.
unsafe fn write_verbatim(state: *mut lua_State, version: Version, out: &mut Vec<u8>) -> bool {
    // SAFETY: as above. Both strings are copied before they leave the stack.
    unsafe {
        push_field(state, FORMAT);
        ffi::lua_pushvalue(state, -2);
        push_field(state, STRING);
        let is_verbatim = match (text_at(state, -3), text_at(state, -1)) {
            (Some(format), Some(text)) => {
                let mut tag = *b"   ";
                tag.iter_mut().zip(format).for_each(|(to, from)| *to = *from);
                reply::verbatim(out, tag, text, version);
                true
            }
            _ => false,
        };
        ffi::lua_pop(state, 3);
        is_verbatim
    }
}

/// Appends the elements of the table on top of the stack up to the first nil.
///
/// # Safety
/// See the module.
unsafe fn write_array(state: *mut lua_State, versions: Versions, out: &mut Vec<u8>, depth: usize) {
    // SAFETY: as above.
    unsafe {
        let mut len = 0;
        loop {
            ffi::lua_rawgeti_(state, -1, len + 1);
            let is_end = ffi::lua_type(state, -1) == ffi::LUA_TNIL;
            ffi::lua_pop(state, 1);
            if is_end {
                break;
            }
            len += 1;
        }
        reply::array(out, usize::try_from(len).unwrap_or(0));
        for index in 1..=len {
            ffi::lua_rawgeti_(state, -1, index);
            write(state, versions, out, depth + 1);
        }
    }
}
