//! redis-cli: commands, key statistics, bulk loading and monitoring.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use testkit::{Server, installed_program};

use crate::common::{port, run, start};

struct Cli {
    program: std::path::PathBuf,
    server: Server,
}

impl Cli {
    fn start(args: &[&str]) -> anyhow::Result<Option<Self>> {
        let Some(program) = installed_program("redis-cli")? else { return Ok(None) };
        Ok(Some(Self { program, server: start(args)? }))
    }

    fn command(&self, args: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(&self.program);
        command.args(["-p", &port(&self.server)?]).args(args);
        Ok(command)
    }

    /// Runs redis-cli and returns its output; nothing may be on standard error.
    fn output(&self, args: &[&str]) -> anyhow::Result<String> {
        let finished = run(self.command(args)?)?;
        ensure!(finished.stderr.is_empty(), "{args:?}: {}", finished.stderr);
        Ok(finished.stdout)
    }
}

#[test]
fn redis_cli_runs_commands() -> anyhow::Result<()> {
    let Some(cli) = Cli::start(&[])? else { return Ok(()) };
    assert_eq!(cli.output(&["ping"])?, "PONG\n");
    assert_eq!(cli.output(&["-3", "set", "greeting", "hello there", "EX", "100"])?, "OK\n");
    assert_eq!(cli.output(&["-3", "get", "greeting"])?, "hello there\n");
    assert_eq!(cli.output(&["--no-raw", "-3", "get", "absent"])?, "(nil)\n");
    assert!(cli.output(&["info", "server"])?.contains("redis_version:7.0.15"));
    assert!(cli.output(&["client", "list"])?.contains("cmd=client|list"));
    assert!(cli.output(&["command", "docs", "set"])?.contains("seconds"));
    assert!(cli.output(&["client", "help"])?.contains("KILL"));
    Ok(())
}

#[test]
fn redis_cli_lists_and_measures_keys() -> anyhow::Result<()> {
    let Some(cli) = Cli::start(&[])? else { return Ok(()) };
    for number in 0..30 {
        cli.output(&["set", &format!("key:{number}"), &"x".repeat(number)])?;
    }
    assert_eq!(cli.output(&["--scan", "--pattern", "key:*"])?.lines().count(), 30);
    let biggest = cli.output(&["--bigkeys", "-i", "0"])?;
    assert!(biggest.contains("key:29") && biggest.contains("30 strings"), "{biggest}");
    let memory = cli.output(&["--memkeys", "-i", "0"])?;
    assert!(memory.contains("30 strings"), "{memory}");
    Ok(())
}

#[test]
fn redis_cli_loads_keys_in_bulk() -> anyhow::Result<()> {
    let Some(cli) = Cli::start(&[])? else { return Ok(()) };
    let directory = tempfile::tempdir()?;
    let (path, mut bytes) = (directory.path().join("commands"), Vec::new());
    for number in 0..5000 {
        let key = format!("key{number}");
        wire::resp::client::command(&mut bytes, &[b"SET", key.as_bytes(), b"value"]);
    }
    std::fs::write(&path, bytes)?;
    let mut command = Command::new("sh");
    let script = "exec \"$0\" -p \"$1\" --pipe < \"$2\"";
    command.args(["-c", script]).arg(&cli.program).arg(port(&cli.server)?).arg(&path);
    let finished = run(command)?;
    assert!(finished.stdout.contains("errors: 0, replies: 5000"), "{}", finished.stdout);
    assert_eq!(cli.output(&["dbsize"])?, "5000\n");
    Ok(())
}

/// These modes run for ever; the test reads a line of each.
#[test]
fn redis_cli_monitors_the_server() -> anyhow::Result<()> {
    let Some(cli) = Cli::start(&[])? else { return Ok(()) };
    cli.output(&["set", "k", "v"])?;
    for (args, wanted) in [(vec!["--stat", "-i", "0.01"], "data"), (vec!["--latency", "--raw", "-i", "0.1"], ".")] {
        let mut child = cli.command(&args)?.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("no output")?;
        let read = std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line);
        // One line is enough.
        let _ = child.kill();
        child.wait()?;
        read?;
        assert!(line.contains(wanted) && !line.contains("ERR") && !line.is_empty(), "{args:?}: {line}");
    }
    Ok(())
}
