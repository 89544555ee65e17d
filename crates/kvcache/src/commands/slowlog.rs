//! SLOWLOG: the commands that took long.

use store::Store;

use super::call::Call;
use crate::reply::{Outcome, Refusal};

/// Number of commands shown by default.
const SHOWN: i64 = 10;

pub(super) fn get<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let count = match call.args.len() {
        2 => SHOWN,
        3 => call.integer(2).unwrap_or(i64::MIN),
        _ => {
            return Err(Refusal::new(
                "ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.",
            ));
        }
    };
    if count < -1 {
        return Err(Refusal::new("ERR count should be greater than or equal to -1"));
    }
    // -1: all.
    let commands = call.state.slow_log.latest(usize::try_from(count).unwrap_or(usize::MAX));
    call.reply.array(commands.len());
    for command in commands {
        call.reply.array(6);
        for number in [command.id, command.unix_s, command.duration_us] {
            call.reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
        }
        call.reply.array(command.args.len());
        command.args.iter().for_each(|arg| call.reply.bulk(arg));
        call.reply.bulk(command.client.as_bytes());
        call.reply.bulk(command.client_name.as_bytes());
    }
    Ok(())
}

pub(super) fn len<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.count(call.state.slow_log.len());
    Ok(())
}

pub(super) fn reset<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.state.slow_log.clear();
    call.reply.ok();
    Ok(())
}
