//! Well-behaved clients, and their FIFOs.

use std::{
    fs,
    io::{self, Read},
    os::fd::OwnedFd,
    path::PathBuf,
    time::Instant,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags, mkfifoat, open},
};
use testkit::HANG;
use wire::mserve::{HEADER_BYTES, Header};

use crate::world::World;

/// A FIFO, removed when dropped, and its reading end once it is open.
pub(crate) struct Fifo {
    pub(crate) name: String,
    path: PathBuf,
    reader: Option<OwnedFd>,
}

impl Fifo {
    /// Makes a FIFO that no process reads.
    pub(crate) fn closed(world: &World) -> Self {
        let name = world.fresh_name();
        let path = world.fifo_dir().join(&name);
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        Self { name, path, reader: None }
    }

    /// Makes a FIFO and opens its reading end.
    pub(crate) fn open(world: &World) -> Self {
        let mut fifo = Self::closed(world);
        fifo.reader = Some(open(&fifo.path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap());
        fifo
    }

    pub(crate) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Closes the reading end.
    pub(crate) fn close(&mut self) {
        self.reader = None;
    }

    /// Reads up to `bytes`, fewer at the end.
    pub(crate) fn read(&mut self, bytes: usize) -> Vec<u8> {
        let reader = self.reader.as_ref().expect("is open");
        let (mut got, deadline) = (Vec::new(), Instant::now() + HANG);
        let mut chunk = vec![0; 64 << 10];
        while got.len() < bytes {
            let wanted = chunk.len().min(bytes - got.len());
            let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).unwrap();
            let ready = poll(&mut [PollFd::new(reader, PollFlags::IN)], Some(&left)).unwrap();
            assert!(ready > 0, "{} of {bytes} bytes came, and no end", got.len());
            match rustix::io::read(reader, &mut chunk[..wanted]) {
                Ok(0) => break,
                Ok(read) => got.extend_from_slice(&chunk[..read]),
                Err(rustix::io::Errno::AGAIN) => {}
                Err(errno) => panic!("{errno}"),
            }
        }
        got
    }

    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        self.read(usize::MAX)
    }

    pub(crate) fn read_header(&mut self) -> Header {
        let bytes: [u8; HEADER_BYTES] = self.read(HEADER_BYTES).try_into().expect("a header");
        Header::decode(&bytes).unwrap()
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // The directory goes anyway.
    }
}

/// Requests a file as the original's client does (`docs/originals.md`): the FIFO is opened after the message has been sent.
pub(crate) fn fetch(world: &World, path: &str) -> io::Result<Vec<u8>> {
    let fifo = Fifo::closed(world);
    world.send(format!("{path};{}\0", fifo.name));
    let mut got = Vec::new();
    fs::File::open(&fifo.path)?.read_to_end(&mut got)?;
    Ok(got)
}

/// Requests a file with a FIFO that is open already.
pub(crate) fn ask(world: &World, path: &str) -> Fifo {
    let fifo = Fifo::open(world);
    world.send(format!("{path};{}", fifo.name));
    fifo
}

/// The same, with a status FIFO.
pub(crate) fn ask_with_status(world: &World, path: &str) -> (Fifo, Fifo) {
    let (fifo, status) = (Fifo::open(world), Fifo::open(world));
    world.send(format!("{path};{};{}", fifo.name, status.name));
    (fifo, status)
}
