//! SIGHUP: the configuration is read again.

use anyhow::anyhow;

use super::{CommandLine, Effective, Loaded, Setting, key};
use crate::Program;

/// Returns what SIGHUP does.
pub(crate) fn reload<P: Program + 'static>(
    line: CommandLine,
    mut current: Effective,
    mut apply: impl FnMut(P) -> anyhow::Result<()>,
) -> impl FnMut() -> anyhow::Result<()> {
    move || {
        let Loaded { program, effective } =
            line.load::<P>().map_err(|error| anyhow!("{}", error.to_string().replace('\n', "; ")))?;
        apply(program)?;
        report::<P>(&current, &effective);
        current = Effective { top: kept_until_restart::<P>(&current.top, effective.top), ..effective };
        Ok(())
    }
}

/// Logs what has changed, and what of it is in use.
fn report<P: Program>(old: &Effective, new: &Effective) {
    let (mut changed, mut deferred) = (Vec::new(), Vec::new());
    for (before, now) in old.changes(new) {
        let change = if now.is_secret { now.key.clone() } else { format!("{} = {}", now.key, now.value()) };
        if is_reloaded::<P>(&before.key) { changed.push(change) } else { deferred.push(change) }
    }
    if old.hosts_differ(new) {
        changed.push(format!("{} hosts", new.hosts.len()));
    }
    let changed = if changed.is_empty() { "no changes".to_owned() } else { changed.join(", ") };
    tracing::info!("configuration reloaded: {changed}");
    if !deferred.is_empty() {
        tracing::warn!("changed, but in use only after a restart: {}", deferred.join(", "));
    }
}

/// Replaces the values that are in use now. The others still differ at the next reload.
fn kept_until_restart<P: Program>(old: &[Setting], new: Vec<Setting>) -> Vec<Setting> {
    let pairs = old.iter().zip(new);
    pairs.map(|(old, new)| if is_reloaded::<P>(&old.key) { new } else { old.clone() }).collect()
}

/// True for the flags that hosts have, too.
fn is_reloaded<P: Program>(name: &str) -> bool {
    P::host_command().is_some_and(|host| host.get_arguments().any(|arg| key(arg) == Some(name)))
}
