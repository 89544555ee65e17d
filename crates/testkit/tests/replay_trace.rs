//! `replay-trace` itself.

use std::{fs, path::Path, process::Command};

use testkit::{run_to_end, workspace_program, write_program};

const TOOL: &str = env!("CARGO_BIN_EXE_replay-trace");

/// Serves, on `pool`, a copy of the directory in which a byte of one file is another.
const OTHER_ON_POOL: &str = r#"
case "$*" in *'--driver pool'*) ;; *) exec "$server" "$@" ;; esac
copy="$0-site"
count=$# at=0
for word in "$@"; do
    at=$((at + 1))
    if [ $at -lt $count ]; then set -- "$@" "$word"; else cp -a "$word" "$copy-$$"; fi
done
shift "$count"
printf '!' | dd of="$copy-$$/SMALL000" bs=1 seek=100 conv=notrunc status=none
touch -d @1700000000 "$copy-$$/SMALL000"
exec "$server" "$@" "$copy-$$"
"#;

/// The server is one whose file has another byte on one driver.
#[test]
fn a_driver_that_sends_another_byte_is_found_with_the_request() {
    let Some(server) = workspace_program(Path::new(TOOL), "http-server").unwrap() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (programs, out) = (directory.path().join("programs"), directory.path().join("out"));
    fs::create_dir(&programs).unwrap();
    fs::create_dir(&out).unwrap();
    let script = format!("#!/bin/sh\nserver='{}'\n{OTHER_ON_POOL}", server.display());
    let program = programs.join("http-server");
    write_program(&program, &script).unwrap();
    let replay = |drivers: &str| {
        let mut tool = Command::new(TOOL);
        tool.arg(&programs)
            .args(["--only", "http-server", "--requests", "300", "--drivers", drivers, "--out"])
            .arg(&out);
        run_to_end(tool).unwrap()
    };
    let same = replay("epoll,blocking");
    assert_eq!(same.code(), Some(0), "{same:?}");
    let other = replay("epoll,pool");
    assert_eq!(other.code(), Some(1), "{other:?}");
    assert!(other.stdout.contains("receives other bytes on pool than on epoll: from byte"), "{other:?}");
    assert!(other.stdout.contains("in the reply to request"), "{other:?}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2, "both streams are kept");
}
