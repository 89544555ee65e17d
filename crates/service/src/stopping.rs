//! SIGTERM and SIGINT: drain at the first, stop at the second, and never later than the drain timeout.

use std::{path::PathBuf, process, thread, time::Duration};

use drivers::Shutdown;
use sys::{listen::Address, signals::StopSignals};

/// Waits for signals on threads of its own.
pub(crate) fn watch(signals: StopSignals, shutdown: Shutdown, drain_timeout: Duration, addresses: &[Address]) {
    let files: Vec<_> = addresses.iter().filter_map(socket_file).collect();
    thread::spawn(move || {
        let Ok(signal) = signals.wait() else { return };
        tracing::info!("{signal}: draining");
        shutdown.drain();
        let late = files.clone();
        thread::spawn(move || {
            thread::sleep(drain_timeout);
            tracing::warn!("connections still open after the drain timeout of {drain_timeout:?} are cut off");
            leave(&late, 0);
        });
        let Ok(signal) = signals.wait() else { return };
        tracing::warn!("{signal} again: stopping at once");
        leave(&files, 1);
    });
}

fn socket_file(address: &Address) -> Option<PathBuf> {
    match address {
        Address::Unix(path) => Some(path.clone()),
        Address::Tcp(_) => None,
    }
}

/// What a listener does when it is dropped, for exits that drop nothing.
fn leave(files: &[PathBuf], status: i32) -> ! {
    for file in files {
        let _ = std::fs::remove_file(file);
    }
    process::exit(status)
}
