//! A server with `--sandbox on` can be made to do no more than it has to, whatever a client makes of it.

use std::{
    fs,
    net::TcpListener,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixListener,
    },
    path::Path,
    process::{Child, Command},
};

use crate::{Server, eventually, expect_failure};
use anyhow::{Context, ensure};

use super::case::{Case, PLAIN, Setup, ask, exe, probe, socket_path};

/// Targets of the attempts.
struct Outside {
    secret: String,
    listener: TcpListener,
    socket: UnixListener,
    victim: Child,
}

impl Outside {
    fn new(case: &Case<'_>) -> anyhow::Result<Self> {
        // The directory of the content is what the server may read.
        let directory = socket_path(case).with_extension("outside");
        fs::create_dir(&directory)?;
        let secret = directory.join("secret");
        fs::write(&secret, "secret")?;
        Ok(Self {
            secret: secret.to_str().context("the path is no text")?.to_owned(),
            listener: TcpListener::bind("127.0.0.1:0")?,
            socket: UnixListener::bind(directory.join("socket"))?,
            victim: Command::new("sleep").arg("600").spawn()?,
        })
    }

    /// Returns each way to escape, and its target.
    fn attempts(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        let victim = self.victim.id().to_string();
        Ok(vec![
            ("read", self.secret.clone()),
            ("list", "/".to_owned()),
            ("write", self.secret.clone()),
            ("exec", "/bin/true".to_owned()),
            ("connect", self.listener.local_addr()?.to_string()),
            ("datagram", "127.0.0.1:0".to_owned()),
            ("socket", self.socket_path()?),
            ("signal", victim.clone()),
            ("trace", victim),
            ("code", "4096".to_owned()),
            ("root", "/".to_owned()),
            ("dump", "memory".to_owned()),
        ])
    }

    fn socket_path(&self) -> anyhow::Result<String> {
        let address = self.socket.local_addr()?;
        let path = address.as_pathname().and_then(Path::to_str);
        Ok(path.context("the path is no text")?.to_owned())
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

fn check_attempts(server: &Server, outside: &Outside, outcome: &str) -> anyhow::Result<()> {
    for (way, target) in outside.attempts()? {
        // Others than root are stopped by the kernel: at siblings, too (Yama).
        if matches!(way, "trace" | "root") && outcome == "escaped" && !is_root() {
            continue;
        }
        let mut client = server.connect()?;
        client.send(format!("escape {way} {target}\n").as_bytes())?;
        client.expect(format!("{way} {outcome}\n").as_bytes()).with_context(|| format!("{way} {target}"))?;
    }
    Ok(())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Says so where the kernel cannot refuse all of the attempts: signals are confined since Linux 6.12.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn can_confine() -> bool {
    let system = rustix::system::uname();
    let mut numbers =
        system.release().to_str().unwrap_or_default().split('.').map_while(|number| number.parse::<u32>().ok());
    let is_enough = (numbers.next(), numbers.next()) >= (Some(6), Some(12));
    if !is_enough {
        eprintln!("skipped: Landlock of Linux 6.12 is needed");
    }
    is_enough
}

/// The same attempts succeed where there is no sandbox: so they are attempts.
pub fn a_confined_server_can_neither_open_nor_start_nor_reach_what_it_does_not_need() {
    if !can_confine() {
        return;
    }
    PLAIN.check(|case| {
        let outside = Outside::new(case)?;
        for (sandbox, outcome) in [("off", "escaped"), ("on", "stopped"), ("auto", "stopped")] {
            let mut command = case.command();
            command.args(["--sandbox", sandbox]);
            let mut server = Server::start_command(command, 1)?;
            check_attempts(&server, &outside, outcome).with_context(|| format!("--sandbox {sandbox}"))?;
            probe(&server)?;
            ensure!(server.stop()?.success(), "{}", server.stderr());
        }
        Ok(())
    });
}

/// Files are sent, logs reopened, sockets removed, and a file is written at the end.
pub fn a_confined_server_does_all_that_it_is_for() {
    if !can_confine() {
        return;
    }
    let setup = Setup { content_bytes: 100_000, threads: &[1], ..PLAIN };
    setup.check(|case| {
        let (socket, metrics) = (socket_path(case), socket_path(case).with_extension("metrics"));
        let [signals, end] = ["signals", "end"].map(|extension| socket.with_extension(extension));
        fs::write(&signals, "")?;
        let mut command = case.command();
        command.args(["--sandbox", "on", "--listen", &format!("unix:{}", socket.display())]);
        command.args(["--metrics", &format!("unix:{}", metrics.display())]);
        command.arg("--signal-file").arg(&signals).arg("--exit-file").arg(&end);
        let mut server = Server::start_command(command, 1)?;
        let mut client = server.connect()?;
        for kind in ["shared", "file", "mapped"] {
            let line = format!("{kind} 100000\n");
            client.send(line.as_bytes())?;
            client.expect(line.as_bytes())?;
            client.expect(case.content.bytes())?;
        }
        server.process().hang_up()?;
        eventually("it reloads", || Ok(fs::read_to_string(&signals)? == "reload\n"))?;
        ask(&mut client, "after")?;
        drop(client);
        ensure!(server.stop()?.success(), "{}", server.stderr());
        ensure!(end.exists() && !socket.exists() && !metrics.exists(), "files at the end");
        Ok(())
    });
}

pub fn the_socket_has_the_permissions_that_the_flag_names() {
    let setup = Setup { threads: &[2], ..PLAIN };
    setup.check(|case| {
        let socket = socket_path(case);
        let mut command = case.command();
        command.args(["--socket-mode", "620", "--listen", &format!("unix:{}", socket.display())]);
        let mut server = Server::start_command(command, 1)?;
        ensure!(fs::metadata(&socket)?.permissions().mode() & 0o777 == 0o620, "other permissions");
        probe(&server)?;
        ensure!(server.stop()?.success(), "{}", server.stderr());
        Ok(())
    });
    let mut command = Command::new(exe());
    command.args(["--socket-mode", "9"]);
    let finished = expect_failure(command, 2);
    assert!(finished.stderr.contains("permissions in octal"), "{finished:?}");
}

/// Every thread of it, also those that were there before.
pub fn root_becomes_another_user_once_its_addresses_are_bound() {
    if !is_root() {
        return expect_refusal();
    }
    PLAIN.check(|case| {
        let mut command = case.command();
        // By its name, which a confined server could not look up.
        command.args(["--user", "nobody", "--sandbox", if can_confine() { "on" } else { "off" }]);
        let mut server = Server::start_command(command, 1)?;
        probe(&server)?;
        // A thread that is on its way out, as one that looked what a runtime can do, is passed over by setresuid(3).
        eventually("no thread is root", || {
            for thread in fs::read_dir(format!("/proc/{}/task", server.process().id()))? {
                let Ok(status) = fs::read_to_string(thread?.path().join("status")) else { return Ok(false) };
                let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let user = of("Uid:").context("no Uid")?;
                let is_root = user.split_whitespace().any(|id| id == "0");
                if is_root || of("CapEff:") != Some("0000000000000000") || of("Groups:") != Some("") {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        ensure!(!server.stderr().contains(crate::ROOT_WARNING), "{}", server.stderr());
        ensure!(server.stop()?.success(), "{}", server.stderr());
        let mut server = case.start()?;
        eventually("it warns", || Ok(server.stderr().contains(crate::ROOT_WARNING)))?;
        ensure!(server.stop()?.success(), "{}", server.stderr());
        Ok(())
    });
}

/// Others than root cannot.
fn expect_refusal() {
    let mut command = Command::new(exe());
    command.args(["--user", "root"]);
    let finished = expect_failure(command, 1);
    assert!(finished.stderr.contains("only root can become another user"), "{finished:?}");
}

pub fn an_unknown_user_is_an_error() {
    let mut command = Command::new(exe());
    command.args(["--user", "no-such-user"]);
    let finished = expect_failure(command, 1);
    assert!(finished.stderr.contains("there is no user no-such-user"), "{finished:?}");
}
