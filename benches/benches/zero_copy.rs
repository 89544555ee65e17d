//! The cost of sending a file's bytes to a socket: the system calls of zerocopy's strategies alone.
//!
//! Sender and receiver are one thread and take turns, so that the figures hold the work of both ends, of a TCP connection
//! over loopback or of a pair of unix sockets. Over TCP the receiver discards what it gets (MSG_TRUNC); unix sockets have
//! no such thing, and there it copies. All strategies pay the same for that.

use std::{
    fs::File,
    io::{self, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    net::{RecvFlags, sockopt},
};
use sys::transfer;

const SIZES: [usize; 4] = [4 << 10, 26_510, 64 << 10, 1 << 20];
/// Default capacity of a pipe, and the longest link of zerocopy.
const PIPES: [(&str, usize); 2] = [("64KiB", 64 << 10), ("512KiB", 512 << 10)];
/// Size of the buffer between a read and a write.
const BUFFER: usize = 64 << 10;

/// A way to send a body of known size.
trait Strategy {
    /// Sends some of the bytes from `at` on; returns their number.
    fn send(&mut self, socket: BorrowedFd<'_>, at: usize) -> io::Result<usize>;
}

struct SendFile<'a>(&'a Body);

impl Strategy for SendFile<'_> {
    fn send(&mut self, socket: BorrowedFd<'_>, at: usize) -> io::Result<usize> {
        transfer::sendfile(socket, self.0.file.as_fd(), at as u64, (self.0.len - at) as u64)
    }
}

struct ReadWrite<'a> {
    body: &'a Body,
    buffer: Vec<u8>,
    /// Offset in the file that the buffer was filled from, and number of bytes in it.
    from: usize,
    filled: usize,
}

impl Strategy for ReadWrite<'_> {
    fn send(&mut self, socket: BorrowedFd<'_>, at: usize) -> io::Result<usize> {
        if !(self.from..self.from + self.filled).contains(&at) {
            self.from = at;
            self.filled = rustix::io::pread(&self.body.file, &mut self.buffer, at as u64)?;
        }
        Ok(rustix::io::write(socket, &self.buffer[at - self.from..self.filled])?)
    }
}

/// Sends from memory: the mapped file, or a copy of it, which is the least possible work.
struct FromMemory(Bytes);

impl Strategy for FromMemory {
    fn send(&mut self, socket: BorrowedFd<'_>, at: usize) -> io::Result<usize> {
        Ok(rustix::io::write(socket, &self.0[at..])?)
    }
}

/// Sends through a scratch pipe, which is filled when it is empty.
struct ThroughPipe<F> {
    reader: OwnedFd,
    writer: OwnedFd,
    held: usize,
    /// Fills the pipe from `at` on, up to its capacity.
    fill: F,
}

impl<F: FnMut(&OwnedFd, usize) -> io::Result<usize>> ThroughPipe<F> {
    fn new(bytes: usize, fill: F) -> io::Result<Self> {
        let (reader, writer, _) = transfer::pipe_of(bytes)?;
        Ok(Self { reader, writer, held: 0, fill })
    }
}

impl<F: FnMut(&OwnedFd, usize) -> io::Result<usize>> Strategy for ThroughPipe<F> {
    fn send(&mut self, socket: BorrowedFd<'_>, at: usize) -> io::Result<usize> {
        if self.held == 0 {
            self.held = (self.fill)(&self.writer, at)?;
        }
        let n = transfer::splice_out(self.reader.as_fd(), socket, self.held as u64, false)?;
        self.held -= n;
        Ok(n)
    }
}

/// Sends copies of full pipes that hold the file.
struct Chain {
    links: Vec<(OwnedFd, OwnedFd, usize)>,
}

impl Chain {
    fn of(body: &Body, bytes: usize) -> io::Result<Self> {
        let mut links = Vec::new();
        let mut at = 0;
        while at < body.len {
            let (reader, writer, _) = transfer::pipe_of(bytes)?;
            let n = transfer::splice_in(&body.file, at as u64, &writer, (body.len - at) as u64)?;
            links.push((reader, writer, at + n));
            at += n;
        }
        Ok(Self { links })
    }

    /// Copies the link that begins at `at`.
    fn tee(&self, at: usize, to: &OwnedFd) -> io::Result<usize> {
        let link = self.links.partition_point(|(_, _, end)| *end <= at);
        let (reader, _, end) = &self.links[link];
        transfer::tee(reader.as_fd(), to.as_fd(), (end - at) as u64)
    }
}

struct Body {
    file: OwnedFd,
    len: usize,
    map: Bytes,
    copy: Bytes,
}

impl Body {
    fn of(len: usize) -> io::Result<Self> {
        let mut file: File = tempfile::tempfile()?;
        let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(len).collect();
        file.write_all(&bytes)?;
        let file = OwnedFd::from(file);
        let map = sys::map::map_file(&file, len)?;
        Ok(Self { file, len, map, copy: bytes.into() })
    }
}

/// Kind of connection, by the name of its group.
#[derive(Clone, Copy)]
enum Between {
    Loopback,
    UnixSockets,
}

impl Between {
    fn group(self) -> &'static str {
        match self {
            Self::Loopback => "zero_copy",
            Self::UnixSockets => "zero_copy_unix",
        }
    }
}

/// The two ends of a connection.
struct Pair {
    ours: OwnedFd,
    theirs: OwnedFd,
    buffer: Vec<u8>,
}

impl Pair {
    fn new(between: Between) -> io::Result<Self> {
        let (ours, theirs) = match between {
            Between::Loopback => Self::over_loopback()?,
            Between::UnixSockets => {
                let (ours, theirs) = UnixStream::pair()?;
                (ours.into(), theirs.into())
            }
        };
        for end in [&ours, &theirs] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        Ok(Self { ours, theirs, buffer: vec![0; 1 << 20] })
    }

    fn over_loopback() -> io::Result<(OwnedFd, OwnedFd)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let theirs = TcpStream::connect(listener.local_addr()?)?;
        let (ours, _) = listener.accept()?;
        // As our servers do: no data is held back, and a connection that crosses no network is not paced.
        ours.set_nodelay(true)?;
        sockopt::set_tcp_congestion(&ours, "reno")?;
        Ok((ours.into(), theirs.into()))
    }

    /// Sends a whole body and receives it at the other end. `TRUNC` discards it, so that no byte is copied.
    fn exchange(
        &mut self,
        len: usize,
        strategy: &mut impl Strategy,
        flags: RecvFlags,
        mut piece: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let (mut sent, mut received) = (0, 0);
        while received < len {
            let mut is_stuck = true;
            while sent < len {
                match strategy.send(self.ours.as_fd(), sent) {
                    Ok(n) => sent += n,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            while received < sent {
                match rustix::net::recv(&self.theirs, &mut self.buffer[..], flags) {
                    Ok((_, n)) => {
                        piece(&self.buffer[..n]);
                        (received, is_stuck) = (received + n, false);
                    }
                    Err(rustix::io::Errno::AGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            if is_stuck {
                self.wait()?;
            }
        }
        Ok(())
    }

    /// Waits for segments that are still on their way.
    fn wait(&self) -> io::Result<()> {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        match rustix::event::poll(&mut [PollFd::new(&self.theirs, PollFlags::IN)], Some(&second))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

fn measure((c, between): (&mut Criterion, Between), name: &str, body: &Body, mut strategy: impl Strategy) {
    let mut group = c.benchmark_group(between.group());
    group.throughput(Throughput::Bytes(body.len as u64));
    let mut pair = Pair::new(between).expect("a connection");
    let mut got = Vec::new();
    // Twice, since sending may empty a pipe.
    for _ in 0..2 {
        pair.exchange(body.len, &mut strategy, RecvFlags::empty(), |piece| got.extend_from_slice(piece)).expect("sent");
        assert!(got == body.copy, "{name} sends something else");
        got.clear();
    }
    group.bench_function(BenchmarkId::new(name, body.len), |b| {
        b.iter(|| pair.exchange(body.len, &mut strategy, RecvFlags::TRUNC, |_| ()).expect("the body arrives"));
    });
    group.finish();
}

fn strategies(c: &mut Criterion) {
    for between in [Between::Loopback, Between::UnixSockets] {
        for len in SIZES {
            strategies_between((c, between), &Body::of(len).expect("a temporary file"));
        }
    }
}

fn strategies_between((c, between): (&mut Criterion, Between), body: &Body) {
    let len = body.len;
    measure((c, between), "memory", body, FromMemory(body.copy.clone()));
    measure((c, between), "read-write", body, ReadWrite { body, buffer: vec![0; BUFFER], from: 0, filled: 0 });
    measure((c, between), "sendfile", body, SendFile(body));
    measure((c, between), "mmap-write", body, FromMemory(body.map.clone()));
    for (name, bytes) in PIPES {
        if len <= PIPES[0].1 && bytes > PIPES[0].1 {
            continue;
        }
        let fill = |pipe: &OwnedFd, at| transfer::splice_in(&body.file, at as u64, pipe, (len - at) as u64);
        let pipe = ThroughPipe::new(bytes, fill).expect("a pipe");
        measure((c, between), &format!("splice-{name}"), body, pipe);
        let pipe = ThroughPipe::new(bytes, |pipe: &OwnedFd, at| transfer::vmsplice(pipe.as_fd(), &body.map[at..]));
        measure((c, between), &format!("vmsplice-{name}"), body, pipe.expect("a pipe"));
        let chain = Chain::of(body, bytes).expect("pipes");
        let pipe = ThroughPipe::new(bytes, move |pipe: &OwnedFd, at| chain.tee(at, pipe)).expect("a pipe");
        measure((c, between), &format!("tee-{name}"), body, pipe);
    }
}

criterion_group!(benches, strategies);
criterion_main!(benches);
