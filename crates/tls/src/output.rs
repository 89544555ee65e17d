//! The way out: what the inner session has queued is encrypted into the buffer of the outer outbox.

use std::iter;

use proto::{FileRegion, NextWrite, Now, Outbox, Protocol, Readable};

use crate::{
    Tls,
    connection::{Connection, Fetched, Phase},
    engine::{Broken, Engine, RECORD_MAX},
    scratch,
};

/// Plaintext of one call of rustls, which makes several records of it.
const SEAL_MAX: usize = 64 * 1024;
/// Plaintext of the records that a burst begins with: a record can be read once it is whole, and the first of a large
/// one would have to wait for the peer's acknowledgement (RFC 6928: ten segments are sent without one).
const FIRST_RECORD_MAX: usize = 4 * 1024;
/// Plaintext that is sent in such records.
const FIRST_BYTES: usize = 12 * 1024;
/// Bytes that are queued at most where the kernel encrypts; files cost nothing to hold, but what is urgent must not wait behind
/// much.
pub(crate) const MOVE_MAX: u64 = 256 * 1024;

/// Size of records, which grows while output goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    sent: usize,
}

impl Pace {
    fn next_max(self) -> usize {
        if self.sent < FIRST_BYTES { FIRST_RECORD_MAX } else { SEAL_MAX }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Some,
    /// There is nothing, or a promise has to be kept first.
    Nothing,
}

impl<P: Protocol> Connection<P> {
    /// Encrypts output for as long as there is any, and room for it.
    pub(crate) fn send(&mut self, layer: &Tls<P>, now: Now, out: &mut Outbox) -> Result<(), Broken> {
        if self.phase != Phase::Open {
            return Ok(());
        }
        loop {
            let mut flushed = false;
            let has_pushes = self.inner.collect_pushes();
            while !out.is_full() && !self.inner.is_aborted() && self.send_front(layer, out)? == Sent::Some {
                flushed = true;
            }
            if self.inner.wants_turn(&layer.inner, flushed) {
                self.inner.resume(&layer.inner, now);
            } else if !has_pushes {
                return Ok(());
            }
        }
    }

    fn send_front(&mut self, layer: &Tls<P>, out: &mut Outbox) -> Result<Sent, Broken> {
        // Before promises are settled: what follows has to know of an answer that is empty.
        let was_empty = self.inner.outbox().is_empty();
        if self.kernel.is_some() {
            return self.send_front_by_kernel(was_empty, out);
        }
        if self.may_use_kernel && self.prepare_kernel_tls(layer, out) {
            return Ok(Sent::Nothing);
        }
        if let Some(n) = self.seal_readable(out)? {
            self.inner.outbox().advance(n);
            if self.may_use_kernel {
                self.switch_to_kernel(layer, out)?;
            }
            return Ok(Sent::Some);
        }
        let Self { engine: Some(engine), inner, pace, .. } = self else { return Err(Broken) };
        let outbox = inner.outbox();
        let n = match outbox.front() {
            None if was_empty => return Ok(Sent::Nothing),
            // An answer may be empty, and input may have waited for it.
            None => return Ok(Sent::Some),
            // It is mapped, or it could have been read.
            Some(NextWrite::Memory(pieces, _)) => {
                match scratch::with_mapped(&pieces[0], |plain| seal(engine, plain, pace, out)) {
                    Ok(sealed) => sealed?,
                    // The file has lost the page, or there is no memory for a copy.
                    Err(_) if outbox.fall_back_from_mappings() => return Ok(Sent::Some),
                    Err(_) => return Err(Broken),
                }
            }
            Some(NextWrite::File(region)) => {
                let region = region.clone();
                return self.send_file(layer, &region, out);
            }
            Some(NextWrite::Pipe(_)) => {
                return if outbox.fall_back() { Ok(Sent::Some) } else { Err(Broken) };
            }
            Some(NextWrite::KernelTls(_)) => return Err(Broken),
            Some(NextWrite::Waiting) => return Ok(self.wait(out)),
        };
        inner.outbox().advance(n);
        Ok(Sent::Some)
    }

    fn send_front_by_kernel(&mut self, was_empty: bool, out: &mut Outbox) -> Result<Sent, Broken> {
        if let Some(sent) = self.move_plain(out)? {
            return Ok(sent);
        }
        match self.inner.outbox().front() {
            None if was_empty => Ok(Sent::Nothing),
            Some(NextWrite::Waiting) => Ok(self.wait(out)),
            None | Some(NextWrite::Memory(..) | NextWrite::File(_)) => Ok(Sent::Some),
            // Part of it is in a pipe of another driver's.
            Some(NextWrite::Pipe(_) | NextWrite::KernelTls(_)) => Err(Broken),
        }
    }

    /// Encrypts what can be read at once: from where it is if that is a single piece or enough for a record, else
    /// collected, so that small pieces and parts of files share records. Returns the number of its bytes, if there are any.
    fn seal_readable(&mut self, out: &mut Outbox) -> Result<Option<usize>, Broken> {
        let Self { engine: Some(engine), inner, pace, .. } = self else { return Err(Broken) };
        if self.reading.is_some() || self.fetched.is_some() {
            return Ok(None);
        }
        let mut pieces = inner.outbox().readable().peekable();
        let Some(first) = pieces.next() else { return Ok(None) };
        if let Readable::Memory(bytes) = first
            && (bytes.len() >= RECORD_MAX || pieces.peek().is_none())
        {
            return seal(engine, bytes, pace, out).map(Some);
        }
        let pieces = iter::once(first).chain(pieces);
        let sealed = scratch::with_collected(pieces, pace.next_max(), |plain| seal(engine, plain, pace, out));
        sealed.map_err(|_| Broken)?.transpose()
    }

    /// Has the driver wait for the promise in front, by a promise of the layer's own.
    fn wait(&mut self, out: &mut Outbox) -> Sent {
        let alarm = self.alarm.get_or_insert_default();
        alarm.reset();
        if self.inner.outbox().poll_reply(&alarm.waker()).is_ready() {
            return Sent::Some;
        }
        if !alarm.is_armed() {
            alarm.arm(out.defer());
        }
        Sent::Nothing
    }

    /// Encrypts the file in front, which is not in the page cache: another thread reads it first.
    fn send_file(&mut self, layer: &Tls<P>, region: &FileRegion, out: &mut Outbox) -> Result<Sent, Broken> {
        let Self { engine: Some(engine), inner, pace, reading, fetched, .. } = self else { return Err(Broken) };
        if let Some(read) = reading {
            let Some(read) = read.take() else { return Ok(Sent::Nothing) };
            *reading = None;
            *fetched = Some(Fetched { bytes: read.map_err(|_| Broken)?, at: 0 });
        }
        let Some(part) = fetched else {
            *reading = Some(layer.readers.read(region, out.defer()).map_err(|_| Broken)?);
            return Ok(Sent::Nothing);
        };
        let n = seal(engine, &part.bytes[part.at..], pace, out)?;
        part.at += n;
        if part.at == part.bytes.len() {
            *fetched = None;
        }
        inner.outbox().advance(n);
        Ok(Sent::Some)
    }
}

/// Encrypts the beginning of `plain`, which is not empty, and returns its length.
fn seal(engine: &mut Engine, plain: &[u8], pace: &mut Pace, out: &mut Outbox) -> Result<usize, Broken> {
    let plain = &plain[..plain.len().min(pace.next_max())];
    pace.sent = pace.sent.saturating_add(plain.len());
    engine.seal(plain, out)?;
    Ok(plain.len())
}
