//! `fileserver import`, and what is served of it.

use std::{path::Path, process::Command};

use clap::ValueEnum;
use layouts::LayoutKind;
use testkit::{DriverKind, Server, run_to_end};
use wire::file::Status;

use crate::{
    common::{Collection, DOCUMENTS, contents},
    process::setup::{EXE, ORIGINAL, Setup},
};

fn import(layout: LayoutKind, directory: &Path, database: &Path) -> testkit::Finished {
    let mut command = Command::new(EXE);
    command.args(["import", "--layout", &layout.to_string()]).arg(directory).arg(database);
    run_to_end(command).unwrap()
}

#[test]
fn what_is_imported_is_served() {
    for &layout in LayoutKind::value_variants() {
        let collection = Collection::new(layout);
        let database = collection.outside().join("imported.db");
        let finished = import(layout, &collection.root, &database);
        assert_eq!((finished.code(), &*finished.stdout), (Some(0), ""), "{finished:?}");
        let said = format!("{} documents, ", DOCUMENTS.len());
        assert!(finished.stderr.starts_with(&said), "{finished:?}");
        let setup = Setup { backend: fileserver::backend::BackendKind::Sqlite, ..ORIGINAL };
        let mut server: Server = setup.start(DriverKind::DEFAULT, &database).unwrap();
        for (id, size) in DOCUMENTS {
            let got = setup.get(server.address(), id.as_bytes()).unwrap();
            assert!(got == (Status::Found, contents(id, size)), "{id}, {layout}: {} bytes", got.1.len());
        }
        server.drain().unwrap();
    }
}

#[test]
fn a_failed_import_is_one_line_and_keeps_the_old_database() {
    let collection = Collection::new(LayoutKind::Flat);
    let database = collection.outside().join("imported.db");
    std::fs::write(&database, "something else").unwrap();
    let finished = import(LayoutKind::Flat, &collection.root, &database);
    assert_eq!((finished.code(), finished.stderr.lines().count()), (Some(1), 1), "{finished:?}");
    assert!(finished.stderr.starts_with("error: "), "{finished:?}");
    assert_eq!(std::fs::read(&database).unwrap(), b"something else");
    let finished = import(LayoutKind::Flat, &collection.root.join("none"), &collection.outside().join("new.db"));
    assert_eq!((finished.code(), finished.stderr.lines().count()), (Some(1), 1), "{finished:?}");
    assert!(finished.stderr.contains("No such file or directory (os error 2)\n"), "{finished:?}");
    assert_eq!(finished.stderr.matches("os error").count(), 1, "{finished:?}");
    assert!(!collection.outside().join("new.db").exists());
    // A name that cannot be looked up is no sign of another writer.
    let finished = import(LayoutKind::Flat, &collection.root, &database.join("new.db"));
    assert_eq!((finished.code(), finished.stderr.lines().count()), (Some(1), 1), "{finished:?}");
    assert!(finished.stderr.contains("cannot write") && finished.stderr.contains("Not a directory"), "{finished:?}");
}
