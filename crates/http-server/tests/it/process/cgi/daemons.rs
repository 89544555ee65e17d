//! Programs that leave others behind.

use std::fs;

use anyhow::{Context, ensure};
use testkit::{Process, Signal, eventually};

use super::{Tree, is_gone};
use crate::process::setup::Http;

/// Reads the number of a process that a script has written.
fn number(tree: &Tree, name: &str) -> anyhow::Result<i32> {
    let file = tree.0.path().join(name);
    eventually("the daemon has begun", || Ok(fs::read_to_string(&file).is_ok_and(|it| it.ends_with('\n'))))?;
    fs::read_to_string(&file)?.trim().parse().context("a number")
}

fn kill(process: i32) -> anyhow::Result<()> {
    Ok(Process::new(process.cast_unsigned()).signal(Signal::KILL)?)
}

/// Processes that a program leaves in its group are killed. A daemon, in a session of its own, lives on: it is the program's own
/// affair, and holds up neither the response, though it may have the program's output open, nor a place among the programs that
/// may run, nor the end of the server.
#[test]
fn daemons_hold_nobody_up() {
    let tree = Tree::new();
    let begin = "pid=\"$(dirname \"$0\")/../$QUERY_STRING\"; export pid; run='echo $$ > \"$pid\"; exec sleep 1000'";
    let end = "while [ ! -s \"$pid\" ]; do sleep 0.01; done; echo 'Content-Type: a/b'; echo; echo fine";
    for (name, daemon) in [
        ("child", "sh -c \"$run\" &"),
        ("deaf-child", "sh -c \"$run\" <&- >&- 2>&- &"),
        ("session", "setsid sh -c \"$run\" &"),
        ("daemon", "(setsid sh -c \"$run\" </dev/null >/dev/null 2>&1 &)"),
    ] {
        tree.script(name, &format!("{begin}; {daemon}\n{end}"));
    }
    tree.serve(&["--cgi-max-processes", "1"], |server, driver| {
        let before = server.process().settled_resources()?;
        let mut daemons = Vec::new();
        for (name, lives_on) in [("child", false), ("deaf-child", false), ("session", true), ("daemon", true)] {
            let file = format!("{name}-{driver}");
            let mut client = Http::connect(server.address())?;
            // One may run at a time: the second waits for whatever the first one holds up.
            for _ in 0..2 {
                let got = client.get(&format!("/cgi-bin/{name}?{file}"))?;
                ensure!(got.status == 200 && got.body == b"fine\n", "{name}: {got:?}");
                let process = number(&tree, &file)?;
                if lives_on {
                    ensure!(fs::exists(format!("/proc/{process}"))?, "{name} has been killed");
                    daemons.push(process);
                } else {
                    is_gone(&tree, &file)?;
                }
                fs::remove_file(tree.0.path().join(&file))?;
            }
        }
        // A connection may still be closing.
        server.process().wait_until_released(before, SPARE)?;
        daemons.into_iter().try_for_each(kill)
    });
}

/// A thread that waits for programs may be kept.
const SPARE: testkit::ResourceCounts = testkit::ResourceCounts { descriptors: 2, threads: 4 };
