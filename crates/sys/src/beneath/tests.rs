use std::{fs, io::Read, os::unix::fs::symlink, sync::Mutex, thread};

use super::*;
use crate::swapper::Swapper;

struct Tree {
    _outer: tempfile::TempDir,
    root: Root,
    path: PathBuf,
}

/// `root/` with everything a tree may contain, and `secret` beside it.
fn tree(resolver: Way) -> Tree {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("root");
    fs::create_dir_all(path.join("sub")).unwrap();
    fs::create_dir_all(path.join("deep/deep")).unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    fs::write(path.join("file"), "contents").unwrap();
    for (target, link) in [
        ("file", "good"),
        ("../file", "sub/good"),
        ("../secret", "escape"),
        ("/etc/hostname", "absolute"),
        ("/proc/self/fd/0", "magic"),
        ("loop", "loop"),
        ("nowhere", "dangling"),
        ("..", "up"),
        ("../../../secret", "deep/deep/up-and-out"),
        ("../../sub/.././file", "deep/deep/around"),
        ("deep/deep", "to-deep"),
    ] {
        symlink(target, path.join(link)).unwrap();
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, path.join("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
    let mut root = Root::open(&path).unwrap();
    root.resolver = match resolver {
        Way::Kernel => Resolver::Kernel,
        Way::Walk => Resolver::Walk,
        Way::Broker => Resolver::Broker(broker_of(&path)),
    };
    Tree { root, path, _outer: outer }
}

/// Starts one on a thread, whose other end stays for the length of the tests.
fn broker_of(directory: &Path) -> Brokered {
    let (broker, opener) = broker::pair(vec!["/nowhere".into(), directory.to_owned()]).unwrap();
    thread::spawn(move || opener.serve());
    // Reachable to the end, or LeakSanitizer would report it.
    static KEPT: Mutex<Vec<&broker::Broker>> = Mutex::new(Vec::new());
    let broker: &'static broker::Broker = Box::leak(Box::new(broker));
    KEPT.lock().unwrap().push(broker);
    broker.find(directory).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Kernel,
    Walk,
    Broker,
}

const RESOLVERS: [Way; 3] = [Way::Kernel, Way::Walk, Way::Broker];

#[test]
fn only_regular_files_beneath_the_root_open() {
    for resolver in RESOLVERS {
        let tree = tree(resolver);
        for good in [&b"file"[..], b"good", b"sub/good", b"./sub//../file", b"to-deep/around", b"to-deep/../../good"] {
            let mut text = String::new();
            fs::File::from(tree.root.open_file(good).unwrap().file).read_to_string(&mut text).unwrap();
            assert_eq!(text, "contents");
        }
        let long = [b'a'; 300];
        for (bad, why) in [
            (&b"escape"[..], OpenError::Missing),
            (b"absolute", OpenError::Missing),
            (b"magic", OpenError::Missing),
            (b"loop", OpenError::Missing),
            (b"dangling", OpenError::Missing),
            (b"up/secret", OpenError::Missing),
            (b"up/root/file", OpenError::Missing),
            (b"sub/../../root/file", OpenError::Missing),
            (b"good/", OpenError::Missing),
            (b"file/..", OpenError::Missing),
            (b"deep/deep/up-and-out", OpenError::Missing),
            (b"../secret", OpenError::Missing),
            (b"/etc/hostname", OpenError::Missing),
            (b"file/", OpenError::Missing),
            (b"", OpenError::Missing),
            (b"a\0b", OpenError::Missing),
            (&long, OpenError::Missing),
            (b"sub", OpenError::Directory),
            (b".", OpenError::Directory),
            (b"fifo", OpenError::NotRegular),
            (b"socket", OpenError::NotRegular),
        ] {
            assert_eq!(tree.root.open_file(bad).unwrap_err(), why, "{}", bad.escape_ascii());
        }
    }
}

/// While a directory of the tree and a link out of the root change places all the time.
#[test]
fn no_swap_leads_out_of_the_root() {
    for resolver in RESOLVERS {
        const OPENED: usize = 3_000;
        let tree = tree(resolver);
        let (inside, swapped) = (tree.path.join("inside"), tree.path.join("swapped"));
        let outside = tree.path.with_file_name("outside");
        for (directory, contents) in [(&inside, "contents"), (&outside, "secret")] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("file"), contents).unwrap();
        }
        symlink("../outside", &swapped).unwrap();
        let _swapper = Swapper::start(vec![[inside, swapped]]);
        let (mut opened, mut refused) = (0, 0);
        while opened < OPENED || refused < OPENED {
            for path in [&b"inside/file"[..], b"swapped/file", b"inside/../swapped/../inside/file"] {
                match tree.root.open_file(path) {
                    Ok(file) => {
                        let text = io::read_to_string(fs::File::from(file.file)).unwrap();
                        assert_eq!(text, "contents", "after {opened} files and {refused} refusals");
                        opened += 1;
                    }
                    // Renames can make a path with `..` uncertain as often as it is tried.
                    Err(OpenError::Missing | OpenError::Failed(Errno::AGAIN)) => refused += 1,
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}

#[test]
fn a_listing_says_what_there_is_and_leaves_the_root_by_no_way() {
    for resolver in RESOLVERS {
        let tree = tree(resolver);
        let mut names = tree.root.list(b".", |name| name != b"loop").unwrap().names;
        names.sort();
        let kinds: Vec<_> = names.iter().map(|name| (&name.bytes[..], name.kind)).collect();
        for entry in [
            (&b"file"[..], Kind::Regular),
            (b"sub", Kind::Directory),
            (b"good", Kind::Unknown),
            (b"fifo", Kind::Special),
            (b"socket", Kind::Special),
        ] {
            assert!(kinds.contains(&entry), "{kinds:?}");
        }
        assert!(kinds.iter().all(|(name, _)| ![&b"."[..], b"..", b"loop"].contains(name)));
        for (bad, why) in [(&b"up"[..], OpenError::Missing), (b"file", OpenError::Missing), (b"..", OpenError::Missing)]
        {
            assert_eq!(tree.root.list(bad, |_| true).unwrap_err(), why, "{}", bad.escape_ascii());
        }
    }
}

#[test]
fn what_has_just_changed_is_not_settled() {
    let at = |changed_ns| Metadata { device: 1, inode: 1, size: 0, modified_ns: 0, changed_ns };
    let now = Duration::from_secs(1);
    assert!(at(0).is_settled(now) && at(950_000_000).is_settled(now));
    assert!(!at(950_000_001).is_settled(now) && !at(2_000_000_000).is_settled(now));
    assert!(!at(-1).is_settled(now) && !at(i64::MAX).is_settled(now));
}

#[test]
fn metadata_differs_after_every_kind_of_change() {
    let tree = tree(Way::Kernel);
    let file = tree.path.join("file");
    let same = |before: Metadata| tree.root.stat(b"file") == Ok(before);
    let now = || tree.root.open_file(b"file").unwrap().metadata;
    let before = now();
    assert!(same(before) && before.size == 8);

    fs::write(tree.path.join("new"), "CONTENTS").unwrap();
    fs::rename(tree.path.join("new"), &file).unwrap();
    assert!(!same(before), "replaced by a file of the same size");

    let before = now();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(3).unwrap();
    assert!(!same(before), "truncated");

    fs::remove_file(&file).unwrap();
    assert_eq!(tree.root.stat(b"file"), Err(OpenError::Missing));
    assert_eq!(tree.root.stat(b"/etc/hostname"), Err(OpenError::Missing));
}

#[test]
fn a_root_must_be_a_directory_that_is_there() {
    let tree = tree(Way::Kernel);
    assert_eq!(Root::open(tree.path.join("file")).unwrap_err(), Errno::NOTDIR);
    assert_eq!(Root::open(tree.path.join("none")).unwrap_err(), Errno::NOENT);
}

#[test]
fn without_symlinks_no_link_is_followed() {
    for resolver in RESOLVERS {
        let tree = tree(resolver);
        let root = tree.root.without_symlinks();
        assert!(root.open_file(b"file").is_ok() && root.stat(b"file").is_ok());
        assert!(root.open_file(b"sub/../file").is_ok(), "no link");
        for link in [&b"good"[..], b"sub/good", b"to-deep/around", b"deep/deep/around", b"escape", b"dangling", b"loop"]
        {
            assert_eq!(root.open_file(link).unwrap_err(), OpenError::Missing, "{}", link.escape_ascii());
        }
        assert_eq!(root.list(b"to-deep", |_| true).unwrap_err(), OpenError::Missing);
        // What was opened by its own name is another file by that of a link.
        let file = root.open_file(b"file").unwrap().metadata;
        assert!(root.stat(b"good") != Ok(file) && root.stat(b"to-deep/../../file") != Ok(file));
        fs::rename(tree.path.join("sub"), tree.path.join("moved")).unwrap();
        symlink("moved", tree.path.join("sub")).unwrap();
        assert!(root.reopen_if_replaced().is_none());
        assert_eq!(root.open_file(b"sub/good").unwrap_err(), OpenError::Missing);
    }
}

#[test]
fn a_replaced_root_is_found_by_its_path() {
    let outer = tempfile::tempdir().unwrap();
    let path = |name: &str| outer.path().join(name);
    for name in ["1", "2"] {
        fs::create_dir(path(name)).unwrap();
        fs::write(path(name).join("file"), name).unwrap();
    }
    let read = |root: &Root| {
        let mut text = String::new();
        fs::File::from(root.open_file(b"file").unwrap().file).read_to_string(&mut text).unwrap();
        text
    };
    symlink("1", path("current")).unwrap();
    let root = Root::open(path("current")).unwrap();
    assert!(root.reopen_if_replaced().is_none(), "the same");
    symlink("2", path("new")).unwrap();
    fs::rename(path("new"), path("current")).unwrap();
    let swapped = root.reopen_if_replaced().unwrap();
    assert_eq!((read(&root), read(&swapped)), ("1".to_owned(), "2".to_owned()));
    fs::remove_dir_all(path("2")).unwrap();
    assert!(swapped.reopen_if_replaced().is_none(), "nothing is there");
    fs::create_dir(path("2")).unwrap();
    fs::write(path("2/file"), "made again").unwrap();
    assert_eq!(read(&swapped.reopen_if_replaced().unwrap()), "made again");
    fs::remove_dir_all(path("2")).unwrap();
    fs::write(path("2"), "").unwrap();
    assert!(swapped.reopen_if_replaced().is_none(), "no directory");
}

/// By identity: what a broker opens is never beneath another directory than the one that was meant.
#[test]
fn a_broker_opens_beneath_one_directory_and_no_other_of_its_name() {
    let Tree { root, path, _outer } = tree(Way::Broker);
    assert!(root.open_file(b"file").is_ok());
    fs::rename(&path, path.with_extension("old")).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("file"), "another").unwrap();
    assert!(root.open_file(b"sub/good").is_ok(), "the same directory");
    let Resolver::Broker(directory) = root.resolver else { unreachable!("the way of the tree") };
    let there = root.reopen_if_replaced().unwrap();
    let mut text = String::new();
    let opened = directory.open(there.identity, b"file", OFlags::NONBLOCK, true).unwrap();
    fs::File::from(opened).read_to_string(&mut text).unwrap();
    assert_eq!(text, "another");
    assert_eq!(root.open_file(b"sub/good").unwrap_err(), OpenError::Missing, "its name is gone");
    assert_eq!(directory.open(there.identity, b"../secret", OFlags::NONBLOCK, true).unwrap_err(), Errno::XDEV);
    let written = directory.open(there.identity, b"new", OFlags::CREATE | OFlags::WRONLY, true);
    assert_eq!(written.unwrap_err(), Errno::NOENT, "only to read");
}
