//! What the generator could do at most: gets of one value over and over, from a null server that speaks the protocol.

use std::sync::Arc;

use loadgen::{
    kv::{Dialect, KeyDistribution, KeySpace, KvClient, KvVerify, Mix, Script, ScriptPlan, Values, VerifyRules},
    null::{LineReply, LineResponder, RespReplies, RespResponder},
};

use super::{
    super::{
        Failure,
        socket_run::{Campaign, Ceiling},
    },
    KvArgs, value_size,
};

/// In RESP: few, so that their own memory does not matter. Other replies name the key, or are those of lines.
const KEYS: u32 = 10_000;

/// As fast as it gets, with values of about the mean length.
pub(super) fn ceiling(args: &KvArgs, campaign: &Campaign<'_>) -> Result<Ceiling, Failure> {
    let usage = |problem: &dyn std::fmt::Display| Failure::Usage(problem.to_string());
    let bytes = value_size(args).sizes.typical();
    // It is not asked who it is.
    let (dialect, keys) = match Dialect::from(args.protocol) {
        Dialect::Resp | Dialect::Resp3 => (Dialect::Resp, KEYS),
        dialect @ (Dialect::Us | Dialect::Memcached | Dialect::MemcachedMeta) => (dialect, 1),
    };
    let space = KeySpace::new(keys, args.key_size.max(KEYS_BYTES_MIN), Values::Constant, bytes..=bytes)
        .map_err(|error| usage(&error))?;
    let line = line_reply(dialect, &space);
    let plan =
        ScriptPlan::Mixed { mix: Mix { get: 1, set: 0, del: 0 }, keys: KeyDistribution::Uniform, miss_ratio: 0.0 };
    let load = campaign.load;
    let batch = u32::try_from(load.batch).unwrap_or(u32::MAX);
    let requests = Some(u64::from(KEYS).max(load.batch as u64));
    let script = Script::new(space, dialect, &plan, batch, requests, args.drive.seed).map_err(|error| usage(&error))?;
    let (script, rules) = (Arc::new(script), VerifyRules { verify: KvVerify::Content, allow_misses: false });
    let make_client = |thread| KvClient::new(Arc::clone(&script), rules, load.seed, thread, load.threads);
    match line {
        None => campaign.ceiling::<_, RespResponder>(RespReplies::new(bytes), make_client),
        Some(reply) => campaign.ceiling::<_, LineResponder>(reply, make_client),
    }
}

/// [`KEYS`] different ones have as many characters, and one more.
const KEYS_BYTES_MIN: usize = 6;

/// What answers a get of the only key, in the protocols of lines.
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
