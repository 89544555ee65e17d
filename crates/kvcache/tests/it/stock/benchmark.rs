//! redis-benchmark against kvcache.

use std::process::Command;

use testkit::installed_program;

use crate::common::{port, run, start};

/// Its tests, without those that need lists.
const TESTS: &str = "ping_inline,ping_mbulk,set,get,incr,sadd,hset,spop,zadd,zpopmin,mset";

#[test]
fn redis_benchmark_runs_its_tests_without_lists() -> anyhow::Result<()> {
    let Some(program) = installed_program("redis-benchmark")? else { return Ok(()) };
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
