use super::{Dialect, FileId, Request, Status, id::ORIGINAL_ID_BYTES};

/// Answer for a missing document: one NUL.
pub const MISSING_REPLY: &[u8] = b"\0";

/// The original protocol: eight characters are a request, the bytes of the document and the end of the connection its
/// answer.
#[derive(Clone, Copy, Debug)]
pub struct Original;

impl Dialect for Original {
    const NAME: &'static str = "original";
    const IS_PERSISTENT: bool = false;
    const HAS_STATUS: bool = false;

    #[inline]
    fn request(input: &[u8]) -> Request {
        let Some(bytes) = input.get(..ORIGINAL_ID_BYTES) else {
            return Request::Incomplete { need: ORIGINAL_ID_BYTES - input.len() };
        };
        match FileId::original(bytes) {
            Some(id) => Request::Get { id, consumed: ORIGINAL_ID_BYTES },
            None => Request::Malformed { consumed: ORIGINAL_ID_BYTES, fatal: true },
        }
    }

    #[inline]
    fn head(status: Status, _body_bytes: u64, out: &mut Vec<u8>) {
        if status != Status::Found {
            out.extend_from_slice(MISSING_REPLY);
        }
    }

    fn refusal() -> &'static [u8] {
        MISSING_REPLY
    }
}
