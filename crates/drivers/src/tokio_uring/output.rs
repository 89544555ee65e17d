use std::{io, mem, net::Shutdown as Half, pin::pin};

use bytes::Bytes;
use proto::{FileRegion, KernelTls, MappedRegion, PipeRegion, PipeSource, Protocol, Segment, Taken};
use sys::ktls;
use tokio::time::{sleep, timeout};
use tokio_uring::{
    buf::{BoundedBuf, IoBuf},
    fs::File,
    net::TcpStream,
};

use super::{ConnectionState, waiting::Event};
use crate::{clock, closing::reset_if_cut_off, peer::uptake, pipes::FillOutcome, wheel::TICK, write::is_lost_page};

/// `None` for an operation that a stop of the process has interrupted before it came to anything: in a worker of the
/// kernel's it is not restarted, as the system call would be (signal(7)).
pub(super) fn unless_interrupted(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        done => done.map(Some),
    }
}

/// Writes interrupted one after the other after which the deadline is looked at: a single one may have been kept from
/// running, but a process that is stopped often would never look.
const INTERRUPTIONS_MAX: u32 = 8;
impl<P: Protocol> ConnectionState<'_, P> {
    /// Sends all there is, waiting for promises, and then shuts the writing side down where the session lingers; returns early
    /// only when the session is done.
    pub(super) async fn flush(&mut self, stream: &TcpStream) -> io::Result<()> {
        self.session.take_pushes_so_far();
        while !self.session.is_aborted() {
            match self.session.outbox().take() {
                Taken::Segment(mut segment) => {
                    self.send(stream, &mut segment).await?;
                    let outbox = self.session.outbox();
                    outbox.recycle(segment);
                    self.pipes.borrow_mut().put(outbox.emptied_pipe());
                    self.session.report_sent(self.protocol, clock::now);
                }
                Taken::Waiting if self.session.wants_turn(self.protocol, false) => {
                    self.session.resume(self.protocol, clock::now());
                }
                // Whoever reads waits for the promise, too.
                Taken::Waiting if self.session.is_multiplexed(self.protocol) && self.session.wants_read() => break,
                Taken::Waiting => self.settled(stream).await,
                Taken::Nothing => {
                    self.session.resume(self.protocol, clock::now());
                    if self.session.outbox().is_empty() {
                        break;
                    }
                }
            }
        }
        // Whether all has been delivered is not asked here: there is no borrowing the stream's descriptor.
        if self.session.begin_lingering(clock::now()) {
            stream.shutdown(Half::Write)?;
        }
        Ok(())
    }

    /// Sends a segment, and leaves what can be used again in its place. Every idle connection has room for the largest of
    /// its steps: what is lent is held once, what is passed on by value at each level, and rare steps are boxed.
    async fn send(&mut self, stream: &TcpStream, segment: &mut Segment) -> io::Result<()> {
        match segment {
            Segment::Owned(bytes) => return self.write(stream, bytes).await,
            Segment::Shared(bytes) => return self.write(stream, bytes).await,
            Segment::Deferred(_) => return Ok(()),
            Segment::Mapped(_) | Segment::File(_) | Segment::Pipe(_) | Segment::KernelTls(_) => {}
        }
        Box::pin(self.send_region(stream, segment)).await
    }

    async fn send_region(&mut self, stream: &TcpStream, segment: &mut Segment) -> io::Result<()> {
        *segment = match mem::replace(segment, Segment::Owned(Vec::new())) {
            Segment::Mapped(region) => self.send_mapped(stream, region).await?,
            Segment::File(region) => Segment::File(self.send_file(stream, region).await?),
            Segment::Pipe(region) => self.send_pipe(stream, region).await?,
            Segment::KernelTls(step) => Segment::KernelTls(self.take_kernel_tls(stream, step).await?),
            memory @ (Segment::Owned(_) | Segment::Shared(_) | Segment::Deferred(_)) => memory,
        };
        Ok(())
    }

    /// Takes a step of kernel TLS. The crate has no such operation, so these are plain calls, which do not wait.
    async fn take_kernel_tls(&mut self, stream: &TcpStream, step: Box<KernelTls>) -> io::Result<Box<KernelTls>> {
        match &*step {
            KernelTls::Attach => {
                let is_attached = ktls::attach(stream).is_ok();
                self.session.outbox().note_attached(true, is_attached);
            }
            KernelTls::Start(keys) => ktls::start(stream, keys.bytes())?,
            KernelTls::Record { content_type, payload } => loop {
                match ktls::send_record_now(stream, *content_type, payload) {
                    Ok(n) => {
                        self.tally.0.bytes_out += n as u64;
                        self.session.sent(clock::now());
                        break;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_for_room(stream).await?,
                    Err(error) => return Err(error),
                }
            },
        }
        Ok(step)
    }

    /// Waits a moment for the peer to take something.
    async fn wait_for_room(&mut self, stream: &TcpStream) -> io::Result<()> {
        let moment = pin!(sleep(TICK));
        if let Event::Deadline = self.event(stream, moment).await {
            self.session.tick(self.protocol, clock::now(), || uptake(stream));
            if self.session.is_aborted() {
                reset_if_cut_off(&mut self.session, stream);
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// Writes it all, in steps that show whether the peer takes anything.
    async fn write<B: BoundedBuf<Buf = B> + IoBuf + Default>(
        &mut self,
        stream: &TcpStream,
        bytes: &mut B,
    ) -> io::Result<()> {
        let mut at = 0;
        while at < IoBuf::bytes_init(bytes) {
            at += self.write_some(stream, bytes, at).await?;
        }
        Ok(())
    }

    /// Writes a mapping from where it is, and from a lost page on what there is of its file.
    async fn send_mapped(&mut self, stream: &TcpStream, mut region: MappedRegion) -> io::Result<Segment> {
        let (mut bytes, mut at) = (region.to_bytes(), 0);
        while at < bytes.len() {
            match self.write_some::<Bytes>(stream, &mut bytes, at).await {
                Ok(n) => at += n,
                Err(error) if is_lost_page(&error) => {
                    region.skip(at);
                    return Ok(Segment::File(self.send_file(stream, region.fall_back()).await?));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Segment::Mapped(region))
    }

    /// Writes once, from `at`, and returns how much. The buffer is empty if that fails.
    async fn write_some<B: BoundedBuf<Buf = B> + IoBuf + Default>(
        &mut self,
        stream: &TcpStream,
        bytes: &mut B,
        at: usize,
    ) -> io::Result<usize> {
        let mut interruptions = 0;
        loop {
            let mut writing = pin!(stream.write(mem::take(bytes).slice(at..)).submit());
            let (wrote, back) = loop {
                let mut event = self.event(stream, writing.as_mut()).await;
                // Where the process was kept from running, both may have come: then the write has a moment to say so, and to
                // be submitted in the first place.
                if matches!(event, Event::Deadline) {
                    let late = Box::pin(timeout(TICK, writing.as_mut()));
                    event = late.await.map_or(Event::Deadline, Event::Done);
                }
                match event {
                    Event::Done(done) => break done,
                    Event::Deadline => {
                        self.session.tick(self.protocol, clock::now(), || uptake(stream));
                        if self.session.is_aborted() {
                            reset_if_cut_off(&mut self.session, stream);
                            stream.shutdown(Half::Both)?; // Ends the write, too.
                        }
                    }
                }
            };
            *bytes = back.into_inner();
            match unless_interrupted(wrote)? {
                None => {
                    interruptions += 1;
                    if interruptions % INTERRUPTIONS_MAX == 0 {
                        self.session.tick(self.protocol, clock::now(), || uptake(stream));
                        if self.session.is_aborted() {
                            reset_if_cut_off(&mut self.session, stream);
                            return Err(io::ErrorKind::TimedOut.into());
                        }
                    }
                }
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(n) => {
                    self.tally.0.bytes_out += n as u64;
                    self.session.sent(clock::now());
                    return Ok(n);
                }
            }
        }
    }

    /// The crate has neither sendfile nor splice: through a buffer, which is small while the peer takes nothing. What a
    /// write has left of it is read again.
    async fn send_file(&mut self, stream: &TcpStream, mut region: FileRegion) -> io::Result<FileRegion> {
        while region.len > 0 {
            let (mut chunk, _permit) = self.chunks.lend(stream).await;
            let want = region.len.min(chunk.capacity() as u64) as usize;
            // The crate's files own their descriptors, so that this one is a second one, for the read alone; where there is
            // none left, a plain call reads, too.
            let (read, chunk) = match region.file.try_clone() {
                Ok(file) => File::from_std(file.into()).read_at(chunk.slice(..want), region.offset).await,
                Err(_) => {
                    chunk.resize(want, 0);
                    let read = rustix::io::pread(&region.file, &mut chunk, region.offset);
                    chunk.truncate(read.unwrap_or(0));
                    (read.map_err(Into::into), chunk.slice(..))
                }
            };
            let mut chunk = chunk.into_inner();
            let n = match unless_interrupted(read)? {
                None => 0,
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()), // It shrank.
                Some(_) => self.write_some(stream, &mut chunk, 0).await?,
            };
            self.chunks.give_back(chunk);
            region.offset += n as u64;
            region.len -= n as u64;
        }
        Ok(region)
    }

    /// Sends a pipe through the same buffer, and pages of a mapped file from where they are.
    async fn send_pipe(&mut self, stream: &TcpStream, mut region: PipeRegion) -> io::Result<Segment> {
        if let PipeSource::Pages(pages) = &region.source {
            let range = pages.offset..pages.offset.saturating_add(region.len);
            let mapped = MappedRegion::new(&pages.of, range).ok_or(io::ErrorKind::UnexpectedEof)?;
            return self.send_mapped(stream, mapped).await;
        }
        let outcome = self.pipes.borrow_mut().fill(&mut region)?;
        if outcome == FillOutcome::NoPipe {
            let (mut head, file) = region.fall_back().ok_or(io::ErrorKind::InvalidData)?;
            self.write::<Bytes>(stream, &mut head).await?;
            return Ok(Segment::File(self.send_file(stream, file).await?));
        }
        while let Some(scratch) = region.scratch().filter(|scratch| scratch.filled > 0) {
            let (mut chunk, permit) = self.chunks.lend(stream).await;
            chunk.resize(scratch.filled.min(chunk.capacity() as u64) as usize, 0);
            let n = rustix::io::read(&scratch.pipe.reader, &mut chunk[..])?; // The bytes are there: this does not wait.
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            chunk.truncate(n);
            let written = self.write_some(stream, &mut chunk, 0).await?;
            let mut rest = chunk[written..].to_vec();
            self.chunks.give_back(chunk);
            drop(permit);
            self.write(stream, &mut rest).await?;
            region.advance(n as u64);
        }
        Ok(Segment::Pipe(region))
    }
}
