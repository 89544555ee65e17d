//! Random programs. `KVCACHE_PROGRAMS` is their number, `KVCACHE_SEED` their seed.

use std::env;

use anyhow::Context;
use fastrand::Rng;
use testkit::DriverKind;

use super::{Both, SETUPS};
use crate::differential::servers::{Redis, kvcache};

/// Number of programs by default.
const PROGRAMS: usize = 3000;
/// Depth of expressions that lie in one another.
const DEPTH_MAX: u32 = 3;

#[test]
fn random_programs_are_answered_as_by_redis() -> anyhow::Result<()> {
    let Some(exe) = testkit::installed_program("redis-server")? else { return Ok(()) };
    let programs = match env::var("KVCACHE_PROGRAMS") {
        Ok(text) => text.parse().with_context(|| format!("KVCACHE_PROGRAMS={text}"))?,
        Err(_) => PROGRAMS,
    };
    let seed: u64 = env::var("KVCACHE_SEED").map_or(Ok(7), |text| text.parse()).context("KVCACHE_SEED")?;
    for ((round, setup), driver) in (seed..).zip(SETUPS).zip(DriverKind::ALL.iter().cycle().skip(2)) {
        let (redis, kvcache) = (Redis::start(&exe)?, kvcache(*driver, setup)?);
        let mut both = [Both::connect(&redis, &kvcache, "2")?, Both::connect(&redis, &kvcache, "3")?];
        let mut generator = Generator(Rng::with_seed(round));
        for number in 0..programs / SETUPS.len() {
            let program = generator.program();
            let compared = both[number % 2].compare_script(program.as_bytes());
            compared.with_context(|| format!("{setup:?} on {driver}, KVCACHE_SEED={seed}, program {number}"))?;
        }
    }
    Ok(())
}

struct Generator(Rng);

impl Generator {
    fn pick(&mut self, choices: &[&str]) -> String {
        choices[self.0.usize(..choices.len())].to_owned()
    }

    fn program(&mut self) -> String {
        let mut lines = String::new();
        for _ in 0..self.0.usize(..3) {
            lines += &self.statement();
            lines.push('\n');
        }
        let value = self.value(0);
        format!("{lines}return {value}")
    }

    fn statement(&mut self) -> String {
        let (value, call) = (self.value(1), self.call());
        match self.0.u32(..8) {
            0 => format!("local v = {value}"),
            1 => "redis.setresp(3)".to_owned(),
            2 => format!("for i = 1, {} do {call} end", self.0.u32(1..4)),
            3 => format!("if {value} then {call} end"),
            4 => format!("local ok, v = pcall(function() return {value} end) if not ok then return v end"),
            5 => format!("if {value} == {} then return {call} end", self.value(2)),
            6 => format!("local t = {{ {value} }} t[#t + 1] = {call}"),
            _ => call,
        }
    }

    fn key(&mut self) -> String {
        self.pick(&["KEYS[1]", "KEYS[2]", "'k1'", "'k3'", "'k4'"])
    }

    fn call(&mut self) -> String {
        let (how, key, other) = (self.pick(&["call", "pcall", "pcall"]), self.key(), self.key());
        let value = self.value(DEPTH_MAX);
        let arguments = match self.0.u32(..20) {
            0..3 => format!("'get', {key}"),
            3..6 => format!("'set', {key}, {value}"),
            6 => format!("'incr', {key}"),
            7 => format!("'incrby', {key}, {value}"),
            8 => format!("'del', {key}, {other}"),
            9 => format!("'mget', {key}, {other}, 'none'"),
            10 => format!("'mset', {key}, {value}, {other}, 'x'"),
            11 => format!("'append', {key}, {value}"),
            12 => format!("'strlen', {key}"),
            13 => format!("'exists', {key}, {other}"),
            14 => format!("'rename', {key}, {other}"),
            15 => format!("'getrange', {key}, 0, {value}"),
            16 => format!("'set', {key}, {value}, 'NX', 'GET'"),
            17 => format!("'incrbyfloat', {key}, {value}"),
            18 => format!("'setrange', {key}, {value}, 'abc'"),
            _ => self.pick(&["'ping'", "'echo', 'x'", "'nope'", "'get'", "'select', 1", "'dbsize'", "'type', 'k1'"]),
        };
        format!("redis.{how}({arguments})")
    }

    fn value(&mut self, depth: u32) -> String {
        if depth >= DEPTH_MAX || self.0.u32(..3) == 0 {
            return self.pick(&[
                "nil",
                "true",
                "false",
                "0",
                "1",
                "-1",
                "3.99",
                "-3.99",
                "1e15",
                "2^53",
                "1e20",
                "-0.0",
                "0.1",
                "''",
                "'abc'",
                "'12'",
                "'a\\r\\nb'",
                "'\\0\\255'",
                "ARGV[1]",
                "ARGV[2]",
                "ARGV[3]",
                "ARGV[9]",
                "KEYS",
                "cjson.null",
                "{}",
            ]);
        }
        let (a, b) = (self.value(depth + 1), self.value(depth + 1));
        match self.0.u32(..24) {
            0..4 => format!("{{ {a}, {b} }}"),
            4 => format!("{{ {a}, {{ {b} }}, 'x' }}"),
            5 => format!("{{ ok = {a} }}"),
            6 => format!("{{ err = {a} }}"),
            7 => format!("{{ double = {a} }}"),
            8 => format!("{{ map = {{ k = {a} }} }}"),
            9 => format!("redis.{}({a})", self.pick(&["error_reply", "status_reply"])),
            10 => format!("cjson.encode({{ {a}, {b} }})"),
            11 => format!("cjson.encode({{ k = {a} }})"),
            12 => format!("cjson.decode(cjson.encode({{ {a}, {b} }}))"),
            13 => format!("cmsgpack.pack({a}, {b})"),
            14 => format!("cmsgpack.unpack(cmsgpack.pack({{ {a}, {b} }}))"),
            15 => format!("bit.{}({a}, {b})", self.pick(&["band", "bor", "bxor", "lshift", "rol", "arshift"])),
            16 => format!("struct.pack('{}', {a}, {b})", self.pick(&["Bh", ">ii", "ss", "dd", "!4bI4", "c0c0", ">lH"])),
            17 => format!("type({a}) .. tostring({b} == {a})"),
            18 => format!("{a} + {b}"),
            19 => format!("{a} .. {b}"),
            20 => format!("redis.sha1hex({a})"),
            21 => format!("tonumber({a})"),
            22 => format!("select('#', {a}, {b})"),
            _ => self.call(),
        }
    }
}
