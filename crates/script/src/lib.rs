//! Redis's Lua: scripts of Lua 5.1 in Redis 7's sandbox, with its libraries and its conversions between Lua and RESP.
//!
//! An [`Engine`] is one Lua state and belongs to one thread. It knows no key and no client: whatever a script asks of the
//! server goes through a [`Host`], which lives as long as one run. Nothing here opens a file or a socket or reads a clock.
//!
//! - `engine`: the state, its functions, one run;
//! - `sandbox.lua`: the globals that scripts see, all of them read-only;
//! - `raw`: a run, its commands and its reply, by Lua's own C interface; `unsafe` is confined to it;
//! - `usage`: what a script does with its globals, found when it is compiled;
//! - `api`: the rest of the table `redis`, and `math.random`;
//! - `json`, `msgpack`, `pack`, `bit`: the libraries cjson, cmsgpack, struct and bit.

#![deny(unsafe_code)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "of Lua's types, a function takes one or two and refuses all others"
)]

mod api;
mod bit;
mod engine;
mod failure;
mod host;
mod json;
mod msgpack;
mod number;
mod pack;
#[allow(unsafe_code, reason = "Lua is C, and mlua's safe handles cost more than a script")]
mod raw;
mod source;
mod stack;
mod usage;

pub use self::{
    engine::{Compiled, Engine, EngineError, Finished},
    host::{Host, Interrupt, LogLevel},
    source::{Digest, Flags, Source, SourceError},
};
