//! Commands on runs that were made.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::directory::{TINY, TestDirectory};

/// Baseline, which is kept in the workspace; removed when dropped.
struct Baseline {
    name: String,
}

impl Baseline {
    fn new() -> Self {
        Self { name: format!("test-{}", std::process::id()) }
    }

    fn directory(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench-results/baselines").join(&self.name)
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        // Fails only where the run that keeps it failed.
        drop(fs::remove_dir_all(self.directory()));
    }
}

#[test]
fn runs_are_kept_compared_merged_and_drawn_again() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    let baseline = Baseline::new();
    let first = [&TINY[..], &["--seed", "1", "--out", "first", "--save-baseline", &baseline.name]].concat();
    let made = directory.measure(&first).expect(0);
    for file in ["manifest.json", "visits.csv", "summary.json", "summary.csv", "summary.md", "report.html"] {
        assert!(directory.path("first").join(file).metadata().unwrap().len() > 0, "{file}");
    }
    directory.assert_made_as_planned("first");
    let lines = made.stderr.lines().filter(|line| line.starts_with('[')).collect::<Vec<_>>();
    assert!(lines.len() >= 3 && lines[0].starts_with("[1/3] block 1/1 "), "a line per visit, no bar: {lines:?}");
    assert!(made.stdout.contains(&format!("baseline {}: ", baseline.name)) && baseline.directory().is_dir());
    let visit = &directory.visits("first")[0];
    assert!(visit["ready_s"].as_f64().unwrap() < visit["elapsed_s"].as_f64().unwrap());
    assert!(
        fs::read_dir(directory.scratch())
            .unwrap()
            .all(|entry| entry.unwrap().path().ends_with("quintet-bench-matrix.lock"))
    );

    let second =
        ["--seed", "2", "--out", "second", "--hist", "--baseline", &baseline.name, "--fail-on-regression", "5%"];
    let judged = directory.measure(&[&TINY[..], &second, &["--strict"]].concat()).expect(3);
    assert!(judged.stdout.contains("cannot be told"), "one block proves nothing: {}", judged.stdout);
    assert_eq!(directory.json("second", "comparison.json")["schema"], "bench-matrix-comparison/1");
    assert!(fs::read_to_string(directory.path("second").join("comparison.txt")).unwrap().contains("\nhttp-server\n"));
    let logs = fs::read_dir(directory.path("second").join("hist")).unwrap();
    assert_eq!(logs.count(), directory.visits("second").len(), "the generator's log of every visit");
    let taken = directory.measure(&[&TINY[..], &["--out", "second"]].concat()).expect(2);
    assert!(taken.stderr.contains("--resume"), "{}", taken.stderr);

    let merged = directory.run(&["merge", "first", "second", "--out", "both"]).expect(0);
    assert!(merged.stdout.contains("report: both/report.html"), "{}", merged.stdout);
    assert_eq!(directory.json("both", "manifest.json")["matrices"][0]["setup"]["blocks"], 2);
    assert_eq!(directory.visits("both").len(), directory.visits("first").len() + directory.visits("second").len());
    directory.assert_made_as_planned("both");
    let twice = directory.run(&["merge", "both", "second", "--out", "twice"]).expect(1);
    assert!(twice.stderr.contains("given twice") && !directory.path("twice").exists(), "{}", twice.stderr);

    let (summary, report) = (directory.path("both/summary.json"), directory.path("both/report.html"));
    let before = (fs::read(&summary).unwrap(), fs::read(&report).unwrap());
    fs::remove_file(&summary).unwrap();
    fs::write(&report, "").unwrap();
    directory.run(&["report", "both", "--check"]).expect(1);
    directory.run(&["report", "both"]).expect(0);
    let checked = directory.run(&["report", "both", "--check"]).expect(0);
    assert!(checked.stdout.contains("every figure and every sentence is what"), "{}", checked.stdout);
    assert!((fs::read(&summary).unwrap(), fs::read(&report).unwrap()) == before, "the same visits, the same files");
    let compared = directory.run(&["compare", &baseline.name, "second"]).expect(0);
    assert!(compared.stdout.starts_with("before: ") && compared.stdout.contains("http-server/epoll"), "{compared:?}");

    gates(&directory);
}

/// The gate's verdicts, on figures made up from a run that was made.
fn gates(directory: &TestDirectory) {
    let steady = |_: &str, block: u32| 1.0 + 0.001 * f64::from(block % 3);
    grow(directory, "old", steady);
    grow(directory, "slower", |cell, block| steady(cell, block) * 1.2);
    // What differs from block to block between reference and control is noise.
    let noisy = |cell: &str, block: u32| if cell == "control-aa" { [0.7, 1.0, 1.3, 1.1][block as usize] } else { 1.2 };
    grow(directory, "noisy", noisy);
    let gate = |before: &str, after: &str, code: i32, strict: &[&str]| {
        directory.run(&[&["compare", before, after, "--fail-on-regression", "5%"], strict].concat()).expect(code).stdout
    };
    let said = gate("old", "slower", 4, &[]);
    assert!(said.contains("regression: http-server/epoll get-128B-c64 server CPU per request: 1.200×"), "{said}");
    assert!(gate("slower", "old", 0, &["--strict"]).contains("no regression above 5 %"));
    assert!(gate("old", "noisy", 0, &[]).contains("warning: "), "a warning, and no failure");
    gate("old", "noisy", 3, &["--strict"]);
}

const BLOCKS: u32 = 4;

/// The first block of the run `first` four times over, its costs times `factor`, as another run.
fn grow(directory: &TestDirectory, name: &str, factor: impl Fn(&str, u32) -> f64) {
    let mut manifest = directory.json("first", "manifest.json");
    let planned = &mut manifest["matrices"][0];
    planned["setup"]["blocks"] = json!(BLOCKS);
    planned["plan"] = json!(vec![planned["plan"][0].clone(); BLOCKS as usize]);
    let visits = directory.visits("first");
    let base: Vec<&Value> = visits.iter().filter(|visit| visit["attempt"] == 1).collect();
    let mut lines = String::new();
    for (block, visit) in (0..BLOCKS).flat_map(|block| base.iter().map(move |visit| (block, *visit))) {
        let mut visit = visit.clone();
        let cost = factor(visit["cell"].as_str().unwrap(), block);
        (visit["block"], visit["valid"], visit["flags"]) = (json!(block), json!(true), json!([]));
        visit["measured"]["server"]["cpu_us"] = json!(4.0 * cost);
        visit["measured"]["throughput_rps"] = json!(250_000.0 / cost);
        lines.push_str(&format!("{visit}\n"));
    }
    fs::create_dir(directory.path(name)).unwrap();
    fs::write(directory.path(name).join("manifest.json"), manifest.to_string()).unwrap();
    fs::write(directory.path(name).join("visits.jsonl"), lines).unwrap();
}
