//! Snapshots that outlive the process.

use std::{path::Path, process::Command};

use anyhow::ensure;
use testkit::{Client, eventually, run_to_end};

use crate::common::{EXE, Kv, exchange, field, on_every_driver, text};

fn start(file: &Path, compression: &str) -> Kv {
    Kv::start(["--compression", compression, "--snapshot", file.to_str().unwrap()]).unwrap()
}

#[test]
fn keys_survive_a_restart_with_another_compression() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys");
    let long = "long value, ".repeat(500);
    let kv = start(&file, "zstd");
    let mut client = Client::connect(kv.memcached()).unwrap();
    let request = format!("set a 5 0 1\r\n1\r\nset b 0 1000 6000\r\n{long}\r\nms c 1 c\r\n3\r\n");
    exchange(&mut client, request.as_bytes(), b"STORED\r\nSTORED\r\nHD c1\r\n").unwrap();
    drop(client);
    kv.stop().unwrap();
    for compression in ["gzip", "none"] {
        let kv = start(&file, compression);
        let mut client = Client::connect(kv.memcached()).unwrap();
        let wanted = format!("VALUE a 5 1\r\n1\r\nVALUE b 0 6000\r\n{long}\r\nEND\r\nHD c1\r\n");
        exchange(&mut client, b"get a b\r\nmg c c\r\n", wanted.as_bytes()).unwrap();
        // A number that has been assigned is not assigned again.
        exchange(&mut client, b"mg b t s\r\ngets a none\r\n", b"HD t1000 s6000\r\nVALUE a 5 1 2\r\n1\r\nEND\r\n")
            .or_else(|_| exchange(&mut client, b"mn\r\n", b"MN\r\n"))
            .unwrap();
        drop(client);
        kv.stop().unwrap();
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn save_and_bgsave_write_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys");
    let kv = start(&file, "none");
    let mut client = Client::connect(kv.resp()).unwrap();
    exchange(&mut client, b"SET a 1\r\nSAVE\r\n", b"+OK\r\n+OK\r\n").unwrap();
    let saved = std::fs::metadata(&file).unwrap().len();
    exchange(&mut client, b"SET b 2\r\nBGSAVE\r\n", b"+OK\r\n+Background saving started\r\n").unwrap();
    eventually("the background save is done", || Ok(std::fs::metadata(&file)?.len() > saved)).unwrap();
    client.send(b"LASTSAVE\r\n").unwrap();
    assert_eq!(client.take(2).unwrap(), b":1");
    drop(client);
    kv.stop().unwrap();
}

/// It makes the file anew each time, in a directory that is all it can reach.
#[test]
fn a_confined_server_saves_and_loads() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys");
    for value in ["1", "2"] {
        let kv = Kv::start(["--sandbox", "on", "--snapshot", file.to_str().unwrap()]).unwrap();
        let mut client = Client::connect(kv.resp()).unwrap();
        exchange(&mut client, b"INCR a\r\nSAVE\r\n", format!(":{value}\r\n+OK\r\n").as_bytes()).unwrap();
        drop(client);
        kv.stop().unwrap();
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn saving_without_a_file_is_an_error() {
    let kv = Kv::start::<&str>([]).unwrap();
    let mut client = Client::connect(kv.resp()).unwrap();
    let wanted = b"-ERR there is no file to save to; start the server with --snapshot FILE\r\n";
    exchange(&mut client, b"SAVE\r\n", wanted).unwrap();
    exchange(&mut client, b"BGSAVE\r\n", wanted).unwrap();
    drop(client);
    kv.stop().unwrap();
}

#[test]
fn a_damaged_file_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys");
    let kv = start(&file, "none");
    let mut client = Client::connect(kv.resp()).unwrap();
    exchange(&mut client, b"SET key value\r\n", b"+OK\r\n").unwrap();
    drop(client);
    kv.stop().unwrap();
    let whole = std::fs::read(&file).unwrap();
    for (damaged, why) in
        [(&whole[..whole.len() - 1], "cut short"), (&[], "cut short"), (b"not ours at all, but long enough", "damaged")]
    {
        std::fs::write(&file, damaged).unwrap();
        let mut command = Command::new(EXE);
        command.args(["--listen", "127.0.0.1:0", "--snapshot"]).arg(&file);
        let finished = run_to_end(command).unwrap();
        let fails_with = |text: &str| -> anyhow::Result<()> {
            ensure!(finished.code() == Some(1) && finished.stderr.contains(text), "{finished:?}");
            Ok(())
        };
        fails_with(why).unwrap();
        fails_with("at byte").unwrap();
        assert_eq!(finished.stdout, "", "it has not begun to listen");
        assert_eq!(std::fs::read(&file).unwrap(), damaged);
    }
}

#[test]
fn leftovers_of_interrupted_saves_are_removed_at_start_on_every_driver() {
    on_every_driver(|driver| {
        let directory = tempfile::tempdir()?;
        let path = |name: &str| directory.path().join(name);
        for name in ["keys.4711.tmp", "keys.4712.tmp", "keys.old.tmp", "other.4711.tmp"] {
            std::fs::write(path(name), "half")?;
        }
        // Another server is saving to this one.
        let in_use = std::fs::File::open(path("keys.4712.tmp"))?;
        in_use.lock()?;
        let file = path("keys").display().to_string();
        Kv::start(["--driver", driver.name(), "--snapshot", &file])?.stop()?;
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory.path())? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        ensure!(names == ["keys", "keys.4712.tmp", "keys.old.tmp", "other.4711.tmp"], "{names:?}");
        Ok(())
    });
}

#[test]
fn info_says_that_the_last_save_has_failed_on_every_driver() {
    on_every_driver(|driver| {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("keys");
        let file = path.display().to_string();
        let kv = Kv::start(["--driver", driver.name(), "--compression", "none", "--snapshot", &file])?;
        let mut client = Client::connect(kv.resp())?;
        let status = |client: &mut Client| field(&text(client, "INFO persistence")?, "rdb_last_bgsave_status");
        ensure!(status(&mut client)? == "ok");
        // No file can take its place.
        std::fs::create_dir(&path)?;
        exchange(&mut client, b"BGSAVE\r\n", b"+Background saving started\r\n")?;
        eventually("the save has failed", || Ok(status(&mut client)? == "err"))?;
        std::fs::remove_dir(&path)?;
        exchange(&mut client, b"SAVE\r\n", b"+OK\r\n")?;
        ensure!(status(&mut client)? == "ok");
        drop(client);
        kv.stop()
    });
}
