//! A database may be damaged in any way: each answer is then right, or none.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use fileserver::backend::{
    Backend, Body, Document, ImportOptions, LoadError, Sqlite, SqliteOptions, SqliteReader, import,
};
use layouts::Flat;
use wire::file::FileId;

const DATABASES: u64 = 1_000;
const DATABASES_WHILE_OPEN: u64 = 200;
/// Bytes of each document.
const SIZES: [usize; 10] = [0, 1, 300, 900, 1_500, 4_000, 5_000, 9_000, 20_000, 70_000];
/// Larger ones are copied piece by piece; with the second limit none is, and the largest is read at once beside its row.
const MEMORY_MAX: [u64; 2] = [8_000, 1 << 20];
const PAGE_BYTES: [u32; 4] = [512, 1024, 4096, 16384];

fn id(index: usize) -> FileId {
    FileId::new(format!("DOC{index:05}").as_bytes()).unwrap()
}

/// Every other one repeats itself, so that a page of it can stand for another.
fn body(index: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(index as u64);
    let repeats = index.is_multiple_of(2);
    (0..SIZES[index]).map(|_| if repeats { b'a' } else { random.u8(..) }).collect()
}

fn contents(document: &Document) -> Vec<u8> {
    match &document.body {
        Body::Memory(bytes) => bytes.to_vec(),
        Body::File(region) => testkit::dialogue::contents(region),
    }
}

/// Databases of the same documents, one for each page size.
struct Fixture {
    directory: tempfile::TempDir,
    databases: Vec<(usize, Vec<u8>)>,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let content = directory.path().join("content");
        fs::create_dir(&content).unwrap();
        for index in 0..SIZES.len() {
            fs::write(content.join(id(index).to_string()), body(index)).unwrap();
        }
        let path = directory.path().join("whole.db");
        let databases = PAGE_BYTES.map(|page_bytes| {
            import(&content, &Flat, &path, ImportOptions { page_bytes }, |_| ()).unwrap();
            (page_bytes as usize, fs::read(&path).unwrap())
        });
        Self { directory, databases: databases.into() }
    }

    fn damaged(&self, seed: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        let (page, whole) = &self.databases[random.usize(..self.databases.len())];
        let mut database = whole.clone();
        damage(&mut database, *page, &mut random);
        database
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("damaged.db")
    }

    fn open(&self, memory_max: u64) -> Option<(Sqlite, SqliteReader)> {
        let options = SqliteOptions { memory_max, ..SqliteOptions::default() };
        let sqlite = Sqlite::open(&self.path(), options).ok()?;
        let reader = sqlite.reader().ok()?;
        Some((sqlite, reader))
    }
}

/// One accident.
fn damage(database: &mut Vec<u8>, page: usize, random: &mut fastrand::Rng) {
    let len = database.len();
    let any_page = |random: &mut fastrand::Rng| random.usize(..len / page) * page;
    let few = |random: &mut fastrand::Rng| 0..random.usize(1..33);
    match random.u32(..8) {
        0 => few(random).for_each(|_| database[random.usize(..len)] ^= 1 << random.u32(..8)),
        1 => few(random).for_each(|_| database[random.usize(..len)] = random.u8(..)),
        // Headers of pages, and the start of their tables of cells.
        2 => few(random).for_each(|_| database[any_page(random) + random.usize(..16)] = random.u8(..)),
        // The first page: the schema and the header of it all, beyond what is checked at once.
        3 => few(random).for_each(|_| database[random.usize(100..page.min(len))] = random.u8(..)),
        4 => database.truncate(random.usize(..len)),
        5 => {
            let (one, other) = (any_page(random), any_page(random));
            let copy = database[one..one + page].to_vec();
            database.copy_within(other..other + page, one);
            database[other..other + page].copy_from_slice(&copy);
        }
        6 => {
            let (from, to) = (any_page(random), any_page(random));
            database.copy_within(from..from + page, to);
        }
        _ => {
            let at = random.usize(..len);
            let end = (at + random.usize(1..2 * page)).min(len);
            database[at..end].fill(if random.bool() { 0 } else { 0xff });
        }
    }
}

#[derive(Debug, Default)]
struct Tally {
    /// Databases that could not be opened.
    refused: u64,
    /// Answers.
    right: u64,
    missing: u64,
    failed: u64,
}

impl Tally {
    fn ask(&mut self, sqlite: &Sqlite, reader: &mut SqliteReader, seed: u64) {
        for index in 0..=SIZES.len() {
            match sqlite.load(reader, &id(index)) {
                Ok(document) => {
                    assert!(index < SIZES.len(), "a document that never was, seed {seed}");
                    assert!(contents(&document) == body(index), "a wrong byte in document {index}, seed {seed}");
                    self.right += 1;
                }
                Err(LoadError::Missing) => self.missing += 1,
                Err(LoadError::Failed) => self.failed += 1,
                Err(LoadError::Unavailable) => panic!("damage does not pass, seed {seed}"),
            }
        }
    }
}

#[test]
fn no_damage_makes_a_wrong_byte() {
    let fixture = Fixture::new();
    let mut tally = Tally::default();
    for seed in 0..DATABASES {
        fs::write(fixture.path(), fixture.damaged(seed)).unwrap();
        match fixture.open(MEMORY_MAX[seed as usize % MEMORY_MAX.len()]) {
            Some((sqlite, mut reader)) => tally.ask(&sqlite, &mut reader, seed),
            None => tally.refused += 1,
        }
    }
    println!("{DATABASES} databases: {tally:?}");
    // The accidents are neither harmless nor the end of everything.
    assert!(tally.refused > 50 && tally.right > 2_000 && tally.failed > 500, "{tally:?}");
}

/// The same accidents, truncation among them, to a database under its reader.
#[test]
fn no_damage_to_an_open_database_makes_a_wrong_byte() {
    let fixture = Fixture::new();
    let (_, whole) = &fixture.databases[0];
    fs::write(fixture.path(), whole).unwrap();
    let (sqlite, mut reader) = fixture.open(MEMORY_MAX[0]).unwrap();
    let file = OpenOptions::new().write(true).open(fixture.path()).unwrap();
    let overwrite = |contents: &[u8]| {
        file.write_all_at(contents, 0).unwrap();
        file.set_len(contents.len() as u64).unwrap();
    };
    let mut tally = Tally::default();
    for seed in 0..DATABASES_WHILE_OPEN {
        overwrite(&fixture.damaged(seed));
        tally.ask(&sqlite, &mut reader, seed);
    }
    assert!(tally.right > 400 && tally.failed > 100, "{tally:?}");
    overwrite(whole);
    let mut repaired = Tally::default();
    repaired.ask(&sqlite, &mut reader, 0);
    assert_eq!((repaired.right, repaired.missing, repaired.failed), (SIZES.len() as u64, 1, 0));
}
