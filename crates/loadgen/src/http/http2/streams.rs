//! Streams in flight on one connection, and the heads that their replies had before.

use wire::{
    hpack::Decoder,
    http2::{FrameError, MalformedHead, ResponseHead},
};

use super::{Http2Request, HttpVerify};
use crate::{http::check::ReplyCheck, request_log::Received};

/// Requests of which each connection remembers the head of the last reply.
const TEMPLATES_MAX: usize = 64;

/// One stream, and how far its reply has come.
#[derive(Debug)]
pub(super) struct Stream {
    /// Request in flight; of stream 0 if the place is free.
    pub(super) request: Http2Request,
    pub(super) head: Option<ResponseHead>,
    pub(super) check: ReplyCheck,
    pub(super) received: Received,
    /// Bytes of the stream's window that have been used and not given back.
    pub(super) to_refill: u32,
}

/// Streams by their numbers. Those in flight are mostly neighbours, so that each has the place that its number names.
#[derive(Debug)]
pub(super) struct Streams {
    /// At least twice as many places as there are streams; a power of two.
    places: Vec<Stream>,
}

impl Streams {
    pub(super) fn new(streams: usize, verify: HttpVerify) -> Self {
        let free = || Stream {
            request: Http2Request::default(),
            head: None,
            check: ReplyCheck::new(verify),
            received: Received::default(),
            to_refill: 0,
        };
        Self { places: std::iter::repeat_with(free).take((2 * streams).next_power_of_two()).collect() }
    }

    #[inline]
    fn place(&self, id: u32, holding: u32) -> Option<usize> {
        let mask = self.places.len() - 1;
        let first = id as usize / 2;
        (0..self.places.len()).map(|step| (first + step) & mask).find(|&at| self.places[at].request.stream == holding)
    }

    /// Adds a stream. There is always room for as many as were promised.
    #[inline]
    pub(super) fn insert(&mut self, request: Http2Request) {
        if let Some(at) = self.place(request.stream, 0) {
            let place = &mut self.places[at];
            (place.request, place.head, place.to_refill) = (request, None, 0);
            place.received = Received::default();
        }
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.place(id, id).map(|at| &self.places[at])
    }

    #[inline]
    pub(super) fn find(&mut self, id: u32) -> Option<&mut Stream> {
        self.place(id, id).map(|at| &mut self.places[at])
    }

    /// Forgets a stream. Returns what was received of its reply.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> Option<Received> {
        let stream = self.find(id)?;
        stream.request.stream = 0;
        Some(stream.received)
    }

    /// Returns the streams with numbers above this one, in their order.
    pub(super) fn above(&self, last: u32) -> Vec<u32> {
        let mut above: Vec<_> = self.places.iter().map(|place| place.request.stream).filter(|&id| id > last).collect();
        above.sort_unstable();
        above
    }
}

/// Header blocks that mean what they meant before.
#[derive(Debug)]
pub(super) struct BlockTemplates(Vec<BlockTemplate>);

/// Last head of the replies to one request.
#[derive(Debug, Default)]
struct BlockTemplate {
    spec: u32,
    block: Vec<u8>,
    /// State of the decoder's table, which the block leaves as it is.
    revision: u64,
    head: Option<ResponseHead>,
}

impl BlockTemplates {
    /// Makes templates for so many requests, of which those in surplus share theirs.
    pub(super) fn new(requests: usize) -> Self {
        Self(std::iter::repeat_with(BlockTemplate::default).take(requests.min(TEMPLATES_MAX)).collect())
    }

    /// Reads a head: by comparison, if the last reply had the same block, the table was in the same state, and it left it so.
    #[inline]
    pub(super) fn read(
        &mut self,
        spec: u32,
        block: &[u8],
        decoder: &mut Decoder,
    ) -> Result<Result<ResponseHead, MalformedHead>, FrameError> {
        let at = spec as usize % self.0.len();
        let template = &mut self.0[at];
        match template.head {
            Some(head)
                if template.block == block && template.revision == decoder.revision() && template.spec == spec =>
            {
                Ok(Ok(head))
            }
            _ => template.decode(spec, block, decoder),
        }
    }
}

impl BlockTemplate {
    #[cold]
    fn decode(
        &mut self,
        spec: u32,
        block: &[u8],
        decoder: &mut Decoder,
    ) -> Result<Result<ResponseHead, MalformedHead>, FrameError> {
        let before = decoder.revision();
        let head = ResponseHead::decode(decoder, block)?;
        if decoder.revision() == before {
            self.block.clear();
            self.block.extend_from_slice(block);
            (self.spec, self.revision, self.head) = (spec, before, head.ok());
        }
        Ok(head)
    }
}
