//! Index names, error pages, fallback, redirects, rewrites, configured fields and symbolic links.

use std::{os::unix::fs::symlink, path::Path};

use anyhow::{Context, ensure};
use testkit::{Server, eventually, http::Response};

use super::{
    CHECK_EACH_TIME, UNSENDABLE, ask, expect_body, expect_status, field, get, on_every_driver, on_every_driver_alone,
    write,
};

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    for (name, contents) in files {
        write(tree.path(), name, contents).unwrap();
    }
    tree
}

/// Puts links that lead out of the root there, to a file beside it.
fn with_secret(tree: &tempfile::TempDir, links: &[&str]) -> std::path::PathBuf {
    let root = tree.path().join("root");
    write(tree.path(), "secret", "secret").unwrap();
    std::fs::create_dir_all(&root).unwrap();
    for link in links {
        std::fs::create_dir_all(root.join(link).parent().unwrap()).unwrap();
        symlink(tree.path().join("secret"), root.join(link)).unwrap();
    }
    root
}

fn expect_redirect(server: &Server, target: &str, status: u16, location: &str) -> anyhow::Result<()> {
    let got = get(server, target)?;
    ensure!(got.status == status && got.field("location") == Some(location), "{target}: {got:?}");
    Ok(())
}

#[test]
fn the_first_index_name_that_is_there_is_sent() {
    let tree = tree(&[
        ("a/index.html", "html"),
        ("a/index.htm", "htm"),
        ("b/index.htm", "htm"),
        ("c/other", ""),
        ("d/index.html/x", "a directory of that name"),
        ("d/index.htm", "htm"),
    ]);
    on_every_driver(tree.path(), &["--index", "index.html,index.htm"], |server| {
        for (target, body) in [("/a/", "html"), ("/b/", "htm"), ("/d/", "htm")] {
            expect_body(server, target, body)?;
            ensure!(field(&get(server, target)?, "content-type")?.starts_with("text/html"), "{target}");
        }
        expect_status(server, "/c/", 404)?;
        expect_redirect(server, "/b?q", 301, "/b/?q")
    });
    let outer = tempfile::tempdir().unwrap();
    let root = with_secret(&outer, &["a/index.html"]);
    on_every_driver(&root, &["--index", "index.html,index.htm"], |server| expect_status(server, "/a/", 404));
}

#[test]
fn an_error_page_has_the_status_of_the_error() {
    let tree = tree(&[
        ("404.html", "<p>nothing here"),
        ("e/405.txt", "no"),
        ("412.html", "changed"),
        ("empty", ""),
        ("a", "a"),
    ]);
    let args = [
        "--error-page",
        "404=/404.html",
        "--error-page",
        "405=/e/405.txt",
        "--error-page",
        "412=/412.html",
        "--error-page",
        "400=/empty",
        "--header",
        "/404.html=X-Page: 404",
        "--cache-control",
        "*=max-age=60",
    ];
    on_every_driver(tree.path(), &args, |server| {
        for round in ["opened", "cached"] {
            let got = get(server, "/missing")?;
            ensure!(got.status == 404 && got.body == b"<p>nothing here", "{round}: {got:?}");
            ensure!(got.field("content-type") == Some("text/html; charset=utf-8"), "{got:?}");
            ensure!(got.field("x-page") == Some("404"), "its own fields: {got:?}");
            for absent in ["etag", "last-modified", "cache-control", "accept-ranges"] {
                ensure!(got.field(absent).is_none(), "{absent} of an error: {got:?}");
            }
            let head = ask(server, "HEAD", "/missing", "")?;
            ensure!(head.status == 404 && head.body.is_empty(), "{head:?}");
            ensure!(head.field("content-length") == got.field("content-length"), "{head:?}");
            let conditional = "If-None-Match: *\r\nRange: bytes=0-1\r\n";
            ensure!(ask(server, "GET", "/missing", conditional)?.body == got.body, "conditions are about other files");
        }
        let posted = ask(server, "DELETE", "/a", "")?;
        ensure!((posted.status, &posted.body[..]) == (405, b"no") && posted.field("allow").is_some(), "{posted:?}");
        let failed = ask(server, "GET", "/a", "If-Match: \"x\"\r\n")?;
        ensure!((failed.status, &failed.body[..]) == (412, b"changed"), "{failed:?}");
        let empty = get(server, "/%zz")?;
        ensure!((empty.status, empty.field("content-length")) == (400, Some("0")), "{empty:?}");
        let page = get(server, "/404.html")?;
        ensure!(page.status == 200 && page.field("cache-control") == Some("max-age=60"), "asked for itself: {page:?}");
        expect_body(server, "/a", "a")
    });
}

#[test]
fn an_error_page_that_is_missing_is_replaced_by_ours() {
    let outer = tempfile::tempdir().unwrap();
    let root = with_secret(&outer, &["out.html"]);
    std::fs::create_dir(root.join("directory")).unwrap();
    for page in ["404=/missing.html", "404=/out.html", "404=/directory"] {
        on_every_driver(&root, &["--error-page", page], |server| {
            let got = get(server, "/nothing")?;
            ensure!(got.status == 404 && got.body.starts_with(b"<!doctype html>"), "{page}: {got:?}");
            eventually("a warning", || Ok(server.stderr().contains(UNSENDABLE))).context(page)
        });
    }
}

#[test]
fn the_fallback_is_sent_for_routes_and_not_for_assets() {
    let tree = tree(&[("index.html", "app"), ("a.css", "css"), ("d/x", "")]);
    let args = ["--fallback", "/index.html", "--cache-control", "/index.html=no-cache"];
    on_every_driver(tree.path(), &args, |server| {
        for route in ["/users", "/users/7?tab=1", "/users/jane.doe", "/v1.2", "/old.html", "/d/", "/x%20y"] {
            let got = get(server, route)?;
            ensure!(got.status == 200 && got.body == b"app", "{route}: {got:?}");
            ensure!(got.field("cache-control") == Some("no-cache"), "as the file itself: {got:?}");
            let known = format!("If-None-Match: {}\r\n", field(&got, "etag")?);
            ensure!(ask(server, "GET", route, &known)?.status == 304, "{route}");
            let head = ask(server, "HEAD", route, "")?;
            ensure!(head.status == 200 && head.field("content-length") == Some("3"), "{route}: {head:?}");
            let failed = ask(server, "GET", route, "If-Match: \"x\"\r\n")?;
            ensure!(failed.status == 412, "{route}: {failed:?}");
        }
        for asset in ["/gone.js", "/gone.CSS", "/img/gone.png", "/gone.map", "/.env", "/.git/config", "/a%2fb"] {
            expect_status(server, asset, 404)?;
        }
        ensure!(ask(server, "POST", "/users", "")?.status == 405, "only GET and HEAD");
        expect_status(server, "/../users", 400)?;
        expect_body(server, "/a.css", "css")
    });
    let outer = tempfile::tempdir().unwrap();
    let root = with_secret(&outer, &["index.html"]);
    on_every_driver(&root, &["--fallback", "/index.html"], |server| expect_status(server, "/users", 404));
}

#[test]
fn redirects_come_before_files_and_are_safe() {
    let tree = tree(&[("old/a", "file"), ("index.html", "home"), ("new/b", "b")]);
    let args = [
        "--redirect",
        "/old/*=301 /new/$1",
        "--redirect",
        "/go*=/$1",
        "--redirect",
        "/away/*=308 https://example.com/$1?from=us",
        "--redirect",
        "/index.html=301 /",
        "--fallback",
        "/index.html",
        "--header",
        "X-All: yes",
    ];
    on_every_driver(tree.path(), &args, |server| {
        for _ in ["once", "again"] {
            expect_redirect(server, "/old/a", 301, "/new/a")?;
            expect_redirect(server, "/old/a%20b?q=1", 301, "/new/a%20b?q=1")?;
            expect_redirect(server, "//old//x/../a", 301, "/new/a")?;
            expect_redirect(server, "/go/evil.example", 302, "/evil.example")?;
            expect_redirect(server, "/go/%5cevil.example", 302, "/%5Cevil.example")?;
            expect_redirect(server, "/go%0d%0aX-Evil:%20yes", 302, "/%0D%0AX-Evil:%20yes")?;
            expect_redirect(server, "/away/x?y=1", 308, "https://example.com/x?from=us")?;
            expect_redirect(server, "/index.html", 301, "/")?;
            // The file that the redirect hides is still the index and the fallback.
            expect_body(server, "/", "home")?;
            expect_body(server, "/users", "home")?;
        }
        let head = ask(server, "HEAD", "/old/a", "")?;
        ensure!(head.status == 301 && head.field("x-all") == Some("yes") && head.body.is_empty(), "{head:?}");
        ensure!(ask(server, "POST", "/old/a", "")?.status == 405, "only GET and HEAD");
        Ok(())
    });
}

#[test]
fn a_rewrite_serves_another_file_beneath_the_root() {
    let outer = tempfile::tempdir().unwrap();
    let root = with_secret(&outer, &["files/out"]);
    for (name, contents) in
        [("files/a.txt", "a"), ("files/.env", "dot"), ("files/d/index.html", "index"), ("v1/x", "hidden")]
    {
        write(&root, name, contents).unwrap();
    }
    let args = ["--rewrite", "/v*/*=/files/$2", "--redirect", "/files/*=301 /v9/$1", "--rewrite", "/x*=/files/.$1"];
    on_every_driver(&root, &args, |server| {
        for _ in ["opened", "cached"] {
            expect_body(server, "/v1/a.txt", "a")?;
            expect_body(server, "/v2/d/", "index")?;
            expect_redirect(server, "/files/a.txt", 301, "/v9/a.txt")?;
        }
        ensure!(field(&get(server, "/v1/a.txt")?, "content-type")?.starts_with("text/plain"), "the type of the file");
        for missing in ["/v1/x", "/v1/out", "/v1/.env", "/xenv", "/v1/..%2f..%2fsecret"] {
            expect_status(server, missing, 404)?;
        }
        let part = ask(server, "GET", "/v1/a.txt", "Range: bytes=0-0\r\n")?;
        ensure!(part.status == 206 && part.body == b"a", "{part:?}");
        expect_status(server, "/v1/../../secret", 400)
    });
}

fn has(response: &Response, fields: &[(&str, Option<&str>)]) -> anyhow::Result<()> {
    for (name, value) in fields {
        let values: Vec<_> = response.fields.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name)).collect();
        ensure!(response.field(name) == *value && values.len() <= 1, "{name} instead of {value:?}: {response:?}");
    }
    Ok(())
}

#[test]
fn configured_fields_are_on_every_response() {
    let tree = tree(&[("fonts/a.woff2", "0123456789"), ("a.txt", "a"), ("assets/a.js", "js")]);
    let args = [
        "--header",
        "X-Frame-Options: DENY",
        "--header",
        "/fonts/*=Access-Control-Allow-Origin: *",
        "--header",
        "/fonts/*=X-Frame-Options: SAMEORIGIN",
        "--cache-control",
        "*.{woff2,js}=max-age=31536000, immutable",
        "--cache-control",
        "/a.txt=no-cache",
    ];
    on_every_driver(tree.path(), &args, |server| {
        let etag = field(&get(server, "/fonts/a.woff2")?, "etag")?.to_owned();
        let forever = Some("max-age=31536000, immutable");
        for (method, fields, status, cache_control) in [
            ("GET", String::new(), 200, forever),
            ("HEAD", String::new(), 200, forever),
            ("GET", "Range: bytes=0-1\r\n".to_owned(), 206, forever),
            ("GET", "Range: bytes=0-1,4-5\r\n".to_owned(), 206, forever),
            ("GET", format!("If-None-Match: {etag}\r\n"), 304, forever),
            ("GET", "Range: bytes=99-\r\n".to_owned(), 416, None),
            ("GET", "If-Match: \"x\"\r\n".to_owned(), 412, None),
            ("DELETE", String::new(), 405, None),
            ("OPTIONS", String::new(), 204, None),
        ] {
            let got = ask(server, method, "/fonts/a.woff2", &fields)?;
            ensure!(got.status == status, "{method} {fields:?}: {got:?}");
            let wanted = [("access-control-allow-origin", Some("*")), ("x-frame-options", Some("SAMEORIGIN"))];
            has(&got, &[&wanted[..], &[("cache-control", cache_control)]].concat())?;
        }
        has(&get(server, "/fonts/missing")?, &[("access-control-allow-origin", Some("*")), ("cache-control", None)])?;
        let others = [("access-control-allow-origin", None), ("x-frame-options", Some("DENY"))];
        has(&get(server, "/a.txt")?, &[&others[..], &[("cache-control", Some("no-cache"))]].concat())?;
        has(&get(server, "/missing")?, &others)?;
        has(&get(server, "/assets")?, &others)?;
        has(&get(server, "/assets/a.js")?, &[("cache-control", forever)])
    });
}

/// As a browser asks before it sends a request that scripts of other origins made.
#[test]
fn a_preflight_is_answered_by_configured_fields() {
    let tree = tree(&[("api/data.json", "{}")]);
    let args = [
        "--header",
        "/api/*=Access-Control-Allow-Origin: https://example.com",
        "--header",
        "/api/*=Access-Control-Allow-Methods: GET, HEAD",
        "--header",
        "/api/*=Access-Control-Allow-Headers: X-Token",
        "--header",
        "Access-Control-Max-Age: 600",
    ];
    on_every_driver(tree.path(), &args, |server| {
        let fields = "Origin: https://example.com\r\nAccess-Control-Request-Method: GET\r\n\
                      Access-Control-Request-Headers: x-token\r\n";
        let got = ask(server, "OPTIONS", "/api/data.json", fields)?;
        ensure!(got.status == 204 && got.body.is_empty() && got.field("content-length").is_none(), "{got:?}");
        has(
            &got,
            &[
                ("access-control-allow-origin", Some("https://example.com")),
                ("access-control-allow-methods", Some("GET, HEAD")),
                ("access-control-allow-headers", Some("X-Token")),
                ("access-control-max-age", Some("600")),
                ("allow", Some("GET, HEAD, OPTIONS")),
            ],
        )?;
        let elsewhere = ask(server, "OPTIONS", "/other", fields)?;
        has(&elsewhere, &[("access-control-allow-origin", None), ("access-control-max-age", Some("600"))])
    });
}

/// A long policy does not fit the head that zerocopy reserves by default.
#[test]
fn long_fields_do_not_hurt_the_body() {
    let body = "0123456789".repeat(3_000);
    let tree = tree(&[("a", &body)]);
    std::thread::sleep(std::time::Duration::from_millis(80));
    let policy = format!("Content-Security-Policy: default-src {}", "https://example.com ".repeat(250));
    on_every_driver(tree.path(), &["--header", &policy], |server| {
        for _ in 0..3 {
            expect_body(server, "/a", &body)?;
            ensure!(field(&get(server, "/a")?, "content-security-policy")?.len() > 4_900, "all of it");
        }
        Ok(())
    });
}

#[test]
fn names_of_one_file_have_their_own_fields() {
    let tree = tree(&[("a.txt", "the same")]);
    std::fs::hard_link(tree.path().join("a.txt"), tree.path().join("b.txt")).unwrap();
    on_every_driver(tree.path(), &["--cache-control", "/b.txt=no-store"], |server| {
        for _ in ["opened", "cached"] {
            has(&get(server, "/a.txt")?, &[("cache-control", None)])?;
            has(&get(server, "/b.txt")?, &[("cache-control", Some("no-store"))])?;
        }
        Ok(())
    });
}

#[test]
fn the_character_set_is_that_of_the_flag() {
    let tree = tree(&[("a.html", ""), ("a.mjs", ""), ("a.wasm", "")]);
    for (args, html, module) in [
        (&[][..], "text/html; charset=utf-8", "text/javascript; charset=utf-8"),
        (&["--charset", "iso-8859-1"], "text/html; charset=iso-8859-1", "text/javascript; charset=iso-8859-1"),
        (&["--charset", "off"], "text/html", "text/javascript"),
    ] {
        on_every_driver(tree.path(), args, |server| {
            for (target, want) in [("/a.html", html), ("/a.mjs", module), ("/a.wasm", "application/wasm")] {
                let got = get(server, target)?;
                ensure!(got.field("content-type") == Some(want), "{target}: {got:?}");
            }
            Ok(())
        });
    }
}

#[test]
fn links_are_followed_by_policy() {
    let links = |root: &Path| -> anyhow::Result<()> {
        write(root, "real/a", "a")?;
        write(root, "real/index.html", "index")?;
        symlink("real/a", root.join("link"))?;
        symlink("real", root.join("directory"))?;
        std::fs::create_dir(root.join("index"))?;
        Ok(symlink("../real/index.html", root.join("index/index.html"))?)
    };
    on_every_driver_alone(&[], |server, root| {
        links(root)?;
        for followed in ["/real/a", "/link", "/directory/a", "/directory/", "/index/"] {
            expect_status(server, followed, 200)?;
        }
        Ok(())
    });
    let args = [CHECK_EACH_TIME, &["--symlinks", "none", "--error-page", "404=/link", "--fallback", "/link"]].concat();
    on_every_driver_alone(&args, |server, root| {
        links(root)?;
        for refused in ["/link", "/directory/a", "/directory/", "/directory", "/index/"] {
            let got = get(server, refused)?;
            ensure!(got.status == 404 && got.body != b"a", "{refused}: {got:?}");
        }
        // A directory becomes a link to where its files have gone, and they are the same.
        expect_body(server, "/real/a", "a")?;
        std::fs::rename(root.join("real"), root.join("moved"))?;
        symlink("moved", root.join("real"))?;
        expect_status(server, "/real/a", 404)?;
        expect_body(server, "/moved/a", "a")
    });
}
