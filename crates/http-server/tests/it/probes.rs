//! Table of requests and the tree that they are about; the same for sessions and for sockets.

use std::{os::unix::fs::symlink, path::Path};

use testkit::http::Response;

use crate::common::write;

/// Request, the status of its response, and whether the server closes the connection after it.
pub(crate) struct Probe {
    pub(crate) request: String,
    pub(crate) status: u16,
    pub(crate) closes: bool,
}

impl Probe {
    pub(crate) fn method(&self) -> &str {
        self.request.split(' ').next().unwrap()
    }

    /// Returns the request in a form for messages.
    pub(crate) fn shown(&self) -> &str {
        &self.request[..self.request.len().min(100)]
    }

    pub(crate) fn check(&self, response: &Response) {
        let shown = self.shown();
        assert_eq!(response.status, self.status, "{shown:?}");
        if self.status >= 400 && self.method() != "HEAD" {
            assert_eq!(response.field("content-type"), Some("text/html; charset=utf-8"));
            assert!(String::from_utf8_lossy(&response.body).contains(&self.status.to_string()), "{shown:?}");
        }
        assert_eq!(response.field("allow").is_some(), matches!(self.status, 204 | 405), "{shown:?}");
    }
}

/// Makes the tree that the table is about, and a file outside, in the directory of the root.
pub(crate) fn grow_tree(root: &Path) {
    write(root, "index.html", "<p>home");
    write(root, "a.txt", "0123456789");
    write(root, "sub/index.html", "<p>sub");
    write(root, "sub/b.css", "b{}");
    write(root, "empty/nothing.bin", "");
    write(root, "with space&\u{e9}.json", "{}");
    write(root, "100%41.txt", "percent");
    write(root, "middle.bin", vec![b'm'; 7_000]);
    write(root, "large.bin", vec![b'l'; 100_000]);
    write(root, ".secret", "dot");
    write(root, ".git/config", "dot");
    write(root, "index.d/index.html/x", "a directory called index.html");
    std::fs::write(root.parent().unwrap().join("outside.txt"), "outside").unwrap();
    for (target, link) in [
        ("a.txt", "link.txt"),
        ("../outside.txt", "escape.txt"),
        ("/etc/hostname", "absolute"),
        ("..", "up"),
        ("sub", "linked"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    std::fs::create_dir(root.join("escaping-index")).unwrap();
    symlink("../../outside.txt", root.join("escaping-index/index.html")).unwrap();
}

/// Table of the README. In the short ones, `\n` stands for CRLF.
pub(crate) fn probes() -> Vec<Probe> {
    let long = "a".repeat(9_000);
    [
        // methods
        ("GET /a.txt HTTP/1.1\nHost: h\n\n", 200, false),
        ("HEAD /a.txt HTTP/1.1\nHost: h\n\n", 200, false),
        ("OPTIONS /a.txt HTTP/1.1\nHost: h\n\n", 204, false),
        ("OPTIONS * HTTP/1.1\nHost: h\n\n", 204, false),
        ("POST /a.txt HTTP/1.1\nHost: h\n\n", 405, false),
        ("POST /a.txt HTTP/1.1\nHost: h\nContent-Length: 3\n\nabc", 405, false),
        ("PUT /new HTTP/1.1\nHost: h\nContent-Length: 3\nExpect: 100-continue\n\n", 405, true),
        ("DELETE /a.txt HTTP/1.1\nHost: h\n\n", 405, false),
        ("TRACE / HTTP/1.1\nHost: h\n\n", 405, false),
        ("CONNECT h:443 HTTP/1.1\nHost: h\n\n", 405, false),
        ("BREW /a.txt HTTP/1.1\nHost: h\n\n", 501, false),
        ("get /a.txt HTTP/1.1\nHost: h\n\n", 501, false),
        // bodies of requests that should have none
        ("GET /a.txt HTTP/1.1\nHost: h\nContent-Length: 0\n\n", 200, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nContent-Length: 2\n\nab", 200, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nContent-Length: 65537\n\nab", 200, true),
        ("GET /a.txt HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n0\n\n", 200, false),
        ("HEAD /a.txt HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n", 200, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\nzz\n", 400, true),
        ("GET /a.txt HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n3\nabcd\n0\n\n", 400, true),
        ("OPTIONS * HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n-1\n", 400, true),
        // paths
        ("GET /a.txt?x=%zz HTTP/1.1\nHost: h\n\n", 200, false),
        ("GET /a.txt/ HTTP/1.1\nHost: h\n\n", 404, false),
        ("GET /missing HTTP/1.1\nHost: h\n\n", 404, false),
        ("GET / HTTP/1.1\nHost: h\n\n", 200, false),
        ("GET /sub HTTP/1.1\nHost: h\n\n", 301, false),
        ("GET /sub/ HTTP/1.1\nHost: h\n\n", 200, false),
        ("GET /empty/ HTTP/1.1\nHost: h\n\n", 404, false),
        ("GET /index.d/ HTTP/1.1\nHost: h\n\n", 404, false),
        ("GET //sub//b.css HTTP/1.1\nHost: h\n\n", 200, false),
        ("GET /sub/../a.txt HTTP/1.1\nHost: h\n\n", 200, false),
        ("GET /../a.txt HTTP/1.1\nHost: h\n\n", 400, false),
        ("GET /%2e%2e/a.txt HTTP/1.1\nHost: h\n\n", 400, false),
        ("GET /sub/..%2fa.txt HTTP/1.1\nHost: h\n\n", 404, false),
        ("GET /a.txt%00 HTTP/1.1\nHost: h\n\n", 400, false),
        ("GET /%zz HTTP/1.1\nHost: h\n\n", 400, false),
        ("GET /link.txt HTTP/1.1\nHost: h\n\n", 200, false),
        ("GET /linked/b.css HTTP/1.1\nHost: h\n\n", 200, false),
        ("GET /escape.txt HTTP/1.1\nHost: h\n\n", 404, false),
        ("GET /absolute HTTP/1.1\nHost: h\n\n", 404, false),
        ("GET /up/outside.txt HTTP/1.1\nHost: h\n\n", 404, false),
        ("GET /escaping-index/ HTTP/1.1\nHost: h\n\n", 404, false),
        ("GET /.secret HTTP/1.1\nHost: h\n\n", 404, false),
        ("GET /.git/config HTTP/1.1\nHost: h\n\n", 404, false),
        // ranges
        ("GET /a.txt HTTP/1.1\nHost: h\nRange: bytes=0-1\n\n", 206, false),
        ("HEAD /a.txt HTTP/1.1\nHost: h\nRange: bytes=0-1\n\n", 200, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nRange: foo=0-1\n\n", 200, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nRange: bytes=0-1,5-6\n\n", 206, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nRange: bytes=0-5,5-6\n\n", 200, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nRange: bytes=5000-\n\n", 416, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nRange: bytes=0-1\nIf-Range: \"x\"\n\n", 200, false),
        // preconditions
        ("GET /a.txt HTTP/1.1\nHost: h\nIf-None-Match: *\n\n", 304, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nIf-Match: \"zz\"\n\n", 412, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nIf-Unmodified-Since: Fri, 01 Jan 1999 00:00:00 GMT\n\n", 412, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nIf-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT\n\n", 304, false),
        // versions
        ("GET /a.txt HTTP/1.9\nHost: h\n\n", 200, false),
        ("GET /a.txt HTTP/2.0\nHost: h\n\n", 505, true),
        ("GET /a.txt HTTP/1.0\n\n", 200, true),
        ("GET /a.txt HTTP/1.0\nConnection: keep-alive\n\n", 200, false),
        ("GET /a.txt\n", 400, true),
        ("GET /a.txt HTTP/1.1\nHost: h\nConnection: close\n\n", 200, true),
        // heads
        ("GET /a.txt HTTP/1.1\n\n", 400, true),
        ("GET /a.txt HTTP/1.1\nHost: h\nHost: h\n\n", 400, true),
        ("GET http://other/a.txt HTTP/1.1\nHost: h\n\n", 200, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nX: a\n b\n\n", 400, true),
        ("\n\nGET /a.txt HTTP/1.1\nHost: h\n\n", 200, false),
        ("GET /a.txt HTTP/1.1\nHost: h\nContent-Length: 0\nTransfer-Encoding: chunked\n\n", 400, true),
        ("GET /a.txt HTTP/1.1\nHost: h\nContent-Length: 1\nContent-Length: 2\n\n", 400, true),
        ("GET /a.txt HTTP/1.1\nHost: h\nContent-Length: +5\n\n", 400, true),
        ("GET /a.txt HTTP/1.1\nHost: h\nTransfer-Encoding: gzip\n\n", 501, true),
        ("GET /a.txt HTTP/1.1\nHost: h\nTransfer-Encoding: chunked, gzip\n\n", 400, true),
        ("GET /a.txt HTTP/1.1\nHost:\n\n", 400, true),
        ("GET /a.txt HTTP/1.1\nHost: :80\n\n", 400, true),
        ("GET /a.txt HTTP/1.1\nHost: [::1\n\n", 400, true),
        ("GET /a.txt HTTP/1.1\nHost: %zz\n\n", 400, true),
        ("GET /a.txt HTTP/1.1\nHost: [::1]:80\n\n", 200, false),
        ("GET http://u:p@x/a.txt HTTP/1.1\nHost: h\n\n", 400, true),
    ]
    .map(|(request, status, closes)| (request.replace('\n', "\r\n"), status, closes))
    .into_iter()
    .chain([
        (format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n"), 414, true),
        (format!("GET / HTTP/1.1\r\nHost: h\r\nX: {long}\r\n\r\n"), 431, true),
        (format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: y\r\n".repeat(2_000)), 431, true),
        ("GET /a.txt HTTP/1.1\nHost: h\n\n".into(), 400, true),
        (format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(300)), 404, false),
        (format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", "/a".repeat(3_000)), 404, false),
    ])
    .map(|(request, status, closes)| Probe { request, status, closes })
    .collect()
}
