//! The table `redis`, and the random numbers of `math`.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
};

use mlua::{Lua, MultiValue, Table, Value};
use sha1::{Digest as _, Sha1};
use wire::resp::Version;

use crate::{
    failure::{self, Failure},
    host::{Interrupt, LogLevel, ask_host},
    number::{general, to_integer, whole},
    raw,
};

/// Limit of the arguments of one command.
pub(crate) const ARGUMENT_BYTES_MAX: usize = 512 << 20;
/// Limit of the memory that one run leaves to the next in a buffer.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// Version of Redis that scripts see.
const REDIS_VERSION: &str = "7.0.15";
const REDIS_VERSION_NUM: u32 = 7 << 16 | 15;

/// State of a run that functions of ours share.
#[derive(Default)]
pub(crate) struct Run {
    /// Reason for which the run has to end.
    pub(crate) interrupt: Cell<Option<Interrupt>>,
    /// True once every instruction fails, so that no `pcall` of the script's keeps it alive.
    pub(crate) is_ending: Cell<bool>,
    /// Panic of the host, to go on when the run has ended.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
    pub(crate) version: Cell<Version>,
    random: Random,
    pub(crate) buffers: RefCell<Buffers>,
    /// Bytes from which on the collector has to keep up with the script, and true once it does.
    pub(crate) much: Cell<usize>,
    pub(crate) is_hurried: Cell<bool>,
}

/// Memory that calls use again.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Texts of arguments that are numbers.
    pub(crate) numbers: Vec<u8>,
    pub(crate) reply: Vec<u8>,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("interrupt", &self.interrupt).finish_non_exhaustive()
    }
}

impl Run {
    pub(crate) fn new(seed: u32) -> Self {
        let run = Self::default();
        run.random.seed(seed);
        run
    }

    /// Begins a run: nothing is left of the one before it.
    pub(crate) fn begin(&self) {
        self.interrupt.set(None);
        self.version.set(Version::Resp2);
    }

    /// Gives large buffers back.
    pub(crate) fn trim(&self) {
        let mut buffers = self.buffers.borrow_mut();
        if buffers.reply.capacity() > BUFFER_BYTES_MAX {
            buffers.reply = Vec::new();
        }
    }

    /// Asks the host whether the script may go on.
    pub(crate) fn poll(&self) -> mlua::Result<()> {
        match ask_host(|host| host.poll()) {
            Some(Err(interrupt)) => {
                self.interrupt.set(Some(interrupt));
                Err(Failure::Interrupt(interrupt).into())
            }
            Some(Ok(())) | None => Ok(()),
        }
    }
}

/// Random numbers as Redis makes them: those of drand48(3).
#[derive(Debug, Default)]
struct Random(Cell<u64>);

impl Random {
    const MAX: f64 = 2_147_483_647.0;

    fn seed(&self, seed: u32) {
        self.0.set(u64::from(seed) << 16 | 0x330e);
    }

    /// Returns a number from 0 to below 1.
    fn next(&self) -> f64 {
        let state = self.0.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
        self.0.set(state);
        ((state >> 17) % 2_147_483_647) as f64 / Self::MAX
    }
}

/// Adds `random` and `randomseed` to a table.
pub(crate) fn add_random(lua: &Lua, native: &Table, run: &Rc<Run>) -> mlua::Result<()> {
    let state = Rc::clone(run);
    native.raw_set(
        "random",
        lua.create_function(move |lua, args: MultiValue| {
            let limit = |index: usize| match args.get(index).map(|arg| lua.coerce_number(arg.clone())) {
                Some(Ok(Some(number))) => Ok((number as i32).into()),
                _ => Err(failure::wrong_type(lua, index + 1, "random", "number", args.get(index))),
            };
            let random = state.random.next();
            let (least, most): (f64, f64) = match args.len() {
                0 => return Ok(random),
                1 => (1.0, limit(0)?),
                2 => (limit(0)?, limit(1)?),
                _ => return Err(failure::text(lua, "wrong number of arguments")),
            };
            if least > most {
                return Err(failure::argument(lua, args.len(), "random", "interval is empty"));
            }
            Ok((random * (most - least + 1.0)).floor() + least)
        })?,
    )?;
    let state = Rc::clone(run);
    let seed = move |lua: &Lua, args: MultiValue| {
        let number = args.front().map(|arg| lua.coerce_number(arg.clone())).transpose()?.flatten();
        let number = number.ok_or_else(|| failure::wrong_type(lua, 1, "randomseed", "number", args.front()))?;
        state.random.seed(to_integer(number) as u32);
        Ok(())
    };
    native.raw_set("randomseed", lua.create_function(seed)?)
}

/// Makes the table `redis`.
pub(crate) fn table(lua: &Lua, run: &Rc<Run>) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    for (name, number) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
        ("REDIS_VERSION_NUM", REDIS_VERSION_NUM),
    ] {
        redis.raw_set(name, number)?;
    }
    redis.raw_set("REDIS_VERSION", REDIS_VERSION)?;
    raw::add_functions(lua, &redis, run)?;
    let state = Rc::clone(run);
    redis.raw_set("setresp", lua.create_function(move |lua, args: MultiValue| set_version(lua, &state, &args))?)?;
    redis.raw_set("error_reply", lua.create_function(|lua, args| single_field(lua, &args, true))?)?;
    redis.raw_set("status_reply", lua.create_function(|lua, args| single_field(lua, &args, false))?)?;
    redis.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    redis.raw_set("log", lua.create_function(log)?)?;
    redis.raw_set("set_repl", lua.create_function(set_replication)?)?;
    redis.raw_set("acl_check_cmd", lua.create_function(can_call)?)?;
    // There is nothing to replicate, and no debugger.
    redis.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    redis.raw_set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
    redis.raw_set("debug", lua.create_function(|_, ()| Ok(()))?)?;
    Ok(redis)
}

/// Collects the arguments of a command that is only asked about. Returns why it is refused.
fn collect(args: &MultiValue, arguments: &mut Vec<u8>, ends: &mut Vec<usize>) -> Option<&'static str> {
    if args.is_empty() {
        return Some(raw::WITHOUT_ARGUMENTS);
    }
    for arg in args {
        match arg {
            Value::String(text) => arguments.extend_from_slice(&text.as_bytes()),
            Value::Integer(number) => add_number(*number as f64, arguments),
            Value::Number(number) => add_number(*number, arguments),
            _ => return Some(raw::WRONG_TYPE),
        }
        if arguments.len() > ARGUMENT_BYTES_MAX {
            return Some(raw::TOO_LONG);
        }
        ends.push(arguments.len());
    }
    None
}

/// Appends a number as Redis reads it.
pub(crate) fn add_number(number: f64, arguments: &mut Vec<u8>) {
    match whole(number) {
        Some(integer) => arguments.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes()),
        None => arguments.extend_from_slice(general(number, 17).as_bytes()),
    }
}

fn set_version(lua: &Lua, run: &Run, args: &MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(failure::reply("ERR redis.setresp() requires one argument."));
    }
    let version = match lua.coerce_number(args[0].clone())?.map(to_integer) {
        Some(2) => Version::Resp2,
        Some(3) => Version::Resp3,
        _ => return Err(failure::reply("ERR RESP version must be 2 or 3.")),
    };
    run.version.set(version);
    ask_host(|host| host.set_version(version));
    Ok(())
}

/// Makes the table of an error reply or a status reply.
fn single_field(lua: &Lua, args: &MultiValue, is_error: bool) -> mlua::Result<Table> {
    let [text] = &args.iter().collect::<Vec<_>>()[..] else { return wrong_arguments(lua) };
    let Value::String(text) = text else { return wrong_arguments(lua) };
    if !is_error {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set("ok", text)?;
        return Ok(table);
    }
    let text = text.as_bytes();
    // It is a C string there.
    let text = text.split(|&byte| byte == 0).next().unwrap_or(&text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    // The first word is the code of the error, unless it is all there is.
    match text.contains(&b' ') {
        true => failure::reply_table(lua, text),
        false => failure::reply_table(lua, &[b"ERR ", text].concat()),
    }
}

fn wrong_arguments(lua: &Lua) -> mlua::Result<Table> {
    failure::reply_table(lua, b"ERR wrong number or type of arguments")
}

fn sha1hex(lua: &Lua, args: MultiValue) -> mlua::Result<mlua::LuaString> {
    let [text] = &args.iter().collect::<Vec<_>>()[..] else {
        return Err(failure::reply("ERR wrong number of arguments"));
    };
    // Whatever is no string counts as an empty one.
    let text = lua.coerce_string((*text).clone())?;
    let bytes = text.as_ref().map(|text| text.as_bytes().to_vec()).unwrap_or_default();
    lua.create_string(crate::source::Digest(Sha1::digest(bytes).into()).hex())
}

fn log(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    if args.len() < 2 {
        return Err(failure::reply("ERR redis.log() requires two arguments or more."));
    }
    let level = match &args[0] {
        Value::Integer(level) => *level as f64,
        Value::Number(level) => *level,
        _ => return Err(failure::reply("ERR First argument must be a number (log level).")),
    };
    let level = match level as i64 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(failure::reply("ERR Invalid debug level.")),
    };
    let mut words = Vec::new();
    for word in args.iter().skip(1) {
        if let Some(word) = lua.coerce_string(word.clone())? {
            words.push(word.as_bytes().to_vec());
        }
    }
    ask_host(|host| host.log(level, &words.join(&b' ')));
    Ok(())
}

/// Checks the argument of `redis.set_repl`, which means nothing without replicas.
fn set_replication(_: &Lua, args: MultiValue) -> mlua::Result<()> {
    let [flags] = &args.iter().collect::<Vec<_>>()[..] else {
        return Err(failure::reply("ERR redis.set_repl() requires two arguments."));
    };
    let flags = match flags {
        Value::Integer(flags) => *flags,
        Value::Number(flags) => *flags as i64,
        _ => 0,
    };
    if flags & !3 != 0 {
        let text = "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(failure::reply(text));
    }
    Ok(())
}

/// Answers `redis.acl_check_cmd`: the one user may call every command there is.
fn can_call(_: &Lua, args: MultiValue) -> mlua::Result<bool> {
    let (mut arguments, mut ends) = (Vec::new(), Vec::new());
    if let Some(refusal) = collect(&args, &mut arguments, &mut ends) {
        return Err(failure::reply(refusal));
    }
    let mut begin = 0;
    let slices: Vec<&[u8]> = ends.iter().map(|&end| &arguments[std::mem::replace(&mut begin, end)..end]).collect();
    match ask_host(|host| host.has_command(&slices)) {
        Some(true) => Ok(true),
        _ => Err(failure::reply("ERR Invalid command passed to redis.acl_check_cmd()")),
    }
}
