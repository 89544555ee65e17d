//! Programs of strangers beside ours.

use std::{fs, path::Path};

use serde_json::Value;

use crate::directory::{TINY, TestDirectory};

/// Its answers are verified as ours are: one that serves another directory has errors in every visit.
#[test]
fn a_strangers_program_is_a_row_beside_ours_under_the_same_verification() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    let server = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("http-server");
    let other = directory.path("other");
    fs::create_dir(&other).unwrap();
    let script = |name: &str, line: String| {
        format!("{name}={}", directory.script(name, &format!("#!/bin/sh\n{line}\n")).display())
    };
    let mine = script("mine", format!("exec '{}' \"$@\"", server.display()));
    let wrong = script("wrong", format!("exec '{}' --listen \"$2\" '{}'", server.display(), other.display()));
    let programs = ["--program", &mine, "--program", &wrong, "--out", "run"];
    directory.measure(&[&TINY[..], &programs].concat());
    let visits = directory.visits("run");
    let of = |cell: &str| visits.iter().filter(|visit| visit["cell"] == cell).collect::<Vec<&Value>>();
    let has_errors =
        |visit: &&Value| visit["flags"].as_array().is_some_and(|flags| flags.contains(&Value::from("errors")));
    assert!(!of("mine").is_empty() && !of("mine").iter().any(has_errors), "{visits:?}");
    assert!(!of("wrong").is_empty() && of("wrong").iter().all(has_errors), "{visits:?}");
    let summary = fs::read_to_string(directory.path("run").join("summary.md")).unwrap();
    assert!(summary.contains("mine"), "{summary}");
}
