//! ACL: there is one user, who may do everything.

use sha2::{Digest, Sha256};
use store::Store;

use super::{
    call::Call,
    details::{CATEGORIES, categories},
};
use crate::{
    command_table::{Command, Flags, TABLE},
    reply::{Outcome, Refusal},
};

pub(super) fn whoami<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.bulk(b"default");
    Ok(())
}

pub(super) fn users<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.array(1);
    call.reply.bulk(b"default");
    Ok(())
}

pub(super) fn list<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let password = call.password_hash().map_or_else(|| "nopass".to_owned(), |hash| format!("#{hash}"));
    call.reply.array(1);
    call.reply.bulk(format!("user default on {password} ~* &* +@all").as_bytes());
    Ok(())
}

pub(super) fn getuser<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.args[2] != b"default" {
        call.reply.null();
        return Ok(());
    }
    let password = call.password_hash();
    let reply = &mut call.reply;
    reply.map(6);
    reply.bulk(b"flags");
    reply.set(if password.is_none() { 2 } else { 1 });
    reply.bulk(b"on");
    if password.is_none() {
        reply.bulk(b"nopass");
    }
    reply.bulk(b"passwords");
    reply.array(usize::from(password.is_some()));
    if let Some(hash) = password {
        reply.bulk(hash.as_bytes());
    }
    for (name, value) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"selectors");
    reply.array(0);
    Ok(())
}

impl<S: Store> Call<'_, '_, S> {
    /// Returns the SHA-256 of the password in hexadecimal, as Redis shows it.
    fn password_hash(&self) -> Option<String> {
        let password = self.state.settings.password()?;
        Some(Sha256::digest(password.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

pub(super) fn cat<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let names: Vec<&str> = match call.args.get(2) {
        None => CATEGORIES.to_vec(),
        Some(_) if call.args.len() > 3 => return Err(Refusal::SYNTAX),
        Some(name) => {
            let category = CATEGORIES.iter().find(|category| category.as_bytes().eq_ignore_ascii_case(name));
            let unknown = || Refusal::new(format!("ERR Unknown category '{}'", String::from_utf8_lossy(name)));
            let category = category.ok_or_else(unknown)?;
            let commands = TABLE.iter().filter(|command| !command.flags.has(Flags::CONTAINER));
            let is_in = |command: &&Command| categories(command).contains(category);
            commands.filter(is_in).map(|command| command.name).collect()
        }
    };
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}
