use super::Status;

/// First bytes of every header.
const MAGIC: [u8; 4] = *b"MSV1";
/// Bytes of an encoded header. Less than PIPE_BUF, so that a pipe takes it whole or not at all.
pub const HEADER_BYTES: usize = 16;

/// Header of an answer or of a status: magic, status, three zeros, and a big-endian length of eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub status: Status,
    /// In front of a file: the number of bytes that follow, 0 unless the status is [`Status::Ok`]. In a status FIFO:
    /// the number of bytes of the file that were written to the other FIFO.
    pub length: u64,
}

/// Reason why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("does not start with MSV1")]
    Magic,
    #[error("{0} is no status")]
    Status(u8),
    #[error("the bytes behind the status are not zero")]
    Reserved,
}

impl Header {
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.status.byte();
        bytes[8..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// # Errors
    /// The bytes are no header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, HeaderError> {
        let [magic @ .., _, _, _, _, _, _, _, _] = bytes;
        let [m0, m1, m2, m3, status, reserved @ ..] = *magic;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(HeaderError::Magic);
        }
        let status = Status::from_byte(status).ok_or(HeaderError::Status(status))?;
        if reserved != [0; 3] {
            return Err(HeaderError::Reserved);
        }
        let mut length = [0; 8];
        length.copy_from_slice(&bytes[8..]);
        Ok(Self { status, length: u64::from_be_bytes(length) })
    }
}
