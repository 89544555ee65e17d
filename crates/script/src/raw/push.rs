//! Replies of commands as Lua values.
//!
//! All functions may raise errors: they must be called within a guarded call, by frames that own nothing.

use std::ffi::{CStr, c_int};

use mlua::ffi::{self, lua_State};

use super::push_bytes;

/// Places on the stack that one reply needs, beside those in it.
const PLACES: c_int = 4;

/// Takes the next line off a reply, without its end.
fn line<'r>(rest: &mut &'r [u8]) -> &'r [u8] {
    let end = rest.iter().position(|&byte| byte == b'\r').unwrap_or(rest.len());
    let line = &rest[..end];
    *rest = rest.get(end + 2..).unwrap_or_default();
    line
}

/// Takes so many bytes and a line end off a reply.
fn bulk<'r>(len: usize, rest: &mut &'r [u8]) -> Option<&'r [u8]> {
    let bytes = rest.get(..len)?;
    *rest = rest.get(len + 2..).unwrap_or_default();
    Some(bytes)
}

/// Parses the digits of a length. `None` for -1.
fn length(text: &[u8]) -> Option<usize> {
    text.iter().try_fold(0_usize, |len, &byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| len.wrapping_mul(10).wrapping_add(digit.into()))
    })
}

fn integer(text: &[u8]) -> i64 {
    match text {
        [b'-', digits @ ..] => length(digits).map_or(0, |number| (number as i64).wrapping_neg()),
        digits => length(digits).map_or(0, |number| number as i64),
    }
}

fn double(text: &[u8]) -> f64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

/// Pushes the reply that `rest` begins with, and takes it off. Error replies become tables, too.
///
/// # Safety
/// See the module.
pub(super) unsafe fn push_reply(state: *mut lua_State, rest: &mut &[u8]) {
    let first = line(rest);
    let (kind, text) = first.split_first().unwrap_or((&b'_', b""));
    // SAFETY: as above; `line` and what takes it apart own nothing.
    unsafe {
        match kind {
            b':' => ffi::lua_pushnumber(state, integer(text) as f64),
            b'$' => match length(text).and_then(|len| bulk(len, rest)) {
                Some(bytes) => push_bytes(state, bytes),
                None => ffi::lua_pushboolean(state, 0),
            },
            b'+' => push_field(state, c"ok", || push_bytes(state, text)),
            b'-' => {
                push_error(state, text);
                // The error has been counted.
                set_field(state, c"ignore_error_stats_update", || ffi::lua_pushboolean(state, 1));
            }
            b'*' | b'>' => match length(text) {
                Some(len) => push_array(state, len, rest),
                None => ffi::lua_pushboolean(state, 0),
            },
            b'%' => push_field(state, c"map", || push_map(state, length(text).unwrap_or(0), rest)),
            b'~' => push_field(state, c"set", || push_set(state, length(text).unwrap_or(0), rest)),
            b'#' => ffi::lua_pushboolean(state, (text == b"t").into()),
            b',' => push_field(state, c"double", || ffi::lua_pushnumber(state, double(text))),
            b'(' => push_field(state, c"big_number", || push_bytes(state, text)),
            b'=' => {
                let bytes = length(text).and_then(|len| bulk(len, rest)).unwrap_or_default();
                push_field(state, c"verbatim_string", || push_verbatim(state, bytes));
            }
            _ => ffi::lua_pushnil(state),
        }
    }
}

/// Pushes the table of an error.
///
/// # Safety
/// See the module.
pub(super) unsafe fn push_error(state: *mut lua_State, text: &[u8]) {
    // SAFETY: as above.
    unsafe { push_field(state, c"err", || push_bytes(state, text)) }
}

/// Pushes a table with one field.
///
/// # Safety
/// See the module. `push_value` pushes one value.
unsafe fn push_field(state: *mut lua_State, name: &CStr, push_value: impl FnOnce()) {
    // SAFETY: as above.
    unsafe {
        ffi::lua_createtable(state, 0, 1);
        set_field(state, name, push_value);
    }
}

/// Sets a field of the table on top of the stack.
///
/// # Safety
/// See the module. `push_value` pushes one value.
unsafe fn set_field(state: *mut lua_State, name: &CStr, push_value: impl FnOnce()) {
    // SAFETY: as above.
    unsafe {
        push_bytes(state, name.to_bytes());
        push_value();
        ffi::lua_rawset(state, -3);
    }
}

/// Makes sure that the values of an aggregate have places on the stack.
///
/// # Safety
/// See the module.
unsafe fn check_stack(state: *mut lua_State) {
    // SAFETY: as above.
    unsafe { ffi::luaL_checkstack_(state, 2 * PLACES, c"reply".as_ptr()) }
}

/// # Safety
/// See the module.
unsafe fn push_array(state: *mut lua_State, len: usize, rest: &mut &[u8]) {
    // SAFETY: as above.
    unsafe {
        check_stack(state);
        // A reply has no more values than bytes.
        let len = c_int::try_from(len.min(rest.len())).unwrap_or(c_int::MAX);
        ffi::lua_createtable(state, len, 0);
        for index in 1..=len {
            push_reply(state, rest);
            ffi::lua_rawseti_(state, -2, index);
        }
    }
}

/// # Safety
/// See the module.
unsafe fn push_map(state: *mut lua_State, pairs: usize, rest: &mut &[u8]) {
    // SAFETY: as above.
    unsafe {
        check_stack(state);
        ffi::lua_createtable(state, 0, c_int::try_from(pairs.min(rest.len())).unwrap_or(0));
        for _ in 0..pairs {
            push_reply(state, rest);
            push_reply(state, rest);
            ffi::lua_rawset(state, -3);
        }
    }
}

/// # Safety
/// See the module.
unsafe fn push_set(state: *mut lua_State, members: usize, rest: &mut &[u8]) {
    // SAFETY: as above.
    unsafe {
        check_stack(state);
        ffi::lua_createtable(state, 0, c_int::try_from(members.min(rest.len())).unwrap_or(0));
        for _ in 0..members {
            push_reply(state, rest);
            ffi::lua_pushboolean(state, 1);
            ffi::lua_rawset(state, -3);
        }
    }
}

/// Pushes the table of a text with its format, which its first three bytes name.
///
/// # Safety
/// See the module.
unsafe fn push_verbatim(state: *mut lua_State, bytes: &[u8]) {
    // SAFETY: as above.
    unsafe {
        ffi::lua_createtable(state, 0, 2);
        set_field(state, c"string", || push_bytes(state, bytes.get(4..).unwrap_or_default()));
        set_field(state, c"format", || push_bytes(state, bytes.get(..3).unwrap_or_default()));
    }
}
