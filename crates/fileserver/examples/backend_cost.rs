//! Cost of one load in each back end, by size of the document and of the database's pages; everything is in the
//! page cache. The contenders take turns, and each figure is the least of many rounds, so that what else the machine
//! does drops out.
//!
//! `cargo run --release -p fileserver --example backend_cost [ROUNDS]`

#![allow(clippy::print_stdout, reason = "it prints tables")]

use std::{
    env, fs,
    hint::black_box,
    io::Read,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use fileserver::backend::{Backend, Filesystem, FilesystemOptions, ImportOptions, Sqlite, SqliteOptions, import};
use layouts::{Flat, Layout};
use rusqlite::Connection;
use sys::beneath::Metadata;
use twox_hash::XxHash3_128;
use wire::file::FileId;

const SIZES: [usize; 6] = [10_000, 50_000, 100_000, 500_000, 1_000_000, 2_000_000];
const PAGE_BYTES: [u32; 7] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Size of all documents of one size, in bytes: so many that they fill no cache but the kernel's.
const COLLECTION_BYTES: usize = 48 << 20;
const DOCUMENTS_MAX: usize = 2_000;
/// Limit of one turn of a contender: short enough that some turns are not interrupted.
const TURN_BYTES: usize = 4 << 20;
const TURN_LOADS_MAX: usize = 100;
const ROUNDS: usize = 100;
const EVERYTHING: u64 = 1 << 40;

type Load<'a> = Box<dyn FnMut(&FileId) -> Result<()> + 'a>;

/// Way to load a document, and the least time it took so far.
struct Contender<'a> {
    name: String,
    load: Load<'a>,
    least: Duration,
}

impl<'a> Contender<'a> {
    fn new(name: impl Into<String>, load: impl FnMut(&FileId) -> Result<()> + 'a) -> Self {
        Self { name: name.into(), load: Box::new(load), least: Duration::MAX }
    }

    fn backend<B: Backend>(name: impl Into<String>, backend: B) -> Result<Self>
    where
        B::Reader: 'a,
    {
        let mut reader = backend.reader()?;
        Ok(Self::new(name, move |id| {
            let document = backend.load(&mut reader, id).map_err(|error| anyhow!("{id}: {error:?}"))?;
            black_box(document);
            Ok(())
        }))
    }
}

fn race(contenders: &mut [Contender<'_>], ids: &[FileId], size: usize, rounds: usize) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(1);
    let loads = (TURN_BYTES / size).clamp(1, ids.len().min(TURN_LOADS_MAX));
    let mut order: Vec<_> = ids.iter().collect();
    for _ in 0..rounds {
        random.shuffle(&mut order);
        for contender in contenders.iter_mut() {
            let start = Instant::now();
            for id in &order[..loads] {
                (contender.load)(id)?;
            }
            contender.least = contender.least.min(start.elapsed() / u32::try_from(loads)?);
        }
    }
    Ok(())
}

/// Directory of documents of one size.
struct Collection {
    directory: tempfile::TempDir,
    ids: Vec<FileId>,
}

impl Collection {
    fn new(size: usize) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let content = directory.path().join("content");
        fs::create_dir(&content)?;
        let mut random = fastrand::Rng::with_seed(size as u64);
        let mut body = vec![0; size];
        for number in 0..(COLLECTION_BYTES / size).min(DOCUMENTS_MAX) {
            random.fill(&mut body);
            fs::write(content.join(format!("DOC{number:05}")), &body)?;
        }
        thread::sleep(2 * Metadata::TIMESTAMP_STEP);
        let ids = Flat.list(&content)?.into_iter().map(|(id, _)| id).collect();
        Ok(Self { directory, ids })
    }

    fn content(&self) -> PathBuf {
        self.directory.path().join("content")
    }

    fn import(&self, page_bytes: u32) -> Result<PathBuf> {
        let path = self.directory.path().join(format!("{page_bytes}.db"));
        import(&self.content(), &Flat, &path, ImportOptions { page_bytes }, |_| ())?;
        Ok(path)
    }
}

fn sqlite(path: &Path, memory_max: u64, mmap_bytes: u64) -> Result<Sqlite> {
    Ok(Sqlite::open(path, SqliteOptions { memory_max, mmap_bytes, ..SqliteOptions::default() })?)
}

/// Compares page sizes, with and without a memory map.
fn pages(collection: &Collection) -> Result<Vec<Contender<'_>>> {
    let mut contenders = Vec::new();
    for mmap_bytes in [0, EVERYTHING] {
        for page_bytes in PAGE_BYTES {
            let how = if mmap_bytes == 0 { "read" } else { "mmap" };
            let name = format!("{how} {} KiB", page_bytes >> 10);
            let path = collection.import(page_bytes)?;
            contenders.push(Contender::backend(name, sqlite(&path, EVERYTHING, mmap_bytes)?)?);
        }
    }
    Ok(contenders)
}

/// Compares the back ends as they are used, and their parts.
fn backends(collection: &Collection, size: usize) -> Result<Vec<Contender<'_>>> {
    let content = collection.content();
    let path = collection.import(ImportOptions::default().page_bytes)?;
    let files = |memory_max| Filesystem::open(&content, Flat, FilesystemOptions { memory_max });
    let select = |connection: Connection| {
        move |id: &FileId| {
            let mut statement = connection.prepare_cached("SELECT body FROM documents WHERE id = ?1")?;
            black_box(statement.query_row([id.as_bytes()], |row| Ok(row.get_ref(0)?.as_blob()?.to_vec()))?);
            Ok(())
        }
    };
    let locked = Connection::open(&path)?;
    locked.execute_batch("BEGIN")?;
    let plain_content = content.clone();
    let plain_read = move |id: &FileId| {
        let mut body = Vec::with_capacity(size);
        fs::File::open(plain_content.join(id.to_string()))?.read_to_end(&mut body)?;
        black_box(body);
        Ok(())
    };
    let body = vec![1; size];
    let digest = move |_: &FileId| {
        black_box(XxHash3_128::oneshot(black_box(&body)));
        Ok(())
    };
    Ok(vec![
        Contender::new("open, read, close", plain_read),
        Contender::new("SELECT", select(Connection::open(&path)?)),
        Contender::new("SELECT, one transaction for all", select(locked)),
        Contender::new("digest alone", digest),
        Contender::backend("fs, read", files(EVERYTHING)?)?,
        Contender::backend("fs, descriptor", files(0)?)?,
        Contender::backend("sqlite", sqlite(&path, EVERYTHING, 0)?)?,
        Contender::backend("sqlite, spooled", sqlite(&path, 0, 0)?)?,
    ])
}

fn print(title: &str, columns: &[Vec<(String, Duration)>]) {
    println!("{title}: microseconds per load\n");
    let sizes = SIZES.map(|size| format!(" {} kB |", size / 1000)).concat();
    println!("| |{sizes}\n|---|{}", "---:|".repeat(SIZES.len()));
    for (row, (name, _)) in columns[0].iter().enumerate() {
        let cells = columns.iter().map(|column| format!(" {:.1} |", column[row].1.as_nanos() as f64 / 1e3));
        println!("| {name} |{}", cells.collect::<String>());
    }
    println!();
}

fn main() -> Result<()> {
    let rounds = env::args().nth(1).map_or(Ok(ROUNDS), |text| text.parse()).context("ROUNDS is a number")?;
    let (mut by_page, mut by_backend) = (Vec::new(), Vec::new());
    let result = |contenders: Vec<Contender<'_>>| {
        contenders.into_iter().map(|contender| (contender.name, contender.least)).collect::<Vec<_>>()
    };
    for size in SIZES {
        let collection = Collection::new(size)?;
        let mut contenders = pages(&collection)?;
        race(&mut contenders, &collection.ids, size, rounds)?;
        by_page.push(result(contenders));
        let mut contenders = backends(&collection, size)?;
        race(&mut contenders, &collection.ids, size, rounds)?;
        by_backend.push(result(contenders));
    }
    print("SQLite, by page size", &by_page);
    print("Back ends", &by_backend);
    Ok(())
}
