//! Header of a database (sqlite.org/fileformat2.html, section 1.3).

use std::{fs::File, io, os::unix::fs::FileExt};

use super::{
    DatabaseProblem,
    schema::{APPLICATION_ID, FORMAT},
};

const MAGIC: &[u8] = b"SQLite format 3\0";
const BYTES: usize = 100;
/// Offset of the versions that a writer and a reader need; 2 is WAL mode.
const VERSIONS_AT: usize = 18;
const WRITE_AHEAD_LOG: u8 = 2;
const FORMAT_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;

/// Header of a database, read without SQLite, which would create files beside one in WAL mode.
pub(super) struct Header([u8; BYTES]);

impl Header {
    /// Reads the header of a file. A shorter file gets a header of zeros, which is that of no database.
    pub(super) fn read(file: &File) -> io::Result<Self> {
        let mut header = [0; BYTES];
        match file.read_exact_at(&mut header, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Self([0; BYTES])),
            outcome => outcome.map(|()| Self(header)),
        }
    }

    /// True for a database of documents, whatever its format.
    pub(super) fn is_ours(&self) -> bool {
        self.0.starts_with(MAGIC) && self.number(APPLICATION_ID_AT) == APPLICATION_ID
    }

    /// Checks that documents can be read from the database.
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
