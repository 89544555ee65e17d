//! Helpers that run a server, a collection and clients without a socket between them.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use clap::ValueEnum;
use fileserver::{
    Combination, FileOptions, FileServer, ProtocolKind,
    backend::{AnyBackend, BackendKind, BackendOptions, ImportOptions, import},
    cache::{CacheLimits, CacheMapKind, EvictionKind},
    requests::RequestMapKind,
};
use layouts::LayoutKind;
use proto::{Now, Session};
use testkit::in_memory::{self, Chunking, Transcript};
use wire::file::{
    Status,
    client::{Event, FramedReplies},
};

/// Ids and sizes: nothing, kept beside a header, shared, and sent from files.
pub(crate) const DOCUMENTS: [(&str, usize); 6] = [
    ("EMPTY000", 0),
    ("ONEBYTE1", 1),
    ("SMALL002", 1_000),
    ("SHARED03", 6_000),
    ("FILE0004", 60_000),
    ("LARGE005", 700_000),
];

pub(crate) const ROOMY: CacheLimits = CacheLimits { entries: 100, bytes: 16 << 20, descriptors: 50 };

/// Setup of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) choice: Combination,
    pub(crate) backend: BackendKind,
    pub(crate) layout: LayoutKind,
    pub(crate) cache: CacheLimits,
    pub(crate) revalidate: Duration,
    pub(crate) readers: usize,
}

pub(crate) const PLAIN: Setup = Setup {
    choice: Combination {
        protocol: ProtocolKind::Framed,
        requests: RequestMapKind::Slab,
        cache_map: CacheMapKind::Hashbrown,
        eviction: EvictionKind::Mutex,
    },
    backend: BackendKind::Filesystem,
    layout: LayoutKind::Flat,
    cache: ROOMY,
    revalidate: Duration::from_secs(1),
    readers: 0,
};

pub(crate) const DATABASE: Setup = Setup { backend: BackendKind::Sqlite, readers: 2, ..PLAIN };

/// Every combination of a cache.
pub(crate) fn caches() -> impl Iterator<Item = Combination> {
    let maps = CacheMapKind::value_variants().iter();
    let pairs = maps.flat_map(|&map| EvictionKind::value_variants().iter().map(move |&eviction| (map, eviction)));
    let all = pairs.map(|(cache_map, eviction)| Combination { cache_map, eviction, ..PLAIN.choice });
    all.filter(|choice| choice.problem().is_none())
}

/// A directory of documents, and a database of them if one is served.
pub(crate) struct Collection {
    _outer: tempfile::TempDir,
    pub(crate) root: PathBuf,
    layout: LayoutKind,
    database: PathBuf,
}

impl Collection {
    pub(crate) fn empty(layout: LayoutKind) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir(&root).unwrap();
        if layout == LayoutKind::Manifest {
            fs::write(root.join("manifest.tsv"), "").unwrap();
        }
        Self { root, layout, database: outer.path().join("documents.db"), _outer: outer }
    }

    /// Makes a collection of [`DOCUMENTS`], which have settled.
    pub(crate) fn new(layout: LayoutKind) -> Self {
        let collection = Self::empty(layout);
        for (id, size) in DOCUMENTS {
            collection.write(id, &contents(id, size));
        }
        settle();
        collection
    }

    pub(crate) fn outside(&self) -> &Path {
        self.root.parent().unwrap()
    }

    /// Returns the path of a document.
    pub(crate) fn path(&self, id: &str) -> PathBuf {
        self.root.join(match self.layout {
            LayoutKind::Zotero => format!("{id}/a document.pdf"),
            LayoutKind::Flat | LayoutKind::Tree => id.to_owned(),
            LayoutKind::Manifest => format!("files/{id}.bin"),
        })
    }

    pub(crate) fn write(&self, id: &str, contents: &[u8]) {
        let path = self.path(id);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        if self.layout == LayoutKind::Manifest {
            let manifest = self.root.join("manifest.tsv");
            let lines = fs::read_to_string(&manifest).unwrap();
            fs::write(&manifest, format!("{lines}{id}\tfiles/{id}.bin\n")).unwrap();
        }
    }

    /// Replaces a document by renaming.
    pub(crate) fn replace(&self, id: &str, contents: &[u8]) {
        let new = self.outside().join("new");
        fs::write(&new, contents).unwrap();
        fs::rename(&new, self.path(id)).unwrap();
    }

    /// Makes the database again.
    pub(crate) fn import(&self) {
        let layout = self.layout.open(&self.root).unwrap();
        import(&self.root, &layout, &self.database, ImportOptions::default(), |_| {}).unwrap();
        settle();
    }

    pub(crate) fn open(&self, kind: BackendKind) -> AnyBackend {
        let options = BackendOptions { layout: self.layout, memory_max: 8 << 10, revalidate: Duration::ZERO };
        let content = match kind {
            BackendKind::Filesystem => &self.root,
            BackendKind::Sqlite => {
                if !self.database.exists() {
                    self.import();
                }
                &self.database
            }
        };
        AnyBackend::open(kind, content, &options).unwrap()
    }
}

/// Bytes that repeat nowhere near and differ between documents.
pub(crate) fn contents(id: &str, size: usize) -> Vec<u8> {
    let seed = id.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut random = fastrand::Rng::with_seed(seed);
    (0..size).map(|_| random.u8(..)).collect()
}

/// Waits until files have settled: timestamps move in ticks, and back ends do not trust one that is younger than a few.
pub(crate) fn settle() {
    thread::sleep(Duration::from_millis(70));
}

/// Server and its clock.
pub(crate) struct World {
    pub(crate) server: FileServer,
    pub(crate) now: Now,
    protocol: ProtocolKind,
}

impl World {
    pub(crate) fn new(setup: &Setup, collection: &Collection) -> Self {
        let options = FileOptions {
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            revalidate: setup.revalidate,
            cache: setup.cache,
            readers: setup.readers,
        };
        let server = FileServer::new(&setup.choice, collection.open(setup.backend), options).unwrap();
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Self { server, now: Now { instant: Instant::now(), unix }, protocol: setup.choice.protocol }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.unix += time;
    }

    pub(crate) fn session(&self) -> Session<FileServer> {
        in_memory::session(&self.server, self.now)
    }

    /// Returns all output for `input`, which arrives in chunks.
    pub(crate) fn exchange(&self, input: &[u8], chunk: usize) -> Transcript {
        in_memory::exchange(&self.server, input, Chunking { input_bytes: chunk, ..Chunking::UNLIMITED }, self.now)
    }

    /// Requests each of the ids in the server's protocol. Returns statuses and documents.
    pub(crate) fn get_all(&self, ids: &[&[u8]]) -> Vec<(Status, Vec<u8>)> {
        match self.protocol {
            ProtocolKind::Framed => {
                let requests: Vec<u8> = ids.iter().flat_map(|id| frame(id)).collect();
                let answer = self.exchange(&requests, requests.len().max(1));
                assert!(!answer.is_closed, "framed connections last");
                replies(&answer.bytes)
            }
            ProtocolKind::Original => {
                let one = |id: &&[u8]| {
                    let answer = self.exchange(id, id.len());
                    assert!(answer.is_closed, "the end of the connection is the end of the document");
                    let missing = answer.bytes == [0];
                    if missing { (Status::Missing, Vec::new()) } else { (Status::Found, answer.bytes) }
                };
                ids.iter().map(one).collect()
            }
        }
    }

    pub(crate) fn get(&self, id: &str) -> (Status, Vec<u8>) {
        self.get_all(&[id.as_bytes()]).remove(0)
    }
}

/// A framed request.
pub(crate) fn frame(id: &[u8]) -> Vec<u8> {
    [&u16::try_from(id.len()).unwrap().to_be_bytes(), id].concat()
}

/// The framed replies, which must be whole.
pub(crate) fn replies(bytes: &[u8]) -> Vec<(Status, Vec<u8>)> {
    let (mut reader, mut input, mut replies) = (FramedReplies::default(), bytes, Vec::new());
    loop {
        match reader.next(&mut input).unwrap() {
            Event::Head { status, .. } => replies.push((status, Vec::new())),
            Event::Body(piece) => replies.last_mut().unwrap().1.extend_from_slice(piece),
            Event::End => {}
            Event::NeedMore => {
                assert_eq!(reader.eof(), wire::file::client::Eof::Between, "a reply is torn");
                return replies;
            }
        }
    }
}
