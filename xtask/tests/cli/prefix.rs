//! `--server-exec`: servers behind a command that treats its arguments as ssh does.

use crate::directory::{TINY, TestDirectory, but};

/// Like `ssh [OPTION] HOST WORDS…`: joins the words with spaces and has a shell take them apart again.
const FAR: &str = "#!/bin/sh\n[ \"$1\" = '-o' ] && shift 2\n[ \"$1\" = host ] || exit 255\nshift\nexec sh -c \"$*\"\n";

#[test]
fn servers_and_peers_run_behind_a_prefix_with_quoted_words() {
    let Some(directory) = TestDirectory::with(&["http-server"]) else { return };
    let far = directory.script("far", FAR);
    let prefix = format!("{} -o 'two words' host", far.display());
    let measured_behind = |prefix: &str, out: &str| {
        let behind = ["--server-exec", prefix, "--server-host", "127.0.0.1", "--out", out];
        directory.measure(&[&but(&TINY, "--against", "nginx")[..], &behind].concat())
    };
    measured_behind(&prefix, "run").expect(0);
    let manifest = directory.json("run", "manifest.json");
    let setup = &manifest["matrices"][0]["setup"];
    let notes = setup["notes"].to_string();
    assert!(notes.contains("The servers' machine: Linux ") && notes.contains(" CPUs"), "{notes}");
    assert_eq!(setup["remote"]["prefix"][2], "two words");
    // On a busy machine a slice may end before its first reply; the visit is then repeated.
    let mut visits = directory.visits("run");
    visits.retain(|visit| visit["failure"].is_null());
    for cell in ["http-server/epoll", "null", "control-aa"] {
        assert!(visits.iter().any(|visit| visit["cell"] == cell), "{cell}: {visits:?}");
    }
    for visit in &visits {
        let measured = &visit["measured"];
        assert!(
            measured["server"]["cpu_us"].as_f64().unwrap() > 0.0 && measured["process"]["cpu_s"].is_number(),
            "{visit}"
        );
    }
    let missing = measured_behind("/does/not/exist", "none").expect(1);
    assert!(missing.stderr.contains("/does/not/exist sh"), "said once, before any visit: {}", missing.stderr);
    assert!(!directory.path("none/manifest.json").exists());
}
