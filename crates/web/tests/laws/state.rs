//! Validators and dates of files that change, and a root that is replaced.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    thread,
    time::{Duration, SystemTime},
};

use anyhow::ensure;
use testkit::{DriverKind, Server, check_each, eventually};

use super::{
    CHECK_EACH_TIME, CONCURRENCY, ask, expect_body, expect_status, field, get, on_every_driver, on_every_driver_alone,
    serve, write,
};

/// Waits until the kernel's timestamps have moved on.
fn next_tick() {
    thread::sleep(Duration::from_millis(25));
}

fn modified(path: &Path) -> anyhow::Result<SystemTime> {
    Ok(fs::metadata(path)?.modified()?)
}

fn set_modified(path: &Path, time: SystemTime) -> anyhow::Result<()> {
    Ok(File::options().write(true).open(path)?.set_modified(time)?)
}

/// With the size and the time of the old contents.
#[test]
fn rewritten_contents_have_another_entity_tag() {
    on_every_driver_alone(CHECK_EACH_TIME, |server, root| {
        // In memory, and from a descriptor.
        for (name, len) in [("small", 100), ("large", 50_000)] {
            write(root, name, &"a".repeat(len))?;
            let path = root.join(name);
            let (time, target) = (modified(&path)?, format!("/{name}"));
            let old = get(server, &target)?;
            next_tick();
            File::options().write(true).open(&path)?.set_len(0)?;
            write(root, name, &"b".repeat(len))?;
            set_modified(&path, time)?;
            let etag = field(&old, "etag")?;
            let got = ask(server, "GET", &target, &format!("If-None-Match: {etag}\r\n"))?;
            ensure!(got.status == 200 && got.body == "b".repeat(len).as_bytes(), "{name}: {}", got.status);
            ensure!(got.field("last-modified") == old.field("last-modified"), "{name}: the time is the same");
            let part = ask(server, "GET", &target, &format!("Range: bytes=0-0\r\nIf-Range: {etag}\r\n"))?;
            ensure!(part.status == 200 && part.body.len() == len, "{name}: a part of another version: {}", part.status);
            let known = ask(server, "GET", &target, &format!("If-None-Match: {}\r\n", field(&got, "etag")?))?;
            ensure!(known.status == 304, "{name}: {}", known.status);
        }
        Ok(())
    });
}

/// A client that knows a date alone has the newer version, and is sent the older one that was put back.
#[test]
fn a_rollback_to_an_older_time_is_sent() {
    on_every_driver_alone(CHECK_EACH_TIME, |server, root| {
        write(root, "file", "new")?;
        let new = get(server, "/file")?;
        write(root, "backup", "old")?;
        set_modified(&root.join("backup"), SystemTime::now() - Duration::from_secs(1_000_000))?;
        next_tick();
        fs::rename(root.join("backup"), root.join("file"))?;
        let since = format!("If-Modified-Since: {}\r\n", field(&new, "last-modified")?);
        let got = ask(server, "GET", "/file", &since)?;
        ensure!(got.status == 200 && got.body == b"old", "{got:?}");
        let since = format!("If-Modified-Since: {}\r\n", field(&got, "last-modified")?);
        ensure!(ask(server, "GET", "/file", &since)?.status == 304, "the client has it now");
        Ok(())
    });
}

#[test]
fn last_modified_is_never_in_the_future() {
    let tree = tempfile::tempdir().unwrap();
    let file = tree.path().join("file");
    fs::write(&file, "0123456789").unwrap();
    set_modified(&file, SystemTime::now() + Duration::from_secs(100_000)).unwrap();
    on_every_driver(tree.path(), &[], |server| {
        let etag = field(&get(server, "/file")?, "etag")?.to_owned();
        for _ in ["opened", "cached", "a second later"] {
            for (fields, status) in [
                (String::new(), 200),
                ("Range: bytes=0-1\r\n".to_owned(), 206),
                ("Range: bytes=0-1,4-5\r\n".to_owned(), 206),
                (format!("If-None-Match: {etag}\r\n"), 304),
            ] {
                let got = ask(server, "GET", "/file", &fields)?;
                let date = |name| anyhow::Ok(SystemTime::from(field(&got, name)?.parse::<httpdate::HttpDate>()?));
                ensure!(got.status == status && date("last-modified")? <= date("date")?, "{got:?}");
            }
            thread::sleep(Duration::from_millis(600));
        }
        Ok(())
    });
}

/// Confined as servers are by default, and not.
#[test]
fn a_root_that_is_made_again_is_served_again() {
    for sandbox in ["auto", "off"] {
        let args = [CHECK_EACH_TIME, &["--listing", "on", "--sandbox", sandbox]].concat();
        on_every_driver_alone(&args, serves_a_root_that_is_made_again);
    }
}

fn serves_a_root_that_is_made_again(server: &Server, root: &Path) -> anyhow::Result<()> {
    write(root, "file", "one")?;
    expect_body(server, "/file", "one")?;
    fs::remove_dir_all(root)?;
    expect_status(server, "/file", 404)?;
    write(root, "file", "two")?;
    expect_body(server, "/file", "two")?;
    fs::rename(root, root.with_extension("old"))?;
    write(root, "file", "three")?;
    expect_body(server, "/file", "three")?;
    // A directory is read, and a link out of it leads nowhere.
    write(root, "directory/name", "")?;
    ensure!(String::from_utf8(get(server, "/directory/")?.body)?.contains("name"), "no listing");
    symlink(root.with_extension("old").join("file"), root.join("link"))?;
    expect_status(server, "/link", 404)
}

/// `current -> releases/N`, as deployments do it, with files of one size made in one tick of the clock.
#[test]
fn a_root_link_that_is_swapped_is_followed() {
    check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| {
        let tree = tempfile::tempdir()?;
        let (path, current) = (|name: &str| tree.path().join(name), tree.path().join("current"));
        for release in ["1", "2"] {
            write(tree.path(), &format!("releases/{release}/file"), release)?;
        }
        symlink("releases/1", &current)?;
        serve(driver, &current, &["--revalidate", "50ms"], |server| {
            for release in ["2", "1"] {
                let old = get(server, "/file")?;
                symlink(format!("releases/{release}"), path("new"))?;
                fs::rename(path("new"), &current)?;
                eventually("the new release is served", || Ok(get(server, "/file")?.body == release.as_bytes()))?;
                let got = ask(server, "GET", "/file", &format!("If-None-Match: {}\r\n", field(&old, "etag")?))?;
                ensure!(got.status == 200, "{release}: {got:?}");
            }
            Ok(())
        })
    });
}
