//! Files that are changed in every possible way while many clients read them.
//!
//! Their contents describe themselves: every 16 bytes have the generation of the file and their position.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::Write,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use testkit::{
    Server,
    http::{Http, get},
};

use crate::setup::{ALL, Setup};

const READERS: usize = 2;
/// Interval of `--revalidate`.
const WINDOW: Duration = Duration::from_millis(100);
/// Tolerance for the coarse clock, and for a loop that was preempted between reading the clock and a request.
const SLACK: Duration = Duration::from_millis(400);
/// Time after a change in which readers make no pauses.
const EAGER: Duration = Duration::from_millis(50);
/// Pause between two requests of a reader that waits for the window to end.
const LEISURE: Duration = Duration::from_millis(2);
/// Number of changes in a burst, without a pause between them.
const BURST: u64 = 12;
/// Number of responses of known contents to wait for after a change or a burst.
const CHECKED_MIN: u64 = 5;
const RECORD: usize = 16;
/// Sizes of the generations in turn, in records.
const LENGTHS: [usize; 5] = [26_512 / RECORD, 4_096, 300, 70_000, 20_000];

fn contents(generation: u64, records: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(records * RECORD);
    for at in 0..records {
        bytes.extend_from_slice(&generation.to_le_bytes());
        bytes.extend_from_slice(&(at as u64).to_le_bytes());
    }
    bytes
}

/// State of the file, as far as readers may know.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Number of the last change; one that is being made counts.
    changes: u64,
    /// Time of the change; `None` while it is being made.
    since: Option<Instant>,
    /// Contents of the file; `None` when there is none.
    generation: Option<(u64, usize)>,
}

struct World<'a> {
    path: &'a Path,
    state: Mutex<State>,
    is_over: AtomicBool,
    checked: AtomicU64,
    tags: Mutex<HashMap<String, (u64, usize)>>,
}

impl World<'_> {
    fn state(&self) -> State {
        *self.state.lock()
    }

    /// Makes one change, which the readers know to be in progress.
    fn change(&self, number: u64, kind: Kind) -> anyhow::Result<()> {
        {
            let mut state = self.state.lock();
            (state.changes, state.since) = (number, None);
        }
        let before = self.state().generation;
        let records = LENGTHS[number as usize % LENGTHS.len()];
        let generation = match (kind, before) {
            (_, None) | (Kind::Rewrite, Some(_)) => {
                fs::write(self.path, contents(number, records))?;
                Some((number, records))
            }
            (Kind::Truncate, Some((old, len))) => {
                File::options().write(true).open(self.path)?.set_len((len / 2 * RECORD) as u64)?;
                Some((old, len / 2))
            }
            (Kind::Overwrite, Some((_, len))) => {
                let mut file = File::options().write(true).open(self.path)?;
                file.write_all(&contents(number, len))?;
                Some((number, len))
            }
            (Kind::Delete, Some(_)) => {
                fs::remove_file(self.path)?;
                None
            }
            (Kind::Recreate, Some(_)) => {
                fs::remove_file(self.path)?;
                fs::write(self.path, contents(number, records))?;
                Some((number, records))
            }
            (Kind::Replace, Some((_, len))) => {
                // The same length as before, or another one.
                let records = if number.is_multiple_of(2) { len } else { records };
                let new = self.path.with_extension("new");
                fs::write(&new, contents(number, records))?;
                fs::rename(&new, self.path)?;
                Some((number, records))
            }
        };
        *self.state.lock() = State { changes: number, since: Some(Instant::now()), generation };
        Ok(())
    }

    /// Sends requests until the end. Every response is checked against the states before and after it.
    fn read_on(&self, server: &Server) -> anyhow::Result<()> {
        while !self.is_over.load(Ordering::Relaxed) {
            let mut client = Http::connect(server.address())?;
            for _ in 0..20 {
                let before = self.state();
                let age = before.since.map_or(Duration::ZERO, |since| since.elapsed());
                let is_known = age >= WINDOW + SLACK;
                if age > EAGER && !is_known {
                    thread::sleep(LEISURE);
                }
                client.send(&get("/file"))?;
                // A response that cannot be completed ends the connection.
                let Some(got) = client.response_or_end("GET")? else { break };
                if got.status == 200 {
                    is_of_this_file(&got.body)?;
                }
                if is_known && self.state().changes == before.changes {
                    is_current(before.generation, got.status, &got.body).with_context(|| format!("{before:?}"))?;
                    before.generation.map_or(Ok(()), |generation| self.is_tagged(got.field("etag"), generation))?;
                    self.checked.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Makes each kind of change to a file that has settled in the cache, and bursts of all of them.
    fn rage(&self) -> anyhow::Result<()> {
        let mut number = 1;
        for kind in Kind::ALL {
            number += 1;
            self.change(number, kind)?;
            self.rest().with_context(|| format!("after {kind:?}"))?;
        }
        for _ in 0..2 {
            for _ in 0..BURST {
                number += 1;
                self.change(number, Kind::ALL[number as usize % Kind::ALL.len()])?;
                thread::sleep(Duration::from_millis(number * 7 % 23));
            }
            self.rest().context("after a burst")?;
        }
        Ok(())
    }

    /// Waits until the readers have seen the new state of the file.
    fn rest(&self) -> anyhow::Result<()> {
        let before = self.checked.load(Ordering::Relaxed);
        testkit::eventually("the file is read after it has come to rest", || {
            let is_enough = self.checked.load(Ordering::Relaxed) >= before + CHECKED_MIN;
            Ok(is_enough || self.is_over.load(Ordering::Relaxed))
        })
    }

    /// Checks that an entity tag means one state of the file, and no other.
    fn is_tagged(&self, etag: Option<&str>, generation: (u64, usize)) -> anyhow::Result<()> {
        let etag = etag.context("no entity tag")?.to_owned();
        let known = *self.tags.lock().entry(etag).or_insert(generation);
        ensure!(known == generation, "the tag of {known:?} for {generation:?}");
        Ok(())
    }
}

/// Kind of a change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Overwritten in place, at the same length.
    Overwrite,
    /// Cut to half, which keeps the beginning.
    Truncate,
    /// Replaced by renaming.
    Replace,
    /// Truncated and written anew, as `>` does.
    Rewrite,
    /// Deleted and created again, which tends to reuse the inode.
    Recreate,
    /// Deleted; the next change creates it.
    Delete,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Overwrite, Self::Replace, Self::Truncate, Self::Rewrite, Self::Recreate, Self::Delete, Self::Overwrite];
}

/// Checks that every record is at its position, or has been cleared by a truncation. Generations may differ from one record
/// to the next while the file is being changed.
fn is_of_this_file(body: &[u8]) -> anyhow::Result<()> {
    for (at, record) in body.chunks(RECORD).enumerate() {
        // A record that is being written behind a truncation may be incomplete.
        let (own, there) = ((at as u64).to_le_bytes(), &record[8..]);
        let is_there = there == own || there.iter().zip(own).all(|(&byte, own)| byte == own || byte == 0);
        ensure!(is_there, "record {at} of {}", body.len() / RECORD);
    }
    Ok(())
}

fn is_current(generation: Option<(u64, usize)>, status: u16, body: &[u8]) -> anyhow::Result<()> {
    let Some((number, records)) = generation else {
        ensure!(status == 404, "{status} for a file that is not there");
        return Ok(());
    };
    ensure!(status == 200, "{status} for a file that is there");
    let first = body.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    ensure!(body == contents(number, records), "{} bytes from generation {first:?}", body.len());
    Ok(())
}

fn storm(setup: Setup) {
    setup.for_each_combination(|combination| {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("file");
        fs::write(&path, contents(1, LENGTHS[0]))?;
        let state = State { changes: 1, since: Some(Instant::now()), generation: Some((1, LENGTHS[0])) };
        let (is_over, checked) = (AtomicBool::new(false), AtomicU64::new(0));
        let world = World { path: &path, state: Mutex::new(state), is_over, checked, tags: Mutex::default() };
        let mut server = setup.start(combination, dir.path())?;
        // The file has to be in its final form when the first change comes.
        crate::setup::settle();
        thread::scope(|scope| {
            let read = || {
                let outcome = world.read_on(&server);
                // The others need not go on after a failure.
                world.is_over.fetch_or(outcome.is_err(), Ordering::Relaxed);
                outcome
            };
            let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
            let changed = world.rest().and_then(|()| world.rage());
            world.is_over.store(true, Ordering::Relaxed);
            let read = readers.into_iter().map(|reader| reader.join().expect("no panic"));
            read.chain([changed]).collect::<anyhow::Result<()>>()
        })?;
        server.drain()
    });
}

#[test]
fn after_the_window_the_current_file_is_served() {
    storm(Setup {
        args: &["--threads", "1", "--revalidate", "100ms", "--pipe-size", "128KiB"],
        concurrency: 14,
        ..ALL
    });
}

/// With two threads that renew the same pipes, and idle eviction between the bursts.
#[test]
fn after_the_window_also_with_threads_and_eviction() {
    const ARGS: &[&str] =
        &["--threads", "2", "--revalidate", "100ms", "--idle-evict", "100ms", "--pipe-budget", "512KiB"];
    storm(Setup { args: ARGS, drivers: &crate::setup::EVENT_LOOPS, concurrency: 14, ..ALL });
}
