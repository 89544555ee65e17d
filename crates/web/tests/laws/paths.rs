//! Which paths are served, and which requests name none.

use anyhow::ensure;
use testkit::http::Http;

use super::{expect_body, expect_status, on_every_driver, write};

#[test]
fn well_known_is_served_and_other_dotfiles_are_hidden() {
    let tree = tempfile::tempdir().unwrap();
    for name in [".well-known/acme-challenge/token", ".well-known/.secret", ".git/config", ".env", "a/.well-known/x"] {
        write(tree.path(), name, name).unwrap();
    }
    for (policy, served) in [
        (&[][..], [200, 404, 404]),
        (&["--dotfiles", "well-known"], [200, 404, 404]),
        (&["--dotfiles", "none"], [404, 404, 404]),
        (&["--dotfiles", "all"], [200, 200, 200]),
    ] {
        on_every_driver(tree.path(), policy, |server| {
            let [well_known, below, others] = served;
            expect_status(server, "/.well-known/acme-challenge/token", well_known)?;
            expect_status(server, "/.well-known/acme-challenge", if well_known == 200 { 301 } else { 404 })?;
            expect_status(server, "/.well-known/.secret", below)?;
            for hidden in ["/.git/config", "/%2egit/config", "/.env", "/a/.well-known/x"] {
                expect_status(server, hidden, others)?;
            }
            expect_status(server, "/.well-known/../../.env", 400)
        });
    }
}

#[test]
fn a_request_without_a_valid_host_is_refused() {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "a", "contents").unwrap();
    on_every_driver(tree.path(), &[], |server| {
        for request in [
            "GET /a HTTP/1.1\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost:\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: \t \r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: :80\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: [::1\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: ::1\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: %zz\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: u:p@x\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: h:80:80\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
            "GET /a HTTP/1.0\r\nHost: :80\r\n\r\n",
            "GET http://u:p@x/a HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET http:///a HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET http://:80/a HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET http://[::1/a HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET http://%zz/a HTTP/1.1\r\nHost: x\r\n\r\n",
        ] {
            let mut client = Http::connect(server.address())?;
            let got = client.ask(request)?;
            ensure!(got.status == 400 && got.field("connection") == Some("close"), "{request:?}: {got:?}");
            client.expect_end()?;
        }
        for host in ["h", "h:80", "h:", "[::1]:8080", "a%20b"] {
            let got = Http::connect(server.address())?.ask(&format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n"))?;
            ensure!(got.status == 200, "{host}: {got:?}");
        }
        expect_body(server, "/a", "contents")
    });
}
