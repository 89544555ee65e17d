//! Documents by id: what arrives is compared with a directory that has the same documents.

mod catalogue;
mod speech;
#[cfg(test)]
mod tests;
mod verdict;

use std::{borrow::Cow, marker::PhantomData, sync::Arc};

use wire::file::{FileId, ORIGINAL_ID_BYTES};

use self::verdict::judge;
pub use self::{
    catalogue::{Catalogue, CatalogueError, Document},
    speech::{Ended, FileProtocol, Framed, Heard, Original, Said},
};
pub use crate::{
    body::{Body, FileScan, FileVerify},
    draw::KeyDistribution,
};
use crate::{
    draw::{Draw, DrawError},
    protocol::{ClientProtocol, Decoded, EofOutcome, Progress, Single, Then},
    sample::{Sample, Sampler},
};

/// The characters of ids in the original protocol.
const ID_CHARACTERS: &[u8; 36] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// What to ask for, and how to look at the replies. Threads share it.
#[derive(Debug)]
pub struct FilePlan {
    catalogue: Catalogue,
    draw: Draw,
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
    ) -> Result<Self, DrawError> {
        let draw = Draw::new(order, catalogue.len(), seed)?;
        Ok(Self { catalogue, draw, miss_ratio: miss_ratio.clamp(0.0, 1.0), verify, sample: Sample::ALL, seed })
    }

    /// Looks only at so many of the replies so closely, and of the others at status and length.
    #[must_use]
    pub fn sampling(self, sample: Sample) -> Self {
        Self { sample, ..self }
    }

    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    fn document(&self, ask: Ask) -> Option<&Document> {
        match ask {
            Ask::Document(place) => Some(self.catalogue.document(place)),
            Ask::Nothing(_) => None,
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ask {
    /// For a document, by its place in the catalogue.
    Document(u32),
    /// For a document that there is not.
    Nothing([u8; ORIGINAL_ID_BYTES]),
}

/// Asks for documents in one of the protocols.
#[derive(Debug)]
pub struct FileClient<S> {
    plan: Arc<FilePlan>,
    draw: Draw,
    sampler: Sampler,
    speech: PhantomData<S>,
}

/// One connection: how far the current reply has been read, and what its body came to.
#[derive(Debug, Default)]
pub struct FileConn<S> {
    speech: S,
    /// How much of the current reply is checked, once it has begun.
    verify: Option<FileVerify>,
    body: Body,
}

impl<S: FileProtocol> FileClient<S> {
    /// The client of `thread` among `threads`. Those that go through the documents in order begin in different places.
    #[must_use]
    pub fn new(plan: Arc<FilePlan>, thread: usize, threads: usize) -> Self {
        let mut draw = plan.draw.with_seed(plan.seed.wrapping_add(thread as u64));
        draw.begin_as(thread, threads);
        let sampler = Sampler::new(plan.sample, plan.seed, thread);
        Self { plan, draw, sampler, speech: PhantomData }
    }

    /// How much of the current reply is checked, which may have just begun.
    #[inline]
    fn level(&mut self, conn: &mut FileConn<S>) -> FileVerify {
        let deepest = self.plan.verify;
        let choose = || if self.sampler.draw() { deepest } else { deepest.min(FileVerify::Length) };
        *conn.verify.get_or_insert_with(choose)
    }

    /// An id as the original protocol has them, of none of the documents.
    fn unknown(&mut self) -> Ask {
        loop {
            let id = std::array::from_fn(|_| ID_CHARACTERS[self.draw.below(ID_CHARACTERS.len() as u32) as usize]);
            if !self.plan.catalogue.has(&id) {
                return Ask::Nothing(id);
            }
        }
    }
}

impl<S: FileProtocol> ClientProtocol for FileClient<S> {
    type Request = Single<Ask>;
    type Conn = FileConn<S>;

    fn open(&mut self) -> FileConn<S> {
        FileConn::default()
    }

    #[inline]
    fn next(&mut self, _conn: &mut FileConn<S>, _most: u64) -> Single<Ask> {
        if self.plan.miss_ratio > 0.0 && self.draw.happens(self.plan.miss_ratio) {
            return Single(self.unknown());
        }
        Single(Ask::Document(self.draw.key()))
    }

    #[inline]
    fn encode(&self, Single(ask): Single<Ask>, out: &mut Vec<u8>) {
        match ask {
            Ask::Document(place) => S::ask(&self.plan.catalogue.document(place).id, out),
            Ask::Nothing(id) => {
                // It is an id by construction; without one nothing would be sent, and the request time out.
                if let Some(id) = FileId::original(&id) {
                    S::ask(&id, out);
                }
            }
        }
    }

    #[inline]
    fn decode(&mut self, conn: &mut FileConn<S>, Single(ask): Single<Ask>, input: &[u8]) -> Decoded {
        let mut rest = input;
        let verify = self.level(conn);
        let document = self.plan.document(ask).filter(|_| verify == FileVerify::Sha256);
        let heard = conn.speech.listen(&mut rest, |piece| match document {
            Some(document) => conn.body.hash(piece, document.length),
            None => conn.body.pass(piece.len() as u64),
        });
        let progress = match heard {
            Heard::NeedMore => Progress::NeedMore,
            Heard::Broken(class) => Progress::Broken(class),
            Heard::Reply(said) => {
                conn.verify = None;
                let body = std::mem::take(&mut conn.body);
                let (replies, verdict) = judge(said, body, self.plan.document(ask), verify);
                Progress::Done { replies, verdict, then: Then::KeepAlive }
            }
        };
        Decoded { consumed: input.len() - rest.len(), progress }
    }

    fn on_eof(&mut self, conn: &mut FileConn<S>, Single(ask): Single<Ask>) -> EofOutcome {
        let verify = self.level(conn);
        let document = self.plan.document(ask);
        match conn.speech.end(document) {
            Ended::Early(class) => EofOutcome::Failed(class),
            Ended::Reply(said) => {
                let (replies, verdict) = judge(said, std::mem::take(&mut conn.body), document, verify);
                EofOutcome::Done { replies, verdict }
            }
        }
    }

    /// The document's place in the catalogue; the largest number for what there is not.
    fn operation(&self, Single(ask): Single<Ask>, _index: u64) -> u32 {
        match ask {
            Ask::Document(place) => place,
            Ask::Nothing(_) => u32::MAX,
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
