//! Ways in which the threads talk to the kernel.

use clap::ValueEnum;

/// One of the engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineKind {
    /// Edge-triggered epoll, one recv and one send per batch
    #[default]
    Epoll,
    /// io_uring: multishot receives, and one submission for all the sends of a turn (Linux 6.1)
    Uring,
}
