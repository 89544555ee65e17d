//! Restarts under a service manager that keeps a file in memory from one process to the next.

use std::{fs::File, os::fd::OwnedFd, path::Path, process::Command};

use anyhow::{Context, ensure};
use testkit::{Client, DriverKind, Server, ServiceManager, sample_of, with_descriptors};

use crate::common::{EXE, ask, on_every_driver};

/// A service of which a manager keeps one descriptor.
struct Service<'a> {
    directory: &'a Path,
    args: Vec<&'a str>,
    /// Descriptor that it keeps.
    kept: Option<OwnedFd>,
    starts: usize,
}

impl<'a> Service<'a> {
    fn new(directory: &'a Path, args: &[&'a str]) -> Self {
        Self { directory, args: args.to_vec(), kept: None, starts: 0 }
    }

    /// Starts a process with what is kept, and keeps what that asks for.
    fn start(&mut self) -> anyhow::Result<(Server, ServiceManager)> {
        let kept = self.kept.as_ref().map(|kept| kept.try_clone().map(|kept| ("kept-file", kept))).transpose()?;
        let mut command = with_descriptors(EXE, Vec::from_iter(kept))?;
        command.args(["--listen", "127.0.0.1:0"]).args(&self.args).env("FDSTORE", "1");
        self.starts += 1;
        let manager = ServiceManager::of(&mut command, &self.directory.join(format!("notify-{}", self.starts)))?;
        let server = Server::start_command(command, 1)?;
        let (message, mut descriptors) = manager.next()?;
        ensure!(message == "FDSTORE=1\nFDNAME=kept-file" && descriptors.len() == 1, "{message}");
        self.kept = descriptors.pop();
        manager.expect("READY=1\n")?;
        Ok((server, manager))
    }

    fn kept_bytes(&self) -> anyhow::Result<u64> {
        let kept = self.kept.as_ref().context("nothing is kept")?.try_clone()?;
        Ok(File::from(kept).metadata()?.len())
    }
}

fn stop(server: &mut Server) -> anyhow::Result<()> {
    ensure!(server.stop()?.success(), "{}", server.stderr());
    Ok(())
}

#[test]
fn keys_and_scripts_outlive_a_restart_on_every_driver() {
    on_every_driver(|driver: DriverKind| {
        let directory = tempfile::tempdir()?;
        let store = sample_of(driver, &["packed", "partitioned"])[0];
        let mut service = Service::new(
            directory.path(),
            &["--sandbox", "on", "--threads", "2", "--driver", driver.name(), "--store", store],
        );
        let (mut server, _manager) = service.start()?;
        let mut client = server.connect()?;
        for n in 0..1000 {
            ask(&mut client, &format!("SET key:{n} {n} PXAT {}", 4_000_000_000_000_u64 + n), "+OK\r\n")?;
        }
        ask(&mut client, "SCRIPT LOAD return(7)", "$40\r\nbc70ae583496ef68242126e5f723b4224435af02\r\n")?;
        drop(client);
        stop(&mut server)?;
        ensure!(service.kept_bytes()? > 1000, "nothing has been left");
        let (mut server, _manager) = service.start()?;
        ensure!(service.kept_bytes()? == 0, "the memory has not been freed");
        let mut client = server.connect()?;
        ask(&mut client, "DBSIZE", ":1000\r\n")?;
        ask(&mut client, "EVALSHA bc70ae583496ef68242126e5f723b4224435af02 0", ":7\r\n")?;
        for n in 0..1000 {
            ask(&mut client, &format!("PEXPIRETIME key:{n}"), &format!(":{}\r\n", 4_000_000_000_000_u64 + n))?;
        }
        drop(client);
        stop(&mut server)
    });
}

#[test]
fn the_successor_leaves_the_keys_and_not_the_process_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = Service::new(directory.path(), &[]);
    let (mut server, manager) = service.start().unwrap();
    let mut client = server.connect().unwrap();
    ask(&mut client, "SET a 1", "+OK\r\n").unwrap();
    drop(client);
    let successor = server.upgrade(server.process()).unwrap();
    manager.expect("RELOADING=1\n").unwrap();
    let (message, descriptors) = manager.next().unwrap();
    assert!(message.starts_with("FDSTORE=1\n") && descriptors.len() == 1, "{message}");
    assert!(server.wait_for_exit().unwrap().success(), "{}", server.stderr());
    assert_eq!(service.kept_bytes().unwrap(), 0, "the first process has left them");
    let mut client = Client::connect(server.address()).unwrap();
    ask(&mut client, "INCR a", ":2\r\n").unwrap();
    drop(client);
    successor.process().terminate().unwrap();
    server.wait_for_successors().unwrap();
    assert!(service.kept_bytes().unwrap() > 0, "{}", server.stderr());
    let (mut server, _manager) = service.start().unwrap();
    ask(&mut server.connect().unwrap(), "GET a", "$1\r\n2\r\n").unwrap();
    stop(&mut server).unwrap();
}

#[test]
fn what_is_not_whole_is_lost_and_the_snapshot_on_disk_is_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys");
    let mut service = Service::new(directory.path(), &["--snapshot", file.to_str().unwrap()]);
    let (mut server, _manager) = service.start().unwrap();
    ask(&mut server.connect().unwrap(), "SET a 1", "+OK\r\n").unwrap();
    stop(&mut server).unwrap();
    // The newer keys are those in memory.
    let (mut server, _manager) = service.start().unwrap();
    server.wait_for_stderr("have been taken").unwrap();
    stop(&mut server).unwrap();
    let kept = File::from(service.kept.as_ref().unwrap().try_clone().unwrap());
    kept.set_len(kept.metadata().unwrap().len() - 1).unwrap();
    let (mut server, _manager) = service.start().unwrap();
    server.wait_for_stderr("was ended while it wrote them").unwrap();
    ask(&mut server.connect().unwrap(), "GET a", "$1\r\n1\r\n").unwrap();
    stop(&mut server).unwrap();
}

#[test]
fn a_manager_that_keeps_nothing_is_given_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(EXE);
    command.args(["--listen", "127.0.0.1:0"]);
    let manager = ServiceManager::of(&mut command, &directory.path().join("notify")).unwrap();
    let mut server = Server::start_command(command, 1).unwrap();
    manager.expect("READY=1\n").unwrap();
    stop(&mut server).unwrap();
}
