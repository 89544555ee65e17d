#![forbid(unsafe_code)]

use std::{env, path::Path, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use mq_server::{MqArgs, copy::CopyKind};
use service::{Dimension, Need, Program, ShellArgs};
use sys::confinement::Confinement;

const EXAMPLES: &str = "Examples:
  mq-server                                              this directory, on queue /quintet
  mq-server --queue /files --fifo-dir fifos --root data --dispatch event --copy splice
  mq-server --framed --metrics 127.0.0.1:9100 --request-timeout 10s
  mq-server /files 128 2048                              queue, messages and bytes of each, as the original had it
  mq-server --list-backends

Exit status: 0 after a drain asked for by SIGTERM or SIGINT; 2 bad usage; 1 anything else.";

/// Serves files by POSIX message queue and FIFO, with every way to dispatch requests and every way to copy
#[derive(Debug, Parser)]
#[command(version, max_term_width = 120, after_help = EXAMPLES)]
struct Arguments {
    #[command(flatten)]
    mq: MqArgs,
    #[command(flatten)]
    shell: ShellArgs,
}

impl Program for Arguments {
    const NAME: &'static str = "mq-server";
    const CALLS_OF_FLAGS: &'static [&'static str] = &["io_uring_enter", "io_uring_setup"];
    const CALLS: &'static [&'static str] = &[
        "epoll_create1",
        "epoll_ctl",
        "epoll_wait",
        "flock",
        "getdents64",
        "mq_getsetattr",
        "mq_open",
        "mq_timedreceive",
        "mq_timedsend",
        "mq_unlink",
        "openat2",
        "pread64",
        "sendfile",
        "sendmsg",
        "splice",
        "tee",
        "timerfd_settime",
        "unlinkat",
        "vmsplice",
    ];

    fn check(&self) -> Result<(), String> {
        self.mq.check()
    }

    fn check_start(&self) -> anyhow::Result<()> {
        service::check_directory(&self.mq.root).context("--root")?;
        self.mq.fifo_dir.as_deref().map_or(Ok(()), service::check_directory).context("--fifo-dir")
    }

    fn shell(&self) -> &ShellArgs {
        &self.shell
    }

    /// Without a directory of FIFOs a private one is made among the temporary files.
    fn kept(&self) -> Confinement {
        let mut kept = Confinement::default();
        kept.read(&self.mq.root);
        // The size of a new queue depends on what is allowed.
        kept.read(Path::new(sys::mqueue::LIMITS));
        // Landlock knows a queue as a file of this file system, and only where that is mounted.
        let queues = Path::new(sys::mqueue::MOUNTED);
        kept.write(queues);
        if self.mq.copy == CopyKind::Uring {
            kept.calls.extend(Self::CALLS_OF_FLAGS);
        }
        if !queues.is_dir() {
            kept.obstacle =
                Some("queues can be allowed only where /dev/mqueue is mounted (mount -t mqueue mqueue /dev/mqueue)");
        }
        kept.write(self.mq.fifo_dir.as_deref().unwrap_or(&env::temp_dir()));
        kept
    }

    fn all_needs(&self) -> Vec<Need> {
        self.mq.needs()
    }

    fn dimensions() -> Vec<Dimension> {
        MqArgs::dimensions()
    }
}

fn main() -> ExitCode {
    service::main_without_sockets(|Arguments { mq, .. }, shell| mq_server::serve(&mq, shell))
}
