//! HELP, made from the command table.

use store::Store;

use super::{call::Call, details};
use crate::{command_table::TABLE, reply::Outcome};

/// Answers a container that is called without a subcommand. Its arity forbids that.
pub(super) fn container<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    help(call)
}

/// Lists the subcommands of a container, each with its arguments and its summary.
pub(super) fn help<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let container = String::from_utf8_lossy(call.args[0]).to_ascii_lowercase();
    let prefix = format!("{container}|");
    let mut lines = vec![format!("{} <subcommand> [<arg> ...]. Subcommands are:", container.to_ascii_uppercase())];
    for command in TABLE.iter().filter(|command| command.name.starts_with(&prefix)) {
        let name = command.name[prefix.len()..].to_ascii_uppercase();
        let syntax = details::of(command.name).syntax.without_types();
        lines.push(format!("{name} {syntax}").trim_end().to_owned());
        lines.push(format!("    {}", command.summary));
    }
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.simple(line));
    Ok(())
}
