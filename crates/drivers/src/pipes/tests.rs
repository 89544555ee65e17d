use std::{
    io::Read,
    os::fd::OwnedFd,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use proto::{FileRegion, MappedFile, Outbox};
use rustix::net::{AddressFamily, SocketType, socketpair};

use super::*;
use crate::write::write_front;

/// A pipe that holds `head` and the whole of a file of zeros.
fn cached(head: &'static [u8], len: u64) -> Arc<CachedPipe> {
    let (reader, writer, _) = transfer::pipe_of(1 << 20).unwrap();
    let file = file(len);
    rustix::io::write(&writer, head).unwrap();
    assert_eq!(transfer::splice_in(&*file, 0, &writer, len).unwrap() as u64, len);
    Arc::new(CachedPipe {
        pipe: Pipe { reader, writer },
        len: head.len() as u64 + len,
        head: Bytes::from_static(head),
        file: FileRegion { file, offset: 0, len },
        fallbacks: Arc::default(),
    })
}

fn file(len: u64) -> Arc<OwnedFd> {
    let file = rustix::fs::memfd_create("content", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, len).unwrap();
    Arc::new(file)
}

/// Sends one region and returns the bytes that a peer gets.
fn sent(region: PipeRegion, pipes: &mut Pipes) -> io::Result<Vec<u8>> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, rustix::net::SocketFlags::CLOEXEC, None).unwrap();
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        std::fs::File::from(theirs).read_to_end(&mut got).map(|_| got)
    });
    let mut outbox = Outbox::default();
    outbox.push_pipe(region);
    let written = loop {
        if outbox.is_empty() {
            break Ok(());
        }
        if let Err(error) = write_front(ours.as_fd(), &mut outbox, pipes) {
            break Err(error);
        }
    };
    drop(ours);
    let got = reader.join().unwrap()?;
    written.map(|()| got)
}

/// The limit is of all that exist: those in a pool and those that somebody holds.
#[test]
fn pipes_are_counted_wherever_they_are() {
    let supply = ScratchPipes::new(ScratchPipes::BYTES, 2);
    let (mut one, mut other) = (Pipes::of_loop(&supply), Pipes::of_connection(&supply));
    let (first, second) = (one.get().unwrap(), other.get().unwrap());
    assert!(one.get().is_none() && other.get().is_none());
    drop(first);
    let third = one.get().unwrap();
    one.put(Some(third));
    assert!(other.get().is_none(), "it is kept by the other loop");
    other.put(Some(second));
    assert!(other.get().is_some() && one.get().is_some());
}

/// A pipe that a connection gives back is there for all.
#[test]
fn connections_share_their_pipes() {
    let supply = ScratchPipes::new(ScratchPipes::BYTES, 1);
    let response = cached(b"head", 10_000);
    for _ in 0..3 {
        let got = sent(PipeRegion::cached(&response), &mut Pipes::of_connection(&supply)).unwrap();
        assert!(got.len() == 10_004 && got.starts_with(b"head\0"));
    }
    assert_eq!(response.fallbacks.load(Ordering::Relaxed), 0);
}

/// A pool is bounded by the room of its pipes, too.
#[test]
fn few_large_pipes_are_kept() {
    for (bytes, count, kept) in [(64 << 10, 70, 64), (512 << 10, 10, 8), (1 << 20, 6, 4)] {
        let supply = ScratchPipes::new(bytes, 1_000);
        let mut pool = Pool::default();
        let pipes: Vec<_> = (0..count).filter_map(|_| supply.get()).collect();
        assert_eq!((pipes.len(), supply.bytes()), (count, bytes));
        assert_eq!(pipes.into_iter().filter_map(|pipe| pool.put(pipe, POOLED_MAX)).count(), count - kept);
    }
}

/// A pipe that came out too small is no pipe for the next one.
#[test]
fn small_pipes_are_not_kept() {
    let supply = ScratchPipes::new(ScratchPipes::BYTES, 9);
    let mut pipes = Pipes::of_loop(&supply);
    let small = pipes.get().unwrap();
    let granted = rustix::pipe::fcntl_setpipe_size(&small.pipe.writer, 4096).unwrap();
    pipes.put(Some(Box::new(ScratchPipe { capacity: granted, ..*small })));
    assert_eq!(pipes.get().unwrap().capacity, ScratchPipes::BYTES);
}

/// The rest of a file that has been cut is sent as a file, up to its end.
#[test]
fn pages_that_are_gone_fall_back() {
    let (len, fallbacks) = (300_000, Arc::<AtomicU64>::default());
    let file = file(len);
    let bytes = sys::map::map_file(&file, len as usize).unwrap();
    let mapped = Arc::new(MappedFile { bytes, file: Arc::clone(&file), fallbacks: Arc::clone(&fallbacks) });
    let mut pipes = Pipes::of_loop(&ScratchPipes::default());
    assert_eq!(sent(PipeRegion::pages(&mapped, 1..len), &mut pipes).unwrap().len() as u64, len - 1);
    rustix::fs::ftruncate(&*file, 100_000).unwrap();
    assert_eq!(fallbacks.load(Ordering::Relaxed), 0);
    let error = sent(PipeRegion::pages(&mapped, 0..len), &mut pipes).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(fallbacks.load(Ordering::Relaxed), 1);
}
