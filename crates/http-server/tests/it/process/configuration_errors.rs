//! Errors of configuration files, by the dozen.

use std::{fs, process::Command};

use testkit::run_to_end;

use crate::process::setup::EXE;

/// Texts and what is said of each, behind the name of the file.
const ERRORS: [(&str, &str); 67] = [
    // not TOML
    ("threads =", ":1:10: "),
    ("threads 1", ":1:9: key with no value"),
    ("threads = 1 2", ":1:11: "),
    ("threads = 1\nthreads = 2", ":2:1: duplicate key"),
    ("# nothing\n= 1", ":2:1: unquoted keys cannot be empty"),
    ("root = 'a", ":1:10: "),
    ("root = \"\\q\"", ":1:10: missing escaped value"),
    // keys
    ("\n\tcolour = 1", ":2:2: unknown key \"colour\""),
    ("Threads = 1", ":1:1: unknown key \"Threads\"; did you mean threads?"),
    ("[server]\nthreads = 1", ":1:2: unknown key \"server\""),
    ("a.b = 1", ":1:1: unknown key \"a\""),
    ("config = \"other.toml\"", ":1:1: config is for the command line only"),
    ("check-config = true", ":1:1: check-config is for the command line only"),
    ("print-config = true", ":1:1: print-config is for the command line only"),
    ("list-backends = true", ":1:1: list-backends is for the command line only"),
    // kinds
    ("threads = \"one\"", ":1:11: threads: not a whole number"),
    ("threads = -1", ":1:11: threads: not a whole number"),
    ("threads = 1.5", ":1:11: threads: not a whole number"),
    ("threads = true", ":1:11: threads: not a whole number"),
    ("threads = [1]", ":1:11: threads: takes one value, not a list"),
    ("threads = 99999999999999999999", ":1:11: threads: the number is too large"),
    ("threads = 0", ":1:11: threads: must be at least 1"),
    ("\"threads\" = 0", ":1:13: threads: must be at least 1"),
    ("idle-timeout = 1979-05-27", ":1:16: idle-timeout: takes no date"),
    ("root = [\"a\", \"b\"]", ":1:8: root: takes one value, not a list"),
    ("listen = [\n  [1]]", ":2:3: listen: takes no list within a list"),
    // values of any server
    ("idle-timeout = \"3 parsecs\"", ":1:16: idle-timeout: not a time, like 30, 500ms, 30s or 2min"),
    ("idle-timeout = \"\"", ":1:16: idle-timeout: not a time"),
    ("stall-timeout = 0", ":1:17: stall-timeout: must be more than 0"),
    ("max-output-buffer = \"12 furlongs\"", ":1:21: max-output-buffer: not a size, like 4096, 64KiB, 10MB or 1GiB"),
    ("driver = \"select\"", ":1:10: driver: unknown driver \"select\"; one of blocking, pool, epoll"),
    ("listen = \"nonsense\"", ":1:10: listen: \"nonsense\" is not an address: expected HOST:PORT or unix:/PATH"),
    ("listen = []", ":1:10: listen: takes at least one value"),
    ("listen = [\n\"127.0.0.1:1\",\n\"127.0.0.1:99999\"]", ":3:1: listen: \"127.0.0.1:99999\" is not an address"),
    ("max-connections-per-client = 0", ":1:30: max-connections-per-client: must be at least 1"),
    ("proxy-protocol = [\"300.0.0.0/8\"]", ":1:19: proxy-protocol: \"300.0.0.0/8\" is no network like 192.0.2.0/24"),
    ("proxy-protocol = [\"10.0.0.0/33\"]", ":1:19: proxy-protocol: \"10.0.0.0/33\" is no network"),
    // values of a web server
    (
        "max-requests-per-client = \"2/fortnight\"",
        ":1:27: max-requests-per-client: \"2/fortnight\" is no rate like 100/s",
    ),
    ("listing = \"perhaps\"", ":1:11: listing: must be on or off"),
    ("compress = \"brotli\"", ":1:12: compress: must be on or off"),
    ("http2 = 3", ":1:9: http2: must be on or off"),
    ("dotfiles = \"some\"", ":1:12: dotfiles: \"some\" is not one of well-known, none, all"),
    ("symlinks = \"some\"", ":1:12: symlinks: \"some\" is not one of beneath, none"),
    ("access-log-format = \"xml\"", ":1:21: access-log-format: \"xml\" is not one of common, combined, json"),
    ("index = [\"a\", \"b/c\"]", ":1:15: index: \"b/c\" is a path; an index is a name in each directory"),
    ("fallback = \"index.html\"", ":1:12: fallback: \"index.html\" is not the path of a file of the site"),
    ("charset = \"utf 8\"", ":1:11: charset: \"utf 8\" is not the name of a character set"),
    ("error-page = [\"/404.html\"]", ":1:15: error-page: \"/404.html\" is not of the form STATUS=PATH"),
    ("error-page = [\"42=/x\"]", ":1:15: error-page: \"42\" has no page of its own"),
    ("redirect = [\"/a\"]", ":1:13: redirect: \"/a\" is not of the form 'FROM=[STATUS] TO'"),
    ("rewrite = [\"/a\"]", ":1:12: rewrite: \"/a\" is not of the form"),
    ("header = [\"X Y: z\"]", ":1:11: header: \"X Y\" is not a field name"),
    ("header = [\"X: a\\nb\"]", ":1:11: header: '\\n' cannot be in the value of a field"),
    ("cache-control = [\"/x\"]", ":1:18: cache-control: \"/x\" is not of the form 'GLOB=VALUE'"),
    ("basic-auth = [\"/x=\"]", ":1:15: basic-auth: \"/x=\" names no password file"),
    ("cgi-timeout = \"0s\"", ":1:15: cgi-timeout: must be more than 0"),
    ("cgi-max-output = \"much\"", ":1:18: cgi-max-output: not a size"),
    // hosts
    ("host = \"b.org\"", ":1:1: a host is a table of its own: [[host]]"),
    ("[host]\nnames = [\"b.org\"]", ":1:2: a host is a table of its own: [[host]]"),
    ("[[hosts]]\nnames = [\"b.org\"]", ":1:3: unknown key \"hosts\"; did you mean host?"),
    ("threads = 1\n[[host]]", ":2:1: a host needs names, like names = [\"example.org\"]"),
    ("[[host]]\nnames = []", ":1:1: a host needs names"),
    ("[[host]]\nnames = [\"b c\"]", ":2:10: names: not a name of a host, like example.org or *.example.org"),
    ("[[host]]\nnames = [\"a\", \"*\"]", ":2:15: names: not a name of a host"),
    ("[[host]]\nnames = [\"a\"]\nthreads = 2", ":3:1: unknown key \"threads\""),
    ("[[host]]\nnames = [\"a\"]\nindex = \"b/c\"", ":3:9: index: \"b/c\" is a path"),
    ("[[host]]\nnames = [\"a\"]\n[[host]]\nnames = [\"b\", \"A.\"]", ":3:1: a is named twice"),
];

/// Keys that are right each for itself and do not go together, and what is said of them behind the name of the file.
const CONTRADICTIONS: [(&str, &str); 6] = [
    ("request-burst-per-client = 3", ":1:1: --request-burst-per-client needs --max-requests-per-client"),
    ("threads = 1\n\ntls-cert = \"a.pem\"", ":3:1: --tls-cert and --tls-key come in pairs, but there are 1 and 0"),
    ("threads = 1\nhsts = \"max-age=60\"", ":2:1: --hsts needs --tls-listen"),
    ("tls-listen = [\"127.0.0.1:0\"]", ":1:1: --tls-listen needs a certificate"),
    ("https-redirect = 443", ":1:1: --https-redirect needs --tls-listen"),
    ("[[host]]\nnames = [\"a\"]\nhsts = \"max-age=60\"", ":3:1: --hsts needs --tls-listen"),
];

#[test]
fn keys_that_do_not_go_together_are_refused_with_their_place() {
    expect_refusals(&CONTRADICTIONS);
}

/// With one of the two on the command line, the place is that of the other; without a key of the file, there is none.
#[test]
fn contradictions_of_flags_and_keys_name_the_key() {
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path().join("c.toml");
    for (text, flags, said) in [
        ("tls-key = \"a.key\"", &["--tls-cert", "a.pem", "--tls-cert", "b.pem"][..], ":1:1: --tls-cert and --tls-key"),
        ("threads = 1", &["--hsts"], ""),
        ("hsts = \"max-age=60\"", &["--hsts=max-age=61"], ""),
    ] {
        fs::write(&path, text).unwrap();
        let mut command = Command::new(EXE);
        command.arg("--check-config").arg("--config").arg(&path).args(flags).arg(tree.path());
        let finished = run_to_end(command).unwrap();
        let wanted =
            if said.is_empty() { "error: --hsts".to_owned() } else { format!("error: {}{said}", path.display()) };
        assert!(finished.code() == Some(2) && finished.stderr.starts_with(&wanted), "{text:?}: {finished:?}");
    }
}

/// One line on standard error with file, line and column, nothing on standard output, status 2.
#[test]
fn each_error_is_one_line_with_its_place() {
    expect_refusals(&ERRORS);
}

fn expect_refusals(refusals: &[(&str, &str)]) {
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path().join("c.toml");
    for (text, said) in refusals {
        fs::write(&path, text).unwrap();
        let mut command = Command::new(EXE);
        command.arg("--check-config").arg("--config").arg(&path).arg(tree.path());
        let finished = run_to_end(command).unwrap();
        assert_eq!((finished.code(), &*finished.stdout), (Some(2), ""), "{text:?}: {finished:?}");
        let lines: Vec<_> = finished.stderr.lines().collect();
        let wanted = format!("error: {}{said}", path.display());
        assert!(lines.len() == 1 && lines[0].starts_with(&wanted), "{text:?}: {} instead of {wanted}", finished.stderr);
    }
}
