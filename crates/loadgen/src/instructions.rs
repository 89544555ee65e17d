//! Instructions that another process executes, counted by the processor: perf_event_open(2).
//!
//! Virtual machines seldom have such a counter, and containers seldom allow it. The reason is then part of the result.

use std::{collections::BTreeSet, io};

use nix::errno::Errno;
use parking_lot::Mutex;
use perf_event::{
    Builder, Counter,
    events::{Event, Hardware},
};
use procfs::{
    ProcError,
    process::{Process, TasksIter},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of times that the threads are listed anew when some begin or end meanwhile.
const ATTEMPTS: usize = 10;

/// Modes of the processor in which instructions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountedModes {
    UserAndKernel,
    /// This user may not see the kernel's: /proc/sys/kernel/perf_event_paranoid is 2 or more.
    User,
}

/// Reasons why instructions are not counted.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    #[error("perf_event_open: {0}")]
    Open(io::Error),
    #[error("the threads of process {pid} cannot be listed: {why}")]
    Threads { pid: u32, why: ProcError },
    #[error("process {0} begins and ends threads all the time")]
    ThreadsChanging(u32),
    #[error("the counter cannot be read: {0}")]
    Read(io::Error),
    #[error("the counter was shared with others, and did not count all the time")]
    Shared,
}

/// Counter of all threads of one process, also those that begin later.
#[derive(Debug)]
pub struct InstructionCounter {
    modes: CountedModes,
    /// One per thread; each includes the threads that its own has begun since.
    threads: Mutex<Vec<Counter>>,
}

impl InstructionCounter {
    /// Begins to count.
    ///
    /// # Errors
    /// The machine has no such counter, this user may not use it, or there is no such process.
    pub fn for_process(pid: u32) -> Result<Self, CounterError> {
        Self::of_event(pid, Hardware::INSTRUCTIONS.into())
    }

    fn of_event(pid: u32, event: Event) -> Result<Self, CounterError> {
        let (modes, threads) = match attach_to_all(pid, &event, CountedModes::UserAndKernel) {
            Err(CounterError::Open(why)) if why.kind() == io::ErrorKind::PermissionDenied => {
                (CountedModes::User, attach_to_all(pid, &event, CountedModes::User)?)
            }
            attached => (CountedModes::UserAndKernel, attached?),
        };
        Ok(Self { modes, threads: Mutex::new(threads) })
    }

    #[must_use]
    pub fn modes(&self) -> CountedModes {
        self.modes
    }

    /// Returns the number of instructions since this began to count.
    ///
    /// # Errors
    /// The number would not be exact, or is not to be had.
    pub fn read(&self) -> Result<u64, CounterError> {
        let mut threads = self.threads.lock();
        threads.iter_mut().try_fold(0, |sum: u64, thread| {
            let read = thread.read_count_and_time().map_err(CounterError::Read)?;
            if read.time_running < read.time_enabled { Err(CounterError::Shared) } else { Ok(sum + read.count) }
        })
    }
}

/// Attaches a counter to every thread. A thread that begins between listing and counting is either missed or counted twice, so the
/// threads must be the same before and after.
fn attach_to_all(pid: u32, event: &Event, modes: CountedModes) -> Result<Vec<Counter>, CounterError> {
    for _ in 0..ATTEMPTS {
        let before = threads(pid)?;
        let attached: Result<Vec<_>, _> = before.iter().map(|&thread| attach(thread, event, modes)).collect();
        let after = threads(pid)?;
        match attached {
            // It has ended meanwhile.
            Err(why) if why.raw_os_error() == Some(Errno::ESRCH as i32) => {}
            Err(why) => return Err(CounterError::Open(why)),
            Ok(counters) if before == after => return Ok(counters),
            Ok(_) => {}
        }
    }
    Err(CounterError::ThreadsChanging(pid))
}

fn attach(thread: i32, event: &Event, modes: CountedModes) -> io::Result<Counter> {
    let mut builder = Builder::new().kind(event.clone()).observe_pid(thread);
    builder.inherit(true).inherit_thread(true).enabled(true).exclude_kernel(modes == CountedModes::User);
    builder.build()
}

fn threads(pid: u32) -> Result<BTreeSet<i32>, CounterError> {
    let process = i32::try_from(pid).map_err(|_| ProcError::NotFound(None)).and_then(Process::new);
    let tasks = process.and_then(|process| process.tasks());
    let tasks: TasksIter = tasks.map_err(|why| CounterError::Threads { pid, why })?;
    Ok(tasks.flatten().map(|task| task.tid).collect())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Read as _, Write as _},
        process::{Command, Stdio},
        sync::mpsc,
    };

    use perf_event::events::Software;

    use super::*;
    use crate::{
        clock::{self, MILLISECOND},
        usage::ServerProbe,
    };

    const SPIN: u64 = 40 * MILLISECOND;

    fn spin() {
        let start = clock::thread_cpu();
        while clock::thread_cpu() - start < SPIN {
            std::hint::spin_loop();
        }
    }

    /// Spins, when told to, in a thread that is there from the beginning and in one that is not.
    #[test]
    #[ignore = "it is the other process of the test below"]
    fn other_process() {
        let (go, told) = mpsc::channel::<()>();
        let early = std::thread::spawn(move || told.recv().map(|()| spin()));
        println!("\nready");
        if io::stdin().read_exact(&mut [0]).is_ok() {
            go.send(()).expect("it waits");
            std::thread::spawn(spin).join().expect("it spins");
        }
        drop(go);
        drop(early.join());
        println!("done");
        drop(io::stdin().read_exact(&mut [0]));
    }

    /// Instructions need a processor that counts them; the kernel's own clock of tasks is counted in the same way.
    #[test]
    fn all_threads_are_counted_even_those_that_begin_later() {
        let arguments =
            ["--exact", "instructions::tests::other_process", "--ignored", "--nocapture", "--test-threads=1"];
        let mut other = Command::new(std::env::current_exe().expect("we run"));
        let mut other = other.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = other.stdin.take().expect("piped");
        let mut lines = BufReader::new(other.stdout.take().expect("piped")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "ready"));

        match InstructionCounter::of_event(other.id(), Software::TASK_CLOCK.into()) {
            Ok(counter) => {
                let probe = ServerProbe::open(other.id()).expect("it lives");
                let before = (probe.read_before().expect("readable"), counter.read().expect("readable"));
                stdin.write_all(b"g").expect("it listens");
                assert!(lines.any(|line| line == "done"));
                let after = (probe.read_after().expect("readable"), counter.read().expect("readable"));
                let (counted, used) = ((after.1 - before.1) as f64 / 1e9, after.0.cpu_s - before.0.cpu_s);
                assert!(used >= 2.0 * SPIN as f64 / 1e9, "{used} s");
                assert!((counted / used - 1.0).abs() < 0.1, "{counted} s of {used} s");
            }
            // Containers forbid it, and some distributions do unless one is root.
            Err(CounterError::Open(why)) if why.kind() == io::ErrorKind::PermissionDenied => {
                eprintln!("skipped: counting is not allowed here");
            }
            Err(why) => panic!("{why}"),
        }
        drop(stdin);
        assert!(other.wait().expect("it ends").success());
    }

    #[test]
    fn a_machine_without_a_counter_says_so() {
        let counter = InstructionCounter::for_process(std::process::id());
        match counter {
            Ok(counter) => assert!(counter.read().is_ok_and(|instructions| instructions > 0)),
            Err(CounterError::Open(why)) => assert!(why.raw_os_error().is_some()),
            // Other tests begin and end all the time.
            Err(why) => assert!(matches!(why, CounterError::ThreadsChanging(_)), "{why}"),
        }
        assert!(matches!(InstructionCounter::for_process(u32::MAX), Err(CounterError::Threads { .. })));
    }
}
