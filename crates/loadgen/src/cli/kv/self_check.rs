//! Self-check: gets of one value over and over, from a null server that speaks the protocol.

use std::sync::{Arc, atomic::AtomicBool};

use loadgen::{
    kv::{Dialect, KeyDistribution, KeySpace, KvClient, KvVerify, Mix, Script, ScriptPlan, Values, VerifyRules},
    null::{LineReply, LineResponder, RespReplies, RespResponder},
};

use super::{
    super::{Failure, ceiling::Ceiling, socket_run::SocketRun},
    KvArgs, value_size,
};

/// Number of keys in RESP: few, so that their own memory does not matter. Other protocols have one, because their replies name the
/// key, or because their null server has one line for all.
const KEYS: u32 = 10_000;

/// Measures the generator's ceiling with values of about the mean length.
pub(super) fn ceiling(args: &KvArgs, run: &SocketRun<'_>, interrupt: &AtomicBool) -> Result<Ceiling, Failure> {
    let bytes = value_size(args).sizes.typical();
    // The null server knows no greeting.
    let (dialect, keys) = match args.protocol {
        Dialect::Resp | Dialect::Resp3 => (Dialect::Resp, KEYS),
        dialect @ (Dialect::Us | Dialect::Memcached | Dialect::MemcachedMeta) => (dialect, 1),
    };
    let space = KeySpace::new(keys, args.key_size.max(KEYS_BYTES_MIN), Values::Constant, bytes..=bytes)
        .map_err(Failure::usage)?;
    let line = line_reply(dialect, &space);
    let plan =
        ScriptPlan::Mixed { mix: Mix { get: 1, set: 0, del: 0 }, keys: KeyDistribution::Uniform, miss_ratio: 0.0 };
    let load = &run.load;
    let batch = u32::try_from(load.batch).unwrap_or(u32::MAX);
    let requests = Some(u64::from(KEYS).max(load.batch as u64));
    let script = Script::new(space, dialect, &plan, batch, requests, args.load.common.seed).map_err(Failure::usage)?;
    let (script, rules) = (Arc::new(script), VerifyRules { verify: KvVerify::Content, allow_misses: false });
    let make_client = |thread| KvClient::new(Arc::clone(&script), rules, load.seed, thread, load.threads);
    match line {
        None => run.ceiling::<_, RespResponder>(RespReplies::new(bytes), make_client, interrupt),
        Some(reply) => run.ceiling::<_, LineResponder>(reply, make_client, interrupt),
    }
}

/// Bytes of a key, at least: those of [`KEYS`] different ones.
const KEYS_BYTES_MIN: usize = 6;

/// Returns the reply to a get of the only key; `None` in RESP, whose null server knows commands.
fn line_reply(dialect: Dialect, space: &KeySpace) -> Option<LineReply> {
    let end = match dialect {
        Dialect::Resp | Dialect::Resp3 => return None,
        Dialect::Us => wire::us::SEPARATOR,
        Dialect::Memcached | Dialect::MemcachedMeta => b'\n',
    };
    let (mut key, mut value, mut reply) = (Vec::new(), Vec::new(), Vec::new());
    space.key(0, &mut key);
    space.value(0, &mut value);
    dialect.found(&key, &value, &mut reply);
    Some(LineReply::new(end, &reply))
}
