//! Administration at `/cache/…`: responses, effects and access.

use std::{
    collections::BTreeSet,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context, ensure};
use serde_json::Value;
use testkit::{
    ConnectionModel, DriverKind, Server, drivers_with, eventually,
    http::{Http, Response},
};

use crate::setup::{ALL, ONE, Setup, Site, bytes, number, stats};

fn ask(server: &Server, method: &str, path: &str, fields: &str, body: &str) -> anyhow::Result<Response> {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}{length}\r\n{body}");
    Http::connect(server.address())?.ask(&request).with_context(|| format!("{method} {path}"))
}

fn json(response: &Response) -> anyhow::Result<Value> {
    ensure!(response.field("content-type") == Some("application/json"), "{response:?}");
    ensure!(response.field("cache-control") == Some("no-store"), "{response:?}");
    serde_json::from_slice(&response.body).with_context(|| format!("{response:?}"))
}

#[test]
fn statistics_have_the_keys_of_the_original_and_more() {
    ALL.for_each_server(Site::new(&[100, 26_510]).path(), |server, combination| {
        for target in ["/100", "/26510", "/100", "/missing"] {
            Http::connect(server.address())?.get(target)?;
        }
        let stats = stats(server)?;
        for pointer in [
            "/schema",
            "/uptime_s",
            "/memory/pipe_size",
            "/memory/pipe_mem_used",
            "/memory/pipe_budget",
            "/memory/pipes",
            "/memory/mapped",
            "/memory/descriptors",
            "/requests/served_per_sec",
            "/requests/bytes",
            "/latency_us/p50",
            "/latency_us/p90",
            "/latency_us/p99",
            "/latency_us/p999",
            "/latency_us/max",
            "/latency_us/count",
            "/fallbacks/mapping",
            "/fallbacks/pipe-budget",
            "/fallbacks/descriptors",
            "/fallbacks/kernel",
            "/fallbacks/scratch",
            "/zombies",
            "/auto/0/up_to",
        ] {
            number(&stats, pointer)?;
        }
        let requests = &stats["requests"];
        let counted = (&requests["total"], &requests["hits"], &requests["misses"], &requests["absent"]);
        ensure!(counted == (&4.into(), &1.into(), &2.into(), &1.into()), "{requests}");
        ensure!(stats["strategy"] == combination.strategy && stats["files_total"] == 2, "{stats}");
        let files = stats["files"].as_array().context("no files")?;
        let listed: BTreeSet<_> = files.iter().map(|file| (file["uri"].as_str(), file["size"].as_u64())).collect();
        ensure!(listed == BTreeSet::from([(Some("/100"), Some(100)), (Some("/26510"), Some(26_510))]), "{listed:?}");
        ensure!(files.iter().any(|file| file["requests"] == 2), "{files:?}");
        Ok(())
    });
}

#[test]
fn a_reset_file_is_opened_again() {
    ALL.for_each_server(Site::new(&[26_510]).path(), |server, _| {
        for (count, method) in ["POST", "DELETE", "GET"].into_iter().enumerate() {
            ensure!(Http::connect(server.address())?.get("/26510")?.body == bytes(26_510), "before");
            let got = ask(server, method, "/cache/reset/26510", "", "")?;
            ensure!(got.status == 200 && json(&got)? == serde_json::json!({ "evicted": true }), "{method}: {got:?}");
            // The client may have its last byte before the server has released the file.
            eventually("nothing is left of it", || Ok(number(&stats(server)?, "/memory/descriptors")? == 0.0))?;
            let stats = stats(server)?;
            ensure!(number(&stats, "/files_total")? == 0.0, "{stats}");
            ensure!(number(&stats, "/requests/misses")? == (count + 1) as f64, "{stats}");
        }
        let got = ask(server, "POST", "/cache/reset/26510", "", "")?;
        ensure!(got.status == 200 && json(&got)? == serde_json::json!({ "evicted": false }), "nothing there: {got:?}");
        Ok(())
    });
}

/// An added resource is served by every strategy, as a file is, and stays until it is reset.
#[test]
fn an_added_resource_is_served_replaced_and_taken_away() {
    let setup = Setup { args: &["--threads", "1", "--idle-evict", "100ms"], ..ALL };
    setup.for_each_server(Site::new(&[26_510]).path(), |server, _| {
        let get = |path: &str| Http::connect(server.address())?.get(path);
        for size in [0, 10, 30_000, 1_000_000] {
            let text = "added ".repeat(size / 6 + 1)[..size].to_owned();
            let got = ask(server, "POST", "/cache/add/26510", "", &text)?;
            ensure!(got.status == 201 && json(&got)?["size"] == size, "{got:?}");
            let seen = get("/26510")?;
            ensure!(seen.status == 200 && seen.body == text.as_bytes(), "over a file: {} bytes", seen.body.len());
            for (method, text) in [("POST", "other"), ("PUT", "thing")] {
                let replaced = ask(server, method, "/cache/add/26510", "", text)?;
                ensure!(replaced.status == 200 && json(&replaced)?["replaced"] == true, "{method}: {replaced:?}");
                let other = get("/26510")?;
                ensure!(other.body == text.as_bytes() && other.field("etag") != seen.field("etag"), "{other:?}");
            }
            thread::sleep(std::time::Duration::from_millis(250));
            ensure!(get("/26510")?.body == b"thing", "idle, and still there");
            ensure!(json(&ask(server, "DELETE", "/cache/reset/26510", "", "")?)?["evicted"] == true, "taken away");
            ensure!(get("/26510")?.body == bytes(26_510), "the file comes to light again");
        }
        let html = ask(server, "PUT", "/cache/add/new/page.html", "", "<p>")?;
        ensure!(html.status == 201, "{html:?}");
        let got = get("/new/page.html")?;
        ensure!(got.body == b"<p>" && got.field("content-type") == Some("text/html; charset=utf-8"), "{got:?}");
        Ok(())
    });
}

#[test]
fn additions_are_limited() {
    let setup = Setup { args: &["--threads", "1", "--overlay-bytes", "100000"], ..ALL };
    setup.for_each_server(Site::new(&[1]).path(), |server, _| {
        let add = |path: &str, len: usize| ask(server, "PUT", &format!("/cache/add{path}"), "", &"x".repeat(len));
        ensure!(add("/a", 60_000)?.status == 201, "there is room");
        let full = add("/b", 60_000)?;
        ensure!(full.status == 413 && json(&full)?["error"].is_string(), "{full:?}");
        ensure!(add("/c", 100_001)?.status == 413, "more than there ever is");
        ensure!(add("/d", 40_000)?.status == 201, "there is room for that");
        ensure!(ask(server, "DELETE", "/cache/reset/a", "", "")?.status == 200, "taken away");
        ensure!(add("/b", 60_000)?.status == 201, "and room again");
        Ok(())
    });
}

#[test]
fn bad_input_is_a_client_error() {
    ALL.for_each_server(Site::new(&[1]).path(), |server, _| {
        for (method, path, status) in [
            ("GET", "/cache/", 404),
            ("GET", "/cache/unknown", 404),
            ("GET", "/cache/webui/unknown.js", 404),
            ("GET", "/cache/webui", 301),
            ("POST", "/cache/webui/", 405),
            ("POST", "/cache/stats", 405),
            ("PUT", "/cache/reset/1", 405),
            ("GET", "/cache/add/1", 405),
            ("DELETE", "/cache/add/1", 405),
            ("POST", "/cache/reset/../../1", 400),
            ("POST", "/cache/reset/%zz", 400),
            ("POST", "/cache/reset/%00", 400),
            ("POST", "/cache/add/%2e%2e/1", 400),
            ("POST", "/cache/add/.hidden", 400),
            ("POST", "/cache/add/cache/stats", 409),
            ("POST", "/cache/add/x/../cache/webui/", 409),
        ] {
            let got = ask(server, method, path, "", if method == "POST" { "body" } else { "" })?;
            ensure!(got.status == status, "{method} {path}: {got:?}");
            if status != 301 {
                ensure!(json(&got)?["error"].is_string(), "{method} {path}: {got:?}");
            }
            ensure!((status == 405) == got.field("allow").is_some(), "{method} {path}: {got:?}");
        }
        // A file whose name begins like ours is a file.
        ensure!(ask(server, "GET", "/cached", "", "")?.field("content-type") != Some("application/json"), "a file");
        Ok(())
    });
}

/// A body of unknown length, as `curl -T -` sends it: in chunks, and up to the limit.
#[test]
fn a_resource_may_arrive_in_chunks() {
    let setup = Setup { args: &["--threads", "1", "--overlay-bytes", "100000"], ..ALL };
    setup.for_each_server(Site::new(&[1]).path(), |server, _| {
        let put = |fields: &str, body: &str| -> anyhow::Result<Response> {
            let head = "PUT /cache/add/chunked HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n";
            Http::connect(server.address())?.ask(&format!("{head}{fields}\r\n{body}"))
        };
        let in_chunks = |len: usize, by: usize| -> String {
            let all = "chunk of ".repeat(len / 9 + 1);
            let chunks = all.as_bytes()[..len].chunks(by);
            let lines = chunks.map(|it| format!("{:x}\r\n{}\r\n", it.len(), String::from_utf8_lossy(it)));
            lines.collect::<String>() + "0\r\n\r\n"
        };
        for (len, by) in [(0, 1), (9, 2), (100_000, 7_777)] {
            let mut got = put("", &in_chunks(len, by))?;
            // The old resource counts for as long as its last response lives, which is a moment longer than its reader.
            eventually("there is room", || {
                if got.status == 413 {
                    got = put("", &in_chunks(len, by))?;
                }
                Ok(got.status != 413)
            })?;
            ensure!(matches!(got.status, 200 | 201) && json(&got)?["size"] == len, "{len}: {got:?}");
            let seen = Http::connect(server.address())?.get("/chunked")?.body;
            ensure!(seen == "chunk of ".repeat(len / 9 + 1).as_bytes()[..len], "{len}: {} bytes", seen.len());
            ensure!(ask(server, "DELETE", "/cache/reset/chunked", "", "")?.status == 200, "room for the next");
        }
        for (fields, body, status) in [
            ("", &*in_chunks(100_001, 7_777), 413),
            ("", "no size\r\n", 400),
            ("", "1\r\nab\r\n0\r\n\r\n", 400),
            ("Content-Length: 3\r\n", "0\r\n\r\n", 400),
        ] {
            let got = put(fields, body)?;
            ensure!(got.status == status && got.field("connection") == Some("close"), "{fields}{status}: {got:?}");
        }
        ensure!(Http::connect(server.address())?.get("/chunked")?.status == 404, "nothing of them was kept");
        Ok(())
    });
}

/// The timeout is from the flag or the environment; a client that trickles is answered with 408.
#[test]
fn a_body_that_does_not_arrive_times_out() {
    let site = Site::new(&[1]);
    ONE.for_each_combination(|combination| {
        let mut by_flag = ONE.command(combination, site.path());
        by_flag.args(["--upload-timeout", "200ms"]);
        let mut by_environment = ONE.command(combination, site.path());
        by_environment.env("ZEROCOPY_UPLOAD_TIMEOUT", "200ms");
        for command in [by_flag, by_environment] {
            let mut server = Server::start_command(command, 1)?;
            let part = "PUT /cache/add/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\npart";
            // The usual minute is longer than the client waits.
            let got = Http::connect(server.address())?.ask(part)?;
            ensure!(got.status == 408, "{got:?}");
            server.drain()?;
        }
        Ok(())
    });
}

#[test]
fn names_of_any_bytes_are_valid_json_and_can_be_reset() {
    use std::os::unix::ffi::OsStrExt;
    let names: &[&[u8]] =
        &[b"plain", b"<script>", b"quote\"s\\", b"new\nline", b"\xff\xfe", "ünïcode\u{2028}".as_bytes()];
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    ONE.for_each_server(dir.path(), |server, _| {
        for name in names {
            let escaped: String = name.iter().map(|byte| format!("%{byte:02x}")).collect();
            let got = Http::connect(server.address())?.get(&format!("/{escaped}"))?;
            ensure!(got.status == 200 && got.body == *name, "{}: {}", name.escape_ascii(), got.status);
        }
        let stats = stats(server)?;
        let files = stats["files"].as_array().context("no files")?;
        ensure!(files.len() == names.len(), "{files:?}");
        ensure!(files.iter().any(|file| file["uri"] == "/<script>"), "as it is: {files:?}");
        for file in files {
            let path = file["path"].as_str().context("no path")?;
            let got = ask(server, "POST", &format!("/cache/reset{path}"), "", "")?;
            ensure!(json(&got)?["evicted"] == true, "{path}: {got:?}");
        }
        Ok(())
    });
}

/// With a token configured, nothing is shown or done without it, except for the page itself, which asks for it.
#[test]
fn with_a_token_only_its_holders_are_answered() {
    const ARGS: &[&str] = &["--threads", "1", "--admin-token", "secret"];
    Setup { args: ARGS, ..ONE }.for_each_server(Site::new(&[1]).path(), |server, _| {
        let (known, wrong) = ("X-Admin-Token: secret\r\n", "Authorization: Bearer secre\r\n");
        for (method, path, body) in
            [("GET", "/cache/stats", ""), ("POST", "/cache/reset/1", ""), ("PUT", "/cache/add/x", "x")]
        {
            for fields in ["", wrong] {
                let got = ask(server, method, path, fields, body)?;
                ensure!(
                    got.status == 401 && got.field("www-authenticate") == Some("Bearer"),
                    "{method} {path}: {got:?}"
                );
            }
            for fields in [known, "Authorization: Bearer secret\r\n"] {
                let got = ask(server, method, path, fields, body)?;
                ensure!(matches!(got.status, 200 | 201), "{method} {path}: {got:?}");
            }
        }
        ensure!(ask(server, "GET", "/cache/webui/", "", "")?.status == 200, "the page");
        ensure!(ask(server, "GET", "/1", "", "")?.status == 200, "files are for everybody");
        Ok(())
    });
}

#[test]
fn beyond_loopback_nothing_is_open_without_a_token() {
    const ARGS: &[&str] = &["--threads", "1", "--listen", "0.0.0.0:0"];
    let site = Site::new(&[1]);
    let setup = Setup { args: ARGS, ..ONE };
    setup.for_each_combination(|combination| {
        let mut server = Server::start_command(setup.command(combination, site.path()), 2)?;
        for (method, path) in [("GET", "/cache/stats"), ("POST", "/cache/reset/1"), ("PUT", "/cache/add/x")] {
            let got = ask(&server, method, path, "", "")?;
            ensure!(got.status == 403 && json(&got)?["error"].is_string(), "{method} {path}: {got:?}");
        }
        ensure!(ask(&server, "GET", "/1", "", "")?.status == 200, "files are served");
        server.drain()
    });
}

#[test]
fn a_page_of_another_site_changes_nothing() {
    ONE.for_each_server(Site::new(&[1]).path(), |server, _| {
        for fields in ["Sec-Fetch-Site: cross-site\r\n", "Origin: http://evil.example\r\n"] {
            for (method, path) in [("POST", "/cache/reset/1"), ("GET", "/cache/reset/1"), ("PUT", "/cache/add/x")] {
                let got = ask(server, method, path, fields, "")?;
                ensure!(got.status == 403, "{method} {path} {fields}: {got:?}");
            }
        }
        // A stranger's name that resolves to this machine.
        let rebound = "GET /cache/stats HTTP/1.1\r\nHost: evil.example\r\n\r\n";
        ensure!(Http::connect(server.address())?.ask(rebound)?.status == 403, "rebound");
        Ok(())
    });
}

#[test]
fn the_page_is_whole_and_allows_nothing_from_elsewhere() {
    ALL.for_each_server(Site::new(&[1]).path(), |server, _| {
        for (path, media_type) in [
            ("/cache/webui/", "text/html; charset=utf-8"),
            ("/cache/webui/icon.svg", "image/svg+xml"),
            ("/cache/webui/style.css", "text/css; charset=utf-8"),
            ("/cache/webui/app.js", "text/javascript; charset=utf-8"),
        ] {
            let got = ask(server, "GET", path, "", "")?;
            ensure!(got.status == 200 && got.field("content-type") == Some(media_type), "{path}: {got:?}");
            let policy = got.field("content-security-policy").context("no policy")?;
            ensure!(policy.starts_with("default-src 'self';"), "{policy}");
            ensure!(ask(server, "HEAD", path, "", "")?.body.is_empty(), "{path}");
        }
        Ok(())
    });
}

/// Readers, resets, additions and statistics at the same time: every response is one of the right ones.
#[test]
fn administration_and_readers_do_not_disturb_each_other() {
    const ROUNDS: usize = 60;
    let setup = Setup { args: &["--threads", "2", "--idle-evict", "50ms", "--pipe-budget", "256KiB"], ..ALL };
    // Drivers that differ most: loops that run the protocol themselves, and workers.
    static SOME: LazyLock<Vec<DriverKind>> =
        LazyLock::new(|| drivers_with(|facts| facts.batches || facts.connection == ConnectionModel::Worker));
    let setup = Setup { drivers: &SOME, concurrency: 4, ..setup };
    setup.for_each_server(Site::new(&[26_510, 70_000]).path(), |server, _| {
        let left = AtomicUsize::new(3);
        let work = |step: &(dyn Fn(usize) -> anyhow::Result<()> + Sync)| {
            let outcome = (0..ROUNDS).try_for_each(step);
            left.fetch_sub(1, Ordering::Relaxed);
            outcome
        };
        let read = || {
            while left.load(Ordering::Relaxed) > 0 {
                let mut client = Http::connect(server.address())?;
                let got = client.get("/26510")?;
                let is_right = got.body == bytes(26_510) || got.body.iter().all(|byte| *byte == b'o');
                ensure!(got.status == 200 && is_right, "{} with {} bytes", got.status, got.body.len());
                ensure!(client.get("/70000")?.body == bytes(70_000), "the other file");
            }
            Ok(())
        };
        thread::scope(|scope| {
            let add = |round: usize| {
                let got = ask(server, "PUT", "/cache/add/26510", "", &"o".repeat(100 + round * 500))?;
                ensure!(matches!(got.status, 200 | 201), "{got:?}");
                Ok(())
            };
            let reset = |_| {
                for path in ["/cache/reset/26510", "/cache/reset/70000"] {
                    ensure!(ask(server, "POST", path, "", "")?.status == 200, "{path}");
                }
                Ok(())
            };
            let look = |_| stats(server).map(drop);
            let workers =
                [scope.spawn(move || work(&add)), scope.spawn(move || work(&reset)), scope.spawn(move || work(&look))];
            let readers: Vec<_> = (0..2).map(|_| scope.spawn(read)).collect();
            let mut all = workers.into_iter().chain(readers);
            all.try_for_each(|thread| thread.join().expect("no panic"))
        })
    });
}

#[test]
fn administration_and_uploads_need_the_user_too() {
    let (site, outer) = (Site::new(&[100]), tempfile::tempdir().unwrap());
    let users = outer.path().join("users");
    // ada, with the password `secret`.
    std::fs::write(&users, "ada:$5$rounds=1000$saltsalt$eKLZU9t9OoPWrqOQsoTIKG0aYkZ5rGOoOQhiIvoSWX2\n").unwrap();
    let setup = Setup { strategies: &["auto"], ..ALL };
    setup.for_each_combination(|combination| {
        let mut command = setup.command(combination, site.path());
        command.args(["--admin-token", "t", "--basic-auth"]).arg(&users);
        let mut server = Server::start_command(command, 1)?;
        let (user, token) = ("Authorization: Basic YWRhOnNlY3JldA==\r\n", "X-Admin-Token: t\r\n");
        for fields in ["", token] {
            for (method, path) in [("GET", "/cache/stats"), ("POST", "/cache/add/new"), ("DELETE", "/cache/reset/")] {
                let got = ask(&server, method, path, fields, "body")?;
                let challenge = got.field("www-authenticate").unwrap_or_default().to_owned();
                ensure!(got.status == 401 && challenge.starts_with("Basic "), "{method} {path}: {got:?}");
            }
        }
        let both = [user, token].concat();
        ensure!(ask(&server, "GET", "/new", user, "")?.status == 404, "nothing was added");
        ensure!(ask(&server, "POST", "/cache/add/new", user, "body")?.status == 401, "the token is needed as well");
        ensure!(ask(&server, "POST", "/cache/add/new", &both, "body")?.status == 201);
        ensure!(ask(&server, "GET", "/new", user, "")?.body == b"body");
        ensure!(ask(&server, "GET", "/new", "", "")?.status == 401, "also once it is cached");
        server.drain()
    });
}
