//! A service manager is told what a server does (sd_notify(3)), and hears of it while it lives.

use std::process::Command;

use crate::{ConnectionModel, Server, ServiceManager, eventually};
use anyhow::ensure;

use super::case::{Case, Driver, PLAIN, Setup, probe, socket_path};

const ONE_THREAD: Setup = Setup { threads: &[1], ..PLAIN };

/// Names a manager to the server, which is to give a sign of life within `watchdog_us`.
fn manage(case: &Case<'_>, command: &mut Command, watchdog_us: Option<u32>) -> anyhow::Result<ServiceManager> {
    command.envs(watchdog_us.map(|time| ("WATCHDOG_USEC", time.to_string())));
    ServiceManager::of(command, &socket_path(case).with_extension("notify"))
}

pub fn the_service_manager_is_told_of_every_state() {
    ONE_THREAD.check(|case| {
        let mut command = case.command();
        let manager = manage(case, &mut command, None)?;
        let mut server = Server::start_command(command, 1)?;
        manager.expect("READY=1\n")?;
        server.process().hang_up()?;
        manager.expect("RELOADING=1\nMONOTONIC_USEC=")?;
        manager.expect("READY=1\nSTATUS=there is nothing to reload")?;
        let successor = server.upgrade(server.process())?;
        manager.expect("RELOADING=1\nMONOTONIC_USEC=")?;
        manager.expect(&format!("READY=1\nMAINPID={}", successor.process().id()))?;
        // It stops, and the service does not.
        ensure!(server.wait_for_exit()?.success(), "{}", server.stderr());
        ensure!(manager.take_all()? == 0, "the old process has said more");
        successor.process().terminate()?;
        manager.expect("STOPPING=1")?;
        server.wait_for_successors()
    });
}

/// The status is the text of the hook at the end of a reload.
pub fn a_reload_is_over_when_its_hooks_are_and_a_failure_is_the_status() {
    ONE_THREAD.check(|case| {
        let signals = socket_path(case).with_extension("signals");
        let mut command = case.command();
        command.arg("--signal-file").arg(&signals);
        let manager = manage(case, &mut command, None)?;
        let mut server = Server::start_command(command, 1)?;
        manager.expect("READY=1\n")?;
        server.process().hang_up()?;
        manager.expect("RELOADING=1\n")?;
        manager.expect("READY=1\nSTATUS=cannot reload, and goes on as it was: cannot open ")?;
        std::fs::write(&signals, "")?;
        server.process().hang_up()?;
        manager.expect("RELOADING=1\n")?;
        manager.expect("READY=1\nSTATUS=")?;
        ensure!(std::fs::read_to_string(&signals)? == "reload\n", "it says so too early");
        ensure!(server.stop()?.success(), "{}", server.stderr());
        manager.expect("STOPPING=1")
    });
}

pub fn the_watchdog_hears_of_a_server_that_turns_whatever_it_does() {
    let setup = Setup { threads: &[1, 2], ..PLAIN };
    setup.check(|case| {
        let mut command = case.command();
        let manager = manage(case, &mut command, Some(200_000))?;
        let mut server = Server::start_command(command, 1)?;
        manager.expect("READY=1\n")?;
        let mut client = server.connect()?;
        // A reply that takes long holds no loop.
        client.send(b"late 300000\n")?;
        for _ in 0..3 {
            manager.expect("WATCHDOG=1")?;
            probe(&server)?;
        }
        drop(client);
        ensure!(server.stop()?.success(), "{}", server.stderr());
        Ok(())
    });
}

/// The manager would end it then, and start it anew.
pub fn the_watchdog_hears_nothing_while_a_loop_is_stuck() {
    let runs_protocol = |driver: Driver| {
        let descriptor = driver.descriptor();
        matches!(descriptor.connection, ConnectionModel::Loop | ConnectionModel::Task | ConnectionModel::Coroutine)
            && descriptor.default_workers == crate::DefaultWorkers::None
    };
    let setup = Setup { drivers: runs_protocol, threads: &[1, 2], ..PLAIN };
    setup.check(|case| {
        // Other threads of such a runtime go on.
        if matches!(case.driver.descriptor().connection, ConnectionModel::Task | ConnectionModel::Coroutine)
            && !case.driver.descriptor().listener_per_thread
            && case.threads > 1
        {
            return Ok(());
        }
        let mut command = case.command();
        let manager = manage(case, &mut command, Some(100_000))?;
        let server = Server::start_command(command, 1)?;
        manager.expect("READY=1\n")?;
        manager.expect("WATCHDOG=1")?;
        let mut client = server.connect()?;
        client.send(b"block 3600000\n")?;
        let complaints = || server.stderr().matches("watchdog: loops that have not turned").count();
        eventually("nothing is heard for a while", || {
            manager.take_all()?;
            let before = complaints();
            eventually("it says what is wrong", || Ok(complaints() >= before + 3))?;
            Ok(manager.take_all()? == 0)
        })
    });
}
