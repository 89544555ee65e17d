//! Members of tables: short ones in place, long ones in memory of their own.

use std::ops::Deref;

use crate::slotted::allocated;

/// Longest member that is kept in place.
const INLINE_BYTES_MAX: usize = 22;

/// Bytes of a member, in 24 bytes if they are few.
#[derive(Clone, Debug)]
pub(super) struct Member(Form);

#[derive(Clone, Debug)]
enum Form {
    Inline { len: u8, bytes: [u8; INLINE_BYTES_MAX] },
    Boxed(Box<[u8]>),
}

impl Member {
    pub(super) fn new(text: &[u8]) -> Self {
        if text.len() > INLINE_BYTES_MAX {
            return Self(Form::Boxed(text.into()));
        }
        let mut bytes = [0; INLINE_BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text);
        Self(Form::Inline { len: text.len() as u8, bytes })
    }

    /// Returns the bytes held outside the member itself.
    pub(super) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Inline { .. } => 0,
            Form::Boxed(bytes) => allocated(bytes.len()),
        }
    }
}

impl Deref for Member {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Form::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Form::Boxed(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_takes_24_bytes_and_keeps_its_own() {
        assert_eq!(size_of::<Member>(), 24);
        for len in [0, 1, 21, 22, 23, 24, 25, 100] {
            let text: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
            let member = Member::new(&text);
            assert_eq!(&*member, text);
            assert_eq!(member.heap_bytes() == 0, len <= 22);
            assert!(member.heap_bytes() >= text.len() || len <= 22);
        }
    }
}
