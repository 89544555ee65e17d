//! The functions `redis.call` and `redis.pcall`.

use std::{
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    rc::Rc,
};

use mlua::{
    Function, LightUserData, Lua, Table,
    ffi::{self, lua_State},
};
use smallvec::SmallVec;

use super::{
    push::{push_error, push_reply},
    push_bytes, text_at,
};
use crate::{
    api::{ARGUMENT_BYTES_MAX, Buffers, Run, add_number},
    failure,
    host::{Interrupt, ask_host},
};

/// Reasons to refuse a command; the texts are Redis's.
pub(crate) const WITHOUT_ARGUMENTS: &str = "ERR Please specify at least one argument for this redis lib call";
pub(crate) const WRONG_TYPE: &str = "ERR Lua redis lib command arguments must be strings or integers";
pub(crate) const TOO_LONG: &str = "ERR Lua redis lib command arguments are too long";

/// Arguments of a command that are on the stack of the thread.
type Arguments<'a> = SmallVec<[&'a [u8]; 8]>;

/// Outcome of a command. It owns nothing, since an error may be raised while it is at hand.
#[derive(Clone, Copy)]
enum Asked {
    /// The reply lies in the run's buffer.
    Replied,
    Refused(&'static str),
    /// The run has to end.
    Stopped(Interrupt),
    /// The host has panicked.
    Panicked,
}

/// Adds both functions to a table of a state, whose functions hold `run` as long as it lives.
pub(crate) fn add_functions(lua: &Lua, redis: &Table, run: &Rc<Run>) -> mlua::Result<()> {
    for (name, function) in [("call", call as ffi::lua_CFunction), ("pcall", pcall)] {
        let run = LightUserData(Rc::as_ptr(run).cast_mut().cast());
        // SAFETY: the one value on the stack is taken off it, and one is pushed, as mlua expects.
        let function: Function = unsafe { lua.exec_raw(run, |state| ffi::lua_pushcclosure(state, function, 1))? };
        redis.raw_set(name, function)?;
    }
    Ok(())
}

/// The function `redis.call`, which raises errors.
///
/// # Safety
/// Lua calls it, with a pointer to the state's [`Run`] as its upvalue.
unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe { answer(state, true) }
}

/// The function `redis.pcall`, which returns errors.
///
/// # Safety
/// As of [`call`].
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe { answer(state, false) }
}

/// Runs a command, and pushes its reply.
///
/// # Safety
/// As of [`call`].
unsafe fn answer(state: *mut lua_State, raises: bool) -> c_int {
    // SAFETY: the run outlives the state's code. Errors may be raised: all variables are references and numbers. The
    // reply is not changed before the next command, which cannot come before this function has ended.
    unsafe {
        let run = &*ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast::<Run>();
        match ask(state, run) {
            Asked::Replied => {
                let reply = &*ptr::from_ref(&(*run.buffers.as_ptr()).reply);
                match &reply[..] {
                    [b'-', text @ .., b'\r', b'\n'] if raises => push_error(state, text),
                    mut rest => {
                        push_reply(state, &mut rest);
                        return 1;
                    }
                }
            }
            Asked::Refused(refusal) => {
                push_error(state, refusal.as_bytes());
                if !raises {
                    return 1;
                }
            }
            Asked::Stopped(interrupt) => push_bytes(state, failure::interrupt_text(interrupt).as_bytes()),
            Asked::Panicked => push_bytes(state, b"ERR the command failed"),
        }
        ffi::lua_error(state)
    }
}

/// Runs a command on the host. A panic is kept for the end of the run, since it must not pass through Lua.
///
/// # Safety
/// The arguments of the function that Lua has called lie on the stack.
unsafe fn ask(state: *mut lua_State, run: &Run) -> Asked {
    let ask = || {
        if let Some(interrupt) = run.interrupt.get() {
            return Asked::Stopped(interrupt);
        }
        let mut buffers = run.buffers.borrow_mut();
        let Buffers { numbers, reply } = &mut *buffers;
        reply.clear();
        // SAFETY: as above; they stay there until the host has answered.
        let args = match unsafe { arguments(state, numbers) } {
            Ok(args) => args,
            Err(refusal) => return Asked::Refused(refusal),
        };
        match ask_host(|host| host.call(&args, reply)) {
            Some(Ok(())) => Asked::Replied,
            Some(Err(interrupt)) => {
                run.interrupt.set(Some(interrupt));
                Asked::Stopped(interrupt)
            }
            None => Asked::Refused("ERR redis.call outside of a script"),
        }
    };
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|panic| {
        run.panic.set(Some(panic));
        Asked::Panicked
    })
}

/// Returns the arguments of the function that Lua has called: strings where they lie, numbers from the buffer.
///
/// # Errors
/// Reason for which the command is refused.
///
/// # Safety
/// The caller forgets them before they leave the stack.
unsafe fn arguments<'a>(state: *mut lua_State, numbers: &'a mut Vec<u8>) -> Result<Arguments<'a>, &'static str> {
    // SAFETY: as above; reading takes no memory and raises nothing.
    unsafe {
        let (mut args, mut bytes, mut has_numbers) = (Arguments::new(), 0, false);
        for index in 1..=ffi::lua_gettop(state) {
            let arg = match text_at(state, index) {
                Some(text) => text,
                None if ffi::lua_type(state, index) == ffi::LUA_TNUMBER => {
                    has_numbers = true;
                    &[]
                }
                None => return Err(WRONG_TYPE),
            };
            bytes += arg.len();
            if bytes > ARGUMENT_BYTES_MAX {
                return Err(TOO_LONG);
            }
            args.push(arg);
        }
        if has_numbers {
            add_numbers(state, &mut args, numbers);
        }
        if args.is_empty() { Err(WITHOUT_ARGUMENTS) } else { Ok(args) }
    }
}

/// Puts the texts of numbers where they are missing.
///
/// # Safety
/// There is an argument on the stack for each of `args`.
#[cold]
unsafe fn add_numbers<'a>(state: *mut lua_State, args: &mut Arguments<'a>, numbers: &'a mut Vec<u8>) {
    numbers.clear();
    let mut ends = SmallVec::<[(usize, usize); 8]>::new();
    for (place, index) in (1..).enumerate().take(args.len()) {
        // SAFETY: as above; numbers are not converted on the stack.
        if let Some(number) = unsafe { number_at(state, index) } {
            add_number(number, numbers);
            ends.push((place, numbers.len()));
        }
    }
    let (numbers, mut begin) = (&numbers[..], 0);
    for (place, end) in ends {
        args[place] = &numbers[begin..end];
        begin = end;
    }
}

/// Returns a number on the stack. `None` if the value is of another type.
///
/// # Safety
/// There is a value.
unsafe fn number_at(state: *mut lua_State, index: c_int) -> Option<f64> {
    // SAFETY: as above.
    unsafe { (ffi::lua_type(state, index) == ffi::LUA_TNUMBER).then(|| ffi::lua_tonumber(state, index)) }
}
