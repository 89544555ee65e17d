//! Documents that change while they are cached.

use std::{
    fs,
    io::Write,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use clap::ValueEnum;
use fileserver::cache::CacheMapKind;
use layouts::LayoutKind;
use testkit::check_each;
use wire::file::Status;

use crate::common::{Collection, DATABASE, PLAIN, Setup, World, caches, settle};

const INTERVAL: Duration = Duration::from_secs(1);
const ID: &str = "CHANGING";
/// Beside a header, shared, and as a descriptor.
const SIZES: [usize; 3] = [100, 7_000, 50_000];

/// Changes a document of `size` bytes of `a`, and what it then contains.
type Change = fn(&Collection, usize) -> Option<Vec<u8>>;

const CHANGES: &[(&str, Change)] = &[
    ("replaced by rename", |collection, size| {
        collection.replace(ID, &vec![b'b'; size]);
        Some(vec![b'b'; size])
    }),
    ("overwritten in place, same size", |collection, size| {
        let mut file = fs::OpenOptions::new().write(true).open(collection.path(ID)).unwrap();
        file.write_all(&vec![b'c'; size]).unwrap();
        Some(vec![b'c'; size])
    }),
    ("overwritten in place and its time set back", |collection, size| {
        let before = fs::metadata(collection.path(ID)).unwrap().modified().unwrap();
        let mut file = fs::OpenOptions::new().write(true).open(collection.path(ID)).unwrap();
        file.write_all(&vec![b'd'; size]).unwrap();
        file.set_modified(before).unwrap();
        Some(vec![b'd'; size])
    }),
    ("truncated", |collection, size| {
        let file = fs::OpenOptions::new().write(true).open(collection.path(ID)).unwrap();
        file.set_len(size as u64 / 2).unwrap();
        Some(vec![b'a'; size / 2])
    }),
    ("grown across every threshold", |collection, _| {
        fs::write(collection.path(ID), vec![b'e'; 80_000]).unwrap();
        Some(vec![b'e'; 80_000])
    }),
    ("deleted", |collection, _| {
        fs::remove_file(collection.path(ID)).unwrap();
        None
    }),
    ("replaced by a directory", |collection, _| {
        fs::remove_file(collection.path(ID)).unwrap();
        fs::create_dir(collection.path(ID)).unwrap();
        None
    }),
    ("replaced by a link out of the directory", |collection, size| {
        let secret = collection.outside().join("secret");
        fs::write(&secret, vec![b's'; size]).unwrap();
        fs::remove_file(collection.path(ID)).unwrap();
        std::os::unix::fs::symlink(secret, collection.path(ID)).unwrap();
        None
    }),
];

fn collection(layout: LayoutKind, size: usize) -> Collection {
    let collection = Collection::empty(layout);
    collection.write(ID, &vec![b'a'; size]);
    settle();
    collection
}

fn expect(got: (Status, Vec<u8>), want: Option<Vec<u8>>) -> anyhow::Result<()> {
    let want = want.map_or((Status::Missing, Vec::new()), |contents| (Status::Found, contents));
    anyhow::ensure!(got == want, "{:?} with {} bytes", got.0, got.1.len());
    Ok(())
}

/// Every layout × size × change.
fn cases() -> Vec<(LayoutKind, usize, &'static str, Change)> {
    let layouts = LayoutKind::value_variants().iter();
    let sized = layouts.flat_map(|&layout| SIZES.map(move |size| (layout, size)));
    sized.flat_map(|(layout, size)| CHANGES.iter().map(move |&(name, change)| (layout, size, name, change))).collect()
}

#[test]
fn every_change_is_seen_at_once_without_an_interval() {
    check_each(&cases(), 16, |&(layout, size, name, change)| {
        let collection = collection(layout, size);
        let world = World::new(&Setup { layout, revalidate: Duration::ZERO, ..PLAIN }, &collection);
        expect(world.get(ID), Some(vec![b'a'; size]))?;
        settle();
        let want = change(&collection, size);
        expect(world.get(ID), want).map_err(|error| error.context(format!("{name}, {layout}, {size} bytes")))
    });
}

#[test]
fn no_stale_byte_is_served_after_the_interval() {
    check_each(&cases(), 16, |&(layout, size, name, change)| {
        let collection = collection(layout, size);
        let mut world = World::new(&Setup { layout, ..PLAIN }, &collection);
        expect(world.get(ID), Some(vec![b'a'; size]))?;
        settle();
        world.pass(INTERVAL - Duration::from_millis(1));
        world.get(ID);
        let statistics = world.server.statistics();
        assert_eq!((statistics.loads, statistics.hits, statistics.revalidations), (1, 1, 0), "not looked at yet");
        let want = change(&collection, size);
        world.pass(Duration::from_millis(1));
        expect(world.get(ID), want).map_err(|error| error.context(format!("{name}, {layout}, {size} bytes")))
    });
}

#[test]
fn an_unchanged_document_is_looked_at_once_an_interval() {
    let collection = collection(LayoutKind::Zotero, 100);
    for source in [PLAIN, DATABASE] {
        for choice in caches().filter(|choice| choice.cache_map != CacheMapKind::None) {
            let mut world = World::new(&Setup { choice, layout: LayoutKind::Zotero, ..source }, &collection);
            for _ in 0..5 {
                world.get(ID);
                world.get(ID);
                world.pass(INTERVAL);
            }
            // A reader counts its load after the answer has gone.
            testkit::eventually("one load, four checks and nine hits", || {
                let statistics = world.server.statistics();
                Ok((statistics.loads, statistics.revalidations, statistics.hits) == (1, 4, 9))
            })
            .unwrap_or_else(|error| panic!("{source:?}: {error:#}: {:?}", world.server.statistics()));
        }
    }
}

#[test]
fn a_clock_set_back_does_not_freeze_the_cache() {
    let collection = collection(LayoutKind::Flat, 100);
    let mut world = World::new(&PLAIN, &collection);
    world.get(ID);
    collection.replace(ID, b"new");
    world.now.unix -= Duration::from_secs(30);
    assert_eq!(world.get(ID).1, b"new");
}

#[test]
fn a_missing_file_is_found_as_soon_as_it_exists() {
    let collection = Collection::empty(LayoutKind::Flat);
    let world = World::new(&PLAIN, &collection);
    assert_eq!(world.get(ID).0, Status::Missing);
    collection.write(ID, b"here");
    assert_eq!(world.get(ID), (Status::Found, b"here".to_vec()));
}

/// A database made anew is another file: from then on its documents are served.
#[test]
fn a_database_imported_again_is_served_from_then_on() {
    let collection = collection(LayoutKind::Flat, 100);
    let world = World::new(&Setup { revalidate: Duration::ZERO, ..DATABASE }, &collection);
    assert_eq!(world.get(ID).1, vec![b'a'; 100]);
    collection.replace(ID, b"another");
    assert_eq!(world.get(ID).1, vec![b'a'; 100], "what is in the database counts");
    collection.import();
    assert_eq!(world.get(ID).1, b"another");
}

/// While a document is replaced by renaming, every answer is one whole version of it, and what is seen never goes back.
#[test]
fn concurrent_readers_see_whole_versions_in_order() {
    const VERSIONS: usize = 100;
    // A version is its number, repeated over a size that wanders over every threshold.
    let contents = |version: usize| (version as u16).to_le_bytes().repeat(1 + version * 7_919 % 30_000);
    let choices: Vec<_> = caches().collect();
    check_each(&choices, 2, |&choice| {
        for readers in [0, 2] {
            let collection = Collection::empty(LayoutKind::Flat);
            collection.write(ID, &contents(0));
            let world = World::new(&Setup { choice, readers, revalidate: Duration::ZERO, ..PLAIN }, &collection);
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let mut latest = 0;
                        while !is_over.load(Ordering::Relaxed) {
                            let (status, body) = world.get(ID);
                            assert_eq!(status, Status::Found);
                            let version = usize::from(u16::from_le_bytes([body[0], body[1]]));
                            assert!(body == contents(version), "a mixture, {} bytes", body.len());
                            assert!(version >= latest, "{version} after {latest} with {choice:?}");
                            latest = version;
                        }
                    });
                }
                for version in 1..VERSIONS {
                    collection.replace(ID, &contents(version));
                    std::thread::yield_now();
                }
                is_over.store(true, Ordering::Relaxed);
            });
        }
        Ok(())
    });
}
