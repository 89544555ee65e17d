//! Listings of directories, through real sockets on every driver.

use std::{
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    path::Path,
};

use anyhow::{Context, ensure};
use testkit::http::Response;

use crate::process::setup::{Http, PLAIN, Setup};

const LISTING: Setup = Setup { args: &["--threads", "1", "--listing", "on"], ..PLAIN };

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

/// Returns the links of the entries, in order.
fn links(page: &str) -> Vec<&str> {
    let rows = page.split("<tbody>").nth(1).and_then(|rows| rows.split("</tbody>").next()).unwrap_or_default();
    rows.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

fn ask(client: &mut Http, request: &str, fields: &str) -> anyhow::Result<Response> {
    client.ask(&format!("{request} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
}

fn grow(root: &Path) -> UnixListener {
    for directory in ["sub/deeper", ".hidden", "with-index", "10"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (name, contents) in [
        ("file10.txt", "1234567890"),
        ("file9.txt", "123"),
        (".secret", ""),
        ("sub/\"<script>&\n'.txt", "hostile"),
        ("sub/plain", "plain"),
        ("with-index/index.html", "<p>index"),
    ] {
        std::fs::write(root.join(name), contents).unwrap();
    }
    std::fs::write(root.join("sub").join(std::ffi::OsStr::from_bytes(b"\xff")), "not UTF-8").unwrap();
    for (target, link) in [("sub", "link"), ("/etc", "absolute"), ("..", "up"), ("file9.txt", "to-file")] {
        symlink(target, root.join(link)).unwrap();
    }
    UnixListener::bind(root.join("socket")).unwrap()
}

#[test]
fn a_listing_shows_what_is_served_and_nothing_else() {
    let tree = tempfile::tempdir().unwrap();
    let _socket = grow(tree.path());
    LISTING.for_each_server(tree.path(), |server, _| {
        let mut client = Http::connect(server.address())?;
        let page = client.get("/")?;
        ensure!(page.status == 200 && page.field("content-type") == Some("text/html; charset=utf-8"), "{page:?}");
        let policy = page.field("content-security-policy").context("no policy")?;
        ensure!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        let shown = text(&page);
        let want = ["10/", "link/", "sub/", "with-index/", "file9.txt", "file10.txt", "to-file"];
        ensure!(links(&shown) == want, "{:?}", links(&shown));
        for link in want {
            let there = client.get(&format!("/{link}"))?;
            ensure!(there.status == 200, "{link}: {}", there.status);
        }
        ensure!(text(&client.get("/with-index/")?) == "<p>index", "an index goes before a listing");
        let moved = client.get("/sub?sort=size")?;
        ensure!((moved.status, moved.field("location")) == (301, Some("/sub/?sort=size")), "{moved:?}");
        for missing in ["/.hidden/", "/up/", "/absolute/", "/nowhere/", "/file9.txt/", "/socket/"] {
            ensure!(client.get(missing)?.status == 404, "{missing}");
        }
        let below = text(&client.get("/sub/")?);
        ensure!(!below.contains("<script") && !below.contains("&\n"), "{below}");
        for link in links(&below) {
            let there = client.get(&format!("/sub/{link}"))?;
            ensure!(there.status == 200, "{link}: {}", there.status);
        }
        ensure!(links(&below)[0] == "../" && links(&below).len() == 5, "{:?}", links(&below));
        let sorted = text(&client.get("/?sort=size&order=desc")?);
        ensure!(links(&sorted)[4..] == ["file10.txt", "file9.txt", "to-file"], "{:?}", links(&sorted));
        Ok(())
    });
}

#[test]
fn a_listing_comes_as_json_and_by_conditions() {
    let tree = tempfile::tempdir().unwrap();
    let _socket = grow(tree.path());
    LISTING.for_each_server(tree.path(), |server, _| {
        let mut client = Http::connect(server.address())?;
        let json = ask(&mut client, "GET /sub/", "Accept: application/json\r\n")?;
        ensure!(json.field("content-type") == Some("application/json"), "{json:?}");
        ensure!(json.field("vary") == Some("Accept") && !json.body.contains(&b'<'), "{json:?}");
        ensure!(
            text(&json).contains(r#""name":"\"\u003cscript>&\n'.txt","url":"%22%3Cscript%3E%26%0A%27.txt""#),
            "{json:?}"
        );
        ensure!(text(&json).contains(r#""url":"%FF","type":"file","size":9,"modified":""#), "{json:?}");
        ensure!(client.get("/sub/?format=json")?.body == json.body);
        let page = client.get("/")?;
        let head = ask(&mut client, "HEAD /", "")?;
        ensure!(head.body.is_empty() && head.field("etag") == page.field("etag"), "{head:?}");
        ensure!(head.field("content-length") == Some(&*page.body.len().to_string()), "{head:?}");
        for name in ["etag", "last-modified"] {
            let value = page.field(name).context("no validator")?;
            let condition = if name == "etag" { "If-None-Match" } else { "If-Modified-Since" };
            let same = ask(&mut client, "GET /", &format!("{condition}: {value}\r\n"))?;
            ensure!((same.status, same.field("etag")) == (304, page.field("etag")), "{same:?}");
        }
        ensure!(ask(&mut client, "GET /", "If-Match: \"other\"\r\n")?.status == 412);
        ensure!(ask(&mut client, "POST /", "")?.status == 405, "a listing is read-only");
        Ok(())
    });
}

#[test]
fn directories_are_not_listed_unless_asked_for() {
    let tree = tempfile::tempdir().unwrap();
    let _socket = grow(tree.path());
    PLAIN.for_each_server(tree.path(), |server, _| {
        ensure!(Http::connect(server.address())?.get("/")?.status == 404);
        Ok(())
    });
}

/// Whoever asks meanwhile is answered; those who ask for the listing share it, in a pipeline and from several connections.
#[test]
fn a_large_directory_holds_nobody_up() {
    const FILES: usize = 10_000;
    let tree = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        std::fs::write(tree.path().join(format!("file-{number}")), "").unwrap();
    }
    LISTING.for_each_server(tree.path(), |server, _| {
        let mut waiting: Vec<Http> = (0..8).map(|_| Http::connect(server.address())).collect::<Result<_, _>>()?;
        for client in &mut waiting {
            client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /file-7 HTTP/1.1\r\nHost: h\r\n\r\nGET /?sort=time HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
        }
        ensure!(Http::connect(server.address())?.get("/file-9999")?.status == 200);
        for client in &mut waiting {
            let listing = client.response("GET")?;
            ensure!(listing.status == 200 && links(&text(&listing)).len() == FILES, "{}", listing.status);
            ensure!(client.response("GET")?.status == 200);
            ensure!(client.response("GET")?.status == 200);
            client.expect_end()?;
        }
        Ok(())
    });
}

#[test]
fn a_changed_directory_is_listed_anew() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("first"), "").unwrap();
    LISTING.for_each_driver(|driver| {
        let root = tree.path().join(format!("of-{driver}"));
        std::fs::create_dir(&root)?;
        let mut server = LISTING.start(driver, &root)?;
        let mut client = Http::connect(server.address())?;
        ensure!(links(&text(&client.get("/")?)).is_empty());
        std::fs::write(root.join("new"), "")?;
        testkit::eventually("the new file is listed", || Ok(links(&text(&client.get("/")?)) == ["new"]))?;
        std::fs::remove_file(root.join("new"))?;
        testkit::eventually("the removed file is gone", || Ok(links(&text(&client.get("/")?)).is_empty()))?;
        server.drain()
    });
}

#[test]
fn a_listing_is_sent_after_a_half_close() {
    let tree = tempfile::tempdir().unwrap();
    let _socket = grow(tree.path());
    LISTING.for_each_server(tree.path(), |server, _| {
        let mut client = Http::connect(server.address())?;
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\nHEAD /sub/ HTTP/1.1\r\nHost: h\r\n\r\n")?;
        client.half_close()?;
        ensure!(client.response("GET")?.status == 200 && client.response("HEAD")?.status == 200);
        client.expect_end()
    });
}
