//! HTTP/2 by clients of others, with prior knowledge and by ALPN.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, anyhow, ensure};
use testkit::{
    DriverKind, Server, check_each,
    http::Response,
    hyper::{Ask, HyperClient},
    installed_program, run_to_end,
    tls::Certificates,
    write_program,
};

use super::{CONCURRENCY, command, write};

/// Length of a file that fits into no buffer between a server and its client.
const LARGE: usize = 3 << 20;
/// Page with everything that a page may name.
const PAGE: &str = "<!doctype html><link rel=\"stylesheet\" href=\"/style.css\"><script src=\"/app.js\"></script>\
    <img src=\"/dot.svg\"><img src=\"/large.bin\">";
/// Program that sends back what it gets.
const ECHO: &str = "#!/bin/sh\nprintf 'Content-Type: application/octet-stream\\n\\n'\nexec cat\n";
const UPLOAD_BYTES: usize = 300_000;

fn large() -> Vec<u8> {
    (0..LARGE).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect()
}

/// Files, certificates and a program, and servers of them.
struct Site {
    tree: tempfile::TempDir,
    certificates: Certificates,
}

impl Site {
    fn new() -> Self {
        let tree = tempfile::tempdir().unwrap();
        write(tree.path(), "www/page.html", PAGE).unwrap();
        write(tree.path(), "www/style.css", &"p { color: red }\n".repeat(2000)).unwrap();
        write(tree.path(), "www/app.js", &"console.log(1);\n".repeat(5000)).unwrap();
        write(tree.path(), "www/dot.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>").unwrap();
        write(tree.path(), "www/small.txt", "small").unwrap();
        fs::write(tree.path().join("www/large.bin"), large()).unwrap();
        write_program(&tree.path().join("programs/echo"), ECHO).unwrap();
        Self { tree, certificates: Certificates::new().unwrap() }
    }

    fn root(&self) -> std::path::PathBuf {
        self.tree.path().join("www")
    }

    /// Starts a server with a plain address and one for TLS.
    fn start(&self, driver: DriverKind) -> anyhow::Result<Server> {
        let programs = self.tree.path().join("programs").display().to_string();
        let mut command = command(driver, &self.root(), &["--cgi-dir", &programs, "--max-request-size", "512KiB"]);
        command.args(self.certificates.flags("server"));
        Server::start_command(command, 2).with_context(|| driver.name())
    }

    /// Tests the law on a server on every driver, which must then still run and drain.
    fn on_every_driver(&self, law: impl Fn(&Server) -> anyhow::Result<()> + Sync) {
        check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| {
            let mut server = self.start(driver)?;
            law(&server).map_err(|error| anyhow!("{driver}: {error:#}\n  it said: {}", server.stderr()))?;
            server.drain().with_context(|| driver.name())
        });
    }

    /// Connects hyper to the plain address and to the other, to each when it is its turn: a connection whose client does not run
    /// is closed after a while.
    fn hypers<'a>(&'a self, server: &'a Server) -> impl Iterator<Item = anyhow::Result<HyperClient>> + 'a {
        let certificates = [None, Some(&self.certificates)];
        server.addresses().iter().zip(certificates).map(|(address, of)| HyperClient::connect(address, of))
    }
}

/// Runs a client to its successful end. Returns its output.
fn run(program: &Path, args: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(args);
    let finished = run_to_end(command)?;
    ensure!(finished.code() == Some(0), "{} {args:?}: {finished:?}", program.display());
    Ok(finished.stdout)
}

/// Base of the URLs at both addresses.
fn urls(server: &Server) -> [String; 2] {
    [0, 1].map(|at| format!("http{}://{}", ["", "s"][at], server.addresses()[at]))
}

fn expect(response: &Response, status: u16, body: &[u8]) -> anyhow::Result<()> {
    let (got, len) = (response.status, response.body.len());
    ensure!(got == status, "{got} instead of {status}");
    ensure!(response.body == body, "{len} bytes instead of {}, or others", body.len());
    Ok(())
}

/// More requests than there may be streams, large and small ones, whose bodies share the windows.
#[test]
fn hyper_asks_for_many_files_at_once() {
    let (site, large) = (Site::new(), large());
    let part = [("range", "bytes=1000000-1999999")];
    let mut asks = Vec::new();
    for n in 0..150 {
        asks.push(match n % 50 {
            0 => (Ask::get("/large.bin"), 200, &large[..]),
            1 => (Ask { fields: &part, ..Ask::get("/large.bin") }, 206, &large[1_000_000..2_000_000]),
            2 => (Ask { method: "HEAD", ..Ask::get("/large.bin") }, 200, &b""[..]),
            _ => (Ask::get("/small.txt"), 200, &b"small"[..]),
        });
    }
    let requests: Vec<_> = asks.iter().map(|(ask, ..)| ask.clone()).collect();
    site.on_every_driver(|server| {
        for client in site.hypers(server) {
            let client = client?;
            let responses = client.ask_all(&requests)?;
            for (response, (ask, status, body)) in responses.iter().zip(&asks) {
                expect(response, *status, body).with_context(|| format!("{ask:?}"))?;
            }
            let missing = client.ask_all(&[Ask::get("/missing")])?;
            ensure!(missing[0].status == 404 && missing[0].field("content-type").is_some(), "{missing:?}");
        }
        Ok(())
    });
}

/// Bodies larger than a window, several at once, are read as windows allow, and come back as they were.
#[test]
fn hyper_uploads_bodies_that_exceed_the_windows() {
    let site = Site::new();
    let bodies: Vec<Vec<u8>> =
        (1..=4_usize).map(|n| (0..UPLOAD_BYTES).map(|at| ((at * n) >> 3) as u8).collect()).collect();
    let requests: Vec<_> = bodies
        .iter()
        .map(|body| Ask { method: "POST", body: body.clone().into(), ..Ask::get("/cgi-bin/echo") })
        .collect();
    site.on_every_driver(|server| {
        for client in site.hypers(server) {
            let client = client?;
            for (response, body) in client.ask_all(&requests)?.iter().zip(&bodies) {
                expect(response, 200, body)?;
            }
            let too_large = Ask { body: vec![b'x'; 600_000].into(), ..requests[0].clone() };
            let outcome = client.ask_all(&[too_large, Ask::get("/small.txt")]);
            ensure!(outcome.as_ref().is_ok_and(|got| got[0].status == 413), "{outcome:?}");
            expect(&client.ask_all(&[Ask::get("/small.txt")])?[0], 200, b"small")?;
        }
        Ok(())
    });
}

/// A client that gives up some of its streams loses nothing on the others, and their windows are its own again.
#[test]
fn hyper_resets_streams_in_the_middle() {
    let (site, large) = (Site::new(), large());
    site.on_every_driver(|server| {
        for client in site.hypers(server) {
            let client = client?;
            let mut kept = Vec::new();
            for _ in 0..20 {
                kept.push(client.begin("/large.bin")?);
                // Each holds a window that nobody empties until it is reset.
                drop(client.begin("/large.bin")?);
                if kept.len() == 2 {
                    for response in kept.drain(..) {
                        ensure!(client.finish(response)? == large, "other bytes");
                    }
                }
            }
            expect(&client.ask_all(&[Ask::get("/small.txt")])?[0], 200, b"small")?;
        }
        Ok(())
    });
}

/// The connection ends in order, once the transfer has been completed.
#[test]
fn hyper_completes_a_transfer_during_a_drain() {
    let (site, large) = (Site::new(), large());
    check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| {
        let mut server = site.start(driver)?;
        let begun = site.hypers(&server).map(|client| {
            let client = client?;
            client.begin("/large.bin").map(|response| (client, response))
        });
        let begun = begun.collect::<anyhow::Result<Vec<_>>>()?;
        server.terminate()?;
        for (client, response) in begun {
            let body = client.finish(response).with_context(|| driver.name())?;
            ensure!(body == large, "{driver}: other bytes");
            client.end().with_context(|| driver.name())?;
        }
        let status = server.wait()?;
        ensure!(status.success(), "{driver}: {status}: {}", server.stderr());
        Ok(())
    });
}

#[test]
fn curl_is_served_over_http2() {
    let Some(curl) = installed_program("curl").unwrap() else { return };
    let site = Site::new();
    let file = site.root().join("small.txt").display().to_string();
    site.on_every_driver(|server| {
        for base in urls(server) {
            let usual = ["-q", "-sSk", "--noproxy", "*", "--max-time", "30"];
            let version = if base.starts_with("https") { "--http2" } else { "--http2-prior-knowledge" };
            let url = |path: &str| format!("{base}{path}");
            let curl = |args: &[&str]| run(&curl, &[&usual[..], &[version], args].concat());
            for (path, status) in [("/small.txt", "[2 200]"), ("/missing.txt", "[2 404]")] {
                let said = curl(&["-w", "[%{http_version} %{http_code}]", "-o", "/dev/null", &url(path)])?;
                ensure!(said == status, "{said}");
            }
            ensure!(curl(&["-r", "0-1", "-w", " %{http_code}", &url("/small.txt")])? == "sm 206");
            ensure!(curl(&["-w", "%{size_download}", "-o", "/dev/null", &url("/large.bin")])? == LARGE.to_string());
            let said = curl(&["-T", &file, "-o", "/dev/null", "-w", "%{http_code}", &url("/small.txt")])?;
            ensure!(said == "405", "{said}");
        }
        Ok(())
    });
}

#[test]
fn h2load_sees_no_request_fail() {
    let Some(h2load) = installed_program("h2load").unwrap() else { return };
    Site::new().on_every_driver(|server| {
        for base in urls(server) {
            let url = |path: &str| format!("{base}{path}");
            let said = run(&h2load, &["-n", "600", "-c", "3", "-m", "32", &url("/small.txt"), &url("/page.html")])?;
            ensure!(said.contains("600 succeeded") && said.contains("600 2xx"), "{said}");
        }
        Ok(())
    });
}

/// nghttp asks for what the page names, with priorities of RFC 7540, windows of its own and padding.
#[test]
fn nghttp_loads_a_page_and_what_it_names() {
    let Some(nghttp) = installed_program("nghttp").unwrap() else { return };
    Site::new().on_every_driver(|server| {
        for base in urls(server) {
            let url = format!("{base}/page.html");
            for args in [&["-nsay"][..], &["-nsay", "-w", "9", "-W", "10", "-b", "100"], &["-nsay", "--continuation"]] {
                let said = run(&nghttp, &[args, &[&url]].concat())?;
                for path in ["/page.html", "/style.css", "/app.js", "/dot.svg", "/large.bin"] {
                    let line = said.lines().find(|line| line.ends_with(path)).with_context(|| said.clone())?;
                    ensure!(line.contains(" 200 "), "{args:?}: {line}");
                }
            }
            let said = run(&nghttp, &["-nvy", "-p", "1", "-p", "256", &url, &format!("{base}/large.bin")])?;
            ensure!(said.matches("; END_STREAM").count() >= 4 && !said.contains("recv RST_STREAM"), "{said}");
            ensure!(!said.contains("recv GOAWAY"), "{said}");
        }
        Ok(())
    });
}
