//! Configuration files: what they say, what is wrong with them, virtual hosts, reload.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::ensure;
use testkit::{DriverKind, Server, eventually, expect_failure, run_to_end};

use crate::process::setup::{EXE, Http, PLAIN, TWO_THREADS};

/// Directory of sites `a`, `b` and `c`, each with its name in `index.html`.
fn sites() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        fs::create_dir(tree.path().join(name)).unwrap();
        fs::write(tree.path().join(name).join("index.html"), name).unwrap();
    }
    tree
}

/// Writes a file in one step, with `@` for the directory of the sites.
fn write(tree: &Path, name: &str, text: &str) -> PathBuf {
    let (path, new) = (tree.join(name), tree.join(format!("{name}.new")));
    fs::write(&new, text.replace('@', &tree.display().to_string())).unwrap();
    fs::rename(&new, &path).unwrap();
    path
}

fn command(config: &Path) -> Command {
    let mut command = Command::new(EXE);
    command.arg("--config").arg(config);
    command
}

const HOSTS: &str = r#"
listen = ["127.0.0.1:0"]
threads = 1
root = "@/a"
[[host]]
names = ["b.org", "*.b.org"]
root = "@/b"
[[host]]
names = ["c.b.org", "[::1]"]
directory = "@/c"
"#;

#[test]
fn a_request_reaches_the_host_that_it_names() {
    let tree = sites();
    let config = write(tree.path(), "hosts.toml", HOSTS);
    PLAIN.for_each_driver(|driver| {
        let mut command = command(&config);
        command.args(["--driver", driver.name()]);
        let mut server = Server::start_command(command, 1)?;
        let mut client = Http::connect(server.address())?;
        for (target, host, want) in [
            ("/", "b.org", "b"),
            ("/", "B.ORG.:80", "b"),
            ("/", "x.b.org", "b"),
            ("/", "c.b.org:8080", "c"),
            ("/", "[::1]:80", "c"),
            ("/", "127.0.0.1", "a"),
            ("/", "other.org", "a"),
            ("http://c.b.org/", "b.org", "c"),
            ("http://other.org:1?x", "b.org", "a"),
            ("/", "b.org", "b"),
        ] {
            let got = client.ask(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))?;
            ensure!(got.status == 200 && got.body == want.as_bytes(), "{target} {host}: {got:?}");
        }
        let got = Http::connect(server.address())?.ask("GET / HTTP/1.0\r\n\r\n")?;
        ensure!(got.body == b"a", "HTTP/1.0 without Host: {got:?}");
        server.drain()
    });
}

#[test]
fn a_bad_file_is_one_line_for_each_error_and_status_2() {
    let tree = sites();
    let text = "threads = 0\nidle-timout = \"3s\"\n[[host]]\nnames = [\"http://a\"]\n";
    let config = write(tree.path(), "bad.toml", text);
    for more in [&[][..], &["--check-config"], &["--print-config"]] {
        let mut command = command(&config);
        command.args(more);
        let finished = run_to_end(command).unwrap();
        let (said, lines) = (&finished.stderr, finished.stderr.lines().collect::<Vec<_>>());
        assert_eq!((finished.code(), &*finished.stdout), (Some(2), ""));
        let begin = |line: usize, column: usize| format!("error: {}:{line}:{column}: ", config.display());
        let positions = [begin(1, 11), begin(2, 1), begin(4, 10)];
        assert!(lines.len() == 3 && lines.iter().zip(positions).all(|(line, at)| line.starts_with(&at)), "{said}");
    }
    for (name, text, why) in [
        ("nameless.toml", "[[host]]\nroot = \"@/a\"", ":1:1: a host needs names"),
        ("twice.toml", "[[host]]\nnames = [\"a\"]\n[[host]]\nnames = [\"A.\"]", ":3:1: a is named twice"),
    ] {
        let said = expect_failure(command(&write(tree.path(), name, text)), 2).stderr;
        assert!(said.lines().count() == 1 && said.contains(why), "{said}");
    }
    let said = expect_failure(command(Path::new("/nonexistent.toml")), 2).stderr;
    assert!(said.starts_with("error: cannot read /nonexistent.toml: "), "{said}");
}

#[test]
fn a_check_reads_what_the_start_would() {
    let tree = sites();
    let check = |text: &str| {
        let mut command = command(&write(tree.path(), "check.toml", text));
        command.arg("--check-config");
        command
    };
    let good = run_to_end(check(HOSTS)).unwrap();
    let ok = format!("{}: ok\n", tree.path().join("check.toml").display());
    assert_eq!((good.code(), good.stdout), (Some(0), ok));
    for (text, why) in [
        ("root = \"@/missing\"", "missing"),
        ("root = \"@/a\"\n[[host]]\nnames = [\"b\"]\nroot = \"@/check.toml\"", "Not a directory"),
        ("root = \"@/a\"\nmime-file = \"@/a/index.html\"", "index.html, line 1"),
    ] {
        let said = expect_failure(check(text), 2).stderr;
        assert!(said.lines().count() == 1 && said.contains(why), "{said}");
    }
}

#[test]
fn the_printed_configuration_can_be_read_back() {
    let tree = sites();
    let config = write(tree.path(), "hosts.toml", HOSTS);
    let print = |config: &Path| {
        let mut command = command(config);
        command.arg("--print-config");
        run_to_end(command).unwrap().stdout
    };
    let first = print(&config);
    assert!(first.contains("threads = 1 # line 3\n") && first.contains("names = [\"c.b.org\", \"[::1]\"]"), "{first}");
    let again = print(&write(tree.path(), "printed.toml", &first));
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.rsplit_once(" # ").map_or(line, |(value, _)| value).to_owned()).collect()
    };
    assert_eq!(values(&first), values(&again));
}

/// Starts a server on the file's text `root = …`.
fn start(driver: DriverKind, config: &Path) -> anyhow::Result<Server> {
    let mut command = command(config);
    command.args(["--driver", driver.name(), "--listen", "127.0.0.1:0"]).args(TWO_THREADS.args);
    if driver == DriverKind::Pool {
        // With fewer than clients, an idle one gives way to those that wait for a worker.
        command.args(["--workers", "16"]);
    }
    Server::start_command(command, 1)
}

#[test]
fn a_reload_under_load_loses_no_reply() {
    const PIPELINED: usize = 20;
    let tree = sites();
    PLAIN.for_each_driver(|driver| {
        let name = format!("{driver}.toml");
        let config = write(tree.path(), &name, "root = \"@/a\"");
        let mut server = start(driver, &config)?;
        let done = AtomicBool::new(false);
        let load = || -> anyhow::Result<[usize; 2]> {
            let (mut client, mut seen) = (Http::connect(server.address())?, [0, 0]);
            while !done.load(Ordering::Relaxed) || seen[1] == 0 {
                client.send(&"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(PIPELINED))?;
                for _ in 0..PIPELINED {
                    let got = client.response("GET")?;
                    ensure!(got.status == 200 && matches!(&got.body[..], b"a" | b"b"), "{got:?}");
                    seen[usize::from(got.body == b"b")] += 1;
                }
            }
            Ok(seen)
        };
        thread::scope(|scope| {
            let clients: Vec<_> = (0..4).map(|_| scope.spawn(load)).collect();
            let reload = || -> anyhow::Result<()> {
                let mut asking = Http::connect(server.address())?;
                for site in ["b", "a", "b", "a", "b"] {
                    write(tree.path(), &name, &format!("root = \"@/{site}\""));
                    server.process().hang_up()?;
                    eventually("the new site is served", || Ok(asking.get("/")?.body == site.as_bytes()))?;
                }
                Ok(())
            };
            let reloaded = reload();
            done.store(true, Ordering::Relaxed);
            let seen = clients.into_iter().map(|client| client.join().unwrap()).collect::<anyhow::Result<Vec<_>>>()?;
            reloaded?;
            ensure!(seen.iter().all(|seen| seen[0] > 0 && seen[1] > 0), "{seen:?}");
            anyhow::Ok(())
        })
        .map_err(|error| error.context(server.stderr()))?;
        server.drain()
    });
}

#[test]
fn an_invalid_file_leaves_the_old_configuration() {
    let tree = sites();
    let config = write(tree.path(), "c.toml", "root = \"@/a\"\nthreads = 1");
    let mut server = start(DriverKind::DEFAULT, &config).unwrap();
    let mut client = Http::connect(server.address()).unwrap();
    let reload = |text: &str, said: &str| {
        write(tree.path(), "c.toml", text);
        server.process().hang_up().unwrap();
        eventually("the log says so", || Ok(server.stderr().contains(said))).unwrap();
    };
    reload("colour = 1\nroot = \"@/b\"", "c.toml:1:1: unknown key \"colour\"");
    reload("root = \"@/missing\"", "/missing");
    assert_eq!(client.get("/").unwrap().body, b"a");
    reload("root = \"@/b\"\nidle-timeout = \"77s\"", "only after a restart: idle-timeout = \"77s\"");
    assert!(server.stderr().contains("/b\""), "{}", server.stderr());
    assert_eq!(client.get("/").unwrap().body, b"b");
    assert!(server.stop().unwrap().success(), "{}", server.stderr());
}

#[test]
fn users_are_those_of_the_last_good_reload() {
    let tree = sites();
    // Both with the password `secret`.
    let [ada, bob] = ["ada", "bob"]
        .map(|name| format!("{name}:$5$rounds=1000$saltsalt$eKLZU9t9OoPWrqOQsoTIKG0aYkZ5rGOoOQhiIvoSWX2\n"));
    PLAIN.for_each_driver(|driver| {
        let users = tree.path().join(format!("{driver}.users"));
        fs::write(&users, &ada)?;
        let text = format!(
            "root = \"@/a\"\n[[host]]\nnames = [\"b.org\"]\nroot = \"@/b\"\nbasic-auth = [\"{}\", \"/open/*=off\"]",
            users.display()
        );
        let config = write(tree.path(), &format!("{driver}.users.toml"), &text);
        let mut server = start(driver, &config)?;
        let mut client = Http::connect(server.address())?;
        let mut ask = |host: &str, pair: &str| {
            let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nAuthorization: Basic {pair}\r\n\r\n");
            anyhow::Ok(client.ask(&request)?.status)
        };
        let (as_ada, as_bob) = ("YWRhOnNlY3JldA==", "Ym9iOnNlY3JldA==");
        ensure!((ask("a.org", "")?, ask("b.org", as_ada)?, ask("b.org", as_bob)?) == (200, 200, 401));
        fs::write(&users, &bob)?;
        server.process().hang_up()?;
        eventually("bob is let in", || Ok(ask("b.org", as_bob)? == 200))?;
        ensure!((ask("a.org", "")?, ask("b.org", as_ada)?) == (200, 401), "ada is not, though she was remembered");
        fs::write(&users, "bob:plain")?;
        server.process().hang_up()?;
        eventually("the log says why", || Ok(server.stderr().contains("users:1: user \"bob\"")))?;
        ensure!((ask("b.org", as_bob)?, ask("b.org", as_ada)?) == (200, 401), "what was, stays");
        ensure!(server.stop()?.success());
        Ok(())
    });
}

#[test]
fn true_and_false_stand_for_on_and_off() {
    let tree = sites();
    for (value, is_on) in [("true", true), ("false", false), ("\"on\"", true), ("\"off\"", false)] {
        let keys = ["listing", "compress", "precompressed"].map(|key| format!("{key} = {value}\n")).concat();
        let text = format!("{keys}[[host]]\nnames = [\"b.org\"]\nroot = \"@/b\"\n{keys}");
        let config = write(tree.path(), "switches.toml", &text);
        let mut command = command(&config);
        command.arg("--print-config");
        let printed = run_to_end(command).unwrap();
        let want = format!("listing = \"{}\"", if is_on { "on" } else { "off" });
        assert!(printed.stdout.matches(&want).count() >= 2, "{value}: {printed:?}");
    }
}
