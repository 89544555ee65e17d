//! Interface between the front end and each server's own part, which finds the files.

use std::{borrow::Cow, ops::Range};

use file_cache::CheckedRoot;
use proto::{Now, Outbox, Promise};
use sys::beneath::OpenError;
use wire::http1::{Connection, PreparedResponse, Request, Status, coding::Coding};

use crate::{Found, Heads, Lookup, RedirectTarget, path::PathError};

/// Files found by path, and the resources of the server's own.
pub trait Site: Send + Sync + 'static {
    /// A file that was found.
    type File;

    /// State of a request to one of the server's own resources while its body arrives; `Infallible` for a server that wants
    /// no bodies.
    type Upload: Send + 'static;

    /// Shows `send` what `path` leads to.
    ///
    /// `path` is a request's, neither decoded nor normalised. `encoded` is true when it contains escapes; see
    /// [`crate::path::normalise`]. `send` is called at most once.
    ///
    /// # Errors
    /// There is no file to send; then `send` has not been called.
    fn with_file<R>(
        &self,
        path: &[u8],
        encoded: bool,
        now: Now,
        send: impl FnMut(Found<'_, Self::File>) -> R,
    ) -> Result<(R, Lookup), NotFound>;

    /// Returns the directory that the files are in, where there is one that can be listed.
    fn root(&self, now: Now) -> Option<CheckedRoot> {
        let _ = now;
        None
    }

    /// Begins to make a representation of the file with this key ([`crate::Content::locate`]), one of those that its variants
    /// say can be made. The promise that `defer` makes is fulfilled, with nothing, once it is there or has turned out not to
    /// be worth it. Returns false if nothing has begun; then `defer` has not been called.
    fn prepare(&self, key: &[u8], coding: Coding, now: Now, defer: impl FnOnce() -> Promise) -> bool {
        let _ = (key, coding, now, defer);
        false
    }

    /// Shows `send` the file at a normal path of the site, whatever a request for that path leads to. `send` is called at
    /// most once. By default, a request for it leads to it.
    ///
    /// # Errors
    /// There is no file to send; then `send` has not been called.
    fn with_own_file<R>(
        &self,
        normal: &[u8],
        now: Now,
        send: impl FnMut(Found<'_, Self::File>) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        self.with_file(crate::path::encode(normal).as_bytes(), true, now, send)
    }

    /// Returns the heads of the file's responses.
    fn heads(file: &Self::File) -> &Heads;

    /// Queues the whole response to a GET, head and body. Returns its bytes.
    fn push_ok(&self, file: &Self::File, connection: Connection, now: Now, out: &mut Outbox) -> u64;

    /// Queues a part of the file, which is within its size and not empty, without a head.
    fn push_range(&self, file: &Self::File, range: Range<u64>, out: &mut Outbox);

    /// Decides who answers a request. Called for every request with a path, before a file is looked for, whatever its
    /// method; twice for one whose body nobody wants, so a request has its effect in [`Site::on_upload`] and not here.
    fn route(&self, request: &Request<'_>, now: Now) -> Route<'_, Self::Upload> {
        let _ = (request, now);
        Route::File
    }

    /// Answers a request whose body has arrived.
    fn on_upload(&self, upload: Self::Upload, body: Vec<u8>, now: Now) -> Response<'_>;

    /// Releases what is kept for requests to come: a reload has put other sites in the place of this one.
    fn retire(&self) {}

    /// Notes where the file came from that a request has been answered with.
    #[inline]
    fn on_lookup(&self, lookup: Lookup) {
        let _ = lookup;
    }

    /// Notes that requests of one connection have been answered, which were read at `now`. Their responses are queued, and
    /// nothing of them has been sent.
    fn on_responses(&self, responses: u64, now: Now) {
        let _ = (responses, now);
    }
}

/// Destination of a request.
#[derive(Debug)]
pub enum Route<'a, U> {
    /// A file of the tree.
    File,
    /// A resource of the server's own that needs no body.
    Respond(Response<'a>),
    /// A resource of the server's own that wants the body, chunked or not, up to `bytes_max`. A longer one is answered with
    /// 413.
    Upload { upload: U, bytes_max: usize },
}

/// Response of one of the server's own resources.
#[derive(Debug)]
pub enum Response<'a> {
    Prepared(Cow<'a, PreparedResponse>),
    /// Page for this status, the same as for any other error.
    Page(Status),
}

/// Reason why there is no file to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// The path means a directory and lacks the slash at its end. This is the path with it, encoded.
    MovedTo(String),
    /// The path means a directory without an index, whose listing is shown. This is the normal path.
    Directory(Vec<u8>),
    /// The path means a CGI program. This is the normal path.
    Program(Vec<u8>),
    /// The configuration sends clients that ask for this path to another place.
    /// Boxed, since every result of a lookup has room for it.
    Redirect(Box<RedirectTarget>),
    Status(Status),
}

impl NotFound {
    pub const MISSING: Self = Self::Status(Status::NotFound);
}

impl From<PathError> for NotFound {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Malformed => Self::Status(Status::BadRequest),
            PathError::Missing => Self::MISSING,
        }
    }
}

impl From<OpenError> for NotFound {
    fn from(error: OpenError) -> Self {
        Self::Status(match error {
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

    /// The class of the status says whose fault it is.
    #[test]
    fn every_open_error_has_its_status() {
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
            assert_eq!(NotFound::from(OpenError::from(error)), NotFound::Status(status));
        }
    }
}
