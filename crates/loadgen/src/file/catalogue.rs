//! The documents that a server should have, known beforehand.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
};

use sha2::Digest as _;
use wire::file::FileId;

use crate::body::{self, FileScan, PIECE_BYTES};

/// One document.
#[derive(Clone, Debug)]
pub struct Document {
    pub id: FileId,
    /// Bytes.
    pub length: u64,
    /// `None` if it was not asked for.
    pub digest: Option<[u8; 32]>,
    /// True if the original protocol cannot tell this document from a missing one.
    pub is_one_nul: bool,
}

/// Documents, in the order of their ids.
#[derive(Debug)]
pub struct Catalogue {
    documents: Vec<Document>,
    ids: HashSet<Box<[u8]>>,
}

/// Reasons why there is no catalogue.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    #[error("cannot read {}: {why}", path.display())]
    Read { path: PathBuf, why: io::Error },
    #[error("there are no documents")]
    Empty,
    #[error("there are more documents than {}", u32::MAX)]
    TooMany,
}

impl Catalogue {
    /// Reads the files that ids mean. `observe` is told of every so many bytes that have been read.
    ///
    /// # Errors
    /// A file cannot be read, or there are none.
    pub fn read(
        files: &[(FileId, PathBuf)],
        knowledge: FileScan,
        mut observe: impl FnMut(u64),
    ) -> Result<Self, CatalogueError> {
        if files.is_empty() {
            return Err(CatalogueError::Empty);
        }
        u32::try_from(files.len()).map_err(|_| CatalogueError::TooMany)?;
        let mut piece = vec![0; PIECE_BYTES];
        let read = |(id, path): &(FileId, PathBuf)| {
            Document::read(id, path, knowledge, &mut piece, &mut observe)
                .map_err(|why| CatalogueError::Read { path: path.clone(), why })
        };
        let documents = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let ids = documents.iter().map(|document| document.id.as_bytes().into()).collect();
        Ok(Self { documents, ids })
    }

    /// One document, which consists of so many times the letter x, as a null server's does.
    #[must_use]
    pub fn with_one(length: u64) -> Self {
        let body = vec![b'x'; usize::try_from(length).unwrap_or_default()];
        let digest = Some(sha2::Sha256::digest(&body).into());
        let ids = HashSet::from([b"AAAAAAAA".as_slice().into()]);
        let id = FileId::original(b"AAAAAAAA");
        let documents = id.map(|id| Document { id, length, digest, is_one_nul: false }).into_iter().collect();
        Self { documents, ids }
    }

    /// At least 1.
    #[must_use]
    pub fn len(&self) -> u32 {
        u32::try_from(self.documents.len()).unwrap_or(u32::MAX)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Returns the length of all documents together, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.documents.iter().map(|document| document.length).sum()
    }

    #[inline]
    pub(super) fn document(&self, index: u32) -> &Document {
        &self.documents[index as usize]
    }

    pub(super) fn has(&self, id: &[u8]) -> bool {
        self.ids.contains(id)
    }
}

impl Document {
    fn read(
        id: &FileId,
        path: &Path,
        knowledge: FileScan,
        piece: &mut [u8],
        observe: impl FnMut(u64),
    ) -> io::Result<Self> {
        let (length, digest) = body::scan_file(path, knowledge, piece, observe)?;
        let is_one_nul = length == 1 && std::fs::read(path)? == [0];
        Ok(Self { id: id.clone(), length, digest, is_one_nul })
    }
}
