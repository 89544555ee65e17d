//! redis-benchmark against kvcache.

use std::process::Command;

use testkit::peer;

use crate::common::{port, run, start};

/// Its tests that need strings only.
const TESTS: &str = "ping_inline,ping_mbulk,set,get,incr,mset";

#[test]
fn redis_benchmark_runs_its_string_tests() -> anyhow::Result<()> {
    let Some(program) = peer("redis-benchmark")? else { return Ok(()) };
    for (pipeline, threads) in [("1", "1"), ("16", "2")] {
        let server = start(&["--threads", threads])?;
        let mut command = Command::new(&program);
        command.args([
            "-p",
            &port(&server)?,
            "-t",
            TESTS,
            "-P",
            pipeline,
            "-n",
            "2000",
            "-c",
            "20",
            "-r",
            "1000",
            "--csv",
        ]);
        let finished = run(command)?;
        let tests: Vec<_> = finished.stdout.lines().filter(|line| line.starts_with('"')).collect();
        // A heading, and a line for each test.
        assert_eq!(tests.len(), 1 + TESTS.split(',').count(), "{}", finished.stdout);
        let said = [finished.stdout, finished.stderr].concat();
        assert!(!said.contains("rror") && !said.contains("WARNING"), "{said}");
    }
    Ok(())
}
