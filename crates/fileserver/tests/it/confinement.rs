//! Nothing outside the content directory is ever served, and nothing in it that is no document.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    path::Path,
};

use clap::ValueEnum;
use fileserver::{Combination, ProtocolKind, backend::BackendKind};
use layouts::LayoutKind;
use wire::file::Status;

use crate::common::{Collection, DOCUMENTS, PLAIN, Setup, World, contents, settle};

const SECRET: &[u8] = b"nobody's business";

/// Puts something at the second path; the first one is of a file outside.
type Trap = fn(&Path, &Path);

/// Original ids of things that a content directory should not, but may, contain.
const TRAPS: [(&str, Trap); 8] = [
    ("ESCAPE01", |secret, path| symlink(secret, path).unwrap()),
    ("RELATIVE", |_, path| {
        let up = "../".repeat(path.components().count());
        symlink(format!("{up}etc/passwd"), path).unwrap();
    }),
    ("MAGIC001", |_, path| symlink("/proc/self/cmdline", path).unwrap()),
    ("LOOP0001", |_, path| symlink(path.file_name().unwrap(), path).unwrap()),
    ("DANGLING", |_, path| symlink("nowhere", path).unwrap()),
    ("FIFO0001", |_, path| {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &*path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    }),
    ("SOCKET01", |_, path| drop(UnixListener::bind(path).unwrap())),
    ("DIRECTRY", |_, path| fs::create_dir(path).unwrap()),
];

/// Ids that only the framed protocol can say.
const NAMES: [&[u8]; 16] = [
    b"../secret",
    b"..",
    b".",
    b"/etc/passwd",
    b"/",
    b"./SMALL002",
    b"x/../SMALL002",
    b"SMALL002/",
    b"SMALL002/.",
    b"//SMALL002",
    b"SMALL002\n",
    b"SMALL002 ",
    b"\xff\xfe",
    b"%2e%2e/secret",
    b"..\\secret",
    b"SMALL002/../../secret",
];

fn trapped(layout: LayoutKind) -> Collection {
    let collection = Collection::new(layout);
    let secret = collection.outside().join("secret");
    fs::write(&secret, SECRET).unwrap();
    for (id, set) in TRAPS {
        // Through the collection, so that a manifest names it.
        collection.write(id, b"");
        fs::remove_file(collection.path(id)).unwrap();
        set(&secret, &collection.path(id));
    }
    settle();
    collection
}

#[test]
fn what_is_no_document_is_missing_in_every_layout() {
    for &layout in LayoutKind::value_variants() {
        let collection = trapped(layout);
        for &protocol in ProtocolKind::value_variants() {
            for readers in [0, 1] {
                let choice = Combination { protocol, ..PLAIN.choice };
                let world = World::new(&Setup { choice, layout, readers, ..PLAIN }, &collection);
                for (id, _) in TRAPS {
                    for _ in 0..2 {
                        assert_eq!(world.get(id), (Status::Missing, Vec::new()), "{id}, {layout}, {protocol}");
                    }
                }
                let (id, size) = DOCUMENTS[4];
                assert_eq!(world.get(id), (Status::Found, contents(id, size)), "what is beside them is served");
            }
        }
    }
}

/// Neither by a path nor by any spelling of a name that is there; an import does not take them along either.
#[test]
fn no_id_leads_out_of_the_directory() {
    for &layout in LayoutKind::value_variants() {
        let collection = trapped(layout);
        for backend in [BackendKind::Filesystem, BackendKind::Sqlite] {
            let readers = usize::from(backend.blocks());
            let world = World::new(&Setup { layout, backend, readers, ..PLAIN }, &collection);
            let ids: Vec<&[u8]> = NAMES.into_iter().chain(TRAPS.map(|(id, _)| id.as_bytes())).collect();
            for (id, got) in ids.iter().zip(world.get_all(&ids)) {
                assert_eq!(got, (Status::Missing, Vec::new()), "{}, {layout}, {backend}", id.escape_ascii());
            }
            let (id, size) = DOCUMENTS[4];
            assert_eq!(world.get(id), (Status::Found, contents(id, size)));
        }
    }
}
