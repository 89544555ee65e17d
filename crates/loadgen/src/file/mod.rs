//! Documents by id: what arrives is compared with a directory that has the same documents.

mod catalogue;
mod check;
mod protocols;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, marker::PhantomData, sync::Arc};

use wire::file::{FileId, ORIGINAL_ID_BYTES, Status};

use self::check::check_reply;
pub use self::{
    catalogue::{Catalogue, CatalogueError, Document},
    protocols::{DecodeStep, EofMeaning, FileProtocol, Framed, Original, ReplyKind},
};
pub use crate::{
    body::{Body, FileScan, FileVerify},
    key_distribution::KeyDistribution,
};
use crate::{
    key_distribution::{DistributionError, KeyGenerator},
    protocol::{AfterReply, ClientProtocol, Decoded, EofOutcome, Progress, Single},
    sample::{Sample, Sampler},
};

/// The characters of ids in the original protocol.
const ID_CHARACTERS: &[u8; 36] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Documents to ask for, and the checks of their replies. Threads share it.
#[derive(Debug)]
pub struct FilePlan {
    catalogue: Catalogue,
    keys: KeyGenerator,
    miss_ratio: f64,
    verify: FileVerify,
    sample: Sample,
    seed: u64,
}

impl FilePlan {
    /// `miss_ratio` is the share, from 0 to 1, of the requests that ask for an id of which there is no document.
    ///
    /// # Errors
    /// The order is Zipf's with an exponent that is none, or that of a trace with more documents than there are.
    pub fn new(
        catalogue: Catalogue,
        order: &KeyDistribution,
        miss_ratio: f64,
        verify: FileVerify,
        seed: u64,
    ) -> Result<Self, DistributionError> {
        let keys = KeyGenerator::new(order, catalogue.len(), seed)?;
        Ok(Self { catalogue, keys, miss_ratio: miss_ratio.clamp(0.0, 1.0), verify, sample: Sample::ALL, seed })
    }

    /// Checks only this sample of the replies in full, and of the others status and length.
    #[must_use]
    pub fn with_sample(self, sample: Sample) -> Self {
        Self { sample, ..self }
    }

    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    fn document(&self, request: DocumentRequest) -> Option<&Document> {
        match request {
            DocumentRequest::Document(index) => Some(self.catalogue.document(index)),
            DocumentRequest::Missing(_) => None,
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentRequest {
    /// A document, by its index in the catalogue.
    Document(u32),
    /// An id of which there is no document.
    Missing([u8; ORIGINAL_ID_BYTES]),
}

/// Client that asks for documents in one of the protocols.
#[derive(Debug)]
pub struct FileClient<S> {
    plan: Arc<FilePlan>,
    keys: KeyGenerator,
    sampler: Sampler,
    protocol: PhantomData<S>,
}

/// One connection: how far the current reply has been read, and what its body came to.
#[derive(Debug, Default)]
pub struct FileConn<S> {
    replies: S,
    /// Depth to which the current reply is checked, once it has begun.
    verify: Option<FileVerify>,
    body: Body,
    /// Status of a reply that failed because of it.
    refusal: Option<Status>,
}

impl<S: FileProtocol> FileClient<S> {
    /// The client of `thread` among `threads`. Those that go through the documents in order begin in different places.
    #[must_use]
    pub fn new(plan: Arc<FilePlan>, thread: usize, threads: usize) -> Self {
        let mut keys = plan.keys.with_seed(plan.seed.wrapping_add(thread as u64));
        keys.start_at_share(thread, threads);
        let sampler = Sampler::new(plan.sample, plan.seed, thread);
        Self { plan, keys, sampler, protocol: PhantomData }
    }

    /// Returns the depth to which the current reply is checked, which may have just begun.
    #[inline]
    fn level(&mut self, conn: &mut FileConn<S>) -> FileVerify {
        let deepest = self.plan.verify;
        let choose = || if self.sampler.draw() { deepest } else { deepest.min(FileVerify::Length) };
        *conn.verify.get_or_insert_with(choose)
    }

    /// An id as the original protocol has them, of none of the documents.
    fn unknown(&mut self) -> DocumentRequest {
        loop {
            let id = std::array::from_fn(|_| ID_CHARACTERS[self.keys.below(ID_CHARACTERS.len() as u32) as usize]);
            if !self.plan.catalogue.has(&id) {
                return DocumentRequest::Missing(id);
            }
        }
    }
}

impl<S: FileProtocol> ClientProtocol for FileClient<S> {
    type Request = Single<DocumentRequest>;
    type Conn = FileConn<S>;

    fn open(&mut self) -> FileConn<S> {
        FileConn::default()
    }

    #[inline]
    fn next(&mut self, _conn: &mut FileConn<S>, _most: u64) -> Single<DocumentRequest> {
        if self.plan.miss_ratio > 0.0 && self.keys.has_chance(self.plan.miss_ratio) {
            return Single(self.unknown());
        }
        Single(DocumentRequest::Document(self.keys.key()))
    }

    #[inline]
    fn encode(&self, Single(request): Single<DocumentRequest>, out: &mut Vec<u8>) {
        match request {
            DocumentRequest::Document(index) => S::encode_request(&self.plan.catalogue.document(index).id, out),
            DocumentRequest::Missing(id) => {
                // It is an id by construction; without one nothing would be sent, and the request time out.
                if let Some(id) = FileId::original(&id) {
                    S::encode_request(&id, out);
                }
            }
        }
    }

    #[inline]
    fn decode(&mut self, conn: &mut FileConn<S>, Single(request): Single<DocumentRequest>, input: &[u8]) -> Decoded {
        let mut rest = input;
        let verify = self.level(conn);
        let document = self.plan.document(request).filter(|_| verify == FileVerify::Sha256);
        let step = conn.replies.decode(&mut rest, |piece| match document {
            Some(document) => conn.body.hash(piece, document.length),
            None => conn.body.pass(piece.len() as u64),
        });
        let progress = match step {
            DecodeStep::NeedMore => Progress::NeedMore,
            DecodeStep::Broken(class) => Progress::Broken(class),
            DecodeStep::Reply(reply) => {
                conn.verify = None;
                let body = std::mem::take(&mut conn.body);
                if let ReplyKind::Refused(status) = reply {
                    conn.refusal = Some(status);
                }
                let (replies, outcome) = check_reply(reply, body, self.plan.document(request), verify);
                Progress::Done { replies, outcome, after: AfterReply::KeepAlive }
            }
        };
        Decoded { consumed: input.len() - rest.len(), progress }
    }

    fn on_eof(&mut self, conn: &mut FileConn<S>, Single(request): Single<DocumentRequest>) -> EofOutcome {
        let verify = self.level(conn);
        let document = self.plan.document(request);
        match conn.replies.end(document) {
            EofMeaning::Early(class) => EofOutcome::Failed(class),
            EofMeaning::Reply(reply) => {
                let (replies, outcome) = check_reply(reply, std::mem::take(&mut conn.body), document, verify);
                EofOutcome::Done { replies, outcome }
            }
        }
    }

    fn take_failure_detail(&mut self, conn: &mut FileConn<S>) -> Option<u32> {
        conn.refusal.take().map(|status| status as u32)
    }

    fn failure_detail(&self, detail: u32) -> String {
        let status = Status::ALL.iter().find(|status| **status as u32 == detail);
        status.map_or_else(|| format!("status {detail}"), |status| format!("status {detail} ({})", status.name()))
    }

    /// The document's index in the catalogue; the largest number for what there is not.
    fn operation(&self, Single(request): Single<DocumentRequest>, _index: u64) -> u32 {
        match request {
            DocumentRequest::Document(index) => index,
            DocumentRequest::Missing(_) => u32::MAX,
        }
    }

    /// The document's id; of what there is not, that it is missing.
    fn operation_name(&self, operation: u32) -> Cow<'_, str> {
        if operation == u32::MAX {
            return Cow::Borrowed("(missing)");
        }
        Cow::Owned(self.plan.catalogue.document(operation).id.to_string())
    }
}
