//! redis-py, with both versions of RESP and as a cluster client.

use std::process::Command;

use crate::common::{port, python, run, start};

fn script(name: &str, args: &[&str]) -> anyhow::Result<()> {
    let Some(python) = python(&["redis"])? else { return Ok(()) };
    let server = start(args)?;
    let path = format!("{}/tests/it/stock/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command.args(["-B", &path, &port(&server)?]);
    let finished = run(command)?;
    assert_eq!(finished.stdout.lines().last(), Some("done"), "{}{}", finished.stdout, finished.stderr);
    Ok(())
}

#[test]
fn redis_py_works_with_both_protocols() -> anyhow::Result<()> {
    script("redis_py.py", &["--threads", "2"])
}

#[test]
fn redis_py_accepts_one_node_as_a_cluster() -> anyhow::Result<()> {
    script("redis_py_cluster.py", &["--cluster", "yes"])
}
