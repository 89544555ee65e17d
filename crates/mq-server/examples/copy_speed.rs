//! Measures the speed of each way to copy with many clients of the same file, beside a bare thread per client that splices.
//!
//! Everything is in one process, without a queue or a dispatcher: a thread per client steps and polls, and a thread per
//! client reads. `cargo run --release -p mq-server --example copy_speed -- --help`.

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use bytesize::ByteSize;
use clap::{Parser, ValueEnum};
use mq_server::copy::{CopyKind, CopyOptions, CopyVisitor, FileCopy, Readiness, Source, State};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::OFlags,
    time::{ClockId, clock_gettime},
};
use service::Budget;
use sys::{
    beneath::Root,
    fifo::{self, Directory, Writer},
    transfer,
};

#[derive(Debug, Parser)]
struct Args {
    #[arg(long, default_value_t = 20)]
    clients: usize,
    /// Size of the file
    #[arg(long, default_value = "256MiB", value_parser = service::size)]
    size: ByteSize,
    /// Capacity of the FIFOs
    #[arg(long, default_value = "1MiB", value_parser = service::size)]
    pipe_size: ByteSize,
    /// Clients read into buffers of this size instead of splicing to /dev/null
    #[arg(long, value_parser = service::size)]
    read: Option<ByteSize>,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Directory for the file and the FIFOs
    #[arg(long, default_value = "/dev/shm")]
    directory: PathBuf,
    /// Only these ways to copy
    #[arg(long, value_delimiter = ',')]
    copy: Vec<CopyKind>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let directory = tempfile::tempdir_in(&args.directory)?;
    write_file(&directory.path().join("file"), args.size.as_u64())?;
    let world = World { fifos: Directory::open(directory.path())?, root: Root::open(directory.path())? };
    let copies = if args.copy.is_empty() { CopyKind::value_variants() } else { &args.copy };
    let options = CopyOptions { buffer_bytes: 128 << 10, pipe_budget: Budget::new(1 << 30) };
    let mut out = io::stdout().lock();
    for _ in 0..args.rounds {
        let bare = run(&args, &world, &|source, sink| bare(source, &sink))?;
        writeln!(out, "{:<12} {bare}", "bare splice")?;
        for &kind in copies {
            let measured = kind.with(&options, Measure { args: &args, world: &world })??;
            writeln!(out, "{:<12} {measured} {:>5.2} of bare", kind.to_string(), bare.seconds / measured.seconds)?;
        }
    }
    Ok(())
}

fn write_file(path: &std::path::Path, size: u64) -> io::Result<()> {
    let (mut file, piece) = (File::create(path)?, vec![7; 1 << 20]);
    let mut left = size;
    while left > 0 {
        let n = left.min(piece.len() as u64);
        file.write_all(&piece[..n as usize])?;
        left -= n;
    }
    Ok(())
}

struct World {
    fifos: Directory,
    root: Root,
}

/// Times of a round.
struct Measured {
    bytes: u64,
    seconds: f64,
    /// CPU seconds of all threads but the readers.
    cpu: f64,
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { bytes, seconds, cpu } = self;
        let rate = *bytes as f64 / seconds / f64::from(1 << 30);
        write!(f, "{:>8.1} ms {rate:>6.2} GiB/s {cpu:>6.3} CPU s without readers", seconds * 1e3)
    }
}

struct Measure<'a> {
    args: &'a Args,
    world: &'a World,
}

impl CopyVisitor for Measure<'_> {
    type Output = anyhow::Result<Measured>;

    fn visit<C: FileCopy>(self, copy: C) -> anyhow::Result<Measured> {
        run(self.args, self.world, &|source, sink| send(&copy, source, sink))
    }
}

/// Runs a round: one thread for each client sends, another one reads.
fn run(
    args: &Args,
    world: &World,
    send: &(dyn Fn(Source, Arc<Writer>) -> anyhow::Result<()> + Sync),
) -> anyhow::Result<Measured> {
    let ends: Vec<_> = (0..args.clients).map(|index| fifo(args, world, index)).collect::<anyhow::Result<_>>()?;
    let (begun, cpu) = (Instant::now(), cpu(ClockId::ProcessCPUTime));
    let (bytes, readers_cpu) = thread::scope(|scope| {
        let mut all = Vec::new();
        for (reader, writer) in ends {
            let opened = world.root.open_file(b"file")?;
            let source = Source { file: opened.file, metadata: opened.metadata };
            let reading = scope.spawn(move || read(reader, args.read));
            all.push((scope.spawn(move || send(source, writer)), reading));
        }
        let mut sum = (0, 0.0);
        for (sending, reading) in all {
            sending.join().ok().context("a sender panicked")??;
            let (bytes, cpu) = reading.join().ok().context("a reader panicked")??;
            sum = (sum.0 + bytes, sum.1 + cpu);
        }
        anyhow::Ok(sum)
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    anyhow::ensure!(bytes == args.size.as_u64() * args.clients as u64, "{bytes} bytes have arrived");
    Ok(Measured { bytes, seconds, cpu: self::cpu(ClockId::ProcessCPUTime) - cpu - readers_cpu })
}

fn fifo(args: &Args, world: &World, index: usize) -> anyhow::Result<(OwnedFd, Arc<Writer>)> {
    let name = format!("fifo-{index}");
    world.fifos.make(name.as_bytes())?;
    let reader = OwnedFd::from(world.fifos.open_reader(name.as_bytes())?);
    rustix::fs::fcntl_setfl(&reader, OFlags::empty())?;
    let writer = world.fifos.open_writer(name.as_bytes())?;
    world.fifos.remove(name.as_bytes())?;
    fifo::raise_capacity(&writer, usize::try_from(args.pipe_size.as_u64())?)?;
    Ok((reader, Arc::new(writer)))
}

/// Reads to the end; returns the number of bytes and the CPU seconds of the thread.
fn read(reader: OwnedFd, buffer: Option<ByteSize>) -> anyhow::Result<(u64, f64)> {
    let mut sum = 0;
    if let Some(size) = buffer {
        let (mut reader, mut buffer) = (File::from(reader), vec![0; usize::try_from(size.as_u64())?]);
        loop {
            match reader.read(&mut buffer)? {
                0 => break,
                n => sum += n as u64,
            }
        }
    } else {
        let null = File::options().write(true).open("/dev/null")?;
        loop {
            match transfer::splice_out(reader.as_fd(), null.as_fd(), u64::MAX, false) {
                Ok(n) => sum += n as u64,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok((sum, cpu(ClockId::ThreadCPUTime)))
}

fn send<C: FileCopy>(copy: &C, source: Source, sink: Arc<Writer>) -> anyhow::Result<()> {
    let mut transfer = copy.begin(source, &sink)?;
    loop {
        match copy.step(&mut transfer, &sink)?.state {
            State::Done => return Ok(()),
            State::More => {}
            State::Blocked => {
                let mut polled = match copy.readiness(&transfer, &sink) {
                    Readiness::Writable(fd) => [PollFd::from_borrowed_fd(fd, PollFlags::OUT)],
                    Readiness::Readable(fd) => [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
                };
                poll(&mut polled, None)?;
            }
        }
    }
}

/// Sends by splices that wait for the reader.
fn bare(source: Source, sink: &Writer) -> anyhow::Result<()> {
    rustix::fs::fcntl_setfl(sink, OFlags::empty())?;
    let mut offset = 0;
    while offset < source.metadata.size {
        let len = usize::try_from(source.metadata.size - offset)?.min(1 << 30);
        let flags = rustix::pipe::SpliceFlags::empty();
        rustix::pipe::splice(&source.file, Some(&mut offset), sink, None, len, flags)?;
    }
    Ok(())
}

fn cpu(clock: ClockId) -> f64 {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default().as_secs_f64()
}
