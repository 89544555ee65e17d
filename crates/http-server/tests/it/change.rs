//! Files that change while they are served.

use std::{fs, io::Write, time::Duration};

use http_server::{CacheLimits, SiteOptions};

use crate::common::World;

const INTERVAL: Duration = Duration::from_secs(1);

/// Sizes kept behind the head, shared, and as a descriptor.
const SIZES: [usize; 3] = [100, 7_000, 50_000];

fn options(revalidate: Duration) -> SiteOptions {
    SiteOptions { revalidate, ..SiteOptions::default() }
}

/// Changes `file` of `size` bytes of `a`, and what it then contains.
type Change = fn(&World, usize) -> Option<Vec<u8>>;

const CHANGES: &[(&str, Change)] = &[
    ("replaced by rename", |world, size| {
        world.write("new", vec![b'b'; size]);
        fs::rename(world.root.join("new"), world.root.join("file")).unwrap();
        Some(vec![b'b'; size])
    }),
    ("overwritten in place, same size", |world, size| {
        let mut file = fs::OpenOptions::new().write(true).open(world.root.join("file")).unwrap();
        file.write_all(&vec![b'c'; size]).unwrap();
        Some(vec![b'c'; size])
    }),
    ("overwritten in place and its time set back", |world, size| {
        let path = world.root.join("file");
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all(&vec![b'd'; size]).unwrap();
        file.set_modified(before).unwrap();
        Some(vec![b'd'; size])
    }),
    ("truncated", |world, size| {
        fs::OpenOptions::new().write(true).open(world.root.join("file")).unwrap().set_len(size as u64 / 2).unwrap();
        Some(vec![b'a'; size / 2])
    }),
    ("grown across every threshold", |world, _| {
        world.write("file", vec![b'e'; 80_000]);
        Some(vec![b'e'; 80_000])
    }),
    ("deleted", |world, _| {
        fs::remove_file(world.root.join("file")).unwrap();
        None
    }),
    ("replaced by a directory", |world, _| {
        fs::remove_file(world.root.join("file")).unwrap();
        fs::create_dir(world.root.join("file")).unwrap();
        None
    }),
    ("replaced by a link out of the root", |world, size| {
        fs::write(world.outside().join("secret"), vec![b's'; size]).unwrap();
        fs::remove_file(world.root.join("file")).unwrap();
        std::os::unix::fs::symlink("../secret", world.root.join("file")).unwrap();
        None
    }),
];

/// The kernel's timestamps move in ticks; a change within the tick of the last one may have the same.
fn next_tick() {
    std::thread::sleep(Duration::from_millis(25));
}

#[test]
fn every_change_is_seen_at_once_without_an_interval() {
    for size in SIZES {
        for (name, change) in CHANGES {
            let world = World::new(options(Duration::ZERO));
            world.write("file", vec![b'a'; size]);
            let first = world.get("/file");
            assert_eq!(first.body, vec![b'a'; size]);
            next_tick();
            let want = change(&world, size);
            let got = world.get("/file");
            match want {
                Some(contents) => assert!(got.status == 200 && got.body == contents, "{name}, {size} bytes"),
                None => assert!(matches!(got.status, 301 | 404), "{name}, {size} bytes: {}", got.status),
            }
        }
    }
}

#[test]
fn no_stale_byte_is_served_after_the_interval() {
    for size in SIZES {
        for (name, change) in CHANGES {
            let mut world = World::new(options(INTERVAL));
            world.write("file", vec![b'a'; size]);
            let first = world.get("/file");
            next_tick();
            world.pass(INTERVAL - Duration::from_millis(1));
            let opens = world.server.statistics().file_opens;
            world.get("/file");
            assert_eq!(world.server.statistics().file_opens, opens, "not looked at within the interval");
            let want = change(&world, size);
            world.pass(Duration::from_millis(1));
            let got = world.get("/file");
            match want {
                Some(contents) => {
                    assert!(got.status == 200 && got.body == contents, "{name}, {size} bytes");
                    assert!(got.field("etag") != first.field("etag"), "{name}, {size} bytes");
                }
                None => assert!(matches!(got.status, 301 | 404), "{name}, {size} bytes: {}", got.status),
            }
        }
    }
}

/// A change in the same tick of the clock as the one before it leaves every timestamp as it was.
#[test]
fn a_file_that_had_not_settled_is_read_again() {
    let mut world = World::new(options(INTERVAL));
    // As if the file had been written just now.
    world.now.unix -= Duration::from_secs(60);
    world.write("file", "a");
    world.get("/file");
    world.pass(INTERVAL);
    world.get("/file");
    let statistics = world.server.statistics();
    assert_eq!((statistics.file_opens, statistics.cache_revalidations), (2, 0), "its timestamps cannot be trusted");
    world.pass(INTERVAL);
    world.get("/file");
    let statistics = world.server.statistics();
    assert_eq!((statistics.file_opens, statistics.cache_revalidations), (2, 1), "now they can");
}

#[test]
fn an_unchanged_file_is_checked_once_an_interval() {
    let mut world = World::new(options(INTERVAL));
    world.write("file", "a");
    for _ in 0..5 {
        world.get("/file");
        world.get("/file");
        world.pass(INTERVAL);
    }
    let statistics = world.server.statistics();
    assert_eq!((statistics.file_opens, statistics.cache_revalidations, statistics.cache_hits), (1, 4, 5));
}

#[test]
fn a_clock_set_back_does_not_freeze_the_cache() {
    let mut world = World::new(options(INTERVAL));
    world.write("file", "a");
    world.get("/file");
    next_tick();
    world.write("file", "b");
    world.now.unix -= Duration::from_secs(30);
    assert_eq!(world.get("/file").body, b"b");
}

#[test]
fn a_missing_file_is_found_as_soon_as_it_exists() {
    let world = World::new(options(INTERVAL));
    assert_eq!(world.get("/file").status, 404);
    world.write("file", "a");
    assert_eq!(world.get("/file").status, 200);
}

#[test]
fn without_a_cache_every_request_opens_its_file() {
    let cache = CacheLimits { entries: 0, bytes: 0, descriptors: 0 };
    let world = World::new(SiteOptions { cache, ..SiteOptions::default() });
    for contents in ["a", "b", "b"] {
        world.write("file", contents);
        assert_eq!(world.get("/file").body, contents.as_bytes());
    }
    assert_eq!(world.server.statistics().file_opens, 3);
}

/// While a file is replaced by renaming, every answer is one whole version of it, and what is seen never goes back.
#[test]
fn concurrent_readers_see_whole_versions_in_order() {
    const VERSIONS: usize = 150;
    let world = World::new(options(Duration::ZERO));
    // A version is its number, repeated over a size that wanders over every threshold.
    let contents = |version: usize| (version as u16).to_le_bytes().repeat(1 + version * 7_919 % 30_000);
    world.write("file", contents(0));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut latest = 0;
                    while latest + 1 < VERSIONS {
                        let body = world.get("/file").body;
                        let version = usize::from(u16::from_le_bytes([body[0], body[1]]));
                        assert!(body == contents(version), "a mixture, {} bytes", body.len());
                        assert!(version >= latest, "{version} after {latest}");
                        latest = version;
                    }
                })
            })
            .collect();
        for version in 1..VERSIONS {
            world.write("new", contents(version));
            fs::rename(world.root.join("new"), world.root.join("file")).unwrap();
        }
        for reader in readers {
            reader.join().unwrap();
        }
    });
}
