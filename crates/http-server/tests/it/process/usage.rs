//! Messages of a server that cannot serve.

use std::{net::TcpListener, process::Command};

use testkit::expect_failure;

use crate::process::setup::{EXE, PLAIN};

#[test]
fn a_missing_directory_is_one_line_and_status_1() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("file"), "").unwrap();
    for (name, why) in [("missing", "No such file or directory"), ("file", "Not a directory")] {
        let root = tree.path().join(name);
        PLAIN.for_each_driver(|driver| {
            let finished = expect_failure(PLAIN.command(driver, &root), 1);
            let begins = format!("error: cannot serve {}: ", root.display());
            let said = &finished.stderr;
            anyhow::ensure!(said.lines().count() == 1 && said.starts_with(&begins) && said.contains(why), "{said}");
            Ok(())
        });
    }
}

#[test]
fn a_busy_port_is_one_line_and_status_1() {
    let tree = tempfile::tempdir().unwrap();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = holder.local_addr().unwrap().to_string();
    for threads in ["1", "2"] {
        PLAIN.for_each_driver(|driver| {
            let mut command = Command::new(EXE);
            command.args(["--driver", driver.name(), "--threads", threads, "--listen", &busy, "-d"]).arg(tree.path());
            let said = expect_failure(command, 1).stderr;
            let begins = format!("error: cannot listen on {busy}: ");
            anyhow::ensure!(
                said.lines().count() == 1 && said.starts_with(&begins) && said.contains("in use"),
                "{said}"
            );
            Ok(())
        });
    }
}

#[test]
fn a_bad_map_of_media_types_is_one_line_and_status_1() {
    let tree = tempfile::tempdir().unwrap();
    let map = tree.path().join("mime.types");
    for (contents, why) in [(None, "No such file or directory"), (Some("a/b c\nnonsense\n"), "line 2: \"nonsense\"")] {
        if let Some(contents) = contents {
            std::fs::write(&map, contents).unwrap();
        }
        let mut command = Command::new(EXE);
        command.args(["--listen", "127.0.0.1:0", "--mime-file"]).arg(&map).arg("-d").arg(tree.path());
        let said = expect_failure(command, 1).stderr;
        assert!(said.lines().count() == 1 && said.contains(why) && said.contains("mime.types"), "{said}");
    }
}

#[test]
fn bad_usage_is_status_2() {
    for args in [
        &["--no-such-flag"][..],
        &["--driver", "select"],
        &["--threads", "0"],
        &["--listen", "nowhere"],
        &["--port", "65536"],
        &["--port", "1", "--listen", "127.0.0.1:2"],
        &["--cache-bytes", "much"],
        &["--idle-timeout", "-1"],
        &["one", "two"],
    ] {
        let mut command = Command::new(EXE);
        command.args(args);
        let said = expect_failure(command, 2).stderr;
        assert!(args.iter().any(|arg| said.lines().next().is_some_and(|line| line.contains(arg))), "{args:?}: {said}");
    }
}
