//! Facts about the client that a program learns.

use anyhow::ensure;

use super::{Http, Tree, text};

/// The password is of no program's concern.
#[test]
fn a_program_learns_its_user_and_not_the_password() {
    let tree = Tree::new();
    tree.script(
        "who",
        "printf 'Content-Type: text/plain\\n\\n'\nenv | grep -c AUTHORIZATION\necho \"$AUTH_TYPE $REMOTE_USER\"",
    );
    tree.script("to-private", "echo 'Location: /private/a.txt'\necho");
    std::fs::create_dir(tree.root().join("private")).unwrap();
    std::fs::write(tree.root().join("private/a.txt"), "private").unwrap();
    // ada, with the password `secret`.
    std::fs::write(
        tree.0.path().join("users"),
        "ada:$5$rounds=1000$saltsalt$eKLZU9t9OoPWrqOQsoTIKG0aYkZ5rGOoOQhiIvoSWX2\n",
    )
    .unwrap();
    let users = tree.0.path().join("users").display().to_string();
    let rules = [format!("/cgi-bin/who={users}"), format!("/private/*={users}")];
    tree.serve(&["--basic-auth", &rules[0], "--basic-auth", &rules[1]], |server, _| {
        let ask = |target: &str, fields: &str| {
            Http::connect(server.address())?.ask(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
        };
        let good = "Authorization: Basic YWRhOnNlY3JldA==\r\n";
        ensure!(ask("/cgi-bin/who", "")?.status == 401);
        let got = ask("/cgi-bin/who", good)?;
        ensure!(text(&got) == "0\nBasic ada\n", "{got:?}");
        let post = format!("POST /cgi-bin/who HTTP/1.1\r\nHost: h\r\n{good}Content-Length: 3\r\n\r\nabc");
        let got = Http::connect(server.address())?.ask(&post)?;
        ensure!(text(&got) == "0\nBasic ada\n", "{got:?}");
        // A program that everybody may call shows nobody what is behind a password.
        ensure!(ask("/cgi-bin/to-private", "")?.status == 401);
        let got = ask("/cgi-bin/to-private", good)?;
        ensure!(text(&got) == "private", "{got:?}");
        Ok(())
    });
}

#[test]
fn a_program_learns_the_client_that_a_proxy_names() {
    let tree = Tree::new();
    tree.script(
        "who",
        "printf 'Content-Type: text/plain\\n\\n'\necho \"$REMOTE_ADDR:$REMOTE_PORT $SERVER_ADDR:$SERVER_PORT\"",
    );
    tree.serve(&["--proxy-protocol", "127.0.0.1"], |server, _| {
        let mut client = Http::connect(server.address())?;
        client.send("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n")?;
        let got = client.get("/cgi-bin/who")?;
        ensure!(text(&got) == "192.0.2.1:56324 198.51.100.1:443\n", "{got:?}");
        Ok(())
    });
}
