//! Messages of a server that cannot serve, and the list of choices.

use std::{net::TcpListener, path::Path, process::Command};

use testkit::{DriverKind, expect_failure, run_to_end};

use crate::process::setup::{EXE, ORIGINAL};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(EXE);
    command.args(arguments);
    command
}

#[test]
fn content_that_cannot_be_served_is_one_line_and_status_1() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("file"), "no database").unwrap();
    for (name, why) in [("missing", "No such file or directory"), ("file", "Not a directory")] {
        let path = tree.path().join(name);
        let said = expect_failure(ORIGINAL.command(DriverKind::DEFAULT, &path), 1).stderr;
        let begins = format!("error: cannot serve {}: ", path.display());
        assert!(said.lines().count() == 1 && said.starts_with(&begins) && said.contains(why), "{said}");
        assert_eq!(said.matches("os error").count(), 1, "{said}");
    }
    for name in ["missing", "file", "."] {
        let path = tree.path().join(name);
        let mut command = command(&["--backend", "sqlite"]);
        command.arg(&path);
        let said = expect_failure(command, 1).stderr;
        let begins = format!("error: cannot serve {}: ", path.display());
        assert!(said.lines().count() == 1 && said.starts_with(&begins), "{said}");
    }
    let mut command = command(&["--layout", "manifest"]);
    command.arg(tree.path());
    assert!(expect_failure(command, 1).stderr.contains("manifest.tsv"));
}

#[test]
fn a_busy_port_is_one_line_and_status_1() {
    let tree = tempfile::tempdir().unwrap();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = holder.local_addr().unwrap().to_string();
    ORIGINAL.for_each_driver(|driver| {
        let mut command = command(&["--driver", driver.name(), "--listen", &busy]);
        command.arg(tree.path());
        let said = expect_failure(command, 1).stderr;
        let begins = format!("error: cannot listen on {busy}: ");
        anyhow::ensure!(said.lines().count() == 1 && said.starts_with(&begins) && said.contains("in use"), "{said}");
        Ok(())
    });
}

/// Exit status 2, and whatever is wrong is named with what would be right.
#[test]
fn bad_usage_names_the_choices() {
    for (arguments, said) in [
        (&["--no-such-flag"][..], &["--no-such-flag"][..]),
        (&["-l", "select"], &["select", "epoll", "tokio"]),
        (&["-r", "btree"], &["btree", "std", "hashbrown", "slab"]),
        (&["-m", "btree"], &["none", "std", "sparse"]),
        (&["-c", "lifo"], &["none, mutex, lockfree"]),
        (&["-f", "nfs"], &["fs, sqlite"]),
        (&["--layout", "heap"], &["zotero, flat, tree, manifest"]),
        (&["--protocol", "http"], &["original, framed"]),
        (&["-m", "none", "-c", "lockfree"], &["--cache-map none", "--eviction lockfree", "std, hashbrown, sparse"]),
        (&["-f", "sqlite", "--layout", "tree", "x.db"], &["--backend sqlite", "--layout tree", "fileserver import"]),
        (&["-f", "sqlite", "--readers", "0", "x.db"], &["--readers"]),
        (&["--cache-bytes", "much"], &["much", "like 4096, 64KiB"]),
        (&["--revalidate", "soon"], &["soon", "500ms"]),
        (&["-n", "-1"], &["-1"]),
        (&["port", "dir"], &["port"]),
        (&["65536", "dir"], &["65536"]),
        (&["1", "dir", "surplus"], &["surplus"]),
        (&["1", "dir", "--listen", "127.0.0.1:2"], &["PORT 1", "--listen"]),
    ] {
        let finished = expect_failure(command(arguments), 2);
        for word in said {
            assert!(finished.stderr.contains(word), "{arguments:?}: {word:?} is not in {}", finished.stderr);
        }
    }
}

#[test]
fn every_choice_and_every_bad_combination_is_listed() {
    let finished = run_to_end(command(&["--list-backends", "--format", "json"])).unwrap();
    assert_eq!(finished.code(), Some(0));
    let listed: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    let dimensions = listed["dimensions"].as_array().unwrap();
    let choices: Vec<(&str, usize)> = dimensions
        .iter()
        .map(|dimension| (dimension["name"].as_str().unwrap(), dimension["choices"].as_array().unwrap().len()))
        .collect();
    let wanted = [
        ("driver", DriverKind::ALL.len()),
        ("protocol", 2),
        ("request-map", 3),
        ("cache-map", 4),
        ("eviction", 3),
        ("backend", 2),
        ("layout", 4),
    ];
    assert_eq!(choices, wanted);
    // The server refuses each with its reason.
    let invalid = listed["invalid"].as_array().unwrap();
    assert_eq!(invalid.len(), 1 + 3);
    for entry in invalid {
        let combination = entry["combination"].as_object().unwrap();
        let mut command = command(&[]);
        for (name, choice) in combination {
            let flag =
                dimensions.iter().find(|dimension| dimension["name"] == **name).unwrap()["flag"].as_str().unwrap();
            command.args([flag, choice.as_str().unwrap()]);
        }
        let said = expect_failure(command, 2).stderr;
        assert!(said.contains(entry["reason"].as_str().unwrap()), "{entry}: {said}");
    }
}

#[test]
fn help_shows_examples() {
    let finished = run_to_end(command(&["--help"])).unwrap();
    assert!(finished.stdout.contains("Examples:") && finished.stdout.contains("fileserver import"), "{finished:?}");
    let finished = run_to_end(command(&["import", "--help"])).unwrap();
    assert!(finished.stdout.contains("Examples:") && finished.stdout.contains("--layout"), "{finished:?}");
    assert!(!Path::new("import").exists());
}

#[test]
fn a_check_of_the_configuration_looks_at_the_content() {
    let tree = tempfile::tempdir().unwrap();
    let missing = tree.path().join("missing").display().to_string();
    let said = expect_failure(command(&["--check-config", &missing]), 2).stderr;
    assert!(said.starts_with(&format!("error: cannot serve {missing}: ")), "{said}");
    let good = run_to_end(command(&["--check-config", &tree.path().display().to_string()])).unwrap();
    assert_eq!(good.code(), Some(0), "{good:?}");
}
