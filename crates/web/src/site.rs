//! What a server of files has to say for itself.

use std::{borrow::Cow, ops::Range};

use proto::{Now, Outbox};
use sys::beneath::OpenError;
use wire::http1::{Connection, PreparedResponse, Request, Status};

use crate::{Heads, Source, path::PathError};

/// Files found by path, and the resources of the server's own.
pub trait Site: Send + Sync + 'static {
    /// What is found for a path.
    type File;

    /// What is remembered of a request to a resource of our own while its body arrives; `Infallible` where none is
    /// wanted.
    type Upload: Send + 'static;

    /// Shows `send` the file that `path` means.
    ///
    /// `path` is a request's, neither decoded nor normalised, and `encoded` when it contains escapes; see
    /// [`crate::path::normalise`]. `send` is called at most once.
    ///
    /// # Errors
    /// Why there is no file to send; then `send` has not been called.
    fn with_file<R>(
        &self,
        path: &[u8],
        encoded: bool,
        now: Now,
        send: impl FnMut(&Self::File) -> R,
    ) -> Result<(R, Source), Absence>;

    /// The heads of the file's responses.
    fn heads(file: &Self::File) -> &Heads;

    /// Queues the whole response to a GET, head and body. Returns its bytes.
    fn push_ok(&self, file: &Self::File, connection: Connection, now: Now, out: &mut Outbox) -> u64;

    /// Queues a part of the file, which is within its size and not empty, without a head.
    fn push_range(&self, file: &Self::File, range: Range<u64>, out: &mut Outbox);

    /// Asked for every request with a path before a file is looked for: whether a resource of our own is meant, and
    /// what it says. No request has to be a GET, and none has to be permitted.
    fn own(&self, request: &Request<'_>, now: Now) -> Own<'_, Self::Upload> {
        let _ = (request, now);
        Own::File
    }

    /// The answer to a request whose body is here.
    fn uploaded(&self, upload: Self::Upload, body: Vec<u8>, now: Now) -> Answer<'_>;

    /// So many requests of one connection have been answered, read from it since `now`: their responses are queued, and
    /// nothing of them has been sent.
    fn answered(&self, responses: u64, now: Now) {
        let _ = (responses, now);
    }
}

/// What a request is to a server that has resources of its own.
#[derive(Debug)]
pub enum Own<'a, U> {
    /// None of them: a file is meant.
    File,
    /// Answered without a body; one that comes is not read, and costs the connection.
    Answer(Answer<'a>),
    /// The body is wanted, chunked or not, up to so many bytes: 413 above.
    Upload { upload: U, bytes_max: usize },
}

/// A response of our own.
#[derive(Debug)]
pub enum Answer<'a> {
    Prepared(Cow<'a, PreparedResponse>),
    /// The page for this status, as every other error has it.
    Page(Status),
}

/// Why there is no file to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It is a directory; its path, encoded, ends with a slash.
    Moved(String),
    Refused(Status),
}

impl Absence {
    pub const MISSING: Self = Self::Refused(Status::NotFound);
}

impl From<PathError> for Absence {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Malformed => Self::Refused(Status::BadRequest),
            PathError::Missing => Self::MISSING,
        }
    }
}

impl From<OpenError> for Absence {
    fn from(error: OpenError) -> Self {
        Self::Refused(match error {
            OpenError::Missing | OpenError::Directory | OpenError::NotRegular => Status::NotFound,
            OpenError::Denied => Status::Forbidden,
            OpenError::Exhausted => Status::ServiceUnavailable,
            OpenError::Failed(_) => Status::InternalError,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Whose fault it is decides the class of the status.
    #[test]
    fn every_reason_not_to_open_has_its_status() {
        // ENOENT, EXDEV, ENXIO, EACCES, EMFILE, ENFILE, EIO.
        for (errno, status) in [
            (2, Status::NotFound),
            (18, Status::NotFound),
            (6, Status::NotFound),
            (13, Status::Forbidden),
            (24, Status::ServiceUnavailable),
            (23, Status::ServiceUnavailable),
            (5, Status::InternalError),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(Absence::from(OpenError::from(error)), Absence::Refused(status));
        }
    }
}
