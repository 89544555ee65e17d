//! Flags of the content that are refused at the start.

use testkit::{DriverKind, expect_failure};

use super::{command, write};

#[test]
fn a_bad_setting_is_explained_at_the_start() {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "404.html", "").unwrap();
    let long = format!("X: {}", "x".repeat(9_000));
    for (flag, value, why) in [
        ("--dotfiles", "some", "well-known, none, all"),
        ("--symlinks", "all", "beneath, none"),
        ("--index", "a/b", "an index is a name in each directory"),
        ("--index", "", "is not the name of a file"),
        ("--error-page", "404", "is not of the form STATUS=PATH"),
        ("--error-page", "200=/404.html", "has no page of its own"),
        ("--error-page", "404=404.html", "is not the path of a file of the site"),
        ("--error-page", "404=/.errors/404.html", "is hidden by --dotfiles"),
        ("--fallback", "index.html", "is not the path of a file of the site"),
        ("--fallback", "/.hidden", "is hidden by --dotfiles"),
        ("--redirect", "/a=200 /b", "is not the status of a redirect"),
        ("--redirect", "/*=//evil.example/$1", "neither a path such as /new/$1 nor a URL"),
        ("--redirect", "/*=https://example.com$1", "the host has to be written out"),
        ("--redirect", "/a/*=/a/b/$1", "again and again"),
        ("--redirect", "/a/*=/b/$2", "has 1 *"),
        ("--rewrite", "/a=b", "is not a path beneath the root"),
        ("--rewrite", "/a/*=/b/$3", "has 1 *"),
        ("--header", "X-A", "is not of the form"),
        ("--header", "Content-Length: 3", "the server sets Content-Length itself"),
        ("--header", "date: x", "the server sets Date itself"),
        ("--header", "Connection: close", "the server sets Connection itself"),
        ("--header", "Transfer-Encoding: chunked", "the server sets Transfer-Encoding itself"),
        ("--header", "Cache-Control: no-store", "use --cache-control"),
        ("--header", "X-A: b\r\nX-B: c", "cannot be in the value of a field"),
        ("--header", &long, "at most 8192 are allowed"),
        ("--cache-control", "no-store", "is not of the form 'GLOB=VALUE'"),
        ("--cache-control", "/[a-z]=no-store", "unexpected '['"),
        ("--charset", "utf 8", "is not the name of a character set"),
    ] {
        let command = command(DriverKind::DEFAULT, tree.path(), &[flag, value]);
        let said = expect_failure(command, 2).stderr;
        let line = said.lines().next().unwrap_or_default();
        assert!(said.contains(why) && line.starts_with("error: "), "{flag} {value:?}: {said}");
    }
}
