//! Paths that need a user.

use std::{fs, path::Path, thread, time::Instant};

use anyhow::{Context, ensure};
use testkit::{
    DriverKind, Server, eventually,
    http::{Http, Response, get_and_close},
};

use super::{ask, expect_status, field, get, on_every_driver, write};

/// `ada` with the password `secret`, quick to verify.
const ADA: &str = "ada:$5$rounds=1000$saltsalt$eKLZU9t9OoPWrqOQsoTIKG0aYkZ5rGOoOQhiIvoSWX2\n";
/// `ada` with the password `secret`, in base64.
const GOOD: &str = "Authorization: Basic YWRhOnNlY3JldA==\r\n";
/// Pairs that nobody has: `ada:Secret`, `eve:secret`, `ada:`, and what is no pair.
const BAD: [&str; 5] = [
    "Authorization: Basic YWRhOlNlY3JldA==\r\n",
    "Authorization: Basic ZXZlOnNlY3JldA==\r\n",
    "Authorization: Basic YWRhOg==\r\n",
    "Authorization: Basic YWRh\r\n",
    "Authorization: Bearer YWRhOnNlY3JldA==\r\n",
];
const CHALLENGE: &str = "Basic realm=\"restricted\", charset=\"UTF-8\"";

/// Tree of public and private files, with its password file beside the root.
fn tree() -> (tempfile::TempDir, String) {
    let tree = tempfile::tempdir().unwrap();
    for name in ["root/public.txt", "root/private/a.txt", "root/private/index.html", "root/private/b/c.txt"] {
        write(tree.path(), name, name).unwrap();
    }
    write(tree.path(), "users", ADA).unwrap();
    let users = tree.path().join("users").display().to_string();
    (tree, users)
}

fn expect_challenge(got: &Response) -> anyhow::Result<()> {
    ensure!(got.status == 401 && field(got, "www-authenticate")? == CHALLENGE, "{got:?}");
    Ok(())
}

#[test]
fn a_protected_path_needs_a_user() {
    let (tree, users) = tree();
    let args = ["--basic-auth", &format!("/private/*={users}"), "--listing", "on", "--compress", "off"];
    on_every_driver(&tree.path().join("root"), &args, |server| {
        for round in ["first", "remembered"] {
            for target in ["/private/a.txt", "/private/", "/private/b/", "/private/missing", "//%70rivate/./a.txt"] {
                expect_challenge(&get(server, target)?).with_context(|| format!("{round} {target}"))?;
                let status = if target.ends_with("missing") { 404 } else { 200 };
                for _ in 0..2 {
                    let got = ask(server, "GET", target, GOOD)?;
                    ensure!(got.status == status, "{round} {target}: {got:?}");
                }
            }
            for bad in BAD {
                expect_challenge(&ask(server, "GET", "/private/a.txt", bad)?).with_context(|| bad)?;
            }
            expect_status(server, "/public.txt", 200)?;
            expect_status(server, "/private", 301)?;
            expect_challenge(&ask(server, "HEAD", "/private/a.txt", "")?)?;
            expect_challenge(&ask(server, "OPTIONS", "/private/a.txt", "")?)?;
            let part = ask(server, "GET", "/private/a.txt", &format!("{GOOD}Range: bytes=0-3\r\n"))?;
            ensure!(part.status == 206 && part.body == b"root", "{part:?}");
        }
        Ok(())
    });
}

#[test]
fn answers_of_users_and_strangers_keep_their_order() {
    let (tree, users) = tree();
    let args = ["--basic-auth", &format!("/private/*={users}")];
    let request = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    on_every_driver(&tree.path().join("root"), &args, |server| {
        let mut client = Http::connect(server.address())?;
        let asked = [("/private/a.txt", GOOD, 200), ("/public.txt", "", 200), ("/private/a.txt", BAD[0], 401)];
        let asked = [asked, asked].concat();
        let text: String = asked.iter().map(|(target, fields, _)| request(target, fields)).collect();
        client.send(&text)?;
        for (target, _, status) in asked {
            let got = client.response("GET")?;
            ensure!(got.status == status, "{target}: {got:?}");
        }
        // However it is torn.
        for piece in request("/private/a.txt", GOOD).as_bytes().chunks(7) {
            client.send(str::from_utf8(piece)?)?;
        }
        ensure!(client.response("GET")?.body == b"root/private/a.txt");
        Ok(())
    });
}

#[test]
fn a_body_of_a_stranger_is_in_nobodys_way() {
    let (tree, users) = tree();
    on_every_driver(&tree.path().join("root"), &["--basic-auth", &users], |server| {
        let mut client = Http::connect(server.address())?;
        let post = format!("POST /public.txt HTTP/1.1\r\nHost: h\r\n{}Content-Length: 5\r\n\r\nGET /", BAD[0]);
        expect_challenge(&client.ask(&post)?)?;
        client.send("POST /public.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n")?;
        let got = client.response("POST")?;
        expect_challenge(&got)?;
        ensure!(field(&got, "connection")? == "close", "{got:?}");
        client.expect_end()?;
        let mut client = Http::connect(server.address())?;
        client.send(&format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\nxxx", 1_u64 << 40))?;
        expect_challenge(&client.response("POST")?)
    });
}

#[test]
fn a_401_has_its_error_page_and_realm() {
    let (tree, users) = tree();
    write(&tree.path().join("root"), "401.html", "<p>who are you").unwrap();
    let args = [
        "--basic-auth",
        &users,
        "--error-page",
        "401=/401.html",
        "--basic-auth-realm",
        "Ada's files",
        "--header",
        "X-Y: z",
    ];
    on_every_driver(&tree.path().join("root"), &args, |server| {
        let got = get(server, "/public.txt")?;
        ensure!(got.status == 401 && got.body == b"<p>who are you", "{got:?}");
        ensure!(field(&got, "www-authenticate")? == "Basic realm=\"Ada's files\", charset=\"UTF-8\"", "{got:?}");
        ensure!(field(&got, "x-y")? == "z", "{got:?}");
        ensure!(ask(server, "GET", "/401.html", GOOD)?.status == 200);
        Ok(())
    });
}

#[test]
fn password_files_beneath_the_root_are_never_sent() {
    on_every_driver_with_users_in_root(|server| {
        for target in ["/users", "/%75sers", "/.htpasswd", "/.htpasswd.bak", "/.htaccess"] {
            expect_status(server, target, 404)?;
        }
        expect_status(server, "/.hidden", 200)?;
        let listing = get(server, "/")?;
        let text = String::from_utf8_lossy(&listing.body).into_owned();
        ensure!(text.contains("a.txt") && text.contains(".hidden"), "{text}");
        ensure!(!text.contains("users") && !text.contains(".ht"), "{text}");
        Ok(())
    });
}

fn on_every_driver_with_users_in_root(law: impl Fn(&Server) -> anyhow::Result<()> + Sync) {
    let tree = tempfile::tempdir().unwrap();
    for name in ["users", ".htpasswd", ".htpasswd.bak", ".htaccess", ".hidden", "a.txt"] {
        write(tree.path(), name, ADA).unwrap();
    }
    let users = format!("/never/*={}", tree.path().join("users").display());
    on_every_driver(tree.path(), &["--basic-auth", &users, "--dotfiles", "all", "--listing", "on"], law);
}

/// The hash takes a second or so; whoever needs none is answered meanwhile.
#[test]
fn a_slow_hash_holds_nobody_else_up() {
    let costly = "ada:$2y$13$BzeMaSueOCKUP0R7BROXo.KiS54o829R1Es9Tz9iTXOnQQKlJSJFS\n";
    let (tree, users) = tree();
    fs::write(&users, costly).unwrap();
    let args = ["--basic-auth", &format!("/private/*={users}")];
    on_every_driver(&tree.path().join("root"), &args, |server| {
        let attempt = |number: u32| {
            // Other credentials each time: verdicts are remembered.
            let fields = format!("Authorization: Basic {}\r\n", ["YWRhOjE=", "YWRhOjI=", "YWRhOjM="][number as usize]);
            let mut slow = Http::connect(server.address())?;
            slow.send(&format!("GET /private/a.txt HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))?;
            thread::scope(|scope| {
                let slow = scope.spawn(move || anyhow::Ok((slow.response("GET")?.status, Instant::now())));
                let quick = Http::connect(server.address())?.ask(&get_and_close("/public.txt"))?;
                let answered = Instant::now();
                let (status, denied) = slow.join().expect("no panic")?;
                ensure!(quick.status == 200 && status == 401);
                anyhow::Ok(answered < denied)
            })
        };
        for number in 0..3 {
            if attempt(number)? {
                return Ok(());
            }
        }
        anyhow::bail!("the public file came after the verdict, three times")
    });
}

#[test]
fn a_server_does_not_start_with_a_bad_password_file() {
    let (tree, users) = tree();
    for (text, why) in [
        ("ada:secret\n", "users:1: user \"ada\": the password is not hashed"),
        (
            "# of the office\nada:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n",
            "users:2: user \"ada\": unsalted SHA-1 is too weak",
        ),
        ("ada:$apr1$x$y\n", "users:1: user \"ada\": MD5 is too weak"),
    ] {
        fs::write(&users, text).unwrap();
        expect_refusal(&tree.path().join("root"), &users, why);
    }
    fs::remove_file(&users).unwrap();
    expect_refusal(&tree.path().join("root"), &users, "cannot read the password file");
}

fn expect_refusal(root: &Path, users: &str, why: &str) {
    let said = testkit::expect_failure(super::command(DriverKind::DEFAULT, root, &["--basic-auth", users]), 1).stderr;
    assert!(said.contains(why) && said.trim_end().lines().count() == 1, "{said}");
}

/// To know where it lies takes a system call, which a reload needs, too.
#[test]
fn a_password_file_among_the_content_stays_hidden_when_it_is_read_again() {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "users", ADA).unwrap();
    let rule = format!("/private*={}", tree.path().join("users").display());
    on_every_driver(tree.path(), &["--sandbox", "on", "--basic-auth", &rule], |server| {
        expect_status(server, "/users", 404)?;
        server.process().hang_up()?;
        eventually("it is read again", || Ok(server.stderr().contains("reloaded")))?;
        expect_status(server, "/users", 404)
    });
}
