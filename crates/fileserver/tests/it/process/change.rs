//! Documents that change while a crowd of readers has them in transfer.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use fileserver::ProtocolKind;
use layouts::LayoutKind;
use testkit::{Client, Content, Server};

use crate::{
    common::{Collection, frame},
    process::setup::{FRAMED, ORIGINAL, Setup, head},
};

const READERS: usize = 3;
/// Whole ones that the readers must have seen before the document stops changing, and how often it changes at least.
const BODIES_MIN: u64 = 15;
const CHANGES_MIN: usize = 15;
/// Length that files are cut to. No page or larger unit of the page cache lies across it, or the kernel would
/// clear the rest of one that is already on its way (truncate_inode_pages_range in mm/truncate.c).
const CUT: usize = 2 << 20;
const LEN: usize = 2 * CUT;
/// Versions begin at different places of the same noise.
const STEP: usize = 64;
const VERSIONS: usize = 8;
const ID: &str = "CHANGING";

/// Looks at the file each time, so that no old version comes from memory.
const LOOKING: Setup = Setup { concurrency: 4, args: &["--revalidate", "0s"], ..FRAMED };

/// The bytes of a version, which repeat nowhere.
fn version(noise: &[u8], number: usize) -> &[u8] {
    &noise[number % VERSIONS * STEP..][..LEN]
}

/// Asks again and again, also on new connections, until `is_over`; counts the whole bodies.
fn read_on(server: &Server, noise: &[u8], is_over: &AtomicBool, bodies: &AtomicU64) -> anyhow::Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        let mut client = Client::connect(server.address())?;
        for _ in 0..10 {
            client.send(&frame(ID.as_bytes()))?;
            // A file that was cut short in mid transfer ends the connection; what came of it is no document.
            let Ok((status, len)) = head(&mut client) else { break };
            if status != wire::file::Status::Found {
                continue;
            }
            let Ok(body) = client.take(len) else { break };
            let is_true = (0..VERSIONS).any(|number| version(noise, number).starts_with(&body));
            ensure!(is_true && matches!(body.len(), 0 | CUT..=LEN), "{} bytes of no version", body.len());
            bodies.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// The same in the protocol that cannot tell a beginning from a whole.
fn read_originals(server: &Server, noise: &[u8], is_over: &AtomicBool, bodies: &AtomicU64) -> anyhow::Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        let mut client = Client::connect(server.address())?;
        client.send(ID.as_bytes())?;
        let (body, _) = client.read_until_disconnect();
        let is_true = (0..VERSIONS).any(|number| version(noise, number).starts_with(&body));
        ensure!(is_true || body == [0], "{} bytes of no version", body.len());
        bodies.fetch_add(u64::from(body.len() > 1), Ordering::Relaxed);
    }
    Ok(())
}

/// Puts `change`, given the path and a count, to a document in the hands of readers.
fn under_load(setup: Setup, change: impl Fn(&Path, &[u8], usize) -> anyhow::Result<()> + Sync) {
    let noise = Content::new(LEN + VERSIONS * STEP).unwrap();
    let noise = noise.bytes();
    setup.for_each_driver(|driver| {
        let collection = Collection::empty(LayoutKind::Flat);
        collection.write(ID, version(noise, 0));
        let mut server = setup.start(driver, &collection.root)?;
        let (is_over, bodies) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|_| {
                    scope.spawn(|| {
                        let outcome = match setup.protocol {
                            ProtocolKind::Framed => read_on(&server, noise, &is_over, &bodies),
                            ProtocolKind::Original => read_originals(&server, noise, &is_over, &bodies),
                        };
                        // The others and the writer need not go on after a failure.
                        is_over.fetch_or(outcome.is_err(), Ordering::Relaxed);
                        outcome
                    })
                })
                .collect();
            let mut changes = (1..).take_while(|&count| {
                let is_enough = count > CHANGES_MIN && bodies.load(Ordering::Relaxed) >= BODIES_MIN;
                !is_enough && !is_over.load(Ordering::Relaxed)
            });
            let changed = changes.try_for_each(|count| {
                thread::sleep(Duration::from_millis(10));
                change(&collection.path(ID), noise, count)
            });
            is_over.store(true, Ordering::Relaxed);
            let read: Vec<_> = readers.into_iter().map(|reader| reader.join().expect("no panic")).collect();
            read.into_iter().chain([changed]).collect::<anyhow::Result<()>>().context("under load")
        })?;
        server.drain()
    });
}

fn replace(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, contents)?;
    Ok(fs::rename(new, path)?)
}

#[test]
fn a_document_replaced_under_load_is_always_one_whole_version() {
    under_load(LOOKING, |path, noise, count| replace(path, version(noise, count)));
    // The same by the threads that load.
    let setup = Setup { args: &["--revalidate", "0s", "--readers", "2"], ..LOOKING };
    under_load(setup, |path, noise, count| replace(path, version(noise, count)));
}

/// With the cache's usual interval, too, in which it may still hold the descriptor of a file that has become shorter.
#[test]
fn a_document_cut_under_load_is_never_whole_with_wrong_bytes() {
    let original = Setup { protocol: ORIGINAL.protocol, ..LOOKING };
    for setup in [LOOKING, original, Setup { concurrency: 4, ..FRAMED }] {
        under_load(setup, |path, noise, count| match count % 4 {
            0 => replace(path, version(noise, count)),
            1 => Ok(fs::File::options().write(true).open(path)?.set_len(CUT as u64)?),
            2 => Ok(fs::File::options().write(true).open(path)?.set_len(0)?),
            _ => Ok(fs::remove_file(path)?),
        });
    }
}

/// It is served at the length that it had when it was checked.
#[test]
fn a_growing_document_is_served_as_a_prefix() {
    under_load(LOOKING, |path, noise, count| match count % 3 {
        0 => replace(path, version(noise, count)),
        1 => replace(path, &version(noise, count)[..CUT]),
        _ => {
            use std::io::Write;
            let number = count - 1;
            let mut file = fs::File::options().append(true).open(path)?;
            Ok(file.write_all(&version(noise, number)[CUT..])?)
        }
    });
}
