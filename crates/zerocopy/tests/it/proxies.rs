//! Administration behind proxies.

use testkit::{DriverKind, Server, http::Http};

use crate::setup::{Combination, ONE, Site};

/// Every client of a proxy comes from loopback, as far as addresses tell.
#[test]
fn behind_a_proxy_nothing_is_open_without_a_token() {
    let site = Site::new(&[1]);
    for driver in testkit::sample(DriverKind::ALL) {
        for (token, status, is_known) in [("", 403, false), ("secret", 401, false), ("secret", 200, true)] {
            let combination = Combination { strategy: "auto", driver };
            let mut command = ONE.command(combination, site.path());
            command.args(["--proxy-protocol", "127.0.0.1"]);
            if !token.is_empty() {
                command.args(["--admin-token", token]);
            }
            let mut server = Server::start_command(command, 1).unwrap();
            let field = if is_known { "X-Admin-Token: secret\r\n" } else { "" };
            for header in ["PROXY TCP4 127.0.0.1 127.0.0.1 56324 443\r\n", "PROXY UNKNOWN\r\n"] {
                let ask = |method, path, fields| {
                    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
                    let mut client = Http::connect(server.address()).unwrap();
                    client.send(&[header, &request].concat()).unwrap();
                    client.response(method).unwrap().status
                };
                for (method, path) in [("GET", "/cache/stats"), ("POST", "/cache/reset/1")] {
                    assert_eq!(ask(method, path, field), status, "{driver}: {method} {path} {token} {is_known}");
                }
                assert_eq!(ask("GET", "/1", ""), 200, "{driver}: files are for everybody");
            }
            server.drain().unwrap();
        }
    }
}
