use std::fmt::{self, Write as _};

use memchr::memchr;
use smallvec::SmallVec;

/// Length of the longest id.
pub const ID_BYTES_MAX: usize = 1024;
/// Length of every id in the original protocol.
pub const ORIGINAL_ID_BYTES: usize = 8;

/// Name of a document: 1 to [`ID_BYTES_MAX`] bytes without a NUL. The layout decides which file it means.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(SmallVec<[u8; 16]>);

impl FileId {
    /// Makes an id; `None` if the bytes are none.
    #[inline]
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let is_id = (1..=ID_BYTES_MAX).contains(&bytes.len()) && memchr(0, bytes).is_none();
        is_id.then(|| Self(SmallVec::from_slice(bytes)))
    }

    /// Makes an id that the original protocol can ask for: exactly [`ORIGINAL_ID_BYTES`] of `A` to `Z` and `0` to `9`.
    #[inline]
    #[must_use]
    pub fn original(bytes: &[u8]) -> Option<Self> {
        is_original(bytes).then(|| Self(SmallVec::from_slice(bytes)))
    }

    /// True if the original protocol can ask for it.
    #[must_use]
    pub fn is_original(&self) -> bool {
        is_original(&self.0)
    }

    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn is_original(bytes: &[u8]) -> bool {
    bytes.len() == ORIGINAL_ID_BYTES && bytes.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9'))
}

/// For logs and messages: bytes that are not UTF-8 are replaced, and control characters are escaped.
impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).chars().try_for_each(|char| match char {
            '"' | '\'' => f.write_char(char),
            other => write!(f, "{}", other.escape_debug()),
        })
    }
}
