use std::{fs, os::unix::fs::FileExt, path::Path, thread, time::Duration};

use proto::{NextWrite, Now, Outbox};
use sys::{beneath::Metadata, registered::Region};

use super::*;
use crate::resources::Limits;

/// One pipe, and several.
const LENS: [usize; 2] = [30_000, 200_000];

fn open(path: &Path) -> Opened {
    let file = OwnedFd::from(File::open(path).unwrap());
    Opened { metadata: Metadata::of(&file).unwrap(), file }
}

fn resources() -> Arc<Resources> {
    resources_with(1 << 20)
}

fn resources_with(pipe_bytes: u64) -> Arc<Resources> {
    let limits = Limits { pipe_bytes, pipe_size: 64 << 10, descriptors: 100, mapped_bytes: 1 << 20 };
    Arc::new(Resources::new(&limits, Some(Region::new(1 << 20).unwrap())))
}

/// Returns a time at which every file has settled.
fn later(seconds: u64) -> Now {
    let unix = sys::clock::unix_coarse() + Duration::from_secs(60 + seconds);
    Now { instant: std::time::Instant::now(), unix }
}

/// Waits until a change has another time than those before.
fn next_tick() {
    thread::sleep(Metadata::TIMESTAMP_STEP);
}

fn prepare(opened: Opened, strategy: Strategy) -> CachedFile {
    prepare_with(opened, strategy, &resources())
}

fn prepare_with(opened: Opened, strategy: Strategy, resources: &Arc<Resources>) -> CachedFile {
    let heads = Heads::new(&opened.metadata, &"a/b".into(), web::Encoding::Sole, b"", later(0).unix);
    CachedFile::new(
        Arc::new(opened.file),
        opened.metadata,
        heads,
        strategy,
        Reservations::new(),
        resources,
        later(0).unix,
    )
}

/// A file of one pipe that has come to rest. Removing its directory would change it.
fn in_one_pipe(resources: &Arc<Resources>) -> (tempfile::TempDir, CachedFile) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![b'a'; LENS[0]]).unwrap();
    let file = prepare_with(open(&path), Strategy::Pipe, resources);
    (dir, file)
}

/// True if a response is sent from a pipe.
fn is_piped(file: &CachedFile, now: Now) -> bool {
    let mut out = Outbox::default();
    file.push_ok(Connection::Implied, now, &mut out);
    matches!(out.front(), Some(NextWrite::Pipe(_)))
}

/// A change between the look before a filling and the one after it, as seen from here: the metadata is of before, the
/// bytes are of after.
#[test]
fn a_file_that_changes_while_prepared_is_sent_by_sendfile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let cases = [Strategy::Pipe, Strategy::Uring].map(|strategy| LENS.map(|len| (strategy, len)));
    for (strategy, len) in cases.into_iter().flatten() {
        fs::write(&path, vec![b'a'; len]).unwrap();
        assert_eq!(prepare(open(&path), strategy).strategy(), strategy, "at rest");
        let changes: [&dyn Fn(&File); 3] =
            [&|file| file.write_all_at(b"b", 17).unwrap(), &|file| file.set_len(len as u64 + 1).unwrap(), &|file| {
                file.set_len(len as u64 - 5_000).unwrap()
            }];
        for (at, change) in changes.into_iter().enumerate() {
            fs::write(&path, vec![b'a'; len]).unwrap();
            let before = open(&path);
            next_tick();
            change(&File::options().write(true).open(&path).unwrap());
            let file = prepare(before, strategy);
            assert_eq!(file.strategy(), Strategy::Sendfile, "{strategy}, {len}, change {at}");
            assert!(!file.state.is_settled, "{strategy}, {len}, change {at}: not checked again");
        }
    }
}

/// The same for the first pipe, which is filled anew each second.
#[test]
fn a_first_pipe_is_not_made_of_a_file_that_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![b'a'; LENS[0]]).unwrap();
    let file = prepare(open(&path), Strategy::Pipe);
    assert!(is_piped(&file, later(1)) && is_piped(&file, later(2)));
    next_tick();
    File::options().write(true).open(&path).unwrap().write_all_at(b"b", 17).unwrap();
    assert!(!is_piped(&file, later(3)), "head and file go by themselves");
    assert!(!file.is_intact(1));
}

/// While one thread makes the first pipe of a new second, the others send that of the second before.
#[test]
fn the_old_first_pipe_is_sent_while_a_new_one_is_made() {
    let (_dir, file) = in_one_pipe(&resources());
    let second = AtomicU64::new(0);
    thread::scope(|scope| {
        let ask = || {
            loop {
                let second = second.load(Ordering::Relaxed);
                assert!(is_piped(&file, later(second)), "second {second}");
                if second == 2_000 {
                    break;
                }
            }
        };
        scope.spawn(ask);
        scope.spawn(ask);
        for next in 1..=2_000 {
            second.store(next, Ordering::Relaxed);
            assert!(is_piped(&file, later(next)), "second {next}");
        }
    });
}

/// The old first pipe makes room for the new one if there is none for both.
#[test]
fn a_first_pipe_is_made_anew_in_a_budget_of_one() {
    let resources = resources_with(64 << 10);
    let (_dir, file) = in_one_pipe(&resources);
    for second in 1..4 {
        assert!(is_piped(&file, later(second)), "second {second}");
        assert_eq!(resources.pipe_bytes.used(), 64 << 10);
    }
}
