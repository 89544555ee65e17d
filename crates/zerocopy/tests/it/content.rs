//! Listings, programs and bodies for nobody, which the front end has for every server.

use std::os::unix::fs::PermissionsExt;

use anyhow::ensure;
use testkit::http::Http;

use crate::setup::{ALL, STRATEGIES, Setup};

/// Every driver, with one strategy: none of this is sent by one.
const LISTING: Setup = Setup { strategies: &[STRATEGIES[0]], args: &["--threads", "1", "--listing", "on"], ..ALL };

#[test]
fn directories_are_listed_and_programs_are_run() {
    let tree = tempfile::tempdir().unwrap();
    let programs = tree.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    std::fs::write(tree.path().join("a.txt"), "0123456789").unwrap();
    std::fs::write(
        programs.join("hello"),
        "#!/bin/sh\necho 'Content-Type: text/plain'; echo; cat; echo \"$QUERY_STRING\"\n",
    )
    .unwrap();
    std::fs::set_permissions(programs.join("hello"), PermissionsExt::from_mode(0o755)).unwrap();
    LISTING.for_each_combination(|combination| {
        let mut command = LISTING.command(combination, tree.path());
        command.arg("--cgi-dir").arg(&programs);
        let mut server = testkit::Server::start_command(command, 1)?;
        let mut client = Http::connect(server.address())?;
        let listing = client.get("/")?;
        let shown = String::from_utf8_lossy(&listing.body).into_owned();
        ensure!(shown.contains("href=\"a.txt\"") && !shown.contains("programs"), "{shown}");
        let post = "POST /cgi-bin/hello?query HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
        ensure!(client.ask(post)?.body == b"helloquery\n");
        ensure!(client.get("/programs/hello")?.status == 404);
        let chunked = "GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        ensure!(client.ask(&format!("{chunked}3\r\nabc\r\n0\r\n\r\n"))?.body == b"0123456789");
        ensure!(client.ask(&format!("{chunked}3\r\nabcd\r\n"))?.status == 400);
        client.expect_end()?;
        server.drain()
    });
}
