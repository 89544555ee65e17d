//! Laws of every layout of the table.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    path::Path,
};

use clap::ValueEnum;
use sys::beneath::{OpenError, Root};
use wire::file::FileId;

use crate::{AnyLayout, Layout, LayoutError, LayoutKind, Zotero};

const SECRET: &[u8] = b"secret";

fn id(bytes: &[u8]) -> FileId {
    FileId::new(bytes).unwrap()
}

fn write(path: &Path, contents: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
}

/// Makes `root/` with a good document under each layout, all that is none, and `secret` beside it.
fn content() -> tempfile::TempDir {
    let outer = tempfile::tempdir().unwrap();
    fs::write(outer.path().join("secret"), SECRET).unwrap();
    fs::create_dir(outer.path().join("outside")).unwrap();
    fs::write(outer.path().join("outside/a.pdf"), SECRET).unwrap();
    let root = outer.path().join("root");
    write(&root.join("GOODGOOD/b.pdf"), b"b");
    write(&root.join("GOODGOOD/a.txt"), b"no pdf");
    write(&root.join("GOODGOOD/c.pdf"), b"c");
    write(&root.join("EMPTY000/a.txt"), b"no pdf");
    write(&root.join("FOLDER00/a.pdf/inside"), b"inside");
    write(&root.join("FOLDER00/b.pdf"), b"b");
    write(&root.join("ESCAPE00/b.pdf"), b"b");
    symlink("../../secret", root.join("ESCAPE00/a.pdf")).unwrap();
    write(&root.join("INSIDE00/b.pdf"), b"b");
    symlink("../GOODGOOD/c.pdf", root.join("INSIDE00/a.pdf")).unwrap();
    symlink("../outside", root.join("OUTSIDE0")).unwrap();
    fs::create_dir(root.join("SOCKET00")).unwrap();
    UnixListener::bind(root.join("SOCKET00/a.pdf")).unwrap();
    write(&root.join("file"), b"file");
    symlink("file", root.join("link")).unwrap();
    symlink("../secret", root.join("escape")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink(".", root.join("circle")).unwrap();
    write(Path::new(&root).join(OsStr::from_bytes(b"odd \xff\n")).as_path(), b"odd");
    let manifest = b"one\tfile\ntwo\tGOODGOOD/c.pdf\nout\tescape\ngone\tnone\nfolder\tGOODGOOD\n";
    write(&root.join("manifest.tsv"), manifest);
    outer
}

fn open(kind: LayoutKind, root: &Path) -> (AnyLayout, Root) {
    (kind.open(root).unwrap(), Root::open(root).unwrap())
}

/// Returns the path and the contents of an id's file, as a server finds them.
fn read(layout: &AnyLayout, root: &Root, id: &FileId) -> Result<(Vec<u8>, Vec<u8>), OpenError> {
    let located = layout.locate(root, id)?;
    let opened = root.open_file(located.path.as_bytes())?;
    let (contents, _) = sys::contents::read_unchanging(&opened.file.into(), opened.metadata, 1 << 20)?.unwrap();
    Ok((located.path.as_bytes().to_vec(), contents))
}

#[test]
fn an_id_means_the_file_that_its_layout_says() {
    let outer = content();
    let root_path = outer.path().join("root");
    for (kind, name, want) in [
        (LayoutKind::Zotero, &b"GOODGOOD"[..], Ok(&b"GOODGOOD/b.pdf"[..])),
        (LayoutKind::Zotero, b"FOLDER00", Ok(b"FOLDER00/b.pdf")),
        (LayoutKind::Zotero, b"ESCAPE00", Ok(b"ESCAPE00/b.pdf")),
        (LayoutKind::Zotero, b"INSIDE00", Ok(b"INSIDE00/a.pdf")),
        (LayoutKind::Zotero, b"SOCKET00", Err(OpenError::Missing)),
        (LayoutKind::Zotero, b"EMPTY000", Err(OpenError::Missing)),
        (LayoutKind::Zotero, b"OUTSIDE0", Err(OpenError::Missing)),
        (LayoutKind::Zotero, b"file", Err(OpenError::Missing)),
        (LayoutKind::Zotero, b"circle/GOODGOOD", Err(OpenError::Missing)),
        (LayoutKind::Flat, b"file", Ok(b"file")),
        (LayoutKind::Flat, b"link", Ok(b"link")),
        (LayoutKind::Flat, b"odd \xff\n", Ok(b"odd \xff\n")),
        (LayoutKind::Flat, b"GOODGOOD/b.pdf", Err(OpenError::Missing)),
        (LayoutKind::Flat, b"GOODGOOD", Err(OpenError::Directory)),
        (LayoutKind::Tree, b"GOODGOOD/c.pdf", Ok(b"GOODGOOD/c.pdf")),
        (LayoutKind::Tree, b"circle/file", Ok(b"circle/file")),
        (LayoutKind::Tree, b"OUTSIDE0/a.pdf", Err(OpenError::Missing)),
        (LayoutKind::Tree, b"SOCKET00/a.pdf", Err(OpenError::NotRegular)),
        (LayoutKind::Manifest, b"one", Ok(b"file")),
        (LayoutKind::Manifest, b"two", Ok(b"GOODGOOD/c.pdf")),
        (LayoutKind::Manifest, b"out", Err(OpenError::Missing)),
        (LayoutKind::Manifest, b"gone", Err(OpenError::Missing)),
        (LayoutKind::Manifest, b"folder", Err(OpenError::Directory)),
        (LayoutKind::Manifest, b"file", Err(OpenError::Missing)),
    ] {
        let (layout, root) = open(kind, &root_path);
        let path = read(&layout, &root, &id(name)).map(|(path, _)| path);
        assert_eq!(path, want.map(<[u8]>::to_vec), "{kind}: {}", name.escape_ascii());
    }
}

#[test]
fn no_id_leaves_the_directory() {
    let outer = content();
    let root_path = outer.path().join("root");
    for &kind in LayoutKind::value_variants() {
        let (layout, root) = open(kind, &root_path);
        for name in [
            &b".."[..],
            b".",
            b"/",
            b"../secret",
            b"../outside",
            b"../outside/a.pdf",
            b"/etc/passwd",
            b"file/",
            b"circle/../../secret",
            b"escape",
            b"dangling",
            b"OUTSIDE0",
            b"OUTSIDE0/a.pdf",
            b"circle/escape",
            &[b'x'; 1024],
        ] {
            assert!(read(&layout, &root, &id(name)).is_err(), "{kind}: {}", name.escape_ascii());
        }
    }
}

/// A listing has exactly the documents that a server would serve.
#[test]
fn what_is_listed_is_what_is_found() {
    let outer = content();
    let root_path = outer.path().join("root");
    for (kind, want) in [
        (LayoutKind::Zotero, &[&b"ESCAPE00"[..], b"FOLDER00", b"GOODGOOD", b"INSIDE00"][..]),
        (LayoutKind::Flat, &[b"file", b"link", b"manifest.tsv", b"odd \xff\n"]),
        (LayoutKind::Manifest, &[b"one", b"two"]),
    ] {
        let ids: Vec<_> =
            kind.open(&root_path).unwrap().list(&root_path).unwrap().into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, want.iter().map(|name| id(name)).collect::<Vec<_>>(), "{kind}");
    }
    for &kind in LayoutKind::value_variants() {
        let (layout, root) = open(kind, &root_path);
        let listed = layout.list(&root_path).unwrap();
        assert!(listed.is_sorted() && !listed.is_empty(), "{kind}");
        for (id, path) in listed {
            let (_, contents) = read(&layout, &root, &id).unwrap();
            assert_eq!(contents, fs::read(path).unwrap(), "{kind}: {id}");
            assert_ne!(contents, SECRET, "{kind}: {id}");
        }
    }
}

/// A file that comes before the chosen one is noticed by one `stat` of the directory.
#[test]
fn a_choice_holds_while_its_directory_does() {
    let outer = content();
    let root_path = outer.path().join("root");
    let root = Root::open(&root_path).unwrap();
    let before = Zotero.locate(&root, &id(b"GOODGOOD")).unwrap();
    assert_eq!(root.stat(before.path.parent()).ok(), before.chosen_from);
    // Change times are coarse.
    std::thread::sleep(std::time::Duration::from_millis(50));
    write(&root_path.join("GOODGOOD/a.pdf"), b"a");
    assert_ne!(root.stat(before.path.parent()).ok(), before.chosen_from);
    assert_eq!(Zotero.locate(&root, &id(b"GOODGOOD")).unwrap().path.as_bytes(), b"GOODGOOD/a.pdf");
}

#[test]
fn errors_name_what_is_wrong() {
    let outer = tempfile::tempdir().unwrap();
    let error = LayoutKind::Manifest.open(outer.path()).unwrap_err();
    assert!(matches!(&error, LayoutError::Read { path, .. } if path.ends_with("manifest.tsv")), "{error}");
    fs::write(outer.path().join("manifest.tsv"), "A\tb\nC\n").unwrap();
    let error = LayoutKind::Manifest.open(outer.path()).unwrap_err().to_string();
    assert!(error.contains("manifest.tsv, line 2: no tab"), "{error}");
}

#[test]
fn layouts_are_shown_by_their_names() {
    let names: Vec<_> = LayoutKind::value_variants().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["zotero", "flat", "tree", "manifest"]);
}
