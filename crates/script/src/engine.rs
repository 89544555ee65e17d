//! One Lua state: compiled scripts, and running them.

use std::{fmt, rc::Rc};

use mlua::{
    Function, HookTriggers, Lua, LuaOptions, RegistryKey, StdLib, Table, VmState,
    chunk::ChunkMode,
    state::{GcIncParams, GcMode},
};
use thiserror::Error;
use wire::resp::{Version, reply};

use crate::{
    api::{self, Run},
    bit, failure,
    host::{Host, Interrupt, with_host},
    json, msgpack, pack,
    raw::{Ended, Machine, Raised, Task},
    source::{Digest, Source},
    usage::Usage,
};

/// Name of a script's chunk, which errors show.
const CHUNK: &str = "@user_script";
/// Instructions of the Lua machine between two questions to the host.
const POLL_INSTRUCTIONS: u32 = 10_000;
/// Garbage that may wait to be collected. A collection begins with marking all that is alive, which costs more than what a
/// short script leaves behind.
const GARBAGE_BYTES: usize = 1 << 20;
/// Bounds of the collector's pause: the memory at which it begins, in per cent of what was alive after it ended.
const PAUSE_MIN: usize = 200;
const PAUSE_MAX: usize = 1000;

/// One Lua state, for the scripts of one thread.
pub struct Engine {
    lua: Lua,
    run: Rc<Run>,
    machine: Machine,
    /// Globals themselves, for scripts that assign none.
    globals: Table,
    memory_max: usize,
}

/// Compiled script. It belongs to the engine that has compiled it.
#[derive(Debug)]
pub struct Compiled {
    digest: Digest,
    function: RegistryKey,
    usage: Usage,
}

/// Failure to make or to use a Lua state.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EngineError {
    #[error("ERR Error compiling script (new function): {0}")]
    Compile(String),
    #[error("ERR no Lua state: {0}")]
    State(String),
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// A reply has been written; true if it is an error that the script has raised.
    Replied { is_error: bool },
    /// Nothing has been written: the host has ended the script.
    Interrupted(Interrupt),
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("memory_max", &self.memory_max).finish_non_exhaustive()
    }
}

impl Engine {
    /// Compiled scripts that may be kept. Each takes a place of mlua's, of which there are several thousand.
    pub const COMPILED_MAX: usize = 1000;

    /// Makes a state that takes at most so many bytes. Its random numbers begin with the seed.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(memory_max: usize, seed: u32) -> Result<Self, EngineError> {
        let failed = |error: mlua::Error| EngineError::State(failure::plain_text(&error));
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new()).map_err(failed)?;
        let run = Rc::new(Run::new(seed));
        let (machine, globals) = sandbox(&lua, &run).map_err(failed)?;
        let engine = Self { lua, run, machine, globals, memory_max };
        engine.poll_every(POLL_INSTRUCTIONS).map_err(failed)?;
        engine.lua.set_memory_limit(memory_max).map_err(failed)?;
        engine.collect_garbage();
        Ok(engine)
    }

    /// Bytes that the state takes.
    pub fn memory_bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// Collects what is garbage, such as compiled scripts that have been dropped.
    pub fn collect_garbage(&self) {
        self.lua.expire_registry_values();
        // What is garbage now goes with the next collection, if this one finds no memory.
        let _ = self.lua.gc_collect();
        let (live, garbage) = (self.lua.used_memory().max(1), GARBAGE_BYTES.min(self.memory_max / 16));
        self.run.much.set((2 * (live + garbage)).min(self.memory_max / 2));
        let pause = 100 + 100 * garbage / live;
        set_pause(&self.lua, pause.clamp(PAUSE_MIN, PAUSE_MAX));
    }

    /// Compiles a script.
    ///
    /// # Errors
    /// It is no Lua 5.1, or too large.
    pub fn compile(&self, digest: Digest, source: &Source) -> Result<Compiled, EngineError> {
        let chunk = self.lua.load(source.code()).set_name(CHUNK).set_mode(ChunkMode::Text);
        let compiled = chunk.into_function().and_then(|function| {
            let usage = Usage::of(&function.dump(true));
            if !usage.assigns {
                // Nothing is to be refused, so each look-up of a global saves the one in the table in front of them.
                function.set_environment(self.globals.clone())?;
            }
            Ok(Compiled { digest, function: self.lua.create_registry_value(function)?, usage })
        });
        compiled.map_err(|error| EngineError::Compile(failure::plain_text(&error)))
    }

    /// Runs a script that this engine has compiled, and appends its reply in the client's version.
    pub fn run(
        &self,
        script: &Compiled,
        keys: &[&[u8]],
        argv: &[&[u8]],
        host: &mut dyn Host,
        client: Version,
        out: &mut Vec<u8>,
    ) -> Finished {
        self.run.begin();
        let begin = out.len();
        let task = Task { function: &script.function, usage: script.usage, keys, argv, client };
        let ended = with_host(host, || self.machine.run(&task, out));
        let is_error = !matches!(ended, Ended::Replied);
        if is_error && self.run.interrupt.get().is_none() {
            out.truncate(begin);
            reply::error(out, error_text(ended, script.digest));
        }
        self.run.trim();
        // A script that has taken much leaves garbage that others should not have to collect.
        if self.run.is_hurried.take() || self.lua.used_memory() > self.run.much.get() {
            self.collect_garbage();
        }
        match self.run.interrupt.take() {
            Some(interrupt) => {
                // From here on the machine asks at its usual pace again; that cannot fail for a hook that is there.
                self.run.is_ending.set(false);
                let _ = self.poll_every(POLL_INSTRUCTIONS);
                out.truncate(begin);
                Finished::Interrupted(interrupt)
            }
            None => Finished::Replied { is_error },
        }
    }

    /// Has the host asked after so many instructions, again and again.
    fn poll_every(&self, instructions: u32) -> mlua::Result<()> {
        set_hook(&self.lua, &self.run, instructions)
    }
}

fn set_hook(lua: &Lua, run: &Rc<Run>, instructions: u32) -> mlua::Result<()> {
    let run = Rc::clone(run);
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(instructions), move |lua, _| {
        if let Some(interrupt) = run.interrupt.get() {
            end_soon(lua, &run)?;
            return Err(failure::Failure::Interrupt(interrupt).into());
        }
        if lua.used_memory() > run.much.get() && !run.is_hurried.replace(true) {
            set_pause(lua, PAUSE_MIN);
        }
        let polled = run.poll();
        if polled.is_err() {
            end_soon(lua, &run)?;
        }
        polled.map(|()| VmState::Continue)
    })
}

/// Has every instruction fail from here on, so that no pcall of the script's keeps it alive.
fn end_soon(lua: &Lua, run: &Rc<Run>) -> mlua::Result<()> {
    if run.is_ending.replace(true) { Ok(()) } else { set_hook(lua, run, 1) }
}

/// Sets the collector's pause, from its next collection on.
fn set_pause(lua: &Lua, percent: usize) {
    let percent = i32::try_from(percent).unwrap_or(i32::MAX);
    lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(percent)));
}

/// Sets up what scripts see. Returns the machine that runs them, and their globals.
fn sandbox(lua: &Lua, run: &Rc<Run>) -> mlua::Result<(Machine, Table)> {
    let native = lua.create_table()?;
    native.raw_set("caught", lua.create_function(failure::caught)?)?;
    native.raw_set("locate", lua.create_function(failure::locate)?)?;
    api::add_random(lua, &native, run)?;
    let libraries = lua.create_table()?;
    libraries.raw_set("redis", api::table(lua, run)?)?;
    libraries.raw_set("bit", bit::table(lua)?)?;
    libraries.raw_set("struct", pack::table(lua)?)?;
    libraries.raw_set("cmsgpack", msgpack::table(lua)?)?;
    libraries.raw_set("cjson", json::table(lua)?)?;
    let chunk = lua.load(include_str!("sandbox.lua")).set_name("=sandbox");
    let (globals, real, handler): (Table, Table, Function) = chunk.call((native, libraries))?;
    lua.set_globals(globals)?;
    Ok((Machine::new(lua, run, real.clone(), handler)?, real))
}

/// Returns the reply for an error that a script has raised.
fn error_text(ended: Ended, digest: Digest) -> Vec<u8> {
    match ended {
        Ended::Replied => Vec::new(),
        Ended::Failed(text) => [format!("ERR Error running script {}, ", digest.hex()).as_bytes(), &text].concat(),
        Ended::Raised(Raised { err, source, line }) => {
            let mut text = err.unwrap_or_else(|| b"ERR unknown error".to_vec());
            if let (Some(source), Some(line)) = (source, line) {
                text.extend_from_slice(format!(" script: {}, on ", digest.hex()).as_bytes());
                text.extend_from_slice(&[&source[..], b":", &line, b"."].concat());
            }
            text
        }
    }
}
