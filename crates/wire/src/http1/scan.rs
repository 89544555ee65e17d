//! The search for the ends of the lines of a head, which reads each byte once however the head is torn.

use super::{HeadLimits, Refusal};

/// Progress of the search for the end of a head.
///
/// Its refusals depend on the bytes alone and not on how they arrive: the first rule broken in stream order wins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineScan {
    /// Start of the line under search.
    line: u32,
    /// There is no line end between `line` and this offset.
    searched: u32,
}

impl LineScan {
    #[inline]
    pub(super) fn is_at_start(&self) -> bool {
        self.searched == 0
    }

    /// True if no line is complete yet.
    #[inline]
    pub(super) fn is_in_first_line(&self) -> bool {
        self.line == 0
    }

    /// Returns the next line without its CRLF and the offset behind that, or `None` if the line is torn.
    ///
    /// Bare LF is refused. RFC 9112, section 2.2, allows it, but every intermediary that disagrees about line ends is a
    /// chance to smuggle.
    #[inline(always)]
    pub(super) fn next_line<'a>(
        &mut self,
        input: &'a [u8],
        limits: &HeadLimits,
    ) -> Result<Option<(&'a [u8], usize)>, Refusal> {
        let (line, searched) = (self.line as usize, self.searched as usize);
        let limit = line.saturating_add(limits.line_bytes_max).saturating_add(2).min(limits.head_bytes_max);
        let Some(found) = memchr::memchr(b'\n', &input[searched..input.len().min(limit)]) else {
            if input.len() >= limit {
                return Err(if self.is_in_first_line() { Refusal::TargetTooLong } else { Refusal::FieldsTooLarge });
            }
            // A lone CR may become an empty line, which is skipped and belongs to no head.
            if input == b"\r" {
                return Ok(None);
            }
            self.searched = u32::try_from(input.len()).unwrap_or(u32::MAX);
            return Ok(None);
        };
        let end = searched + found;
        if end == line || input[end - 1] != b'\r' {
            return Err(Refusal::Malformed);
        }
        self.line = u32::try_from(end + 1).unwrap_or(u32::MAX);
        self.searched = self.line;
        Ok(Some((&input[line..end - 1], end + 1)))
    }

    #[cfg(test)]
    pub(super) fn searched(&self) -> usize {
        self.searched as usize
    }
}
