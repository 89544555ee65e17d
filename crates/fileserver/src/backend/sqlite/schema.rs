//! Schema of a database of documents, and the digest that each of them carries.

use twox_hash::XxHash3_128;
use wire::file::FileId;

/// Value of `PRAGMA application_id`: "QFS1".
pub(super) const APPLICATION_ID: u32 = 0x5146_5331;
/// Value of `PRAGMA user_version`; changes with anything here.
pub(super) const FORMAT: u32 = 1;
/// Statement that creates the table. The body is last, so that a row's first page has everything else.
pub(super) const CREATE: &str = "CREATE TABLE documents (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    digest BLOB NOT NULL,
    body BLOB NOT NULL
)";
pub(super) const TABLE: &str = "documents";
pub(super) const DIGEST_BYTES: usize = 16;
/// Size of the largest value that SQLite keeps (SQLITE_MAX_LENGTH), less the rest of its row.
pub(super) const BODY_BYTES_MAX: u64 = 1_000_000_000 - 4096;

/// XXH3-128 of the id and the body. The id is included, so that the intact body of another document does not match.
///
/// It detects accidents: one corruption in 2^128 stays unnoticed, at the speed of memory. It does not detect an attacker, who
/// can write a matching digest, too.
pub(super) struct Digest(XxHash3_128);

impl Digest {
    pub(super) fn of_document(id: &FileId) -> Self {
        let mut hasher = XxHash3_128::new();
        hasher.write(&(id.as_bytes().len() as u64).to_be_bytes());
        hasher.write(id.as_bytes());
        Self(hasher)
    }

    pub(super) fn update(&mut self, body: &[u8]) {
        self.0.write(body);
    }

    pub(super) fn finish(&self) -> [u8; DIGEST_BYTES] {
        self.0.finish_128().to_be_bytes()
    }

    /// Returns the digest of a body in one piece.
    pub(super) fn of(id: &FileId, body: &[u8]) -> [u8; DIGEST_BYTES] {
        let mut digest = Self::of_document(id);
        digest.update(body);
        digest.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Databases outlive programs: the digest must stay what it is.
    #[test]
    fn a_digest_depends_on_all_of_id_and_body() {
        let id = |bytes: &[u8]| FileId::new(bytes).unwrap();
        let whole = Digest::of(&id(b"AB"), b"body of it");
        let mut pieces = Digest::of_document(&id(b"AB"));
        pieces.update(b"body");
        pieces.update(b" of it");
        assert_eq!(pieces.finish(), whole);
        assert_eq!(whole, 0x3f82_c951_6bca_6709_917a_bc4d_907f_1390_u128.to_be_bytes());
        for (other, body) in
            [(&b"A"[..], &b"Bbody of it"[..]), (b"AC", b"body of it"), (b"AB", b"body of iu"), (b"AB", b"")]
        {
            assert_ne!(Digest::of(&id(other), body), whole, "{}", other.escape_ascii());
        }
    }
}
