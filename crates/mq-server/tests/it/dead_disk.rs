//! A disk that does not answer: a FUSE file system (<linux/fuse.h>) that never replies to a read.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use rustix::{
    io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd},
    process::geteuid,
};
use testkit::eventually;

use crate::{
    client::{Fifo, fetch},
    world::World,
};

const DEVICE: &str = "/dev/fuse";
/// Bytes of the largest request: requests are read whole.
const REQUEST_BYTES: usize = 1 << 17;
const HEADER_BYTES: usize = 40;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;
/// Makes a close send no request.
const FOPEN_NOFLUSH: u32 = 1 << 5;
const FILE: &[u8] = b"dead";
const FILE_NODE: u64 = 2;
const FILE_BYTES: u64 = 1 << 20;

/// A file system with one file that cannot be read, until this is dropped.
struct DeadDisk {
    path: PathBuf,
    was_read: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl DeadDisk {
    /// Mounts it; `None` with a message if that is not possible.
    fn mount(path: &Path) -> Option<Self> {
        let device = OpenOptions::new().read(true).write(true).open(DEVICE);
        let (Ok(device), true) = (device, geteuid().is_root()) else {
            eprintln!("skipped: only root can mount, and {DEVICE} is needed");
            return None;
        };
        // The descriptor that mount(8) inherits.
        let inherited = fcntl_dupfd_cloexec(&device, 100).unwrap();
        fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", inherited.as_raw_fd());
        let mounted = Command::new("mount").args(["-i", "-t", "fuse", "-o", &options, "dead"]).arg(path).output();
        drop(inherited);
        if !mounted.as_ref().is_ok_and(|mounted| mounted.status.success()) {
            eprintln!("skipped: {mounted:?}");
            return None;
        }
        let was_read = Arc::<AtomicBool>::default();
        let read = Arc::clone(&was_read);
        let server = Some(thread::spawn(move || serve(device, &read)));
        Some(Self { path: path.to_owned(), was_read, server })
    }
}

impl Drop for DeadDisk {
    /// Unmounts it: every process that waits for the disk gets an error.
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-f", "-l"]).arg(&self.path).status();
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// Answers the kernel until the file system is unmounted.
fn serve(mut device: File, was_read: &AtomicBool) {
    let mut request = vec![0; REQUEST_BYTES];
    while let Ok(bytes) = device.read(&mut request) {
        let field = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        let opcode = u32::from_ne_bytes(request[4..8].try_into().unwrap());
        let (unique, node) = (field(8), field(16));
        let answer = match opcode {
            READ => {
                was_read.store(true, Ordering::SeqCst);
                continue;
            }
            FORGET | BATCH_FORGET | INTERRUPT => continue,
            _ => answer(opcode, node, &request[HEADER_BYTES..bytes]),
        };
        let (error, body) = answer.map_or_else(|error| (-error, Vec::new()), |body| (0, body));
        let length = u32::try_from(16 + body.len()).unwrap();
        let mut message = words([length]);
        message.extend(error.to_ne_bytes());
        message.extend(unique.to_ne_bytes());
        message.extend(body);
        let _ = device.write(&message); // The process that asked may be gone.
    }
}

fn answer(opcode: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
    let hour = [3600_u64, 3600];
    match opcode {
        // Version 7.31, read ahead 64 KiB, and nothing optional; behind max_write everything is 0.
        INIT => Ok([words([7, 31, 64 << 10, 0, 12 | 9 << 16, 64 << 10, 1]), vec![0; 36]].concat()),
        LOOKUP if body.strip_suffix(b"\0") == Some(FILE) => {
            Ok([longs([FILE_NODE, 0]), longs(hour), words([0, 0]), attributes(FILE_NODE)].concat())
        }
        LOOKUP => Err(ENOENT),
        GETATTR => Ok([longs([hour[0]]), words([0, 0]), attributes(node)].concat()),
        OPEN => Ok([longs([0]), words([FOPEN_NOFLUSH, 0])].concat()),
        RELEASE => Ok(Vec::new()),
        _ => Err(ENOSYS),
    }
}

fn attributes(node: u64) -> Vec<u8> {
    let (mode, bytes) = if node == FILE_NODE { (0o100_644, FILE_BYTES) } else { (0o040_755, 0) };
    // Inode, size, blocks and three times; their nanoseconds; mode, links, user, group, device, block size, flags.
    [longs([node, bytes, 0, 1, 1, 1]), words([0, 0, 0]), words([mode, 1, 0, 0, 0, 4096, 0])].concat()
}

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

fn longs<const N: usize>(longs: [u64; N]) -> Vec<u8> {
    longs.into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// One thread waits in the kernel, and nothing can be done about that. All other requests are served, and the server stops
/// in time.
#[test]
fn a_dead_disk_holds_one_thread_and_not_the_queue() {
    for copy in ["splice", "read-write"] {
        let world = World::new();
        let contents = world.file("file", 100_000);
        std::fs::create_dir(world.root().join("disk")).unwrap();
        let mut stuck =
            world.process(&["--dispatch", "pool", "--workers", "2", "--copy", copy, "--drain-timeout", "50ms"]);
        // The kernel holds the FIFO's lock while it splices from the disk. Until the disk is gone, no process can close the FIFO
        // or wait for the server's end. So the disk is mounted last.
        let waits = Fifo::open(&world);
        let Some(disk) = DeadDisk::mount(&world.root().join("disk")) else { return };
        world.send(format!("disk/dead;{}", waits.name));
        eventually("the disk is asked", || Ok(disk.was_read.load(Ordering::SeqCst))).unwrap();
        for _ in 0..10 {
            assert!(fetch(&world, "file").unwrap() == contents, "{copy}");
        }
        stuck.terminate().unwrap();
        eventually("the queue is released although a thread is stuck", || Ok(world.queued().is_none())).unwrap();
        // The next server need not wait for that thread.
        let mut next = world.process(&["--copy", copy]);
        assert!(fetch(&world, "file").unwrap() == contents, "{copy}");
        assert_eq!(next.stop().unwrap().code(), Some(0));
        // Nor does the end of the process, as soon as the kernel releases that thread.
        drop(disk);
        assert_eq!(stuck.wait().unwrap().code(), Some(0), "{copy}: {}", stuck.stderr());
    }
}
