//! CGI programs, well-behaved and not, through real sockets on every driver.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use sys::listen::Address;
use tempfile::TempDir;
use testkit::{DriverKind, Server, eventually, http::Response, http2, write_program};

use crate::process::setup::{EVENT_LOOPS, Http, PLAIN, Setup};

mod clients;
mod daemons;

/// Tree with a document root, `www`, and beside it a directory of programs, `programs`.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(tree.root()).unwrap();
        std::fs::create_dir(tree.programs()).unwrap();
        std::fs::write(tree.root().join("a.txt"), "0123456789").unwrap();
        tree
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("www")
    }

    fn programs(&self) -> PathBuf {
        self.0.path().join("programs")
    }

    /// Writes a shell script.
    fn script(&self, name: &str, lines: &str) {
        script(&self.programs().join(name), lines);
    }

    /// Tests a law on a server on every driver, with these arguments beside the usual ones.
    fn serve(&self, args: &[&str], law: impl Fn(&Server, DriverKind) -> anyhow::Result<()> + Sync) {
        serve(&self.root(), &self.programs(), args, law);
    }
}

fn script(path: &Path, lines: &str) {
    write_program(path, &format!("#!/bin/sh\n{lines}\n")).unwrap();
}

fn command(root: &Path, programs: &Path, args: &[&str], driver: DriverKind) -> Command {
    let mut command = PLAIN.command(driver, root);
    command.arg("--cgi-dir").arg(programs).args(args);
    command
}

fn serve(root: &Path, programs: &Path, args: &[&str], law: impl Fn(&Server, DriverKind) -> anyhow::Result<()> + Sync) {
    PLAIN.for_each_driver(|driver| {
        let mut server = Server::start_command(command(root, programs, args, driver), 1)?;
        law(&server, driver).map_err(|error| anyhow::anyhow!("{error:#}\n  it said: {}", server.stderr()))?;
        end(&mut server)
    });
}

/// Drains a server that has warned of programs, or has not.
fn end(server: &mut Server) -> anyhow::Result<()> {
    let status = server.stop()?;
    ensure!(status.success(), "{status}: {}", server.stderr());
    Ok(())
}

fn get(server: &Server, target: &str) -> anyhow::Result<Response> {
    Http::connect(server.address())?.get(target)
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

#[test]
fn a_program_gets_the_request_and_gives_the_response() {
    let tree = Tree::new();
    tree.script("env", "echo 'Content-Type: text/plain'; echo; env; echo \"PWD is $(pwd)\"");
    tree.script(
        "sub/echo",
        "echo 'Status: 201 Made'; echo 'X-Own: yes'; echo 'Content-Type: text/plain'; echo; exec cat",
    );
    tree.serve(&[], |server, _| {
        let mut client = Http::connect(server.address())?;
        let got = client
            .ask("GET /cgi-bin/env/more%20info?a=b&c HTTP/1.1\r\nHost: h.example:1\r\nProxy: evil\r\nX-Y: z\r\n\r\n")?;
        ensure!((got.status, got.field("content-type")) == (200, Some("text/plain")), "{got:?}");
        let said = text(&got);
        for line in [
            "GATEWAY_INTERFACE=CGI/1.1",
            "REQUEST_METHOD=GET",
            "SCRIPT_NAME=/cgi-bin/env",
            "PATH_INFO=/more info",
            "QUERY_STRING=a=b&c",
            "SERVER_NAME=h.example",
            "REMOTE_ADDR=127.0.0.1",
            "SERVER_PROTOCOL=HTTP/1.1",
            "HTTP_X_Y=z",
        ] {
            ensure!(said.lines().any(|it| it == line), "{line}: {said}");
        }
        ensure!(said.contains(&format!("PWD is {}", tree.programs().display())), "{said}");
        ensure!(!said.contains("evil") && !said.contains("CARGO"), "{said}");
        let body = "x".repeat(200_000);
        let framings = [
            format!("Content-Length: {}\r\n\r\n{body}", body.len()),
            format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
            format!("Expect: 100-continue\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
        ];
        for (method, framing) in [("POST", &framings[0]), ("PUT", &framings[1]), ("GET", &framings[0])] {
            let got = client.ask(&format!("{method} /cgi-bin/sub/echo HTTP/1.1\r\nHost: h\r\n{framing}"))?;
            ensure!((got.status, got.field("x-own")) == (201, Some("yes")), "{got:?}");
            ensure!(text(&got) == body, "{} bytes", got.body.len());
        }
        let head = client.ask("HEAD /cgi-bin/sub/echo HTTP/1.1\r\nHost: h\r\n\r\n")?;
        ensure!(head.status == 201 && head.body.is_empty(), "{head:?}");
        ensure!(client.get("/a.txt")?.body == b"0123456789", "and the connection goes on");
        Ok(())
    });
}

#[test]
fn replies_of_programs_keep_their_place_in_the_pipeline() {
    let tree = Tree::new();
    tree.script("slow", "sleep 0.1; echo 'Content-Type: text/plain'; echo; echo slow");
    tree.serve(&[], |server, _| {
        let mut client = Http::connect(server.address())?;
        let slow = "GET /cgi-bin/slow HTTP/1.1\r\nHost: h\r\n\r\n";
        let file = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";
        client.send(&format!("{file}{slow}{file}{slow}"))?;
        client.half_close()?;
        for want in ["0123456789", "slow\n", "0123456789", "slow\n"] {
            ensure!(text(&client.response("GET")?) == want, "{want}");
        }
        client.expect_end()
    });
}

#[test]
fn redirects_lead_elsewhere_or_back_to_this_server() {
    let tree = Tree::new();
    tree.script("there", "echo 'Location: http://other.example/x'; echo");
    tree.script("here", "echo 'Location: /a.txt'; echo");
    tree.script("again", "echo 'Location: /cgi-bin/here?x'; echo");
    tree.script("round", "echo 'Location: /cgi-bin/round'; echo");
    tree.serve(&[], |server, _| {
        let mut client = Http::connect(server.address())?;
        let there = client.get("/cgi-bin/there")?;
        ensure!((there.status, there.field("location")) == (302, Some("http://other.example/x")), "{there:?}");
        for local in ["/cgi-bin/here", "/cgi-bin/again"] {
            let got = client.get(local)?;
            ensure!(got.status == 200 && got.body == b"0123456789", "{local}: {got:?}");
        }
        ensure!(client.get("/cgi-bin/round")?.status == 502);
        ensure!(client.get("/a.txt")?.status == 200);
        Ok(())
    });
}

#[test]
fn a_programs_source_is_never_sent() {
    let tree = Tree::new();
    // Inside the document root, with links that lead there.
    let programs = tree.root().join("programs");
    script(&programs.join("run"), "echo 'Content-Type: text/plain'; echo; echo ran");
    std::fs::write(programs.join("library.sh"), "#!secret").unwrap();
    symlink("programs", tree.root().join("link")).unwrap();
    symlink("programs/run", tree.root().join("file-link")).unwrap();
    serve(&tree.root(), &programs, &["--listing", "on"], |server, _| {
        for target in ["/programs/run", "/programs/library.sh", "/link/run", "/file-link", "//programs/./run"] {
            let got = get(server, target)?;
            ensure!(got.status == 404 && !text(&got).contains("echo"), "{target}: {got:?}");
        }
        for target in ["/programs/", "/programs", "/link/", "/cgi-bin/"] {
            ensure!(get(server, target)?.status == 404, "{target}");
        }
        ensure!(!text(&get(server, "/")?).contains("programs"), "nor is it listed");
        ensure!(get(server, "/cgi-bin/library.sh")?.status == 403, "not executable");
        for target in ["/cgi-bin/run", "//cgi-bin//run", "/%63gi-bin/run", "/x/../cgi-bin/run"] {
            let got = get(server, target)?;
            ensure!(text(&got) == "ran\n", "{target}: {got:?}");
        }
        Ok(())
    });
}

#[test]
fn a_path_without_a_program_is_an_error() {
    let tree = Tree::new();
    tree.script("sub/program", "true");
    std::fs::write(tree.programs().join("data"), "").unwrap();
    std::fs::write(tree.0.path().join("outside"), "").unwrap();
    symlink("../outside", tree.programs().join("outside")).unwrap();
    tree.serve(&[], |server, _| {
        for (target, status) in [
            ("/cgi-bin/nothing", 404),
            ("/cgi-bin/sub", 404),
            ("/cgi-bin/sub/", 404),
            ("/cgi-bin/outside", 404),
            ("/cgi-bin/data", 403),
            ("/cgi-bin/../../etc/passwd", 400),
            ("/cgi-bin/sub%2fprogram", 404),
            ("/cgi-bin", 404),
        ] {
            ensure!(get(server, target)?.status == status, "{target}");
        }
        Ok(())
    });
}

#[test]
fn a_program_that_misbehaves_costs_only_its_own_request() {
    let tree = Tree::new();
    for (name, lines) in [
        ("nothing", "true"),
        ("crash", "kill -SEGV $$"),
        ("no-header", "echo hello"),
        ("raw", "printf 'HTTP/1.1 200 OK\\r\\n\\r\\n'"),
        ("hop", "echo 'Content-Type: a/b'; echo 'Transfer-Encoding: chunked'; echo; echo"),
        ("flood", "echo 'Content-Type: a/b'; echo; exec yes"),
        ("flood-errors", "head -c 3000000 /dev/zero >&2; echo 'Content-Type: a/b'; echo; echo fine"),
        ("deaf", "exec 0<&-; echo 'Content-Type: a/b'; echo; echo fine"),
        ("half-crash", "echo 'Content-Type: a/b'; echo; echo fine; kill -9 $$"),
        ("daemon", "sleep 1000 & echo 'Content-Type: a/b'; echo; echo fine"),
    ] {
        tree.script(name, lines);
    }
    write_program(&tree.programs().join("no-interpreter"), "#!/nowhere\n").unwrap();
    tree.serve(&["--cgi-max-output", "100kB"], |server, _| {
        let body = "x".repeat(300_000);
        for (name, status) in [
            ("nothing", 502),
            ("crash", 502),
            ("no-header", 502),
            ("raw", 502),
            ("hop", 502),
            ("flood", 502),
            ("no-interpreter", 502),
            ("flood-errors", 200),
            ("deaf", 200),
            ("half-crash", 200),
            ("daemon", 200),
        ] {
            let mut client = Http::connect(server.address())?;
            let head = format!("POST /cgi-bin/{name} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len());
            let got = client.ask(&format!("{head}{body}")).with_context(|| name.to_owned())?;
            ensure!(got.status == status, "{name}: {got:?}");
            ensure!(status != 200 || got.body == b"fine\n", "{name}: {got:?}");
            ensure!(client.get("/a.txt")?.status == 200, "after {name}");
        }
        Ok(())
    });
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children() {
    let tree = Tree::new();
    tree.script("hang", "sleep 1000 & echo $! > \"$(dirname \"$0\")/../$QUERY_STRING\"; wait");
    tree.serve(&["--cgi-timeout", "300ms"], |server, driver| {
        let mut client = Http::connect(server.address())?;
        ensure!(client.get(&format!("/cgi-bin/hang?{driver}"))?.status == 504);
        ensure!(client.get("/a.txt")?.status == 200);
        is_gone(&tree, &driver.to_string())
    });
}

/// Waits until the process has ended whose number a script has written to this file.
fn is_gone(tree: &Tree, name: &str) -> anyhow::Result<()> {
    let file = tree.0.path().join(name);
    eventually("the script has begun", || Ok(std::fs::read_to_string(&file).is_ok_and(|it| it.ends_with('\n'))))?;
    let number = std::fs::read_to_string(&file)?;
    let stat = format!("/proc/{}/stat", number.trim());
    eventually("the child has ended", || Ok(!std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "))))
}

#[test]
fn a_drain_that_takes_too_long_ends_the_programs() {
    let tree = Tree::new();
    tree.script("hang", "sleep 1000 & echo $! > \"$(dirname \"$0\")/../$QUERY_STRING\"; wait");
    PLAIN.for_each_driver(|driver| {
        let args = ["--drain-timeout", "300ms"];
        let mut server = Server::start_command(command(&tree.root(), &tree.programs(), &args, driver), 1)?;
        let mut client = Http::connect(server.address())?;
        client.send(&format!("GET /cgi-bin/hang?drain-{driver} HTTP/1.1\r\nHost: h\r\n\r\n"))?;
        let file = tree.0.path().join(format!("drain-{driver}"));
        eventually("the script has begun", || Ok(file.exists()))?;
        end(&mut server)?;
        is_gone(&tree, &format!("drain-{driver}"))
    });
}

/// Over HTTP/2, where the connection goes on being read while the program runs. The client leaves it to the server to end it.
#[test]
fn a_drain_ends_once_a_program_has_answered() {
    PLAIN.for_each_driver(|driver| {
        let tree = Tree::new();
        tree.script("wait", "while [ ! -e ../go ]; do sleep 0.05; done; echo 'Content-Type: a/b'; echo");
        let mut server = Server::start_command(command(&tree.root(), &tree.programs(), &[], driver), 1)?;
        let Address::Tcp(address) = server.address() else { anyhow::bail!("not TCP") };
        let mut client = http2::Client::connect(*address)?;
        client.send(&http2::get(1, "/cgi-bin/wait"))?;
        client.send(&http2::get(3, "/a.txt"))?;
        client.response(3)?;
        server.terminate()?;
        let asked = client.read_until(|got| !got.pings.is_empty())?.pings[0];
        client.send(&http2::frame(6, 1, 0, &asked))?;
        client.read_until(|got| got.goaways.len() == 2)?;
        std::fs::write(tree.0.path().join("go"), "")?;
        client.end()?;
        ensure!(client.received.response(1)?.status() == 200);
        ensure!(server.wait()?.success());
        ensure!(!server.stderr().contains("cut off"), "{}", server.stderr());
        Ok(())
    });
}

#[test]
fn only_so_many_programs_run_and_wait() {
    // A thread of a pool that waits for a program has no time for other connections.
    Setup { drivers: &EVENT_LOOPS, ..PLAIN }.for_each_driver(|driver| {
        let tree = Tree::new();
        tree.script("wait", "while [ ! -e ../go ]; do sleep 0.05; done; echo 'Content-Type: a/b'; echo");
        let args = ["--cgi-max-processes", "2"];
        let mut server = Server::start_command(command(&tree.root(), &tree.programs(), &args, driver), 1)?;
        // Two run, 64 wait, and the others are told to come again. A program has been asked for once the file before it is there.
        let mut clients: Vec<Http> = (0..70).map(|_| Http::connect(server.address())).collect::<Result<_, _>>()?;
        for client in &mut clients {
            client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /cgi-bin/wait HTTP/1.1\r\nHost: h\r\n\r\n")?;
            ensure!(client.response("GET")?.status == 200);
        }
        for client in &mut clients[66..] {
            let refused = client.response("GET")?;
            ensure!(refused.status == 503 && refused.field("retry-after").is_some(), "{refused:?}");
        }
        std::fs::write(tree.0.path().join("go"), "")?;
        for client in &mut clients[..66] {
            ensure!(client.response("GET")?.status == 200);
        }
        server.drain()
    });
}

/// As on every other response; what the program says itself goes before. A HEAD has no body, and a condition is the
/// program's own affair.
#[test]
fn configured_fields_are_on_responses_of_programs() {
    let tree = Tree::new();
    tree.script("a", "echo 'Content-Type: a/b'; echo 'X-B: own'; echo 'ETag: \"1\"'; echo; echo \"$REQUEST_METHOD\"");
    tree.serve(&["--header", "X-A: 1", "--header", "X-B: 2", "--header", "/*.txt=X-C: 3"], |server, _| {
        let mut client = Http::connect(server.address())?;
        for (method, body) in [("GET", &b"GET\n"[..]), ("HEAD", b"")] {
            for condition in ["", "If-None-Match: \"1\"\r\n", "If-Modified-Since: Thu, 01 Jan 2037 00:00:00 GMT\r\n"] {
                let got = client.ask(&format!("{method} /cgi-bin/a HTTP/1.1\r\nHost: h\r\n{condition}\r\n"))?;
                ensure!(got.status == 200 && got.body == body, "{method} {condition}: {got:?}");
                let fields = [got.field("x-a"), got.field("x-b"), got.field("x-c"), got.field("etag")];
                ensure!(fields == [Some("1"), Some("own"), None, Some("\"1\"")], "{method}: {got:?}");
            }
        }
        Ok(())
    });
}

/// Standard input, output and error, and the descriptor by which the list is read.
#[test]
fn a_program_inherits_no_descriptor() {
    let tree = Tree::new();
    tree.script(
        "descriptors",
        "echo 'Content-Type: a/b'; echo; ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> /\\1 /p'",
    );
    // The server itself inherits one.
    let inherited = std::fs::File::open(tree.root()).unwrap();
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
    tree.serve(&["--metrics", "127.0.0.1:0"], |server, _| {
        let _other = Http::connect(server.address())?;
        ensure!(get(server, "/a.txt")?.status == 200);
        let said = text(&get(server, "/cgi-bin/descriptors")?);
        for line in said.lines() {
            let (number, target) = line.split_once(' ').with_context(|| said.clone())?;
            let is_own = target.starts_with("pipe:") || target.starts_with("/proc/");
            ensure!(number.parse::<u32>()? <= 3 && is_own, "{line}: {said}");
        }
        ensure!(said.lines().count() >= 4, "{said}");
        Ok(())
    });
}

#[test]
fn errors_of_programs_go_to_the_log_within_limits() {
    let tree = Tree::new();
    tree.script(
        "warn",
        "echo first error >&2; head -c 100000 /dev/zero | tr '\\0' x >&2; echo 'Content-Type: a/b'; echo",
    );
    tree.serve(&[], |server, _| {
        ensure!(get(server, "/cgi-bin/warn")?.status == 200);
        eventually("the error is logged", || Ok(server.stderr().contains("CGI program /cgi-bin/warn: first error")))?;
        ensure!(server.stderr().len() < 20_000, "bounded");
        Ok(())
    });
}

#[test]
fn bad_cgi_settings_are_refused_at_the_start() {
    let tree = Tree::new();
    for (args, status, why) in [
        (&["--cgi-dir", "/nowhere/cgi"][..], 1, "cannot open the directory of CGI programs /nowhere/cgi"),
        (&["--cgi-dir", "/"], 1, "is the document root or above it"),
        (&["--cgi-timeout", "0"], 2, "must be more than 0"),
        (&["--cgi-max-processes", "0"], 2, "--cgi-max-processes"),
    ] {
        let mut command = PLAIN.command(DriverKind::DEFAULT, &tree.root());
        command.args(args);
        let said = testkit::expect_failure(command, status).stderr;
        assert!(said.contains(why), "{said}");
    }
}
