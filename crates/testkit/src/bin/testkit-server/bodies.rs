//! Bodies: the beginning of the content file, as every kind of segment.
//!
//! | kind | sent as |
//! |---|---|
//! | `shared`, `file`, `mapped` | that segment, behind the line in memory |
//! | `pipe` | a cached pipe behind the line in memory |
//! | `headed` | one cached pipe that holds the line, too |
//! | `chain` | the line in memory and cached pipes, each with no more than a scratch pipe takes |
//! | `registered` | the line in memory and registered memory (`--registered`) |
//! | `lent` | the line in memory and bytes N to 2 N, in registered memory that is lent for this reply alone |
//! | `pages` | the line in memory and pages of the mapped file |

use std::{
    collections::HashMap,
    fs::File,
    io,
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use proto::{CachedPipe, FileRegion, MappedFile, Outbox, Pipe, PipeRegion};
use sys::{registered::Region, transfer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Shared,
    File,
    Mapped,
    Pipe,
    Headed,
    Chain,
    Pages,
    Registered,
    Lent,
}

impl Kind {
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
            _ => return None,
        })
    }
}

/// By head and body.
type Pipes = HashMap<(Bytes, Range<usize>), Arc<CachedPipe>>;

/// Where bodies come from.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    memory: Bytes,
    mapped: Option<Arc<MappedFile>>,
    /// The content once more.
    registered: Option<Bytes>,
    region: Option<Arc<Region>>,
    /// Bytes of a link of a chain.
    link_bytes: usize,
    pipes: Mutex<Pipes>,
    fallbacks: Arc<AtomicU64>,
}

impl Shelf {
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

    /// The content in memory that a driver may register.
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

    /// How often something was not sent as what it is.
    pub(crate) fn fallbacks(&self) -> u64 {
        self.fallbacks.load(Ordering::Relaxed)
    }

    /// Puts `line` and the first `len` bytes into `out`; `None` when there are not so many.
    pub(crate) fn push(&self, kind: Kind, len: usize, line: &[u8], out: &mut Outbox) -> Option<()> {
        let mapped = self.mapped.as_ref().filter(|_| len <= self.memory.len())?;
        let line = [line, b"\n"].concat();
        if kind == Kind::Headed {
            out.push_pipe(PipeRegion::cached(&self.pipe(mapped, line.into(), 0..len).ok()?));
            return Some(());
        }
        out.inline().extend_from_slice(&line);
        match kind {
            Kind::Shared => out.push_shared(&self.memory.slice(..len)),
            Kind::Registered => out.push_uncopied(&self.registered.as_ref()?.slice(..len)),
            Kind::Lent => out.push_uncopied(&self.lend(self.memory.get(len..2 * len)?)?),
            Kind::Mapped => out.push_mapped(mapped.bytes.slice(..len)),
            Kind::File => out.push_file(region(mapped, 0..len)),
            Kind::Pages => out.push_pipe(PipeRegion::pages(mapped, 0..len as u64)),
            Kind::Headed | Kind::Pipe => {
                out.push_pipe(PipeRegion::cached(&self.pipe(mapped, Bytes::new(), 0..len).ok()?));
            }
            Kind::Chain => {
                for start in (0..len).step_by(self.link_bytes) {
                    let link = start..len.min(start + self.link_bytes);
                    out.push_pipe(PipeRegion::cached(&self.pipe(mapped, Bytes::new(), link).ok()?));
                }
            }
        }
        Some(())
    }

    /// A copy in pages that were free.
    fn lend(&self, bytes: &[u8]) -> Option<Bytes> {
        let fill = |pages: &mut [u8]| {
            pages.copy_from_slice(bytes);
            Ok(())
        };
        self.region.as_ref()?.lend(bytes.len(), fill).ok()?
    }

    /// The pipe that holds `head` and these bytes of the file.
    fn pipe(&self, mapped: &MappedFile, head: Bytes, range: Range<usize>) -> io::Result<Arc<CachedPipe>> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Room in registered memory beside the content.
const LENT_MAX: usize = 32 << 20;
/// A head has a page of the pipe to itself.
const PAGE: usize = 4096;

fn region(mapped: &MappedFile, range: Range<usize>) -> FileRegion {
    FileRegion { file: Arc::clone(&mapped.file), offset: range.start as u64, len: range.len() as u64 }
}
