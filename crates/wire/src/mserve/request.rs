use memchr::memchr;

const SEPARATOR: u8 = b';';
/// Length of the longest path that the kernel takes, without its NUL (PATH_MAX).
pub const PATH_BYTES_MAX: usize = 4095;
/// Length of the longest name of a FIFO (NAME_MAX).
pub const NAME_BYTES_MAX: usize = 255;

/// A request: `PATH;FIFO` or `PATH;FIFO;STATUS-FIFO`. No name of a FIFO has a slash, and no field a semicolon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Path of the file: absolute, or relative to the server's root. Not empty.
    pub path: &'a [u8],
    /// FIFO for the bytes of the file.
    pub fifo: &'a [u8],
    /// FIFO for a [`super::Header`] with the result of the request.
    pub status_fifo: Option<&'a [u8]>,
}

/// Reason why a message is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No bytes, or none before the first NUL.
    #[error("an empty message")]
    Empty,
    #[error("not PATH;FIFO or PATH;FIFO;STATUS-FIFO")]
    Malformed,
    /// A path or name longer than any file system takes.
    #[error("a path longer than {PATH_BYTES_MAX} bytes, or a name longer than {NAME_BYTES_MAX}")]
    Oversized,
}

impl<'a> Request<'a> {
    /// Parses a message: all of it, or up to its first NUL.
    ///
    /// # Errors
    /// The message is no request.
    pub fn parse(message: &'a [u8]) -> Result<Self, RequestError> {
        let text = memchr(0, message).map_or(message, |end| &message[..end]);
        if text.is_empty() {
            return Err(RequestError::Empty);
        }
        let mut fields = text.split(|&byte| byte == SEPARATOR);
        let (path, fifo, status_fifo) = (fields.next(), fields.next(), fields.next());
        let (Some(path), Some(fifo), None) = (path, fifo, fields.next()) else { return Err(RequestError::Malformed) };
        Self { path, fifo, status_fifo }.checked()
    }

    /// Makes a request that can be sent, by the same rules as [`Request::parse`].
    ///
    /// # Errors
    /// A field has a separator or a NUL, is empty or too long, or is no name.
    pub fn new(path: &'a [u8], fifo: &'a [u8], status_fifo: Option<&'a [u8]>) -> Result<Self, RequestError> {
        let request = Self { path, fifo, status_fifo };
        let mut fields = [Some(path), Some(fifo), status_fifo].into_iter().flatten();
        if fields.any(|field| field.iter().any(|&byte| byte == SEPARATOR || byte == 0)) {
            return Err(RequestError::Malformed);
        }
        request.checked()
    }

    fn checked(self) -> Result<Self, RequestError> {
        let names = [Some(self.fifo), self.status_fifo];
        if self.path.is_empty() || names.iter().flatten().any(|name| !is_name(name)) || names[1] == names[0] {
            return Err(RequestError::Malformed);
        }
        let is_long = |name: &&[u8]| name.len() > NAME_BYTES_MAX;
        if self.path.len() > PATH_BYTES_MAX || names.iter().flatten().any(is_long) {
            return Err(RequestError::Oversized);
        }
        Ok(self)
    }

    /// Appends the message, without a NUL.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.path);
        for name in [Some(self.fifo), self.status_fifo].into_iter().flatten() {
            out.push(SEPARATOR);
            out.extend_from_slice(name);
        }
    }
}

/// True for one component of a path that stays in its directory.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/')
}
