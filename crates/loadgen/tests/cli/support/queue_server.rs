//! Message queue servers of a few lines whose behaviour a test decides, request by request.

use std::{
    io::Write,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use sys::mqueue::{Queue, QueueName, QueueSize};
use tempfile::TempDir;
use wire::mserve::{Header, Request, Status};

/// Behaviour after a request. Each request has a thread of its own.
#[derive(Clone, Default)]
pub(crate) struct Act {
    /// Written into the FIFO one after the other, with a pause of `between`; none is a FIFO that is never opened.
    pub(crate) data: Option<Vec<Vec<u8>>>,
    /// Written into the status FIFO when the other has been closed.
    pub(crate) status: Option<Vec<u8>>,
    pub(crate) between: Duration,
    /// The FIFO is kept open for ever.
    pub(crate) holds: bool,
}

impl Act {
    pub(crate) fn say(bytes: &[u8]) -> Self {
        Self { data: Some(vec![bytes.to_vec()]), ..Self::default() }
    }

    pub(crate) fn framed(status: Status, length: usize, body: &[u8]) -> Self {
        Self::say(&[&header(status, length), body].concat())
    }

    pub(crate) fn with_status(self, status: Status, length: usize) -> Self {
        Self { status: Some(header(status, length)), ..self }
    }
}

pub(crate) fn header(status: Status, length: usize) -> Vec<u8> {
    Header { status, length: length as u64 }.encode().to_vec()
}

/// A queue, a directory for FIFOs, and a thread that answers, unless it is deaf. All are gone when it is dropped.
pub(crate) struct QueueServer {
    name: QueueName,
    fifos: TempDir,
    is_over: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    receiver: Option<JoinHandle<()>>,
}

impl QueueServer {
    /// Starts a server. `behave` is asked once per request, with a number that counts them from 0.
    pub(crate) fn start(behave: impl Fn(u64, &Request<'_>) -> Act + Send + 'static) -> Self {
        let (mut server, queue) = Self::make(8);
        let (over, received, fifos) =
            (Arc::clone(&server.is_over), Arc::clone(&server.received), server.fifos.path().to_path_buf());
        server.receiver = Some(std::thread::spawn(move || receive(&queue, &fifos, &over, &received, behave)));
        server
    }

    /// Makes a queue for so many messages that nobody receives.
    pub(crate) fn deaf(messages_max: usize) -> Self {
        Self::make(messages_max).0
    }

    fn make(messages_max: usize) -> (Self, Queue) {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name: QueueName =
            format!("/loadgen-test-{}-{number}", std::process::id()).parse().expect("the name of a queue");
        let size = QueueSize { messages_max, message_bytes_max: 512 };
        let queue = Queue::create(&name, size, 0o600).expect("a queue");
        let fifos = super::private_directory();
        let (is_over, received) = (Arc::default(), Arc::default());
        (Self { name, fifos, is_over, received, receiver: None }, queue)
    }

    pub(crate) fn name(&self) -> String {
        self.name.to_string()
    }

    pub(crate) fn fifos(&self) -> &str {
        self.fifos.path().to_str().expect("a temporary directory's name is text")
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::SeqCst)
    }

    /// Returns the files in the directory, sorted.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.fifos.path()).expect("a directory");
        let mut left: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        left.sort();
        left
    }
}

impl Drop for QueueServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        Queue::unlink(&self.name).expect("it is there");
        if let Some(receiver) = self.receiver.take() {
            receiver.join().expect("it ends");
        }
    }
}

fn receive(
    queue: &Queue,
    fifos: &Path,
    over: &AtomicBool,
    received: &AtomicU64,
    behave: impl Fn(u64, &Request<'_>) -> Act,
) {
    let mut buffer = vec![0; queue.size().message_bytes_max];
    while !over.load(Ordering::SeqCst) {
        let Some(message) = queue.receive_within(&mut buffer, Duration::from_millis(5)).expect("a queue") else {
            continue;
        };
        let request = Request::parse(&buffer[..message.bytes]).expect("a request");
        let act = behave(received.fetch_add(1, Ordering::SeqCst), &request);
        let path = |name: &[u8]| fifos.join(std::str::from_utf8(name).expect("text"));
        let (data, status) = (path(request.fifo), request.status_fifo.map(path));
        std::thread::spawn(move || perform(&act, &data, status.as_deref()));
    }
}

fn perform(act: &Act, data: &Path, status: Option<&Path>) {
    // A client that has gone is none of this server's business.
    let open = |path: &Path| std::fs::metadata(path).ok().filter(|it| it.file_type().is_fifo()).map(|_| writer(path));
    if let Some(pieces) = &act.data
        && let Some(Some(mut fifo)) = open(data)
    {
        for (index, piece) in pieces.iter().enumerate() {
            if index > 0 {
                std::thread::sleep(act.between);
            }
            let _ = fifo.write_all(piece);
        }
        if act.holds {
            // As long as the test runs.
            let _kept = std::os::fd::IntoRawFd::into_raw_fd(fifo);
        }
    }
    if let Some(bytes) = &act.status
        && let Some(Some(mut fifo)) = status.and_then(open)
    {
        let _ = fifo.write_all(bytes);
    }
}

/// Opens a FIFO for writing; `None` if nobody reads it.
fn writer(path: &Path) -> Option<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().write(true).custom_flags(flags).open(path).ok()?;
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty()).expect("a FIFO");
    Some(file)
}
