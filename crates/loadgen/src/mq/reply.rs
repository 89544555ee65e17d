//! Check of one reply: it counts, hashes and compares, and moves no bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::mserve::{HEADER_BYTES, Header, Status};

use super::{
    load::{MqLoad, ReplyForm, RequestedFile},
    sink::Piece,
};
use crate::{
    body::{Body, FileVerify},
    error::ErrorClass,
    protocol::RequestOutcome,
};

const UNKNOWN: u64 = u64::MAX;

/// Lengths of the files, as far as they are known: before the run, or from the first good reply. Threads share them.
#[derive(Debug)]
pub(super) struct Lengths(Box<[AtomicU64]>);

impl Lengths {
    pub(super) fn of(plan: &MqLoad) -> Self {
        Self(plan.files.iter().map(|requested| AtomicU64::new(requested.length.unwrap_or(UNKNOWN))).collect())
    }

    fn known(&self, file: usize) -> Option<u64> {
        Some(self.0[file].load(Ordering::Relaxed)).filter(|&length| length != UNKNOWN)
    }

    /// Learns the length of a file from the first reply that passes every check.
    fn learn(&self, file: usize, length: u64) -> RequestOutcome {
        let learned = self.0[file].compare_exchange(UNKNOWN, length, Ordering::Relaxed, Ordering::Relaxed);
        match learned {
            Err(known) if known != length => Err(ErrorClass::Length),
            _ => Ok(()),
        }
    }
}

/// Header that is arriving.
#[derive(Debug, Default)]
pub(super) struct Head {
    bytes: [u8; HEADER_BYTES],
    filled: usize,
}

impl Head {
    /// Returns the room for the rest of it; empty when it is complete.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    pub(super) fn filled(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    pub(super) fn is_complete(&self) -> bool {
        self.filled == HEADER_BYTES
    }

    /// Returns the header once it is complete.
    pub(super) fn read(&self) -> Result<Option<Header>, ErrorClass> {
        if !self.is_complete() {
            return Ok(None);
        }
        Header::decode(&self.bytes).map(Some).map_err(|_| ErrorClass::Protocol)
    }
}

/// Reply that is arriving.
pub(super) struct IncomingReply<'a> {
    requested: &'a RequestedFile,
    file: usize,
    form: ReplyForm,
    verify: FileVerify,
    lengths: &'a Lengths,
    /// Header in front of the file, or from the status FIFO.
    pub(super) head: Head,
    body: Body,
}

impl<'a> IncomingReply<'a> {
    /// Makes a reply of which nothing has arrived. It is checked in full if it `is_chosen`.
    pub(super) fn new(plan: &'a MqLoad, file: usize, lengths: &'a Lengths, is_chosen: bool) -> Self {
        let (requested, form) = (&plan.files[file], plan.form);
        // Only a reply with the digest says how long the file is, so one is looked for first.
        let awaits_digest = requested.digest.is_some() && lengths.known(file).is_none();
        let verify = if is_chosen || awaits_digest { plan.verify } else { plan.verify.min(FileVerify::Length) };
        Self { requested, file, form, verify, lengths, head: Head::default(), body: Body::default() }
    }

    /// Returns true if a header comes next out of the FIFO of the file.
    pub(super) fn begins_with_head(&self) -> bool {
        self.form == ReplyForm::Framed && !self.head.is_complete()
    }

    #[inline]
    pub(super) fn take(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Copied(bytes) if self.verify == FileVerify::Sha256 && self.requested.digest.is_some() => {
                self.body.hash(bytes, self.lengths.known(self.file).unwrap_or(u64::MAX));
            }
            Piece::Copied(_) | Piece::Spliced(_) => self.body.pass(piece.bytes()),
        }
    }

    /// Returns the status of a header that says that the request was refused.
    pub(super) fn refusal(&self) -> Option<Status> {
        let header = self.head.read().ok().flatten()?;
        Some(header.status).filter(|&status| status != Status::Ok)
    }

    /// Returns the header, if there is to be one and it is complete. A refusal is an error.
    pub(super) fn header(&self) -> Result<Option<Header>, ErrorClass> {
        match self.head.read()? {
            Some(header) if header.status != Status::Ok => Err(ErrorClass::Status),
            header => Ok(header),
        }
    }

    /// Checks the reply, of which all has come that will come.
    pub(super) fn end(self) -> RequestOutcome {
        let arrived = self.body.bytes();
        if let Some(announced) = self.announced()? {
            match arrived {
                _ if arrived < announced => return Err(ErrorClass::ShortBody),
                _ if arrived > announced => return Err(ErrorClass::Protocol),
                _ => {}
            }
        }
        if self.verify == FileVerify::None {
            return Ok(());
        }
        let known = self.lengths.known(self.file);
        if self.form == ReplyForm::Bare && arrived == 0 && known != Some(0) {
            return Err(ErrorClass::EofEarly);
        }
        if self.verify == FileVerify::Status {
            return Ok(());
        }
        match known {
            // Nothing but its end says how long it was meant to be.
            Some(known) if arrived < known && self.form == ReplyForm::Bare => return Err(ErrorClass::ShortBody),
            Some(known) if arrived != known => return Err(ErrorClass::Length),
            _ => {}
        }
        if self.verify == FileVerify::Sha256
            && self.requested.digest.is_some()
            && !self.body.has_digest(self.requested.digest)
        {
            return Err(ErrorClass::Content);
        }
        self.lengths.learn(self.file, arrived)
    }

    fn announced(&self) -> Result<Option<u64>, ErrorClass> {
        match (self.form, self.header()?) {
            (ReplyForm::Bare, _) => Ok(None),
            (_, Some(header)) => Ok(Some(header.length)),
            (_, None) => Err(ErrorClass::EofEarly),
        }
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::{super::load::tests::load_of, *};

    const BODY: &[u8] = b"the file";

    fn check(form: ReplyForm, verify: FileVerify, known: bool, head: &[u8], body: &[u8]) -> RequestOutcome {
        let digest = known.then(|| Sha256::digest(BODY).into());
        let requested = RequestedFile { path: "f".into(), length: known.then_some(BODY.len() as u64), digest };
        let plan = MqLoad { form, verify, ..load_of(vec![requested]) };
        let lengths = Lengths::of(&plan);
        let mut reply = IncomingReply::new(&plan, 0, &lengths, true);
        reply.head.room()[..head.len()].copy_from_slice(head);
        reply.head.filled(head.len());
        reply.header()?;
        // Bytes come in any pieces.
        body.chunks(3).for_each(|piece| reply.take(&Piece::Copied(piece)));
        reply.end()
    }

    fn header(status: Status, length: usize) -> [u8; HEADER_BYTES] {
        Header { status, length: length as u64 }.encode()
    }

    #[test]
    fn a_bare_answer_is_judged_by_its_bytes() {
        let levels = |body: &[u8]| {
            [FileVerify::None, FileVerify::Status, FileVerify::Length, FileVerify::Sha256]
                .map(|verify| check(ReplyForm::Bare, verify, true, b"", body))
        };
        use ErrorClass::{Content, EofEarly, Length, ShortBody};
        assert_eq!(levels(BODY), [Ok(()); 4]);
        assert_eq!(levels(b""), [Ok(()), Err(EofEarly), Err(EofEarly), Err(EofEarly)]);
        assert_eq!(levels(b"the fil"), [Ok(()), Ok(()), Err(ShortBody), Err(ShortBody)]);
        assert_eq!(levels(b"the file!"), [Ok(()), Ok(()), Err(Length), Err(Length)]);
        assert_eq!(levels(b"the fool"), [Ok(()), Ok(()), Ok(()), Err(Content)]);
    }

    #[test]
    fn a_header_must_agree_with_the_file() {
        use ErrorClass::{EofEarly, Length, Protocol, ShortBody, Status as Refused};
        for form in [ReplyForm::Framed, ReplyForm::Status] {
            let check = |head: &[u8], body| check(form, FileVerify::Sha256, true, head, body);
            assert_eq!(check(&header(Status::Ok, 8), BODY), Ok(()));
            assert_eq!(check(b"", b""), Err(EofEarly));
            assert_eq!(check(&header(Status::Ok, 8)[..9], b""), Err(EofEarly));
            assert_eq!(check(&header(Status::Ok, 8), b"the fil"), Err(ShortBody));
            assert_eq!(check(&header(Status::Ok, 7), BODY), Err(Protocol));
            assert_eq!(check(&header(Status::Ok, 7), b"the fil"), Err(Length));
            assert_eq!(check(&header(Status::FileMissing, 0), b""), Err(Refused));
            assert_eq!(check(&[b'x'; HEADER_BYTES], BODY), Err(Protocol));
        }
    }

    #[test]
    fn refusals_and_broken_answers_fail_at_every_level() {
        let check = |head: &[u8], body| check(ReplyForm::Framed, FileVerify::None, true, head, body);
        assert_eq!(check(&header(Status::Overloaded, 0), b""), Err(ErrorClass::Status));
        assert_eq!(check(&header(Status::Ok, 9), BODY), Err(ErrorClass::ShortBody));
        assert_eq!(check(&header(Status::Ok, 8), b"the fool"), Ok(()));
    }

    #[test]
    fn the_first_good_answer_sets_the_length_of_a_file() {
        let plan = load_of(vec![RequestedFile { path: "f".into(), length: None, digest: None }]);
        let lengths = Lengths::of(&plan);
        let end = |bytes| {
            let mut reply = IncomingReply::new(&plan, 0, &lengths, true);
            reply.take(&Piece::Spliced(bytes));
            reply.end()
        };
        assert_eq!(end(0), Err(ErrorClass::EofEarly));
        assert_eq!([end(9), end(9)], [Ok(()), Ok(())]);
        assert_eq!([end(8), end(10)], [Err(ErrorClass::ShortBody), Err(ErrorClass::Length)]);
    }

    #[test]
    fn unsampled_answers_are_only_measured_once_the_length_is_known() {
        let check = |lengths: &Lengths, plan: &MqLoad, is_chosen, body: &[u8]| {
            let mut reply = IncomingReply::new(plan, 0, lengths, is_chosen);
            reply.take(&Piece::Copied(body));
            reply.end()
        };
        let requested = |length| RequestedFile { path: "f".into(), length, digest: Some(Sha256::digest(BODY).into()) };
        let plan = |length| MqLoad { verify: FileVerify::Sha256, ..load_of(vec![requested(length)]) };
        for length in [Some(BODY.len() as u64), None] {
            let plan = plan(length);
            let lengths = Lengths::of(&plan);
            let content = Err(ErrorClass::Content);
            assert_eq!(check(&lengths, &plan, true, b"the fool"), content);
            // Without a length nothing else is known of the file.
            let expected = if length.is_some() { Ok(()) } else { content };
            assert_eq!(check(&lengths, &plan, false, b"the fool"), expected);
            assert_eq!(check(&lengths, &plan, false, BODY), Ok(()));
            assert_eq!(check(&lengths, &plan, false, b"the fool"), Ok(()));
            assert_eq!(check(&lengths, &plan, false, b"the file!"), Err(ErrorClass::Length));
            assert_eq!(check(&lengths, &plan, true, b"the fool"), content);
        }
        // A lower level is not raised for want of a length.
        let plan = MqLoad { verify: FileVerify::None, ..plan(None) };
        assert_eq!(check(&Lengths::of(&plan), &plan, false, b""), Ok(()));
    }
}
