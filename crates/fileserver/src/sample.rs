//! Sample collection for a server without content: small, generated, and removed with the server.

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

use layouts::LayoutKind;
use tempfile::TempDir;

use crate::backend::{BackendKind, ImportOptions, import};

/// Sizes of the documents, in bytes.
const SIZES: [usize; 6] = [1 << 10, 10_000, 32 << 10, 100_000, 512 << 10, 2 << 20];

/// Directory with some documents in it; removed when this is dropped.
#[derive(Debug)]
pub struct Sample {
    directory: TempDir,
    content: PathBuf,
}

impl Sample {
    /// Generates what `backend` serves: a directory, or a database in one.
    ///
    /// # Errors
    /// Those of the file system, or of the database.
    pub fn generate(layout: LayoutKind, backend: BackendKind) -> anyhow::Result<Self> {
        let sample = Self::of_files(layout)?;
        Ok(match backend {
            BackendKind::Filesystem => sample,
            BackendKind::Sqlite => {
                let database = sample.directory.path().join("documents.db");
                let files = sample.directory.path();
                import(files, &layout.open(files)?, &database, ImportOptions::default(), |_| {})?;
                Self { content: database, ..sample }
            }
        })
    }

    fn of_files(layout: LayoutKind) -> io::Result<Self> {
        let directory = TempDir::with_prefix("fileserver-sample-")?;
        let sample = Self { content: directory.path().to_owned(), directory };
        let mut manifest = String::new();
        for (id, size) in Self::ids().zip(SIZES) {
            let path = match layout {
                LayoutKind::Zotero => format!("{id}/document.pdf"),
                LayoutKind::Flat | LayoutKind::Tree => id.clone(),
                LayoutKind::Manifest => format!("documents/{id}.txt"),
            };
            manifest += &format!("{id}\t{path}\n");
            write(&sample.content.join(path), &contents(&id, size))?;
        }
        if layout == LayoutKind::Manifest {
            write(&sample.content.join("manifest.tsv"), manifest.as_bytes())?;
        }
        Ok(sample)
    }

    /// Path of the content to serve.
    pub fn content(&self) -> &Path {
        &self.content
    }

    /// Directory that is removed in the end; the content is in it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the ids of the documents, which are valid in both protocols.
    pub fn ids() -> impl Iterator<Item = String> {
        (1..=SIZES.len()).map(|number| format!("SAMPLE{number:02}"))
    }

    /// # Errors
    /// Those of the file system.
    pub fn remove(self) -> io::Result<()> {
        self.directory.close()
    }
}

/// Makes numbered lines, so that a missing piece is seen.
fn contents(id: &str, size: usize) -> Vec<u8> {
    let mut text = String::with_capacity(size + 64);
    for line in 1.. {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "document {id} of the sample collection, line {line}");
        if text.len() >= size {
            break;
        }
    }
    text.truncate(size);
    text.into_bytes()
}

fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, contents)
}
