use super::{Dialect, FileId, ID_BYTES_MAX, Request, Status};

/// Bytes of the length in front of an id.
const PREFIX_BYTES: usize = size_of::<u16>();
/// Bytes of the status and the length in front of a body.
pub const HEAD_BYTES: usize = 1 + size_of::<u64>();

/// The framed protocol: ids and bodies have their length in front, and replies have a status. Connections last, and
/// requests may be pipelined.
#[derive(Clone, Copy, Debug)]
pub struct Framed;

impl Dialect for Framed {
    const NAME: &'static str = "framed";
    const IS_PERSISTENT: bool = true;
    const HAS_STATUS: bool = true;

    #[inline]
    fn request(input: &[u8]) -> Request {
        let Some((prefix, rest)) = input.split_first_chunk() else {
            // The shortest request has an id of one byte.
            return Request::Incomplete { need: PREFIX_BYTES + 1 - input.len() };
        };
        let length = usize::from(u16::from_be_bytes(*prefix));
        if !(1..=ID_BYTES_MAX).contains(&length) {
            return Request::Malformed { consumed: PREFIX_BYTES, fatal: true };
        }
        let Some(bytes) = rest.get(..length) else {
            return Request::Incomplete { need: length - rest.len() };
        };
        let consumed = PREFIX_BYTES + length;
        match FileId::new(bytes) {
            Some(id) => Request::Get { id, consumed },
            None => Request::Malformed { consumed, fatal: false },
        }
    }

    #[inline]
    fn head(status: Status, body_bytes: u64, out: &mut Vec<u8>) {
        debug_assert!(status == Status::Found || body_bytes == 0, "{status:?} has no body");
        let mut head = [0; HEAD_BYTES];
        head[0] = status.byte();
        head[1..].copy_from_slice(&body_bytes.to_be_bytes());
        out.extend_from_slice(&head);
    }

    fn refusal() -> &'static [u8] {
        const REFUSAL: [u8; HEAD_BYTES] = [Status::Unavailable.byte(), 0, 0, 0, 0, 0, 0, 0, 0];
        &REFUSAL
    }
}
