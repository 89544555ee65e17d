//! Comparison with nginx: where the RFCs leave no choice, both servers give the same responses.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::Context;
use sys::listen::Address;
use testkit::{Client, DriverKind, eventually, http::Response, installed_program};

use crate::{
    common::write,
    process::setup::{Http, PLAIN},
};

/// A running nginx; killed when this is dropped.
struct Nginx {
    child: Child,
    address: Address,
}

impl Nginx {
    /// Serves `root` over a unix socket; everything it writes is in `scratch`.
    fn start(program: &Path, root: &Path, scratch: &Path) -> anyhow::Result<Self> {
        let (root, dir, socket) = (root.display(), scratch.display(), scratch.join("nginx.sock"));
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {dir}/nginx-{kind};"))
            .concat();
        let config = format!(
            "daemon off; master_process off; pid {dir}/nginx.pid; error_log stderr crit; events {{}}
             http {{ access_log off; {temporary} types {{ text/html html; text/plain txt; }}
                     server {{ listen unix:{}; root {root}; }} }}",
            socket.display(),
        );
        let path = scratch.join("nginx.conf");
        std::fs::write(&path, config)?;
        let mut command = Command::new(program);
        command.arg("-p").arg(scratch).arg("-c").arg(&path).stdin(Stdio::null());
        let mut nginx = Self { child: command.spawn().context("cannot run nginx")?, address: Address::Unix(socket) };
        eventually("nginx is ready", || {
            anyhow::ensure!(nginx.child.try_wait()?.is_none(), "nginx has ended");
            Ok(Client::connect(&nginx.address).is_ok())
        })?;
        Ok(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It has ended by itself, or is killed now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests on which peers have to agree; `\n` stands for CRLF.
const PROBES: &[&str] = &[
    "GET /a.txt HTTP/1.1\nHost: h\n\n",
    "HEAD /a.txt HTTP/1.1\nHost: h\n\n",
    "HEAD /large.txt HTTP/1.1\nHost: h\n\n",
    "GET / HTTP/1.1\nHost: h\n\n",
    "GET /sub/ HTTP/1.1\nHost: h\n\n",
    "GET /sub HTTP/1.1\nHost: h\n\n",
    "GET /a.txt/ HTTP/1.1\nHost: h\n\n",
    "GET /missing HTTP/1.1\nHost: h\n\n",
    "HEAD /missing HTTP/1.1\nHost: h\n\n",
    "GET /../a.txt HTTP/1.1\nHost: h\n\n",
    "GET /%2e%2e/a.txt HTTP/1.1\nHost: h\n\n",
    "GET /sub/../a.txt HTTP/1.1\nHost: h\n\n",
    "GET /a.txt%00 HTTP/1.1\nHost: h\n\n",
    "GET /%zz HTTP/1.1\nHost: h\n\n",
    "GET http://h/a.txt HTTP/1.1\nHost: h\n\n",
    "POST /a.txt HTTP/1.1\nHost: h\nContent-Length: 0\n\n",
    "GET /a.txt HTTP/1.1\n\n",
    "GET /a.txt HTTP/1.1\nHost: h\nHost: h\n\n",
    "GET /a.txt HTTP/1.1\nHost: h\nContent-Length: 3\nTransfer-Encoding: chunked\n\n",
    "GET /a.txt HTTP/1.1\nHost: h\nContent-Length: 1\nContent-Length: 2\n\n",
    "GET /a.txt HTTP/1.1\nHost: h\nContent-Length: +5\n\n",
    "GET /a.txt HTTP/1.1\nHost: h\nTransfer-Encoding: gzip\n\n",
    "GET /a.txt HTTP/2.0\nHost: h\n\n",
    "GET /a.txt HTTP/1.0\n\n",
    "GET /a.txt HTTP/1.1\nHost: h\nIf-None-Match: *\n\n",
    "GET /a.txt HTTP/1.1\nHost: h\nIf-Match: \"zz\"\n\n",
    "GET /a.txt HTTP/1.1\nHost: h\nIf-Unmodified-Since: Fri, 01 Jan 1999 00:00:00 GMT\n\n",
    "GET /a.txt HTTP/1.1\nHost: h\nRange: foo=0-1\n\n",
];

#[test]
fn nginx_and_ours_agree_where_the_rfcs_leave_no_choice() {
    let Some(program) = installed_program("nginx").unwrap() else { return };
    let (tree, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, contents) in [("index.html", "<p>home"), ("a.txt", "0123456789"), ("sub/index.html", "<p>sub")] {
        write(tree.path(), name, contents);
    }
    write(tree.path(), "large.txt", "l".repeat(100_000));
    let nginx = Nginx::start(&program, tree.path(), scratch.path()).unwrap();
    let mut ours = PLAIN.start(DriverKind::DEFAULT, tree.path()).unwrap();
    let ask = |address: &Address, request: &str| Http::connect(address)?.ask(request);
    for probe in PROBES {
        let request = probe.replace('\n', "\r\n");
        let [theirs, ours] = [&nginx.address, ours.address()]
            .map(|address| ask(address, &request).with_context(|| format!("{address}: {probe:?}")).unwrap());
        assert_eq!(essence(&theirs), essence(&ours), "nginx and ours: {probe:?}");
    }
    ours.drain().unwrap();
}

/// Part of a response that must be the same: the status, and all about a file but the form of its entity tag.
fn essence(response: &Response) -> (u16, Vec<Option<&str>>, &[u8]) {
    let is_file = matches!(response.status, 200 | 304);
    let names: &[&str] = match response.status {
        200 => &["content-length", "last-modified"],
        304 => &["last-modified"],
        _ => &[],
    };
    let body = if is_file { &response.body[..] } else { b"" };
    (response.status, names.iter().map(|name| response.field(name)).collect(), body)
}
