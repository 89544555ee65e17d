//! Files that change while a crowd of readers has them in transfer.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use testkit::{DriverKind, Server};

use crate::process::setup::{Http, PLAIN, Setup, content, get};

const READERS: usize = 3;
/// Whole ones that the readers must have seen before the file stops changing, and how often it changes at least.
const BODIES_MIN: u64 = 20;
const CHANGES_MIN: usize = 20;
/// Length that files are cut to. No page or larger unit of the page cache lies across it, or the kernel would
/// clear the rest of one that is already on its way (truncate_inode_pages_range in mm/truncate.c).
const CUT: usize = 2 << 20;
const LEN: usize = 2 * CUT;
/// Versions begin at different places of the same noise.
const STEP: usize = 64;
const VERSIONS: usize = 8;

/// Looks at the file each time, so that no old version comes from memory.
const LOOKING: Setup = Setup { concurrency: 4, args: &["--threads", "1", "--revalidate", "0s"], ..PLAIN };

/// The bytes of a version, which repeat nowhere.
fn version(noise: &[u8], number: usize) -> &[u8] {
    &noise[number % VERSIONS * STEP..][..LEN]
}

/// Asks again and again, also on new connections, until `is_over`; counts the whole bodies.
fn read_on(server: &Server, noise: &[u8], is_over: &AtomicBool, bodies: &AtomicU64) -> anyhow::Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        let mut client = Http::connect(server.address())?;
        for _ in 0..10 {
            client.send(&get("/file"))?;
            // A file that was cut short in mid transfer ends the connection; what came of it is no response.
            let Some(response) = client.response_or_end("GET")? else { break };
            ensure!(response.status == 200, "status {}", response.status);
            let body = &response.body[..];
            let is_true = (0..VERSIONS).any(|number| version(noise, number).starts_with(body));
            ensure!(is_true && matches!(body.len(), 0 | CUT | LEN), "{} bytes of no version", body.len());
            bodies.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Puts `change`, given the path and a count, to a file in the hands of readers.
fn under_load(setup: Setup, change: impl Fn(&Path, &[u8], usize) -> anyhow::Result<()> + Sync) {
    let noise = content(LEN + VERSIONS * STEP);
    let noise = noise.bytes();
    let examine = |driver: DriverKind| {
        let tree = tempfile::tempdir()?;
        let path = tree.path().join("file");
        fs::write(&path, version(noise, 0))?;
        let mut server = setup.start(driver, tree.path())?;
        let (is_over, bodies) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|_| {
                    scope.spawn(|| {
                        let outcome = read_on(&server, noise, &is_over, &bodies);
                        // The others and the writer need not go on after a failure.
                        is_over.fetch_or(outcome.is_err(), Ordering::Relaxed);
                        outcome
                    })
                })
                .collect();
            let changes = (1..).take_while(|&count| {
                let is_enough = count > CHANGES_MIN && bodies.load(Ordering::Relaxed) >= BODIES_MIN;
                !is_enough && !is_over.load(Ordering::Relaxed)
            });
            let changed = changes.into_iter().try_for_each(|count| {
                thread::sleep(Duration::from_millis(10));
                change(&path, noise, count)
            });
            is_over.store(true, Ordering::Relaxed);
            let read: Vec<_> = readers.into_iter().map(|reader| reader.join().expect("no panic")).collect();
            read.into_iter().chain([changed]).collect::<anyhow::Result<()>>()
        })?;
        server.drain()
    };
    setup.for_each_driver(|driver| examine(driver).context("under load"));
}

fn replace(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, contents)?;
    Ok(fs::rename(new, path)?)
}

#[test]
fn a_file_replaced_under_load_is_always_one_whole_version() {
    under_load(LOOKING, |path, noise, count| replace(path, version(noise, count)));
}

/// With the cache's usual interval, in which it may still hold the descriptor of a file that has become shorter.
#[test]
fn a_file_truncated_under_load_is_never_whole_with_wrong_bytes() {
    for setup in [LOOKING, Setup { concurrency: 4, ..PLAIN }] {
        under_load(setup, |path, noise, count| match count % 3 {
            0 => replace(path, version(noise, count)),
            1 => Ok(fs::File::options().write(true).open(path)?.set_len(CUT as u64)?),
            _ => Ok(fs::File::options().write(true).open(path)?.set_len(0)?),
        });
    }
}
