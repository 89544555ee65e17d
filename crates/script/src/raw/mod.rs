//! Lua's own C interface, for what every run and every command of a script goes through: running a script, its keys and
//! arguments, `redis.call` and `redis.pcall`, and the reply. Through mlua's handles each value that passes takes a place
//! in a table of its own and a call that is guarded by itself, which costs more than the script.
//!
//! Lua raises an error by a jump (longjmp) past all frames up to the guarded call, and it may do so wherever it takes
//! memory. Hence three rules:
//!
//! - A function that calls what may raise owns nothing that must be dropped: its variables are numbers and references.
//! - All of it runs under the one guarded call of [`Machine::run`]; what runs before and after it takes no memory of Lua's.
//! - No panic passes through Lua: what could is caught in `call`, and goes on when the guarded call has returned.
//!
//! Functions here take a state whose stack has as many free places as Lua gives a function of C, 20, and ask for more
//! before values can lie in one another.

mod call;
mod push;
#[cfg(test)]
mod tests;
mod write;

use std::{cell::Cell, ffi::c_int, fmt, panic, ptr, rc::Rc, slice};

use mlua::{
    Function, Lua, RegistryKey, Table,
    ffi::{self, lua_State},
};
use wire::resp::Version;

pub(crate) use self::call::{TOO_LONG, WITHOUT_ARGUMENTS, WRONG_TYPE, add_functions};
use crate::{
    api::Run,
    number::general,
    stack::with_stack_of_run,
    usage::{Access, Usage},
};

/// Upvalues of [`enter`].
const GLOBALS: c_int = ffi::lua_upvalueindex(1);
const KEYS: Slot = Slot { name: ffi::lua_upvalueindex(2), lent: ffi::lua_upvalueindex(3) };
const ARGV: Slot = Slot { name: ffi::lua_upvalueindex(4), lent: ffi::lua_upvalueindex(5) };
/// The first of the names in [`write::FIELDS`].
const FIRST_FIELD: c_int = 6;

/// Limits of what the tables hold that scripts only look into, since it may stay there for long.
const LENT_MAX: usize = 16;
const LENT_BYTES_MAX: usize = 16 << 10;

/// One Lua state, entered without mlua's handles.
pub(crate) struct Machine {
    // Before what its functions refer to, so that it is closed first.
    lua: Lua,
    state: *mut lua_State,
    run: Rc<Run>,
    lent: Lent,
    /// The function [`enter`].
    enter: RegistryKey,
    /// Function that makes a table of every error.
    handler: RegistryKey,
    /// Names of that table's fields.
    err: RegistryKey,
    source: RegistryKey,
    line: RegistryKey,
}

/// End of a run.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The reply has been written.
    Replied,
    /// The script has raised an error, which the handler has made a table of.
    Raised(Raised),
    /// Text of an error that no handler has seen: there was no memory, or the handler has failed.
    Failed(Vec<u8>),
}

/// Fields of an error's table.
#[derive(Debug)]
pub(crate) struct Raised {
    pub(crate) err: Option<Vec<u8>>,
    pub(crate) source: Option<Vec<u8>>,
    pub(crate) line: Option<Vec<u8>>,
}

/// One run of a function of the state.
pub(crate) struct Task<'r> {
    pub(crate) function: &'r RegistryKey,
    pub(crate) usage: Usage,
    pub(crate) keys: &'r [&'r [u8]],
    pub(crate) argv: &'r [&'r [u8]],
    /// Version of the client that is answered.
    pub(crate) client: Version,
}

/// One run, handed to [`enter`].
struct Request<'r> {
    task: &'r Task<'r>,
    /// True if both tables are to be new, whatever the script does with them.
    renews: bool,
    lent: &'r Lent,
    run: &'r Run,
    out: &'r mut Vec<u8>,
}

/// Places of one of the tables that scripts find their keys and arguments in.
#[derive(Clone, Copy)]
struct Slot {
    /// Its name.
    name: c_int,
    /// The table that scripts share which only look into it.
    lent: c_int,
}

/// State of the two tables that scripts share.
#[derive(Debug, Default)]
struct Lent {
    keys: Loan,
    argv: Loan,
    /// True if the last run has left much in its own tables.
    has_left_much: Cell<bool>,
}

/// State of a table that scripts share.
#[derive(Debug, Default)]
struct Loan {
    /// Elements that may be there.
    len: Cell<usize>,
    /// True if it has the name among the globals.
    is_named: Cell<bool>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

impl Machine {
    /// Makes the machine of a state whose scripts find `KEYS` and `ARGV` in `globals`.
    pub(crate) fn new(lua: &Lua, run: &Rc<Run>, globals: Table, handler: Function) -> mlua::Result<Self> {
        let mut values = vec![mlua::Value::Table(globals)];
        for name in ["KEYS", "ARGV"] {
            values.push(mlua::Value::String(lua.create_string(name)?));
            values.push(mlua::Value::Table(lua.create_table_with_capacity(LENT_MAX, 0)?));
        }
        for name in write::FIELDS {
            values.push(mlua::Value::String(lua.create_string(name)?));
        }
        let upvalues = values.len() as c_int;
        let mut state = ptr::null_mut();
        let push = |within: *mut lua_State| {
            state = within;
            // SAFETY: as many values as the function is to have lie on the stack, and mlua guards the call.
            unsafe { ffi::lua_pushcclosure(within, enter, upvalues) }
        };
        // SAFETY: the function takes the values off the stack and pushes one, as mlua expects.
        let enter: Function = unsafe { lua.exec_raw(mlua::Variadic::from_iter(values), push)? };
        Ok(Self {
            lua: lua.clone(),
            state,
            run: Rc::clone(run),
            lent: Lent::default(),
            enter: lua.create_registry_value(enter)?,
            handler: lua.create_registry_value(handler)?,
            err: lua.create_registry_value("err")?,
            source: lua.create_registry_value("source")?,
            line: lua.create_registry_value("line")?,
        })
    }

    /// Runs a function of the state, and appends the reply that stands for its value.
    pub(crate) fn run(&self, task: &Task<'_>, out: &mut Vec<u8>) -> Ended {
        if !self.lua.owns_registry_value(task.function) {
            return Ended::Failed(b"it belongs to another state".to_vec());
        }
        let is_much = is_much(task.keys) || is_much(task.argv);
        let renews = self.lent.has_left_much.replace(is_much) || is_much;
        let mut request = Request { task, renews, lent: &self.lent, run: &self.run, out };
        let ended = with_stack_of_run(|| self.enter(&mut request));
        if let Some(panic) = self.run.panic.take() {
            panic::resume_unwind(panic);
        }
        ended
    }

    fn enter(&self, request: &mut Request<'_>) -> Ended {
        let (state, request) = (self.state, ptr::from_mut(request));
        // SAFETY: the state lives as long as `self.lua`, and no code of it runs: a host runs no script. None of these
        // functions takes memory or raises an error but `lua_pcall`, which returns it. The request outlives the call.
        unsafe {
            let base = ffi::lua_gettop(state);
            ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, self.handler.id());
            ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, self.enter.id());
            ffi::lua_pushlightuserdata(state, request.cast());
            let status = ffi::lua_pcall(state, 1, 0, base + 1);
            let ended = if status == ffi::LUA_OK { Ended::Replied } else { self.error_on_top() };
            ffi::lua_settop(state, base);
            ended
        }
    }

    /// Reads the error that lies on top of the stack.
    ///
    /// # Safety
    /// There is one, and a free place above it.
    unsafe fn error_on_top(&self) -> Ended {
        let state = self.state;
        // SAFETY: reading takes no memory of Lua's. The names are in the registry for that reason.
        unsafe {
            if ffi::lua_type(state, -1) != ffi::LUA_TTABLE {
                let text = text_at(state, -1).unwrap_or(b"execution failure");
                return Ended::Failed(text.to_vec());
            }
            let field = |name: &RegistryKey| {
                ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, name.id());
                ffi::lua_rawget_(state, -2);
                let text = match ffi::lua_type(state, -1) {
                    ffi::LUA_TNUMBER => Some(general(ffi::lua_tonumber(state, -1), 14).into_bytes()),
                    _ => text_at(state, -1).map(<[u8]>::to_vec),
                };
                ffi::lua_pop(state, 1);
                text
            };
            Ended::Raised(Raised { err: field(&self.err), source: field(&self.source), line: field(&self.line) })
        }
    }
}

/// Runs one script: sets its keys and arguments, calls it, and writes its reply.
///
/// # Safety
/// Lua calls it, with a pointer to a [`Request`] that nobody else uses meanwhile.
unsafe extern "C-unwind" fn enter(state: *mut lua_State) -> c_int {
    // SAFETY: as above. Errors may be raised: all variables are references and numbers.
    unsafe {
        let request = &mut *ffi::lua_touserdata(state, 1).cast::<Request<'_>>();
        let (task, lent) = (request.task, request.lent);
        if request.renews {
            set_own(state, KEYS, task.keys, &lent.keys);
            set_own(state, ARGV, task.argv, &lent.argv);
        } else {
            set(state, KEYS, task.keys, task.usage.keys, &lent.keys);
            set(state, ARGV, task.argv, task.usage.argv, &lent.argv);
        }
        ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, task.function.id());
        ffi::lua_call(state, 0, 1);
        let versions = write::Versions { client: task.client, script: request.run.version.get() };
        write::write(state, versions, request.out, 0);
        0
    }
}

/// True if these strings should not stay in the state for longer than a run.
fn is_much(strings: &[&[u8]]) -> bool {
    strings.len() > LENT_MAX || strings.iter().map(|string| string.len()).sum::<usize>() > LENT_BYTES_MAX
}

/// Gives a script its keys or arguments, as far as it can see them.
///
/// # Safety
/// Within a guarded call, in a frame of [`enter`] that owns nothing: it may raise an error.
unsafe fn set(state: *mut lua_State, slot: Slot, strings: &[&[u8]], access: Access, loan: &Loan) {
    // SAFETY: as above.
    unsafe {
        match access {
            Access::None => {}
            Access::Read => lend(state, slot, strings, loan),
            Access::Any => set_own(state, slot, strings, loan),
        }
    }
}

/// Puts strings into the table that scripts share which only look into it.
///
/// # Safety
/// As of [`set`].
unsafe fn lend(state: *mut lua_State, slot: Slot, strings: &[&[u8]], loan: &Loan) {
    // SAFETY: as above. The table is as large as it has to be, so that only strings take memory.
    unsafe {
        let before = loan.len.get();
        // An error may be raised between two strings.
        loan.len.set(before.max(strings.len()));
        for (index, string) in (1..).zip(strings) {
            push_bytes(state, string);
            ffi::lua_rawseti_(state, slot.lent, index);
        }
        for index in strings.len()..before {
            ffi::lua_pushnil(state);
            ffi::lua_rawseti_(state, slot.lent, index as c_int + 1);
        }
        loan.len.set(strings.len());
        if !loan.is_named.get() {
            ffi::lua_pushvalue(state, slot.name);
            ffi::lua_pushvalue(state, slot.lent);
            ffi::lua_rawset(state, GLOBALS);
            loan.is_named.set(true);
        }
    }
}

/// Gives a script a table of its own.
///
/// # Safety
/// As of [`set`].
unsafe fn set_own(state: *mut lua_State, slot: Slot, strings: &[&[u8]], loan: &Loan) {
    loan.is_named.set(false);
    // SAFETY: as above.
    unsafe {
        ffi::lua_pushvalue(state, slot.name);
        push_sequence(state, strings);
        ffi::lua_rawset(state, GLOBALS);
    }
}

/// Pushes a table of strings.
///
/// # Safety
/// Within a guarded call, in a frame that owns nothing: it may raise an error.
unsafe fn push_sequence(state: *mut lua_State, strings: &[&[u8]]) {
    // SAFETY: as above.
    unsafe {
        ffi::lua_createtable(state, c_int::try_from(strings.len()).unwrap_or(0), 0);
        for (index, string) in (1..).zip(strings) {
            push_bytes(state, string);
            ffi::lua_rawseti_(state, -2, index);
        }
    }
}

/// Pushes a string.
///
/// # Safety
/// Within a guarded call, in a frame that owns nothing: it may raise an error.
unsafe fn push_bytes(state: *mut lua_State, bytes: &[u8]) {
    // SAFETY: Lua copies so many bytes.
    unsafe { ffi::lua_pushlstring_(state, bytes.as_ptr().cast(), bytes.len()) }
}

/// Returns the bytes of a string on the stack, for as long as it lies there. `None` if the value is no string.
///
/// # Safety
/// The caller forgets the bytes before the value leaves the stack.
unsafe fn text_at<'s>(state: *mut lua_State, index: c_int) -> Option<&'s [u8]> {
    // SAFETY: a string is not converted, so no memory is taken, and Lua does not move it. Its pointer is never null.
    unsafe {
        let is_string = ffi::lua_type(state, index) == ffi::LUA_TSTRING;
        is_string.then(|| {
            let mut len = 0;
            let bytes = ffi::lua_tolstring(state, index, &mut len);
            slice::from_raw_parts(bytes.cast(), len)
        })
    }
}
