//! Requests on keys that another process has: see `state::forwarding`.

use proto::{Flow, Outbox};
use store::Store;
use wire::resp::client::command;

use crate::{
    command_table::{self, Flags, TABLE},
    commands::scripting::runs_script,
    reply::Reply,
    state::{Client, ForwardedDialect, ForwardedRequest, ReplyMode, ScriptMessage, ServerState},
};

/// Forwards a request to the process that has the keys. `None`: it is about nothing but its connection.
pub(super) fn forward<S: Store + 'static>(
    state: &ServerState<S>,
    client: &mut Client<S>,
    args: &[&[u8]],
    request: &[u8],
    out: &mut Outbox,
) -> Option<Flow> {
    let number = command_table::find(args[0])?;
    let is_exec = TABLE[number].name == "exec";
    let is_queued = client.is_in_transaction() && !is_exec;
    if is_queued || !(is_exec || needs_keys(number)) || !is_own(state, number, args) {
        return None;
    }
    if client.replies != ReplyMode::On {
        return Some(Flow::Close); // Its reply would be more than it wants.
    }
    let mut bytes = Vec::new();
    if is_exec {
        let transaction = client.transaction(&state.space);
        if !transaction.is_open() || transaction.is_aborted() {
            return None;
        }
        if transaction.watched() > 0 {
            // Whether the keys have changed since, nobody can tell.
            client.take_transaction();
            Reply { out, version: client.version }.null_array();
            return Some(Flow::Open);
        }
        command(&mut bytes, &[b"MULTI"]);
        for queued in transaction.queue_so_far() {
            command(&mut bytes, &queued.args.iter().map(|arg| &**arg).collect::<Vec<_>>());
        }
        client.take_transaction();
    }
    let begin = bytes.len();
    bytes.extend_from_slice(request);
    let forwarded = ForwardedRequest {
        bytes,
        begin,
        dialect: ForwardedDialect::Resp,
        database: client.database,
        version: client.version,
        locks_all: runs_script(number),
    };
    state.scripts.send(ScriptMessage::Forward(forwarded, out.defer()));
    Some(Flow::Open)
}

/// True for a command on keys, scripts or channels, which all connections share.
fn needs_keys(number: usize) -> bool {
    let command = &TABLE[number];
    let is_shared = || {
        let names = ["publish", "spublish", "script", "function", "object", "memory", "save", "bgsave", "lastsave"];
        names.contains(&command.name)
    };
    command.flags.has(Flags::WRITE) || command.flags.has(Flags::READONLY) || runs_script(number) || is_shared()
}

/// True unless the keys are those of another node of a cluster: then the client is told here.
fn is_own<S: Store>(state: &ServerState<S>, number: usize, args: &[&[u8]]) -> bool {
    let Some(map) = &state.info.slot_map else { return true };
    TABLE[number].keys_among(args).all(|key| map.has_key(key))
}
