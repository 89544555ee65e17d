//! Traces that strace(1) writes of a process, its threads and its children, with `-f`: a call in a line, or in two where another thread
//! comes between.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
};

use service::RARE_CALLS;
use sys::seccomp::UNKNOWN;
use testkit::DriverKind;

/// System calls of confined processes, by drivers.
pub(crate) type Seen = BTreeMap<String, BTreeSet<String>>;

/// System calls that are on no list of a driver's, as the server that was traced has them on its own (`Cli::CALLS`): the test server,
/// with those of TLS, which it speaks to itself in some laws of kernel TLS; and the server of the traces that began later.
const OF_TEST_SERVER: [&str; 10] =
    ["memfd_create", "poll", "pread64", "preadv2", "pwrite64", "recvmsg", "sendfile", "splice", "tee", "vmsplice"];
const OF_OTHERS: [&str; 5] = ["getdents64", "openat2", "pread64", "sendfile", "unlinkat"];

/// System calls that arguments bring along, which are on the lists of those (`service::sandbox`): the beginning of an argument,
/// and the call.
const OF_ARGUMENTS: [(&str, &str); 2] = [("--pin", "sched_setaffinity"), ("unix:", "unlink")];

/// Adds the calls of every process of a trace that names its driver, from the time on that its calls are filtered. What the filter
/// has refused counts as well, but for a process that tries whatever it may not: the list was too short.
pub(crate) fn read_whole(trace: &str, seen: &mut Seen) {
    let calls = calls(trace);
    let leaders = leaders(&calls);
    let mut processes: HashMap<&str, Process<'_>> = HashMap::new();
    let mut ended = Vec::new();
    for call in &calls {
        let leader = leaders.get(call.thread).copied().unwrap_or(call.thread);
        let process = processes.entry(leader).or_default();
        match call.name {
            "execve" if call.has_succeeded() => ended.push(mem::replace(process, Process::started_as(call.arguments))),
            "chroot" if process.is_confined => process.tries_everything = true,
            "seccomp" if call.has_succeeded() && call.arguments.starts_with("SECCOMP_SET_MODE_FILTER") => {
                process.is_confined = true;
            }
            name if process.is_confined => {
                let calls = if call.is_refused() { &mut process.refused } else { &mut process.made };
                calls.insert(name.to_owned());
            }
            _ => {}
        }
    }
    for process in ended.into_iter().chain(processes.into_values()) {
        let of_arguments = OF_ARGUMENTS.iter().filter(|(beginning, _)| process.has(beginning));
        let of_arguments: Vec<_> = of_arguments.map(|(_, call)| *call).collect();
        let refused = if process.tries_everything { BTreeSet::new() } else { process.refused };
        let Some(driver) = process.driver else { continue };
        let is_own = |call: &String| !of_arguments.contains(&&**call) && !OF_TEST_SERVER.contains(&&**call);
        add(seen, driver, process.made.into_iter().chain(refused).filter(is_own));
    }
}

/// Adds the calls of a trace that began when the process was confined.
pub(crate) fn read_confined(trace: &str, driver: &str, seen: &mut Seen) {
    let calls = calls(trace).into_iter().map(|call| call.name.to_owned());
    add(seen, driver.to_owned(), calls.filter(|call| !OF_OTHERS.contains(&&**call)));
}

/// Adds calls that are on no list of all processes'.
fn add(seen: &mut Seen, driver: String, calls: impl Iterator<Item = String>) {
    let calls = calls.filter(|call| call != UNKNOWN && !RARE_CALLS.contains(&&**call));
    seen.entry(driver).or_default().extend(calls);
}

/// A system call that has returned, or never will.
#[derive(Debug, PartialEq)]
struct Call<'a> {
    thread: &'a str,
    name: &'a str,
    /// Text behind the name, without what was written when it was resumed.
    arguments: &'a str,
    /// Text behind the last `=`.
    result: &'a str,
}

impl Call<'_> {
    fn has_succeeded(&self) -> bool {
        self.result.starts_with(|first: char| first.is_ascii_digit())
    }

    fn is_refused(&self) -> bool {
        self.result.starts_with("-1 EPERM")
    }
}

fn calls(trace: &str) -> Vec<Call<'_>> {
    let mut begun = HashMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((thread, said)) = line.split_once(' ').map(|(thread, said)| (thread, said.trim_start())) else {
            continue;
        };
        let result = said.rsplit_once(" = ").map_or("", |(_, result)| result);
        if said.starts_with("<... ") {
            if let Some((name, arguments)) = begun.remove(thread) {
                calls.push(Call { thread, name, arguments, result });
            }
        } else if let Some((name, arguments)) = said.split_once('(')
            && name.starts_with(|first: char| first.is_ascii_lowercase())
        {
            match arguments.ends_with("<unfinished ...>") {
                true => drop(begun.insert(thread, (name, arguments))),
                false => calls.push(Call { thread, name, arguments, result }),
            }
        }
    }
    calls
}

/// Returns the first thread of the process of each further one.
fn leaders<'a>(calls: &[Call<'a>]) -> HashMap<&'a str, &'a str> {
    let mut leaders = HashMap::new();
    for call in calls.iter().filter(|call| call.name.starts_with("clone") && call.arguments.contains("CLONE_THREAD")) {
        if call.has_succeeded() {
            let leader = leaders.get(call.thread).copied().unwrap_or(call.thread);
            leaders.insert(call.result, leader);
        }
    }
    leaders
}

/// A process, as far as its trace tells.
#[derive(Default)]
struct Process<'a> {
    /// Word behind `--driver`, if it is a driver's name.
    driver: Option<String>,
    arguments: Vec<&'a str>,
    is_confined: bool,
    /// True once it has tried to change its root, as the law of the filter has it do, and no server does.
    tries_everything: bool,
    made: BTreeSet<String>,
    refused: BTreeSet<String>,
}

impl<'a> Process<'a> {
    /// A process with the arguments of execve(2), as strace writes them: the first characters of each, in quotation marks.
    fn started_as(execve: &'a str) -> Self {
        let arguments: Vec<_> = execve.split('"').skip(1).step_by(2).collect();
        let named = arguments.iter().position(|word| *word == "--driver").and_then(|at| arguments.get(at + 1));
        let driver = named.filter(|name| DriverKind::ALL.iter().any(|driver| driver.name() == **name));
        Self { driver: driver.map(|name| (*name).to_owned()), arguments, ..Self::default() }
    }

    fn has(&self, beginning: &str) -> bool {
        self.arguments.iter().any(|argument| argument.starts_with(beginning))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"10 execve("/s", ["/s", "--driver", "uring", "--tls-listen", "127.0.0.1:0"], 0x7ff /* 3 vars */) = 0
10 openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3
10 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x1) = 11
10 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREAD <unfinished ...>
12 rseq(0x7f, 0x20, 0, 0x53) = 0
10 <... clone resumed>, parent_tid=[12], tls=0x7f) = 12
10 seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, {len=1, filter=0x5}) = 0
11 wait4(-1, NULL, 0, NULL) = 10
12 io_uring_enter(5, 0, 1, IORING_ENTER_GETEVENTS, NULL, 8 <unfinished ...>
10 chroot("/") = -1 EPERM (Operation not permitted)
10 clone3({flags=CLONE_VM}, 88) = -1 ENOSYS (Function not implemented)
10 socket(AF_INET, SOCK_STREAM, 0) = -1 EPERM (Operation not permitted)
10 poll([{fd=3, events=POLLIN}], 1, 0) = 0 (Timeout)
10 --- SIGTERM {si_signo=SIGTERM} ---
12 <... io_uring_enter resumed>) = 0
10 exit_group(0) = ?
10 +++ exited with 0 +++
"#;

    #[test]
    fn calls_of_all_threads_count_once_the_process_is_confined() {
        let mut seen = Seen::new();
        read_whole(TRACE, &mut seen);
        let uring = ["exit_group", "io_uring_enter"].map(str::to_owned).into();
        assert_eq!(seen, Seen::from([("uring".to_owned(), uring)]));
    }

    #[test]
    fn a_refused_call_counts_unless_the_process_tries_what_it_may_not() {
        let refused = TRACE.replace("10 chroot(", "10 chdir(");
        let mut seen = Seen::new();
        read_whole(&refused, &mut seen);
        assert!(seen["uring"].contains("socket"), "{seen:?}");
    }

    #[test]
    fn a_process_that_names_no_driver_is_nobody_s() {
        let mut seen = Seen::new();
        read_whole(&TRACE.replace("uring", "auto"), &mut seen);
        assert_eq!(seen, Seen::new());
    }

    #[test]
    fn a_trace_that_began_later_counts_as_a_whole() {
        let mut seen = Seen::new();
        read_confined("10 poll([], 0, 0) = 0\n10 sendfile(1, 2, NULL, 8) = 8\n", "tokio-uring", &mut seen);
        assert_eq!(seen, Seen::from([("tokio-uring".to_owned(), ["poll".to_owned()].into())]));
    }
}
