//! Bodies of replies: the beginning of the content file, as every kind of segment.
//!
//! | kind | sent as |
//! |---|---|
//! | `shared`, `file`, `mapped` | the line in memory and that segment |
//! | `pipe` | the line in memory and a cached pipe |
//! | `headed` | one cached pipe that also holds the line |
//! | `chain` | the line in memory and cached pipes, each with no more than a scratch pipe takes |
//! | `registered` | the line in memory and registered memory (`--registered`) |
//! | `lent` | the line in memory and bytes N to 2 N, in registered memory that is lent for this reply only |
//! | `pages` | the line in memory and pages of the mapped file |
//! | `attach` | the line in memory, a step of kernel TLS that changes nothing, and N bytes in memory |
//! | `record` | the line in memory and a step of kernel TLS: a record, which on a socket without it is its payload |
//! | `start` | the line in memory, a step of kernel TLS that no kernel can take, and N bytes in memory |

use std::{
    collections::HashMap,
    fs::File,
    io,
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;
use proto::{CachedPipe, FileRegion, KernelTls, KernelTlsKeys, MappedFile, MappedRegion, Outbox, Pipe, PipeRegion};
use sys::{registered::Region, transfer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Shared,
    File,
    Mapped,
    Pipe,
    Headed,
    Chain,
    Pages,
    Registered,
    Lent,
    Attach,
    Record,
    Start,
}

impl BodyKind {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "shared" => Self::Shared,
            "file" => Self::File,
            "mapped" => Self::Mapped,
            "pipe" => Self::Pipe,
            "headed" => Self::Headed,
            "chain" => Self::Chain,
            "pages" => Self::Pages,
            "registered" => Self::Registered,
            "lent" => Self::Lent,
            "attach" => Self::Attach,
            "record" => Self::Record,
            "start" => Self::Start,
            _ => return None,
        })
    }
}

/// Cached pipes by head and range of the body.
type Pipes = HashMap<(Bytes, Range<usize>), Arc<CachedPipe>>;

/// The content in every form that bodies are sent from.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    memory: Bytes,
    mapped: Option<Arc<MappedFile>>,
    /// Copy of the content in registered memory.
    registered: Option<Bytes>,
    region: Option<Arc<Region>>,
    /// Length of a link of a chain.
    link_bytes: usize,
    pipes: Mutex<Pipes>,
    fallbacks: Arc<AtomicU64>,
}

impl Bodies {
    pub(crate) fn open(path: &Path, link_bytes: usize) -> anyhow::Result<Self> {
        let memory = Bytes::from(std::fs::read(path)?);
        let file = OwnedFd::from(File::open(path)?);
        let fallbacks = Arc::<AtomicU64>::default();
        let bytes = sys::map::map_file(&file, memory.len())?;
        let mapped = MappedFile { bytes, file: Arc::new(file), fallbacks: Arc::clone(&fallbacks) };
        Ok(Self {
            memory,
            mapped: Some(Arc::new(mapped)),
            registered: None,
            region: None,
            link_bytes,
            pipes: Mutex::default(),
            fallbacks,
        })
    }

    /// Copies the content to a region that a driver may register, and returns the region.
    pub(crate) fn register(&mut self) -> anyhow::Result<Arc<Region>> {
        let region = Region::new(self.memory.len() + LENT_MAX)?;
        self.region = Some(Arc::clone(&region));
        let content = &self.memory;
        self.registered = region.lend(content.len(), |bytes| {
            bytes.copy_from_slice(content);
            Ok(())
        })?;
        Ok(region)
    }

    /// Returns the number of segments that were sent in another way than their own.
    pub(crate) fn fallbacks(&self) -> u64 {
        self.fallbacks.load(Ordering::Relaxed)
    }

    /// Puts `line` and the first `len` bytes into `out`; `None` if the content is shorter.
    pub(crate) fn push(&self, kind: BodyKind, len: usize, line: &[u8], out: &mut Outbox) -> Option<()> {
        let mapped = self.mapped.as_ref().filter(|_| len <= self.memory.len())?;
        let line = [line, b"\n"].concat();
        if kind == BodyKind::Headed {
            out.push_pipe(PipeRegion::cached(&self.pipe(mapped, line.into(), 0..len).ok()?));
            return Some(());
        }
        out.inline().extend_from_slice(&line);
        match kind {
            BodyKind::Shared => out.push_shared(&self.memory.slice(..len)),
            BodyKind::Registered => out.push_uncopied(&self.registered.as_ref()?.slice(..len)),
            BodyKind::Lent => out.push_uncopied(&self.lend(self.memory.get(len..2 * len)?)?),
            BodyKind::Mapped => out.push_mapped(MappedRegion::new(mapped, 0..len as u64)?),
            BodyKind::File => out.push_file(region(mapped, 0..len)),
            BodyKind::Pages => out.push_pipe(PipeRegion::pages(mapped, 0..len as u64)),
            BodyKind::Record => {
                let payload = self.memory[..len].into();
                out.push_kernel_tls(KernelTls::Record { content_type: 23, payload });
            }
            BodyKind::Attach => {
                out.push_kernel_tls(KernelTls::Attach);
                out.push_shared(&self.memory.slice(..len));
            }
            BodyKind::Start => {
                out.push_kernel_tls(KernelTls::Start(KernelTlsKeys::new(Box::new([0; 4]))));
                out.push_shared(&self.memory.slice(..len));
            }
            BodyKind::Headed | BodyKind::Pipe => {
                out.push_pipe(PipeRegion::cached(&self.pipe(mapped, Bytes::new(), 0..len).ok()?));
            }
            BodyKind::Chain => {
                for start in (0..len).step_by(self.link_bytes) {
                    let link = start..len.min(start + self.link_bytes);
                    out.push_pipe(PipeRegion::cached(&self.pipe(mapped, Bytes::new(), link).ok()?));
                }
            }
        }
        Some(())
    }

    /// Copies `bytes` to free pages of the region.
    fn lend(&self, bytes: &[u8]) -> Option<Bytes> {
        let fill = |pages: &mut [u8]| {
            pages.copy_from_slice(bytes);
            Ok(())
        };
        self.region.as_ref()?.lend(bytes.len(), fill).ok()?
    }

    /// Returns the cached pipe that holds `head` and this range of the file.
    fn pipe(&self, mapped: &MappedFile, head: Bytes, range: Range<usize>) -> io::Result<Arc<CachedPipe>> {
        let mut pipes = self.pipes.lock();
        let key = (head.clone(), range.clone());
        if let Some(pipe) = pipes.get(&key) {
            return Ok(Arc::clone(pipe));
        }
        let (reader, writer, _) = transfer::pipe_of(head.len() + range.len() + PAGE)?;
        rustix::io::write(&writer, &head)?;
        let file = region(mapped, range);
        let mut filled = 0;
        while filled < file.len {
            match transfer::splice_in(file.file.as_fd(), file.offset + filled, &writer, file.len - filled)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => filled += n as u64,
            }
        }
        let pipe = CachedPipe {
            pipe: Pipe { reader, writer },
            len: head.len() as u64 + file.len,
            head,
            file,
            fallbacks: Arc::clone(&self.fallbacks),
        };
        let pipe = Arc::new(pipe);
        pipes.insert(key, Arc::clone(&pipe));
        Ok(pipe)
    }
}

/// Size of the registered memory beside the content.
const LENT_MAX: usize = 32 << 20;
/// Part of the pipe that a head takes: a page of its own.
const PAGE: usize = 4096;

fn region(mapped: &MappedFile, range: Range<usize>) -> FileRegion {
    FileRegion { file: Arc::clone(&mapped.file), offset: range.start as u64, len: range.len() as u64 }
}
