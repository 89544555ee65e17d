//! Limits the kernel puts on this process (getrlimit(2)).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one and returns what it allows.
pub fn raise_open_files() -> u64 {
    raise(Resource::Nofile)
}

/// The same for the bytes of all message queues of this user.
pub fn raise_message_queue_bytes() -> u64 {
    raise(Resource::Msgqueue)
}

fn raise(resource: Resource) -> u64 {
    let limit = getrlimit(resource);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where even that is forbidden, the limit stays what it was.
    let _ = setrlimit(resource, raised);
    getrlimit(resource).current.unwrap_or(u64::MAX)
}
