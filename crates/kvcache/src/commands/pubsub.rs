//! Messages: SUBSCRIBE, PUBLISH, PUBSUB and their kin.

use store::Store;
use wire::resp::{Version, reply};

use super::call::Call;
use crate::{
    command_table::{Flags, TABLE},
    reply::{Outcome, Refusal},
    state::{ChannelKind, Client, ReplyMode},
};

/// True if the client waits for messages in RESP2, where a reply to another command could be taken for one of them.
pub(super) fn keeps_out<S: Store>(client: &Client<S>, command: &str) -> bool {
    let is_allowed = |name: &str| {
        matches!(
            name,
            "ping"
                | "subscribe"
                | "unsubscribe"
                | "psubscribe"
                | "punsubscribe"
                | "ssubscribe"
                | "sunsubscribe"
                | "quit"
                | "reset"
        )
    };
    client.version == Version::Resp2 && client.is_subscribed() && !is_allowed(command)
}

/// True for commands that change the subscriptions of their client.
pub(super) fn changes_subscriptions(number: usize) -> bool {
    TABLE[number].flags.has(Flags::PUBSUB) && TABLE[number].flags.has(Flags::NOSCRIPT)
}

pub(super) fn subscribe<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.subscribe(ChannelKind::Channel)
}

pub(super) fn psubscribe<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.subscribe(ChannelKind::Pattern)
}

pub(super) fn ssubscribe<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.subscribe(ChannelKind::Shard)
}

pub(super) fn unsubscribe<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.unsubscribe(ChannelKind::Channel)
}

pub(super) fn punsubscribe<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.unsubscribe(ChannelKind::Pattern)
}

pub(super) fn sunsubscribe<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.unsubscribe(ChannelKind::Shard)
}

impl<S: Store> Call<'_, '_, S> {
    /// Answers each name by itself, as Redis does.
    fn subscribe(&mut self, kind: ChannelKind) -> Outcome {
        for &name in &self.args[1..] {
            self.client.subscriptions_mut(&self.state.channels, self.state.pushed_bytes_max).subscribe(kind, name);
            self.confirm(kind, true, Some(name));
        }
        Ok(())
    }

    fn unsubscribe(&mut self, kind: ChannelKind) -> Outcome {
        let own = match (self.args, self.client.subscriptions()) {
            ([_], Some(subscriptions)) => subscriptions.names(kind),
            _ => Vec::new(),
        };
        let named: Vec<&[u8]> = match self.args {
            [_] => own.iter().map(|name| &**name).collect(),
            args => args[1..].to_vec(),
        };
        if named.is_empty() {
            self.confirm(kind, false, None);
        }
        for name in named {
            if self.client.subscriptions().is_some() {
                let bytes_max = self.state.pushed_bytes_max;
                self.client.subscriptions_mut(&self.state.channels, bytes_max).unsubscribe(kind, name);
                self.settle_pushes();
            }
            self.confirm(kind, false, Some(name));
        }
        Ok(())
    }

    /// Sees to it that no message of a subscription that has ended comes after the reply that says so.
    fn settle_pushes(&mut self) {
        if !self.client.is_executing && self.client.replies == ReplyMode::On {
            self.client.move_pushes(self.reply.out);
        } else if !self.client.is_subscribed() && self.reply.version == Version::Resp2 {
            // There is no place for it inside the reply to EXEC, nor behind it.
            self.client.discard_pushes();
        }
    }

    fn confirm(&mut self, kind: ChannelKind, is_subscribed: bool, name: Option<&[u8]>) {
        let shown = self.client.shown_subscriptions(kind);
        reply::push(self.reply.out.inline(), 3, self.reply.version);
        self.reply.bulk(kind.verb(is_subscribed));
        match name {
            Some(name) => self.reply.bulk(name),
            None => self.reply.null(),
        }
        self.reply.count(shown);
    }
}

pub(super) fn publish<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let receivers = call.state.channels.publish(call.args[1], call.args[2]);
    call.reply.count(receivers);
    Ok(())
}

pub(super) fn spublish<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let receivers = call.state.channels.publish_to_shard(call.args[1], call.args[2]);
    call.reply.count(receivers);
    Ok(())
}

pub(super) fn channels<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.list_channels(ChannelKind::Channel)
}

pub(super) fn shardchannels<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.list_channels(ChannelKind::Shard)
}

pub(super) fn numsub<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.count_subscribers(ChannelKind::Channel)
}

pub(super) fn shardnumsub<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.count_subscribers(ChannelKind::Shard)
}

pub(super) fn numpat<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.count(call.state.channels.len(ChannelKind::Pattern));
    Ok(())
}

impl<S: Store> Call<'_, '_, S> {
    fn list_channels(&mut self, kind: ChannelKind) -> Outcome {
        if self.args.len() > 3 {
            return Err(self.unknown_subcommand());
        }
        let names = self.state.channels.names(kind, self.args.get(2).copied());
        self.reply.array(names.len());
        names.iter().for_each(|name| self.reply.bulk(name));
        Ok(())
    }

    fn count_subscribers(&mut self, kind: ChannelKind) -> Outcome {
        let names = &self.args[2..];
        let counts = self.state.channels.subscribers(kind, names);
        self.reply.array(2 * names.len());
        for (name, count) in names.iter().zip(counts) {
            self.reply.bulk(name);
            self.reply.count(count);
        }
        Ok(())
    }

    /// Refuses a subcommand with too many arguments as Redis does.
    fn unknown_subcommand(&self) -> Refusal {
        Refusal::new(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try PUBSUB HELP.",
            String::from_utf8_lossy(self.args[1])
        ))
    }
}
