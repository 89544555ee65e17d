//! The documents that file servers serve: the same in every layout, in a database, and as files for other servers.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::run::site;

/// The layout that the generator reads, and other servers serve.
pub(super) const LAYOUT: &str = "zotero";
const FLAT: &str = "flat";
const TREE: &str = "tree";
const MANIFEST: &str = "manifest";
/// Below the site.
const DIRECTORY: &str = "documents";

/// A set of documents, on disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Documents<'a>(pub(super) &'a servers::Documents);

impl Documents<'_> {
    pub(super) fn count(self) -> u32 {
        self.0.count
    }

    fn bytes_of(self, number: u32) -> u64 {
        let steps = u64::from(self.0.count - 1).max(1);
        self.0.first_bytes + (self.0.last_bytes - self.0.first_bytes) * u64::from(number) / steps
    }

    pub(super) fn mean_bytes(self) -> u64 {
        (0..self.0.count).map(|number| self.bytes_of(number)).sum::<u64>() / u64::from(self.0.count)
    }

    /// Returns the place of the documents in a layout, below the site.
    pub(super) fn place(self, layout: &str) -> String {
        format!("{DIRECTORY}/{}/{layout}", self.0.name)
    }

    /// Returns the place of the database with the documents, below the site.
    pub(super) fn database(self) -> String {
        format!("{DIRECTORY}/{}/documents.db", self.0.name)
    }

    /// Returns the place of the null server's one document, below the site.
    pub(super) fn null_place(self) -> String {
        format!("{DIRECTORY}/{}/null", self.0.name)
    }

    /// Paths below the site as servers of files know the documents.
    pub(super) fn paths(self) -> impl Iterator<Item = String> {
        let count = self.0.count;
        let place = self.place(LAYOUT);
        (0..count).map(move |number| format!("{place}/{}", relative(LAYOUT, &id(number))))
    }

    /// Writes what is not there yet: the documents in these layouts, and what the null server's replies are compared
    /// with.
    pub(super) fn write(self, site: &Path, layouts: &[&str]) -> Result<()> {
        let first = site.join(self.place(LAYOUT));
        if !first.exists() {
            for number in 0..self.0.count {
                let seed = u64::from(number) << 32;
                write_file(&first.join(relative(LAYOUT, &id(number))), &site::content(self.bytes_of(number), seed))?;
            }
            let bytes = usize::try_from(self.mean_bytes())?;
            write_file(&site.join(self.null_place()).join(relative(LAYOUT, &id(0))), &vec![b'x'; bytes])?;
        }
        layouts.iter().filter(|&&layout| layout != LAYOUT).try_for_each(|layout| self.link(site, layout))
    }

    /// The same files under other names.
    fn link(self, site: &Path, layout: &str) -> Result<()> {
        let (first, other) = (site.join(self.place(LAYOUT)), site.join(self.place(layout)));
        if other.exists() {
            return Ok(());
        }
        let mut lines = String::new();
        for number in 0..self.0.count {
            let (id, path) = (id(number), relative(layout, &id(number)));
            let (file, link) = (first.join(relative(LAYOUT, &id)), other.join(&path));
            make_parent(&link)?;
            fs::hard_link(file, &link).with_context(|| format!("{}", link.display()))?;
            lines += &format!("{id}\t{path}\n");
        }
        if layout == MANIFEST {
            write_file(&other.join("manifest.tsv"), lines.as_bytes())?;
        }
        Ok(())
    }

    /// Makes the database, with the server's own import.
    pub(super) fn import(self, site: &Path, executable: &Path) -> Result<()> {
        let database = site.join(self.database());
        if database.exists() {
            return Ok(());
        }
        let mut command = Command::new(executable);
        command.args(["import", "--layout", LAYOUT]).arg(site.join(self.place(LAYOUT))).arg(database);
        let output = command.stdin(Stdio::null()).output().context("fileserver import")?;
        if !output.status.success() {
            bail!("fileserver import: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}

/// Returns an id that both protocols can ask for.
fn id(number: u32) -> String {
    format!("DOC{number:05}")
}

/// Returns the place of a document in a layout.
fn relative(layout: &str, id: &str) -> String {
    match layout {
        FLAT | TREE => id.to_owned(),
        MANIFEST => format!("documents/{id}.pdf"),
        _ => format!("{id}/document.pdf"),
    }
}

fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    make_parent(path)?;
    fs::write(path, content).with_context(|| format!("{}", path.display()))
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().map(PathBuf::from).unwrap_or_default();
    fs::create_dir_all(&parent).with_context(|| format!("{}", parent.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, count: u32, first_bytes: u64, last_bytes: u64) -> servers::Documents {
        servers::Documents { name: name.to_owned(), count, first_bytes, last_bytes }
    }

    #[test]
    fn sizes_rise_and_have_the_mean_of_the_null_document() {
        let mixed = set("mixed", 30, 100 << 10, 2 << 20);
        let mixed = Documents(&mixed);
        assert_eq!((mixed.bytes_of(0), mixed.bytes_of(29)), (100 << 10, 2 << 20));
        assert!((1..mixed.count()).all(|number| mixed.bytes_of(number - 1) < mixed.bytes_of(number)));
        assert!(mixed.mean_bytes().abs_diff(u64::midpoint(100 << 10, 2 << 20)) < 2);
        let alike = set("alike", 1, 10_000, 10_000);
        assert_eq!(Documents(&alike).mean_bytes(), 10_000);
    }

    #[test]
    fn every_layout_has_the_same_documents_and_no_two_are_alike() {
        let site = tempfile::tempdir().unwrap();
        let few = set("few", 3, 100, 300);
        let few = Documents(&few);
        few.write(site.path(), &[LAYOUT, FLAT, TREE, MANIFEST]).unwrap();
        few.write(site.path(), &[LAYOUT, FLAT]).unwrap();
        let read = |path: String| fs::read(site.path().join(path)).unwrap();
        let mut seen = Vec::new();
        for (number, path) in (0..).zip(few.paths()) {
            let document = read(path);
            assert_eq!(document.len() as u64, few.bytes_of(number));
            for layout in [FLAT, TREE, MANIFEST] {
                let there = format!("{}/{}", few.place(layout), relative(layout, &id(number)));
                assert_eq!(read(there), document, "{layout}");
            }
            assert!(!seen.contains(&document));
            seen.push(document);
        }
        let manifest = String::from_utf8(read(format!("{}/manifest.tsv", few.place(MANIFEST)))).unwrap();
        assert_eq!(manifest.lines().next(), Some("DOC00000\tdocuments/DOC00000.pdf"));
        assert_eq!(read(format!("{}/DOC00000/document.pdf", few.null_place())), vec![b'x'; 200]);
    }

    #[test]
    fn an_import_that_fails_says_why() {
        let site = tempfile::tempdir().unwrap();
        let any = set("any", 3, 100, 300);
        assert!(
            Documents(&any).import(site.path(), Path::new("/bin/false")).unwrap_err().to_string().contains("import")
        );
    }
}
