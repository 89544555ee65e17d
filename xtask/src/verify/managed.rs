//! The units of `deploy/systemd` under a real manager: `systemd --user`, in control groups of its own. What only a system's manager
//! can do (users, namespaces, devices) is left out of them; what is said to a service, and what is waited for, is as it is there.

mod manager;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use manager::Manager;

use super::{
    Outcome, is_installed,
    tools::{self, Profile},
};

/// Script that runs for longer than a manager takes to end a process.
const SLOW: &str = "local t = 0 for i = 1, 60000000 do t = t + i end return 'done'";

pub(super) fn run() -> Result<Outcome> {
    if !is_installed("systemctl") {
        return Ok(Outcome::Skipped("systemd is not installed".to_owned()));
    }
    if !nix::unistd::geteuid().is_root() {
        return Ok(Outcome::Skipped("control groups are made by root".to_owned()));
    }
    let programs = tools::build(Profile::Dev, ["kvcache", "http-server"])?;
    let manager = Manager::start()?;
    let checked = check_kvcache(&manager, &programs).and_then(|()| check_http_server(&manager, &programs));
    checked.inspect_err(|_| eprint!("{}", manager.log()))?;
    manager.stop()?;
    Ok(Outcome::Passed)
}

/// A client of kvcache.
struct Client(BufReader<UnixStream>);

impl Client {
    fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).with_context(|| socket.display().to_string())?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self(BufReader::new(stream)))
    }

    fn send(&mut self, command: &[&str]) -> Result<()> {
        let mut request = format!("*{}\r\n", command.len());
        command.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        Ok(self.0.get_mut().write_all(request.as_bytes())?)
    }

    /// Reads an integer, a status or a bulk string.
    fn read(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.0.read_line(&mut line)? > 0, "the connection has ended without a reply");
        if line.starts_with('$') && line != "$-1\r\n" {
            line.clear();
            self.0.read_line(&mut line)?;
        }
        Ok(line.trim_end().to_owned())
    }

    fn expect(&mut self, command: &[&str], answer: &str) -> Result<()> {
        self.send(command)?;
        let said = self.read()?;
        ensure!(said == answer, "{command:?}: {said} instead of {answer}");
        Ok(())
    }
}

fn check_kvcache(manager: &Manager, programs: &Path) -> Result<()> {
    let (socket, config) = (manager.path("kvcache.socket"), manager.path("kvcache.toml"));
    let configure = |more: &str| fs::write(&config, format!("listen = [\"unix:{}\"]\n{more}", socket.display()));
    configure("")?;
    manager.install("quintet-kvcache", &programs.join("kvcache"), &config, &socket)?;
    let service = manager.service("quintet-kvcache.service");
    service.command("start")?;
    Client::connect(&socket)?.expect(&["SET", "a", "1"], "+OK")?;

    // A reload: another process, the same keys, and the manager's own child.
    let first = service.main_process()?;
    let second = service.reload(first)?;
    Client::connect(&socket)?.expect(&["INCR", "a"], ":2")?;
    println!("verify: managed: kvcache: reload replaced process {first} by {second}");

    // One that is refused.
    configure("eviction = \"none of them\"\n")?;
    service.command("reload")?;
    service.await_property("StatusText", |status| status.contains("this process goes on"))?;
    ensure!(service.main_process()? == second, "another process after a reload that failed");
    configure("")?;
    println!("verify: managed: kvcache: a configuration that is wrong left process {second}");

    // The manager waits for the drain of a process that has succeeded another one.
    let mut slow = Client::connect(&socket)?;
    slow.send(&["EVAL", SLOW, "0"])?;
    thread::sleep(Duration::from_millis(300));
    service.command("restart")?;
    ensure!(slow.read()? == "done", "the restart has cut a script off");
    let third = service.main_process()?;
    ensure!(third != second, "the same process after a restart");
    Client::connect(&socket)?.expect(&["INCR", "a"], ":3")?;
    println!("verify: managed: kvcache: restart waited for a script; process {third} has the keys");

    // Neither a killed process nor a stopped service leaves any.
    service.kill(third)?;
    let fourth = service.await_main_process(|process| process != 0 && process != third)?;
    Client::connect(&socket)?.expect(&["INCR", "a"], ":1")?;
    service.command("stop")?;
    service.command("start")?;
    Client::connect(&socket)?.expect(&["GET", "a"], "$-1")?;
    service.command("stop")?;
    println!(
        "verify: managed: kvcache: process {fourth} took the place of one that was killed; stop and start began anew"
    );
    Ok(())
}

fn check_http_server(manager: &Manager, programs: &Path) -> Result<()> {
    let (socket, config, site) =
        (manager.path("http-server.socket"), manager.path("http-server.toml"), manager.path("site"));
    fs::create_dir(&site)?;
    fs::write(site.join("index.html"), "hello")?;
    fs::write(&config, format!("listen = [\"unix:{}\"]\nroot = {:?}\n", socket.display(), site))?;
    manager.install("quintet-http-server", &programs.join("http-server"), &config, &socket)?;
    let service = manager.service("quintet-http-server.service");
    service.command("start")?;
    let get = || -> Result<()> {
        let mut stream = UnixStream::connect(&socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let lines: Vec<String> = BufReader::new(stream).lines().collect::<Result<_, _>>()?;
        match (lines.first().map(String::as_str), lines.last().map(String::as_str)) {
            (Some("HTTP/1.1 200 OK"), Some("hello")) => Ok(()),
            _ => bail!("{lines:?}"),
        }
    };
    get()?;
    let second = service.reload(service.main_process()?)?;
    get()?;
    service.command("restart")?;
    get()?;
    ensure!(service.main_process()? != second, "the same process after a restart");
    service.command("stop")?;
    println!("verify: managed: http-server: reloaded and started anew");
    Ok(())
}
