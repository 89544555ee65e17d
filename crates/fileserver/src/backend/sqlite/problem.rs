//! Problems of a database.

use super::schema::FORMAT;

/// Reason why a database cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseProblem {
    #[error("not a regular file")]
    NotRegular,
    #[error("not a database of documents; `fileserver import DIR DB` makes one")]
    Foreign,
    #[error("format {0} is not supported, only {FORMAT}; import the documents again")]
    Format(u32),
    #[error("the schema does not match the format; import the documents again")]
    Schema,
    #[error(
        "the database is in WAL mode, which cannot be read without writing; run `PRAGMA journal_mode = DELETE` on it"
    )]
    WriteAheadLog,
    #[error("the database was replaced while it was being opened; try again")]
    Replaced,
    #[error(transparent)]
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for DatabaseProblem {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => Self::Foreign,
            _ => Self::Sqlite(error),
        }
    }
}
