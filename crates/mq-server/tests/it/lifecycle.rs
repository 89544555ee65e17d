//! The server as a process: its queue from the start to every way out.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::PermissionsExt, net::UnixDatagram},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::Duration,
};

use clap::ValueEnum;
use mq_server::{OwnedQueue, copy::CopyKind, dispatch::DispatchKind};
use sys::mqueue::{Queue, QueueSize};
use testkit::{eventually, expect_failure, run_to_end};

use crate::{
    client::{Fifo, ask, fetch},
    world::World,
};

const SMALLER: QueueSize = QueueSize { messages_max: 5, message_bytes_max: 512 };

#[test]
fn sigterm_answers_queued_requests_and_removes_the_queue() {
    for dispatch in [DispatchKind::Sequential, DispatchKind::Elastic] {
        let world = World::new();
        let contents = world.file("file", 300_000);
        let mut server = world.process(&["--dispatch", &dispatch.to_string()]);
        server.process().pause().unwrap();
        eventually("it stands still", || server.process().is_paused()).unwrap();
        let answers: Vec<_> = (0..8).map(|_| ask(&world, "file")).collect();
        server.terminate().unwrap();
        server.process().resume().unwrap();
        answers.into_iter().for_each(|mut answer| assert!(answer.read_to_end() == contents));
        assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.stderr());
        assert_eq!(world.queued(), None);
    }
}

/// Its queue, its files and its FIFOs are all that it needs.
#[test]
fn a_confined_server_answers_where_queues_can_be_named() {
    if !Path::new(sys::mqueue::MOUNTED).is_dir() {
        let world = World::new();
        let said = expect_failure(world.command(&["--sandbox", "on"]), 1).stderr;
        assert!(said.contains("mount -t mqueue"), "{said}");
        let mut server = world.process(&["--sandbox", "auto"]);
        server.wait_for_stderr("not confined: queues").unwrap();
        assert_eq!(server.stop().unwrap().code(), Some(0));
        return;
    }
    let dispatches = DispatchKind::value_variants().iter().map(|dispatch| (*dispatch, CopyKind::default()));
    let copies = CopyKind::value_variants().iter().map(|copy| (DispatchKind::default(), *copy));
    for (dispatch, copy) in dispatches.chain(copies) {
        let world = World::new();
        let contents = world.file("file", 300_000);
        let [dispatch, copy] = [dispatch.to_string(), copy.to_string()];
        let mut server = world.process(&["--dispatch", &dispatch, "--copy", &copy, "--sandbox", "on"]);
        for _ in 0..2 {
            assert!(fetch(&world, "file").unwrap() == contents, "{dispatch} {copy}");
        }
        assert_eq!(server.stop().unwrap().code(), Some(0), "{}", server.stderr());
        assert_eq!(world.queued(), None);
    }
}

/// The service manager hears of the start, the end, and in between of threads that take requests.
#[test]
fn the_service_manager_hears_of_every_dispatch() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 10);
        let path = world.root().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(testkit::HANG)).unwrap();
        let mut command = world.command(&["--dispatch", &dispatch.to_string()]);
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
        let mut server = world.start(command);
        let next = || {
            let mut message = [0; 256];
            let length = manager.recv(&mut message).unwrap();
            String::from_utf8(message[..length].to_vec()).unwrap()
        };
        assert!(next().starts_with("READY=1\n"), "{dispatch}");
        for _ in 0..3 {
            assert_eq!(next(), "WATCHDOG=1", "{dispatch}");
            assert_eq!(fetch(&world, "file").unwrap(), contents);
        }
        assert_eq!(server.stop().unwrap().code(), Some(0));
        let last = std::iter::repeat_with(next).find(|message| message != "WATCHDOG=1");
        assert_eq!(last.as_deref(), Some("STOPPING=1"), "{dispatch}");
    }
}

#[test]
fn a_drain_that_times_out_reports_what_is_left() {
    let world = World::new();
    let contents = world.file("file", 1);
    let mut server = world.process(&["--drain-timeout", "50ms"]);
    let fifo = Fifo::closed(&world);
    world.send(format!("file;{}", fifo.name));
    eventually("the request has been taken", || Ok(world.queued() == Some(0))).unwrap();
    assert_eq!(server.stop().unwrap().code(), Some(0), "{}", server.stderr());
    assert!(server.stderr().contains("for its next server: 1\n"), "{}", server.stderr());
    let mut server = world.process(&[]);
    server.wait_for_stderr("taken over from a server that is gone, requests in it: 1\n").unwrap();
    assert_eq!(fs::read(fifo.path()).unwrap(), contents);
    assert_eq!(server.stop().unwrap().code(), Some(0));
    assert_eq!(world.queued(), None);
}

#[test]
fn a_kill_loses_nothing_that_is_still_queued() {
    let world = World::new();
    let contents = world.file("file", 300_000);
    let server = world.process(&[]);
    server.process().pause().unwrap();
    eventually("it stands still", || server.process().is_paused()).unwrap();
    let answers: Vec<_> = (0..8).map(|_| ask(&world, "file")).collect();
    drop(server); // SIGKILL
    assert_eq!(world.queued(), Some(8));
    let mut server = world.process(&[]);
    answers.into_iter().for_each(|mut answer| assert!(answer.read_to_end() == contents));
    assert_eq!(server.stop().unwrap().code(), Some(0));
    assert_eq!(world.queued(), None);
}

#[test]
fn a_living_servers_queue_is_not_taken() {
    let world = World::new();
    let contents = world.file("file", 10);
    let mut server = world.process(&[]);
    let second = expect_failure(world.command(&["--max-messages", "5"]), 1);
    assert!(second.stderr.contains("belongs to a server that is running"), "{second:?}");
    assert_eq!(fetch(&world, "file").unwrap(), contents);
    assert_eq!(server.stop().unwrap().code(), Some(0));
}

#[test]
fn a_replaced_queue_has_its_requests_answered_first() {
    let world = World::new();
    let contents = world.file("file", 10);
    drop(OwnedQueue::acquire(&world.queue, SMALLER, true, 0o600).unwrap());
    let answers: Vec<_> = (0..5).map(|_| ask(&world, "file")).collect();
    // The operands of the original.
    let mut command = Command::new(env!("CARGO_BIN_EXE_mq-server"));
    command.args([&world.queue.to_string(), "7", "1024", "--root"]).arg(world.root());
    command.arg("--fifo-dir").arg(world.fifo_dir());
    let mut server = testkit::Server::start_command(command, 0).unwrap();
    answers.into_iter().for_each(|mut answer| assert_eq!(answer.read_to_end(), contents));
    let queue = Queue::open(&world.queue, sys::mqueue::Access::Receive).unwrap();
    assert_eq!(queue.size(), QueueSize { messages_max: 7, message_bytes_max: 1024 });
    assert_eq!(server.stop().unwrap().code(), Some(0));
    assert_eq!(world.queued(), None);
}

#[test]
fn a_refused_queue_size_is_an_error_that_names_the_setting() {
    let world = World::new();
    let error = expect_failure(world.command(&["--max-messages", "70000"]), 1);
    assert!(error.stderr.contains("fs.mqueue.msg_max=70000"), "{error:?}");
    assert_eq!(world.queued(), None);
    drop(OwnedQueue::acquire(&world.queue, SMALLER, true, 0o600).unwrap());
    world.send("file;fifo");
    let error = expect_failure(world.command(&["--max-messages", "70000"]), 1);
    assert!(error.stderr.contains("its requests are still in it"), "{error:?}");
    assert_eq!(world.queued(), Some(1));
}

#[test]
fn the_queue_is_removed_on_every_way_out() {
    let world = World::new();
    world.file("file", 4 << 20);
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let error = run_to_end(world.command(&["--metrics", &address])).unwrap();
    assert_eq!(error.code(), Some(1));
    assert!(error.stderr.contains(&address) && world.queued().is_none(), "{error:?}");
    fs::rename(world.root(), world.root().with_extension("moved")).unwrap();
    let error = expect_failure(world.command(&[]), 1);
    assert!(error.stderr.contains("cannot open the directory of --root") && world.queued().is_none(), "{error:?}");
    fs::rename(world.root().with_extension("moved"), world.root()).unwrap();
    // A second signal, while a transfer keeps the drain from ending.
    let mut server = world.process(&[]);
    let mut stuck = ask(&world, "file");
    assert_eq!(stuck.read(10).len(), 10);
    server.terminate().unwrap();
    eventually("it drains", || Ok(server.stderr().contains("draining"))).unwrap();
    assert!(server.is_running().unwrap());
    thread::sleep(testkit::Server::SIGNAL_PAUSE);
    assert_eq!(server.stop().unwrap().code(), Some(1), "{}", server.stderr());
    assert_eq!(world.queued(), None);
}

#[test]
fn the_default_fifo_directory_is_private_and_removed() {
    let world = World::new();
    let contents = world.file("file", 10);
    let temporary = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mq-server"));
    command.arg("--queue").arg(world.queue.to_string()).current_dir(world.root()).env("TMPDIR", temporary.path());
    let mut server = testkit::Server::start_command(command, 0).unwrap();
    eventually("the example is printed", || Ok(server.stderr().contains("try: "))).unwrap();
    let said = server.stderr();
    let tip = said.lines().find_map(|line| line.strip_prefix("try: loadgen mq --fifo-dir ")).unwrap();
    let (directory, rest) = tip.split_once(' ').unwrap();
    assert_eq!(rest, format!("{} file", world.queue));
    let mode = fs::metadata(directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700, "loadgen takes no other");
    let fifo = Path::new(directory).join("f");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    world.send("file;f");
    assert_eq!(fs::read(&fifo).unwrap(), contents);
    assert_eq!(server.stop().unwrap().code(), Some(0));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn ready_lines_are_printed_and_metrics_count_outcomes() {
    let world = World::new();
    world.file("file", 10);
    let log = world.root().join("ready");
    let mut command = world.command(&["--metrics", "127.0.0.1:0", "--framed"]);
    command.stdout(fs::File::create(&log).unwrap());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let ready = || fs::read_to_string(&log).unwrap();
    eventually("both lines are there", || Ok(ready().lines().count() == 2)).unwrap();
    let lines = ready();
    let metrics = lines.lines().nth(1).unwrap().strip_prefix("metrics on http://").unwrap().to_owned();
    assert_eq!(lines.lines().next(), Some(&*format!("listening on mq:{}", world.queue)));
    assert_eq!(ask(&world, "none").read_header().status.name(), "file-missing");
    let (address, path) = metrics.split_once('/').unwrap();
    let page = || testkit::Client::connect(&address.parse().unwrap()).and_then(|_| get(address, path));
    eventually("it is counted", || Ok(page()?.contains("mq_server_requests_total{outcome=\"file-missing\"} 1")))
        .unwrap();
    assert!(page().unwrap().contains("mq_server_queue_messages 0"));
    testkit::check_queries("mq-server", &page().unwrap()).unwrap();
    testkit::Process::new(child.id()).terminate().unwrap();
    eventually("it ends", || Ok(child.try_wait()?.is_some())).unwrap();
}

fn get(address: &str, path: &str) -> std::io::Result<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address)?;
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    stream.set_read_timeout(Some(Duration::from_secs(40)))?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

#[test]
fn back_ends_are_listed_and_bad_usage_exits_with_2() {
    let world = World::new();
    let listed = run_to_end(world.command(&["--list-backends", "--format", "json"])).unwrap();
    assert_eq!((listed.code(), world.queued()), (Some(0), None));
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["server"], "mq-server");
    let names = |index: usize| listed["dimensions"][index]["choices"].as_array().map(Vec::len);
    assert_eq!(listed["dimensions"][0]["name"], "dispatch");
    assert_eq!(
        (names(0), listed["dimensions"].as_array().map(Vec::len)),
        (Some(DispatchKind::value_variants().len()), Some(2))
    );
    for bad in [&["--dispatch", "none"][..], &["--queue-mode", "9"], &["--max-waiting", "0"], &["--listen", "x"]] {
        assert_eq!(run_to_end(world.command(bad)).unwrap().code(), Some(2), "{bad:?}");
    }
}

#[test]
fn bad_values_are_refused_with_a_reason() {
    let world = World::new();
    for (args, why) in [
        (["--request-timeout", "0s"], "must be more than 0"),
        (["--stall-timeout", "0s"], "must be more than 0"),
        (["--pipe-size", "0"], "must be at least 1 byte"),
        (["--pipe-budget", "0"], "must be at least 1 byte"),
        (["--buffer-size", "0"], "must be at least 1 byte"),
        (["--buffer-size", "2GiB"], "must be at most 1 GiB"),
        (["--buffer-size", "1q"], "not a size, like 4096, 64KiB"),
        (["--request-timeout", "1x"], "not a time, like 30, 500ms"),
        (["--max-waiting", "0"], "must be at least 1"),
        (["--max-waiting", "x"], "not a whole number, like 4"),
    ] {
        let error = expect_failure(world.command(&args), 2);
        assert!(error.stderr.contains(why), "{args:?}: {error:?}");
    }
    fs::remove_dir_all(world.fifo_dir()).unwrap();
    let error = expect_failure(world.command(&[]), 1);
    let text = format!("error: cannot open the directory of --fifo-dir, {}: ", world.fifo_dir().display());
    // Before it, where that is not mounted: without /dev/mqueue files are not confined.
    let said: Vec<_> = error.stderr.lines().filter(|line| !line.contains("/dev/mqueue")).collect();
    assert!(said.len() == 1 && said[0].starts_with(&text), "{error:?}");
    assert_eq!(world.queued(), None);
}

#[test]
fn a_check_of_the_configuration_looks_at_its_directories() {
    for flag in ["--root", "--fifo-dir"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mq-server"));
        command.args(["--check-config", flag, "/nonexistent/directory"]);
        let said = expect_failure(command, 2).stderr;
        assert!(said.starts_with(&format!("error: {flag}: cannot open /nonexistent/directory: ")), "{said}");
    }
}

/// Asks for a file again and again until told to stop, and counts the answers.
fn fetch_until(world: &World, contents: &[u8], answers: &AtomicUsize, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        assert!(fetch(world, "file").unwrap() == contents);
        answers.fetch_add(1, Relaxed);
    }
}

/// The queue and a request that waits for its reader go over; every request is answered, and once.
#[test]
fn an_upgrade_loses_no_request_in_every_dispatch() {
    for &dispatch in DispatchKind::value_variants() {
        let world = World::new();
        let contents = world.file("file", 100_000);
        let mut server = world.process(&["--dispatch", &dispatch.to_string()]);
        let waiting = Fifo::closed(&world);
        world.send(format!("file;{}", waiting.name));
        eventually("the request has been taken", || Ok(world.queued() == Some(0))).unwrap();
        let (answers, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let successor = thread::scope(|scope| {
            (0..2).for_each(|_| drop(scope.spawn(|| fetch_until(&world, &contents, &answers, &is_over))));
            // An upgrade may be over before a thread has begun.
            let asked = eventually("clients are answered", || Ok(answers.load(Relaxed) > 0));
            let successor = server.upgrade(server.process());
            is_over.store(true, Relaxed);
            asked.unwrap();
            successor.unwrap()
        });
        assert!(fs::read(waiting.path()).unwrap() == contents, "{dispatch}");
        // The old process has nothing left; the queue is not its own to remove.
        server.terminate().unwrap();
        assert_eq!(server.wait_for_exit().unwrap().code(), Some(0), "{dispatch}: {}", server.stderr());
        assert!(fetch(&world, "file").unwrap() == contents, "{dispatch}");
        let second = expect_failure(world.command(&[]), 1).stderr;
        assert!(second.contains("belongs to a server that is running"), "{dispatch}: {second}");
        successor.process().terminate().unwrap();
        server.wait_for_successors().unwrap();
        assert_eq!(world.queued(), None, "{dispatch}: {}", server.stderr());
    }
}

/// Requests that the old process has taken and cannot answer are for the new one.
#[test]
fn what_an_old_process_has_not_begun_is_answered_by_the_new_one() {
    let world = World::new();
    let contents = world.file("file", 1000);
    let mut server = world.process(&["--drain-timeout", "50ms"]);
    let waiting = Fifo::closed(&world);
    world.send(format!("file;{}", waiting.name));
    eventually("the request has been taken", || Ok(world.queued() == Some(0))).unwrap();
    let successor = server.upgrade(server.process()).unwrap();
    server.terminate().unwrap();
    assert_eq!(server.wait_for_exit().unwrap().code(), Some(0), "{}", server.stderr());
    assert_eq!(fs::read(waiting.path()).unwrap(), contents);
    successor.process().terminate().unwrap();
    server.wait_for_successors().unwrap();
    assert_eq!(world.queued(), None);
}

#[test]
fn a_private_directory_of_fifos_outlives_an_upgrade_and_no_longer() {
    let world = World::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mq-server"));
    command.arg("--queue").arg(world.queue.to_string()).arg("--root").arg(world.root());
    command.args(["--sandbox", "auto"]).env("TMPDIR", world.fifo_dir());
    let mut server = world.start(command);
    let directories = || fs::read_dir(world.fifo_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let before: Vec<_> = directories();
    assert_eq!(before.len(), 1, "{before:?}");
    let successor = server.upgrade(server.process()).unwrap();
    server.terminate().unwrap();
    assert!(server.wait_for_exit().unwrap().success(), "{}", server.stderr());
    assert_eq!(directories(), before);
    successor.process().terminate().unwrap();
    server.wait_for_successors().unwrap();
    assert_eq!(directories(), Vec::<std::ffi::OsString>::new());
}

/// A start that fails leaves the queue to the process that has it.
#[test]
fn a_successor_that_does_not_start_leaves_the_queue_alone() {
    let world = World::new();
    let contents = world.file("file", 1000);
    let config = world.root().join("config");
    fs::write(&config, "").unwrap();
    let mut server = world.process(&["--config", config.to_str().unwrap()]);
    fs::write(&config, "max-messages = 5\n").unwrap();
    server.process().signal(testkit::Signal::USR2).unwrap();
    eventually("it says why", || Ok(server.stderr().contains("this process goes on"))).unwrap();
    assert!(server.stderr().contains("an upgrade cannot make"), "{}", server.stderr());
    assert!(fetch(&world, "file").unwrap() == contents);
    assert_eq!(server.stop().unwrap().code(), Some(0), "{}", server.stderr());
    assert_eq!(world.queued(), None);
}
