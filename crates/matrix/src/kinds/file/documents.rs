//! The documents that file servers serve: the same in every layout, in a database, and as files for other servers.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use super::super::super::site;

/// The layout that the generator reads, and other servers serve.
pub(super) const LAYOUT: &str = "zotero";
const FLAT: &str = "flat";
const TREE: &str = "tree";
const MANIFEST: &str = "manifest";
/// Below the site.
const DIRECTORY: &str = "documents";

/// So many documents, in sizes that rise evenly from `first_bytes` to `last_bytes`.
#[derive(Debug)]
pub(super) struct Documents {
    name: &'static str,
    pub(super) count: u32,
    first_bytes: u64,
    last_bytes: u64,
}

pub(super) static MIXED: Documents =
    Documents { name: "mixed", count: 30, first_bytes: 100 << 10, last_bytes: 2 << 20 };
pub(super) static KB10: Documents = Documents::alike("10KB", 100, 10_000);
pub(super) static KB100: Documents = Documents::alike("100KB", 30, 100_000);
pub(super) static MB1: Documents = Documents::alike("1MB", 16, 1_000_000);
pub(super) static MB2: Documents = Documents::alike("2MB", 16, 2_000_000);

impl Documents {
    const fn alike(name: &'static str, count: u32, bytes: u64) -> Self {
        Self { name, count, first_bytes: bytes, last_bytes: bytes }
    }

    fn bytes_of(&self, number: u32) -> u64 {
        let steps = u64::from(self.count - 1);
        self.first_bytes + (self.last_bytes - self.first_bytes) * u64::from(number) / steps
    }

    pub(super) fn mean_bytes(&self) -> u64 {
        (0..self.count).map(|number| self.bytes_of(number)).sum::<u64>() / u64::from(self.count)
    }

    /// Where the documents are in a layout, below the site.
    pub(super) fn place(&self, layout: &str) -> String {
        format!("{DIRECTORY}/{}/{layout}", self.name)
    }

    /// Where the database with the documents is, below the site.
    pub(super) fn database(&self) -> String {
        format!("{DIRECTORY}/{}/documents.db", self.name)
    }

    /// Where the one document of the null server is, below the site.
    pub(super) fn null_place(&self) -> String {
        format!("{DIRECTORY}/{}/null", self.name)
    }

    /// Paths below the site as servers of files know the documents.
    pub(super) fn paths(&self) -> impl Iterator<Item = String> {
        let place = self.place(LAYOUT);
        (0..self.count).map(move |number| format!("{place}/{}", relative(LAYOUT, &id(number))))
    }

    /// Writes what is not there yet: the documents in these layouts, and what the null server's replies are compared
    /// with.
    pub(super) fn write(&self, site: &Path, layouts: &[&str]) -> Result<()> {
        let first = site.join(self.place(LAYOUT));
        if !first.exists() {
            for number in 0..self.count {
                let seed = u64::from(number) << 32;
                write_file(&first.join(relative(LAYOUT, &id(number))), &site::content(self.bytes_of(number), seed))?;
            }
            let bytes = usize::try_from(self.mean_bytes())?;
            write_file(&site.join(self.null_place()).join(relative(LAYOUT, &id(0))), &vec![b'x'; bytes])?;
        }
        layouts.iter().filter(|&&layout| layout != LAYOUT).try_for_each(|layout| self.link(site, layout))
    }

    /// The same files under other names.
    fn link(&self, site: &Path, layout: &str) -> Result<()> {
        let (first, other) = (site.join(self.place(LAYOUT)), site.join(self.place(layout)));
        if other.exists() {
            return Ok(());
        }
        let mut lines = String::new();
        for number in 0..self.count {
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
    pub(super) fn import(&self, site: &Path, executable: &Path) -> Result<()> {
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

/// Ids that both protocols can ask for.
fn id(number: u32) -> String {
    format!("DOC{number:05}")
}

/// Where a layout has a document.
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

    #[test]
    fn sizes_rise_from_the_first_to_the_last_and_have_the_mean_of_the_null_document() {
        assert_eq!((MIXED.bytes_of(0), MIXED.bytes_of(29)), (100 << 10, 2 << 20));
        assert!((1..MIXED.count).all(|number| MIXED.bytes_of(number - 1) < MIXED.bytes_of(number)));
        let middle = u64::midpoint(100 << 10, 2 << 20);
        assert!(MIXED.mean_bytes().abs_diff(middle) < 2);
        assert!((0..KB10.count).all(|number| KB10.bytes_of(number) == 10_000));
    }

    #[test]
    fn every_layout_has_the_same_documents_and_no_two_are_alike() {
        let site = tempfile::tempdir().unwrap();
        let few = Documents { name: "few", count: 3, first_bytes: 100, last_bytes: 300 };
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
        assert!(KB10.import(site.path(), Path::new("/bin/false")).unwrap_err().to_string().contains("import"));
    }
}
