//! The first bytes of a database (sqlite.org/fileformat2.html, section 1.3).

use std::{fs::File, io, os::unix::fs::FileExt};

use super::{
    DatabaseProblem,
    schema::{APPLICATION_ID, FORMAT},
};

const MAGIC: &[u8] = b"SQLite format 3\0";
const BYTES: usize = 100;
/// The version that a writer, and one that a reader needs; 2 is WAL mode.
const VERSIONS_AT: usize = 18;
const WRITE_AHEAD_LOG: u8 = 2;
const FORMAT_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;

/// What a database says of itself, without SQLite: that would make files beside one in WAL mode to find out.
pub(super) struct Header([u8; BYTES]);

impl Header {
    /// A file that is shorter is padded: it is no database, and that is all there is to know.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let mut header = [0; BYTES];
        match file.read_exact_at(&mut header, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Self([0; BYTES])),
            outcome => outcome.map(|()| Self(header)),
        }
    }

    /// Whether it is a database of documents, of whichever format.
    pub(super) fn is_ours(&self) -> bool {
        self.0.starts_with(MAGIC) && self.number(APPLICATION_ID_AT) == APPLICATION_ID
    }

    /// Whether it can be read.
    pub(super) fn check(&self) -> Result<(), DatabaseProblem> {
        if !self.is_ours() {
            return Err(DatabaseProblem::Foreign);
        }
        match self.number(FORMAT_AT) {
            FORMAT => {}
            other => return Err(DatabaseProblem::Format(other)),
        }
        if self.0[VERSIONS_AT..VERSIONS_AT + 2].contains(&WRITE_AHEAD_LOG) {
            return Err(DatabaseProblem::WriteAheadLog);
        }
        Ok(())
    }

    fn number(&self, at: usize) -> u32 {
        self.0[at..at + 4].iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
    }
}
