//! The flags of mq-server, beside those that all servers share.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bytesize::ByteSize;
use clap::Args;
use service::{Budget, Dimension, Limit, Need};
use sys::{
    affinity,
    mqueue::{QueueName, QueueSize, allowed_size},
};

use crate::{
    Options,
    copy::{CopyKind, CopyOptions},
    dispatch::{DispatchKind, WorkerOptions},
};

/// Size of a new queue by default: the kernel's own, which needs no privilege.
const DEFAULT_SIZE: QueueSize = QueueSize { messages_max: 10, message_bytes_max: 8192 };

/// Bytes that the kernel charges for each message beside its own (mq_overview(7)).
const MESSAGE_OVERHEAD_BYTES: u64 = 96;

/// Unit of the kernel's limits of pipes, in bytes.
const PAGE_BYTES: u64 = 4 << 10;

/// Limit of `--buffer-size`.
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// Flags for what is served, and how.
#[derive(Clone, Debug, Args)]
pub struct MqArgs {
    /// The message queue: a slash and a name [default: /quintet]
    #[arg(long, value_name = "/NAME", conflicts_with = "queue_operand")]
    pub queue: Option<QueueName>,

    /// The same as --queue
    #[arg(value_name = "QUEUE")]
    pub queue_operand: Option<QueueName>,

    /// The same as --max-messages
    #[arg(value_name = "MAX-MESSAGES", conflicts_with = "max_messages", value_parser = service::at_least_one)]
    pub max_messages_operand: Option<usize>,

    /// The same as --message-size
    #[arg(value_name = "MESSAGE-SIZE", conflicts_with = "message_size", value_parser = service::at_least_one)]
    pub message_size_operand: Option<usize>,

    /// Messages that the queue holds before senders wait
    /// [default: that of the queue there is; else 10, or what fs.mqueue.msg_max allows]
    #[arg(long, value_name = "N", value_parser = service::at_least_one)]
    pub max_messages: Option<usize>,

    /// Bytes of the longest message [default: that of the queue there is; else 8192, or what fs.mqueue.msgsize_max allows]
    #[arg(long, value_name = "N", value_parser = service::at_least_one)]
    pub message_size: Option<usize>,

    /// Permissions of a queue that is created, in octal: they decide who may send requests
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = service::octal_mode)]
    pub queue_mode: u32,

    /// Directory in which clients make their FIFOs, theirs alone (mkdir -m 700)
    /// [default: a private one, removed at the end]
    #[arg(long, value_name = "DIR")]
    pub fifo_dir: Option<PathBuf>,

    /// Directory that is served; nothing outside of it is
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub root: PathBuf,

    /// How requests are given to threads; see --list-backends
    #[arg(long, value_name = "NAME", default_value_t)]
    pub dispatch: DispatchKind,

    /// How files are copied into FIFOs; see --list-backends
    #[arg(long, value_name = "NAME", default_value_t)]
    pub copy: CopyKind,

    /// Threads of a pool or runtime, and threads that an elastic pool keeps [default: twice the available processors]
    #[arg(long, value_name = "N", value_parser = service::at_least_one)]
    pub workers: Option<usize>,

    /// Limit of the threads of elastic and thread-per-request
    #[arg(long, value_name = "N", default_value = "64", value_parser = service::at_least_one)]
    pub max_workers: usize,

    /// Time after which an elastic pool ends a thread without work
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = service::duration)]
    pub worker_idle: Duration,

    /// Buffer of read-write, between a read and a write
    #[arg(long, value_name = "SIZE", default_value = "128KiB", value_parser = service::positive_size)]
    pub buffer_size: ByteSize,

    /// Capacity to which FIFOs are enlarged for files that need it (F_SETPIPE_SZ; above fs.pipe-max-size it needs
    /// privileges); 4KiB leaves them as they are
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = service::positive_size)]
    pub pipe_size: ByteSize,

    /// Limit of the bytes of all enlarged FIFOs together; further FIFOs stay as they are
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = service::positive_size)]
    pub pipe_budget: ByteSize,

    /// Limit of the jobs that wait for their clients; beyond it, the one that has waited longest is ended
    #[arg(long, value_name = "N", default_value = "1024", value_parser = service::at_least_one)]
    pub max_waiting: usize,

    /// Limit of the time for a whole answer, from the message to the last byte
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = service::positive_duration)]
    pub request_timeout: Duration,

    /// Time after which a client that neither opens its FIFO nor takes a byte is given up
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = service::positive_duration)]
    pub stall_timeout: Duration,

    /// Send a header with status and length in front of each answer
    #[arg(long)]
    pub framed: bool,
}

impl MqArgs {
    /// Checks flags that depend on each other.
    ///
    /// # Errors
    /// The flags do not go together; the text says why.
    pub fn check(&self) -> Result<(), String> {
        if self.workers.is_some_and(|workers| workers > self.max_workers) && self.dispatch == DispatchKind::Elastic {
            let workers = self.workers.unwrap_or_default();
            return Err(format!("--workers {workers} is more than --max-workers {}", self.max_workers));
        }
        if self.buffer_size.as_u64() > BUFFER_BYTES_MAX {
            return Err(format!("--buffer-size {}: must be at most 1 GiB", self.buffer_size));
        }
        Ok(())
    }

    /// Returns the name of the queue.
    ///
    /// # Errors
    /// Never: the default is a valid name.
    pub fn queue(&self) -> anyhow::Result<QueueName> {
        let said = self.queue.as_ref().or(self.queue_operand.as_ref()).cloned();
        said.map_or_else(|| Ok("/quintet".parse()?), Ok)
    }

    /// Returns the size of a new queue; true if an existing one must have the same.
    pub fn queue_size(&self) -> (QueueSize, bool) {
        let messages = self.max_messages.or(self.max_messages_operand);
        let bytes = self.message_size.or(self.message_size_operand);
        let allowed = allowed_size();
        let size = QueueSize {
            messages_max: messages.unwrap_or_else(|| DEFAULT_SIZE.messages_max.min(allowed.messages_max)),
            message_bytes_max: bytes.unwrap_or_else(|| DEFAULT_SIZE.message_bytes_max.min(allowed.message_bytes_max)),
        };
        (size, messages.is_some() || bytes.is_some())
    }

    /// Limits of the machine that matter to a queue and to pipes of these sizes.
    pub fn needs(&self) -> Vec<Need> {
        let wanted = QueueSize {
            messages_max: self.max_messages.or(self.max_messages_operand).unwrap_or(DEFAULT_SIZE.messages_max),
            message_bytes_max: self
                .message_size
                .or(self.message_size_operand)
                .unwrap_or(DEFAULT_SIZE.message_bytes_max),
        };
        let (messages, bytes) = (wanted.messages_max as u64, wanted.message_bytes_max as u64);
        let charged = messages.saturating_mul(bytes + MESSAGE_OVERHEAD_BYTES);
        let pipe_pages = self.pipe_budget.as_u64() / PAGE_BYTES;
        vec![
            Need::new(Limit::Sysctl("fs.mqueue.msg_max"), messages, "messages in the queue (--max-messages)"),
            Need::new(Limit::Sysctl("fs.mqueue.msgsize_max"), bytes, "bytes of a message (--message-size)"),
            Need::new(Limit::MessageQueueBytes, charged, "one queue of this size"),
            Need::new(Limit::Sysctl("fs.pipe-max-size"), self.pipe_size.as_u64(), "bytes of a FIFO (--pipe-size)"),
            Need::new(Limit::Sysctl("fs.pipe-user-pages-soft"), pipe_pages, "pages of all FIFOs (--pipe-budget)"),
            Need::new(
                Limit::OpenFiles,
                4 * self.max_waiting as u64,
                "clients that wait (--max-waiting), each with its file and its FIFO",
            ),
        ]
    }

    pub fn worker_options(&self) -> WorkerOptions {
        let most = if self.dispatch == DispatchKind::Elastic { self.max_workers } else { usize::MAX };
        let workers = self.workers.unwrap_or_else(|| most.min(2 * affinity::available()));
        WorkerOptions { workers, workers_max: self.max_workers, worker_idle: self.worker_idle }
    }

    pub fn copy_options(&self, pipe_budget: &Budget) -> CopyOptions {
        let buffer_bytes = usize::try_from(self.buffer_size.as_u64()).unwrap_or(usize::MAX);
        CopyOptions { buffer_bytes, pipe_budget: pipe_budget.clone() }
    }

    pub fn options(&self, drain_timeout: Duration) -> Options {
        Options {
            request_timeout: self.request_timeout,
            stall_timeout: self.stall_timeout,
            drain_timeout,
            waiting_max: self.max_waiting,
            is_framed: self.framed,
            pipe_bytes: self.pipe_size.as_u64(),
        }
    }

    /// Returns a file of the root for the example that is printed at the start.
    pub fn example_file(&self) -> PathBuf {
        let entries = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
            .map(|entry| PathBuf::from(entry.file_name()))
            .collect();
        files.sort();
        files.into_iter().next().unwrap_or_else(|| Path::new("FILE").to_owned())
    }

    /// Returns the choices, for `--list-backends`.
    pub fn dimensions() -> Vec<Dimension> {
        vec![Dimension::of("dispatch", "--dispatch", &DispatchKind::default()), CopyKind::dimension()]
    }
}
