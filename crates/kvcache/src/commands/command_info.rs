//! COMMAND: the commands, their arguments and their keys.

use store::Store;

use super::{
    call::Call,
    details::{self, categories},
};
use crate::{
    command_table,
    command_table::{Command, Flags, Keys, TABLE},
    glob,
    reply::{Outcome, Refusal, Reply},
};

pub(super) fn all<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let commands: Vec<_> = top_level().collect();
    call.reply.array(commands.len());
    commands.into_iter().for_each(|command| describe(command, &mut call.reply));
    Ok(())
}

pub(super) fn count<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.count(top_level().count());
    Ok(())
}

pub(super) fn info<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.args.len() == 2 {
        return all(call);
    }
    call.reply.array(call.args.len() - 2);
    for &name in &call.args[2..] {
        match command_table::find(name) {
            Some(number) => describe(&TABLE[number], &mut call.reply),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) fn docs<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let commands: Vec<_> = match &call.args[2..] {
        [] => top_level().collect(),
        names => names.iter().filter_map(|name| command_table::find(name)).map(|number| &TABLE[number]).collect(),
    };
    call.reply.map(commands.len());
    commands.into_iter().for_each(|command| document(command, &mut call.reply));
    Ok(())
}

pub(super) fn list<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let is_wanted: Box<dyn Fn(&Command) -> bool> = match call.args.get(4) {
        None if call.args.len() == 2 => Box::new(|command| !command.name.contains('|')),
        Some(&pattern) if call.args.len() == 5 && call.is(2, "FILTERBY") => {
            if call.is(3, "MODULE") {
                Box::new(|_| false)
            } else if call.is(3, "ACLCAT") {
                let category = pattern.to_ascii_lowercase();
                Box::new(move |command| categories(command).iter().any(|name| name.as_bytes() == category))
            } else if call.is(3, "PATTERN") {
                let pattern = pattern.to_ascii_lowercase();
                Box::new(move |command| glob::matches(&pattern, command.name.as_bytes()))
            } else {
                return Err(Refusal::SYNTAX);
            }
        }
        _ => return Err(Refusal::SYNTAX),
    };
    let names: Vec<_> = TABLE.iter().filter(|command| is_wanted(command)).map(|command| command.name).collect();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

pub(super) fn getkeys<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (_, keys) = parse_getkeys(call.args)?;
    call.reply.array(keys.len());
    keys.iter().for_each(|(key, _)| call.reply.bulk(key));
    Ok(())
}

pub(super) fn getkeys_and_flags<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (command, keys) = parse_getkeys(call.args)?;
    let is_set = command.name == "set" && !call.args.iter().any(|arg| arg.eq_ignore_ascii_case(b"get"));
    call.reply.array(keys.len());
    for (key, access) in keys {
        // The access of SET depends on its options.
        let access = if is_set { "OW update" } else { access };
        let flags: Vec<_> = access.split_ascii_whitespace().collect();
        call.reply.array(2);
        call.reply.bulk(key);
        call.reply.set(flags.len());
        flags.iter().for_each(|flag| call.reply.simple(flag));
    }
    Ok(())
}

/// Keys, and the access to each.
type KeyAccess<'a> = Vec<(&'a [u8], &'static str)>;

/// Parses the command behind COMMAND GETKEYS, and returns its keys with the access to each.
fn parse_getkeys<'a>(args: &'a [&'a [u8]]) -> Result<(&'static Command, KeyAccess<'a>), Refusal> {
    let args = &args[2..];
    let container = command_table::find(args[0]).map(|number| &TABLE[number]);
    let full = [args[0], b"|", args.get(1).copied().unwrap_or_default()].concat();
    let command = match container {
        Some(command) if command.flags.has(Flags::CONTAINER) => command_table::find(&full).map(|number| &TABLE[number]),
        command => command,
    };
    let command = command.ok_or_else(|| Refusal::new("ERR Invalid command specified"))?;
    if !command.has_keys() {
        return Err(Refusal::new("ERR The command has no key arguments"));
    }
    if !command.has_arity(args.len()) {
        return Err(Refusal::new("ERR Invalid number of arguments specified for command"));
    }
    let access: Vec<&str> = details::of(command.name).access().collect();
    let basic = basic_access(command);
    if command.counted_keys(args).is_none() {
        return Err(Refusal::new("ERR Invalid arguments specified for command"));
    }
    let access_of = |at: usize| access.get(at).or_else(|| access.last()).copied().unwrap_or(basic);
    Ok((command, command.keys_among(args).enumerate().map(|(at, key)| (key, access_of(at))).collect()))
}

/// Returns the commands that are no subcommands.
fn top_level() -> impl Iterator<Item = &'static Command> {
    TABLE.iter().filter(|command| !command.name.contains('|'))
}

fn subcommands(command: &Command) -> impl Iterator<Item = &'static Command> + use<> {
    let prefix = format!("{}|", command.name);
    TABLE.iter().filter(move |other| other.name.starts_with(&prefix))
}

/// Returns the access of a command to its keys that follows from its flags.
fn basic_access(command: &Command) -> &'static str {
    if command.flags.has(Flags::WRITE) { "RW update" } else { "RO access" }
}

/// Writes one command as COMMAND INFO shows it.
fn describe(command: &'static Command, reply: &mut Reply<'_>) {
    let (Keys(first, last, step), details) = (command.keys, details::of(command.name));
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    let flags: Vec<_> = command.flags.names().collect();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    [first, last, step].into_iter().for_each(|number| reply.integer(i64::from(number)));
    let categories = categories(command);
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(&format!("@{category}")));
    let tips: Vec<_> = details.tips().collect();
    reply.set(tips.len());
    tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    key_specifications(command, reply);
    let subcommands: Vec<_> = subcommands(command).collect();
    reply.set(subcommands.len());
    subcommands.into_iter().for_each(|subcommand| describe(subcommand, reply));
}

/// Writes the key specifications: each is of one key, but the last is of a range.
fn key_specifications(command: &Command, reply: &mut Reply<'_>) {
    let Keys(first, last, step) = command.keys;
    let mut accesses: Vec<_> = details::of(command.name).access().collect();
    if accesses.is_empty() {
        accesses.push(basic_access(command));
    }
    let counted = command.key_count_at().and_then(|at| accesses.pop().map(|access| (at, access)));
    if first == 0 {
        accesses.clear();
    }
    let count = accesses.len();
    reply.set(count + usize::from(counted.is_some()));
    for (at, access) in accesses.into_iter().enumerate() {
        let begin = first + at as i16;
        // Relative to the first one, or from the end. All but the last specification are of one key.
        let last = match last {
            _ if at + 1 < count => 0,
            ..0 => last,
            0.. => last - begin,
        };
        key_specification(command, access, [begin, last, step], reply);
    }
    if let Some((at, access)) = counted {
        counted_keys(command, at as i16, access, reply);
    }
}

/// Writes the key specification of keys whose number is the argument at `count_at`.
fn counted_keys(command: &Command, count_at: i16, access: &str, reply: &mut Reply<'_>) {
    let notes = match command.name {
        "eval" => Some("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"),
        "eval_ro" => Some("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"),
        _ => None,
    };
    begin_key_specification(notes, access, reply);
    search_step(reply, "begin_search", "index", &[("index", count_at)]);
    search_step(reply, "find_keys", "keynum", &[("keynumidx", 0), ("firstkey", 1), ("keystep", 1)]);
}

fn key_specification(command: &Command, access: &str, [begin, last, step]: [i16; 3], reply: &mut Reply<'_>) {
    let notes = match command.name {
        "set" => Some("RW and ACCESS due to the optional `GET` argument"),
        "getex" => Some("RW and UPDATE because it changes the TTL"),
        "bitfield" => Some("This command allows both access and modification of the key"),
        _ => None,
    };
    begin_key_specification(notes, access, reply);
    search_step(reply, "begin_search", "index", &[("index", begin)]);
    search_step(reply, "find_keys", "range", &[("lastkey", last), ("keystep", step), ("limit", 0)]);
}

fn begin_key_specification(notes: Option<&str>, access: &str, reply: &mut Reply<'_>) {
    reply.map(if notes.is_some() { 4 } else { 3 });
    if let Some(notes) = notes {
        reply.bulk(b"notes");
        reply.bulk(notes.as_bytes());
    }
    let flags: Vec<_> = access.split_ascii_whitespace().collect();
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
}

fn search_step(reply: &mut Reply<'_>, name: &str, kind: &str, numbers: &[(&str, i16)]) {
    reply.bulk(name.as_bytes());
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(*number));
    }
}

/// Writes one command as COMMAND DOCS shows it, its name first.
fn document(command: &'static Command, reply: &mut Reply<'_>) {
    let details = details::of(command.name);
    let subcommands: Vec<_> = subcommands(command).collect();
    let parts = [!details.complexity.is_empty(), !details.syntax.is_empty(), !subcommands.is_empty()];
    reply.bulk(command.name.as_bytes());
    reply.map(3 + parts.into_iter().filter(|&is_there| is_there).count());
    for (name, text) in [("summary", command.summary), ("since", command.since), ("group", command.group)] {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !details.complexity.is_empty() {
        reply.bulk(b"complexity");
        reply.bulk(details.complexity.as_bytes());
    }
    if !details.syntax.is_empty() {
        reply.bulk(b"arguments");
        details.syntax.write(reply);
    }
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        subcommands.into_iter().for_each(|subcommand| document(subcommand, reply));
    }
}
