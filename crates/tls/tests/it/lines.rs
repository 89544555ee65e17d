//! A line protocol whose replies are every kind of segment.
//!
//! | line | reply |
//! |---|---|
//! | `inline N`, `shared N`, `file N`, `pages N`, `mapped N` | N bytes of the content, as that kind of segment |
//! | `pipe N` | the same, from a cached pipe |
//! | `slow N` | N bytes of a file whose bytes are never in the page cache as far as the kernel tells |
//! | `later N`, `hold N` | the same as `inline N`, from another thread; `hold` takes no line before that |
//! | `empty` | nothing, from another thread; takes no line before that |
//! | `instant` | the same, at once |
//! | `drop` | none: the promise is dropped |
//! | `names` | what the layer has agreed with the client |
//! | `close`, `linger`, `ack`, `abort` | the line, and that end |

use std::{
    fs::File,
    os::fd::OwnedFd,
    sync::{Arc, atomic::AtomicU64},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use proto::{
    CachedPipe, FileRegion, Flow, MappedFile, MappedRegion, Now, Outbox, Peer, Pipe, PipeRegion, Protocol, Secured,
    Step,
};
use testkit::Content;

pub(crate) const CONTENT_BYTES: usize = 3 << 20;

pub(crate) struct Lines {
    pub(crate) content: Content,
    file: Arc<OwnedFd>,
    mapped: Arc<MappedFile>,
    slow: (Arc<OwnedFd>, Vec<u8>),
    pub(crate) idle: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Conn {
    is_holding: bool,
    names: String,
}

impl Lines {
    pub(crate) fn new() -> Self {
        let content = Content::new(CONTENT_BYTES).unwrap();
        let file = Arc::new(OwnedFd::from(File::open(content.path()).unwrap()));
        let mapped = MappedFile {
            bytes: sys::map::map_file(&file, CONTENT_BYTES).unwrap(),
            file: Arc::clone(&file),
            fallbacks: Arc::default(),
        };
        // Reads of procfs have no way not to wait.
        let slow = "/proc/version";
        let slow = (Arc::new(File::open(slow).unwrap().into()), std::fs::read(slow).unwrap());
        Self { content, file, mapped: Arc::new(mapped), slow, idle: Duration::from_secs(60) }
    }

    /// Returns the whole reply to a line.
    pub(crate) fn reply(&self, line: &str) -> Vec<u8> {
        match line.split_once(' ') {
            Some(("slow", n)) => self.slow.1[..n.parse().unwrap()].to_vec(),
            Some((_, n)) => self.content.bytes()[..n.parse().unwrap()].to_vec(),
            None if ["empty", "instant", "drop"].contains(&line) => Vec::new(),
            None => line.as_bytes().to_vec(),
        }
    }

    fn answer(&self, conn: &Conn, line: &str, out: &mut Outbox) -> Flow {
        let (kind, n) = line.split_once(' ').map_or((line, 0), |(kind, n)| (kind, n.parse().unwrap()));
        let bytes = &self.content.bytes()[..n];
        let region = FileRegion { file: Arc::clone(&self.file), offset: 0, len: n as u64 };
        match kind {
            "inline" => out.inline().extend_from_slice(bytes),
            "shared" => out.push_uncopied(&Bytes::copy_from_slice(bytes)),
            "file" => out.push_file(region),
            "slow" => out.push_file(FileRegion { file: Arc::clone(&self.slow.0), ..region }),
            "pages" => out.push_pipe(PipeRegion::pages(&self.mapped, 0..n as u64)),
            "mapped" => out.push_mapped(MappedRegion::new(&self.mapped, 0..n as u64).unwrap()),
            "pipe" => {
                let (reader, writer) = sys::transfer::pipe().unwrap();
                let (head, len) = (Bytes::copy_from_slice(&bytes[..n / 2]), n as u64);
                let file = FileRegion { offset: n as u64 / 2, len: len - len / 2, ..region };
                let pipe = Pipe { reader, writer };
                let fallbacks = Arc::<AtomicU64>::default();
                out.push_pipe(PipeRegion::cached(&Arc::new(CachedPipe { pipe, len, head, file, fallbacks })));
            }
            "later" | "hold" | "empty" | "drop" => {
                let (promise, mut reply) = (out.defer(), Outbox::default());
                reply.inline().extend_from_slice(bytes);
                let is_kept = kind != "drop";
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(1));
                    if is_kept {
                        promise.fulfil(reply);
                    }
                });
            }
            "instant" => out.defer().fulfil(Outbox::default()),
            "names" => out.inline().extend_from_slice(conn.names.as_bytes()),
            end => {
                out.inline().extend_from_slice(end.as_bytes());
                return match end {
                    "close" => Flow::Close,
                    "linger" => Flow::Linger,
                    "ack" => Flow::CloseAfterAck,
                    _ => Flow::Abort,
                };
            }
        }
        Flow::Open
    }
}

impl Protocol for Lines {
    type Conn = Conn;

    fn open(&self, _: Peer<'_>, _: Now) -> Conn {
        Conn::default()
    }

    fn on_secured(&self, conn: &mut Conn, secured: Secured<'_>) {
        let protocol = secured.protocol.map(String::from_utf8_lossy);
        let certificate = secured.client_certificate.map(<[u8]>::len);
        conn.names = format!("{protocol:?} {:?} {certificate:?}", secured.server_name);
    }

    fn on_input(&self, conn: &mut Conn, input: &[u8], _: Now, out: &mut Outbox) -> Step {
        let mut step = Step::open(0);
        conn.is_holding &= out.has_pending_replies();
        while !out.is_full() && step.flow == Flow::Open && !conn.is_holding {
            let rest = &input[step.consumed..];
            let Some(len) = rest.iter().position(|&byte| byte == b'\n') else { break };
            let line = str::from_utf8(&rest[..len]).unwrap();
            conn.is_holding = line.starts_with("hold") || ["empty", "instant"].contains(&line);
            step.flow = self.answer(conn, line, out);
            step.consumed += len + 1;
        }
        step
    }

    fn deadline(&self, _: &Conn, quiet_since: Instant) -> Option<Instant> {
        Some(quiet_since + self.idle)
    }
}
