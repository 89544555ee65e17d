//! The cache through its server, without a socket: counts while files come, change and go.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use clap::ValueEnum;
use proto::{NextWrite, Now, Outbox, Protocol};
use serde_json::Value;
use sys::beneath::Root;
use web::HttpOptions;
use zerocopy::{Access, Cache, CacheOptions, CachedSite, Strategy, StrategyChoice, ZerocopyServer};

struct World {
    _dir: tempfile::TempDir,
    root: PathBuf,
    server: ZerocopyServer,
    now: Now,
}

impl World {
    fn new(options: CacheOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        let cache = Cache::new(Root::open(&root).unwrap(), Arc::default(), options, None);
        let server = ZerocopyServer::new(
            CachedSite::new(Arc::new(cache), Access::new(None, &[], false)),
            HttpOptions::default(),
        );
        // Files made from here on have settled: their timestamps are a minute old.
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + Duration::from_secs(60);
        Self { _dir: dir, root, server, now: Now { instant: Instant::now(), unix } }
    }

    fn ask(&self, request: &str) -> Vec<u8> {
        let (mut conn, mut out) = (self.server.new_connection(), Outbox::default());
        let step = self.server.on_input(&mut conn, request.as_bytes(), self.now, &mut out);
        assert_eq!(step.consumed, request.len());
        let mut got = Vec::new();
        while let Some(front) = out.front() {
            let n = match front {
                NextWrite::Memory(pieces, count) => {
                    let before = got.len();
                    pieces[..count].iter().for_each(|piece| got.extend_from_slice(piece));
                    got.len() - before
                }
                NextWrite::File(region) => {
                    let file = fs::File::from(region.file.try_clone().unwrap());
                    let mut piece = vec![0; region.len as usize];
                    file.read_exact_at(&mut piece, region.offset).unwrap();
                    got.extend(piece);
                    region.len as usize
                }
                NextWrite::Pipe(_) => {
                    assert!(out.fall_back(), "nothing of it is on its way");
                    continue;
                }
                NextWrite::KernelTls(_) | NextWrite::Waiting => panic!("never made by this server"),
            };
            out.advance(n);
        }
        got
    }

    fn get(&self, path: &str) -> (String, Vec<u8>) {
        let got = self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let end = got.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        (String::from_utf8(got[..end].to_vec()).unwrap(), got[end..].to_vec())
    }

    fn stats(&self) -> Value {
        serde_json::from_slice(&self.get("/cache/stats").1).unwrap()
    }

    fn pass(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.unix += time;
        self.server.hosts().default_host().site.cache().sweep(self.now);
    }
}

fn always(strategy: Strategy) -> CacheOptions {
    CacheOptions { strategy: StrategyChoice::Always(strategy), ..CacheOptions::default() }
}

/// Two names of one file are one file in the cache; under other media types they are two, since their heads differ.
#[test]
fn names_of_one_file_share_it() {
    let world = World::new(always(Strategy::Pipe));
    fs::write(world.root.join("a.txt"), "shared").unwrap();
    fs::hard_link(world.root.join("a.txt"), world.root.join("b.txt")).unwrap();
    fs::hard_link(world.root.join("a.txt"), world.root.join("c.html")).unwrap();
    for (path, descriptors, media_type) in [("/a.txt", 3, "plain"), ("/b.txt", 3, "plain"), ("/c.html", 6, "html")] {
        let (head, body) = world.get(path);
        assert!(body == b"shared" && head.contains(&format!("Content-Type: text/{media_type};")), "{head}");
        assert_eq!(world.stats()["memory"]["descriptors"], descriptors, "{path}");
    }
    assert_eq!(world.stats()["files_total"], 3);
}

/// A file in use stays, one that is not leaves after the idle time, and everything it held with it.
#[test]
fn idle_files_leave_with_all_they_held() {
    for strategy in [Strategy::Sendfile, Strategy::MmapWrite, Strategy::Vmsplice, Strategy::Pipe] {
        let mut world = World::new(always(strategy));
        for name in ["used", "idle"] {
            fs::write(world.root.join(name), vec![b'x'; 10_000]).unwrap();
            world.get(&format!("/{name}"));
        }
        for _ in 0..4 {
            world.pass(Duration::from_secs(2));
            world.get("/used");
        }
        let stats = world.stats();
        assert_eq!((&stats["files_total"], &stats["files"][0]["uri"]), (&1.into(), &"/used".into()), "{strategy}");
        world.pass(Duration::from_secs(6));
        let stats = world.stats();
        let memory = &stats["memory"];
        let held = (&memory["descriptors"], &memory["pipe_mem_used"], &memory["mapped"], &stats["zombies"]);
        assert_eq!(held, (&0.into(), &0.0.into(), &0.0.into(), &0.into()), "{strategy}");
        assert_eq!(memory["pipes"], 0, "{strategy}");
        assert_eq!(stats["evictions"], 2);
    }
}

/// A head has the date of the second in which it is sent, and old first pipes do not pile up.
#[test]
fn each_second_has_a_pipe_of_its_own_and_only_one() {
    let mut world = World::new(always(Strategy::Pipe));
    fs::write(world.root.join("file"), vec![b'x'; 26_000]).unwrap();
    let mut dates = std::collections::BTreeSet::new();
    for _ in 0..10 {
        let (head, body) = world.get("/file");
        assert_eq!(body.len(), 26_000);
        dates.insert(head.lines().find(|line| line.starts_with("Date: ")).unwrap().to_owned());
        let memory = world.stats()["memory"].clone();
        assert_eq!((&memory["pipe_mem_used"], &memory["descriptors"]), (&(1.0 / 32.0).into(), &3.into()));
        assert_eq!(memory["pipes"], 1);
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(dates.len(), 10);
}

/// A file that has just been written may still change within the same tick of the clock, and is not put into pipes yet.
#[test]
fn a_file_that_has_not_settled_waits_for_its_pipes() {
    let mut world = World::new(always(Strategy::Pipe));
    world.now.unix -= Duration::from_secs(60);
    fs::write(world.root.join("file"), "warm").unwrap();
    world.get("/file");
    assert_eq!(world.stats()["files"][0]["strategy"], "sendfile");
    world.pass(Duration::from_secs(1));
    world.get("/file");
    let stats = world.stats();
    assert_eq!((&stats["files"][0]["strategy"], &stats["fallbacks"]["kernel"]), (&"pipe".into(), &0.into()));
}

/// Pipes hold references to pages: what has been cut off would be zeros, at the full length. So a change is seen once the
/// clock has moved, however long the interval.
#[test]
fn a_file_in_pipes_is_checked_with_every_tick_of_the_clock() {
    let mut world = World::new(always(Strategy::Pipe));
    let path = world.root.join("file");
    fs::write(&path, vec![b'a'; 200_000]).unwrap();
    assert_eq!(world.get("/file").1.len(), 200_000);
    type Change<'a> = &'a dyn Fn(&fs::File);
    let changes: [(Change<'_>, Vec<u8>); 3] = [
        (&|file| file.set_len(70_000).unwrap(), vec![b'a'; 70_000]),
        (&|file| file.write_all_at(b"bb", 0).unwrap(), [&b"bb"[..], &[b'a'; 69_998]].concat()),
        (&|file| file.set_len(0).unwrap(), vec![]),
    ];
    for (change, want) in changes {
        assert_eq!(world.stats()["files"][0]["strategy"], "pipe");
        std::thread::sleep(sys::beneath::Metadata::TIMESTAMP_STEP);
        change(&fs::File::options().write(true).open(&path).unwrap());
        world.pass(Duration::from_millis(1));
        assert!(world.get("/file").1 == want, "a millisecond has passed, of a second");
    }
    assert_eq!(world.stats()["requests"]["misses"], 4);
}

/// Every kind of change is seen once the interval has passed, and not looked for before.
#[test]
fn changes_are_seen_after_the_interval() {
    for &strategy in Strategy::value_variants() {
        let mut world = World::new(always(strategy));
        let path = world.root.join("file");
        fs::write(&path, "one").unwrap();
        assert_eq!(world.get("/file").1, b"one");
        world.pass(Duration::from_millis(900));
        world.get("/file");
        assert_eq!(world.stats()["requests"]["revalidations"], 0, "not looked at within the interval");
        std::thread::sleep(Duration::from_millis(25));
        fs::write(world.root.join("new"), "two").unwrap();
        fs::rename(world.root.join("new"), &path).unwrap();
        world.pass(Duration::from_millis(100));
        assert_eq!(world.get("/file").1, b"two", "{strategy}");
        world.pass(Duration::from_secs(1));
        assert_eq!(world.get("/file").1, b"two", "{strategy}");
        assert_eq!(world.stats()["requests"]["revalidations"], 1, "{strategy}");
        fs::remove_file(&path).unwrap();
        world.pass(Duration::from_secs(1));
        assert!(world.get("/file").0.starts_with("HTTP/1.1 404 "), "{strategy}");
        assert_eq!(world.stats()["files_total"], 0, "{strategy}");
    }
}
