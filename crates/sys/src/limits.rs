//! Limits the kernel puts on this process (getrlimit(2)), and what it has inherited.

use nix::libc;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one and returns what it allows.
pub fn raise_open_files() -> u64 {
    raise(Resource::Nofile)
}

/// The same for the bytes of all message queues of this user.
pub fn raise_message_queue_bytes() -> u64 {
    raise(Resource::Msgqueue)
}

/// Returns the hard limit of open files.
pub fn open_files_max() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// The same for the bytes of all message queues of this user.
pub fn message_queue_bytes_max() -> u64 {
    getrlimit(Resource::Msgqueue).maximum.unwrap_or(u64::MAX)
}

fn raise(resource: Resource) -> u64 {
    let limit = getrlimit(resource);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where even that is forbidden, the limit stays what it was.
    let _ = setrlimit(resource, raised);
    getrlimit(resource).current.unwrap_or(u64::MAX)
}

/// Keeps the programs that this process starts from inheriting descriptors, but for their standard streams: those that
/// were inherited by the process itself, too. Kernels before 5.11 cannot, and whoever started the process answers for its
/// descriptors there.
pub fn close_descriptors_on_exec() {
    let (first, last, flags) = (3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: close_range(2) with this flag closes nothing and touches no memory.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
}
