//! Problems of a database.

use super::schema::FORMAT;

/// Reason why a database cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseProblem {
    #[error("not a regular file")]
    NotRegular,
    #[error("not a database of documents; `fileserver import DIR DB` makes one")]
    Foreign,
    #[error("its format is {0}, and {FORMAT} is what can be read; import it again")]
    Format(u32),
    #[error("its schema is not that of its format; import it again")]
    Schema,
    #[error("it is in WAL mode, which needs to be written to be read; `PRAGMA journal_mode = DELETE` ends that")]
    WriteAheadLog,
    #[error("it was replaced while it was opened; try again")]
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
