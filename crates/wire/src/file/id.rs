use std::fmt::{self, Write as _};

use memchr::memchr;
use smallvec::SmallVec;

/// The longest id.
pub const ID_BYTES_MAX: usize = 1024;
/// The length of every id in the original protocol.
pub const ORIGINAL_ID_BYTES: usize = 8;

/// The name of a document: 1 to [`ID_BYTES_MAX`] bytes without a NUL. What it means is a matter of the layout.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileId(SmallVec<[u8; 16]>);

impl FileId {
    /// Any id; `None` for bytes that are none.
    #[inline]
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let is_id = (1..=ID_BYTES_MAX).contains(&bytes.len()) && memchr(0, bytes).is_none();
        is_id.then(|| Self(SmallVec::from_slice(bytes)))
    }

    /// An id that the original protocol can ask for: exactly [`ORIGINAL_ID_BYTES`] of `A` to `Z` and `0` to `9`.
    #[inline]
    #[must_use]
    pub fn original(bytes: &[u8]) -> Option<Self> {
        is_original(bytes).then(|| Self(SmallVec::from_slice(bytes)))
    }

    /// Whether the original protocol can ask for it.
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

/// For logs and messages: what is not UTF-8 is replaced, and nothing that a terminal would obey is left.
impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).chars().try_for_each(|char| match char {
            '"' | '\'' => f.write_char(char),
            other => write!(f, "{}", other.escape_debug()),
        })
    }
}
