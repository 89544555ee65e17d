//! Laws of the engine as a whole.

use std::{
    io::{Read, Write},
    net::TcpListener,
    os::unix::net::UnixListener,
    sync::{atomic::AtomicBool, mpsc::channel},
    thread,
    time::Duration,
};

use super::{Arrivals, Endpoint, EngineKind, Limit, Load, Pacing, run};
use crate::{
    clock::{self, Nanos},
    http::{Expectation, HttpClient, HttpVerify, RequestSpec},
};

const CONNECTIONS: usize = 64;

fn load(engine: EngineKind, pacing: Pacing, limit: Limit) -> Load {
    Load { connections: CONNECTIONS, threads: 2, engine, pacing, limit, ..Load::of_tests() }
}

fn client(thread: usize) -> HttpClient {
    let spec = RequestSpec { request: b"GET / HTTP/1.1\r\n\r\n".to_vec(), expectation: Expectation::Nothing };
    HttpClient::new(&[spec], HttpVerify::Content, thread)
}

/// Answers what comes, and returns when the other side has closed the connection.
fn serve(mut connection: impl Read + Write) -> Nanos {
    let mut request = [0; 256];
    while connection.read(&mut request).is_ok_and(|length| length > 0) {
        connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    }
    clock::now()
}

#[test]
fn no_connection_is_closed_before_the_window_is() {
    let open = Pacing::Open { rate: 2_000.0, arrivals: Arrivals::Constant };
    let of_time = Limit::Duration(Duration::from_millis(100));
    let cases = [(open, of_time), (Pacing::Closed, of_time), (Pacing::Closed, Limit::Requests(500))];
    for engine in [EngineKind::Epoll, EngineKind::Uring] {
        for (pacing, limit) in cases {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let endpoint = Endpoint::parse(&listener.local_addr().unwrap().to_string()).unwrap();
            let accepting = thread::spawn(move || {
                let accepted = (0..CONNECTIONS).map(|_| listener.accept().unwrap().0);
                let served: Vec<_> = accepted.map(|connection| thread::spawn(|| serve(connection))).collect();
                served.into_iter().map(|thread| thread.join().unwrap()).min()
            });
            let load = load(engine, pacing, limit);
            let measured = run(&endpoint, &load, client, None, &AtomicBool::new(false), |_| {}).unwrap();
            assert!(
                measured.tally.ok > 0 && measured.tally.failed() == 0,
                "{engine:?} {pacing:?}: {:?}",
                measured.tally
            );
            let closed = accepting.join().unwrap().unwrap();
            let end = measured.opened + clock::nanos(measured.window);
            assert!(closed >= end, "{engine:?} {pacing:?} {limit:?}: closed {} ns before the end", end - closed);
        }
    }
}

#[test]
fn a_warm_up_that_ends_by_itself_waits_for_all_connections() {
    /// Many more than the queue of a listener holds, each accepted so late that windows without a trend come first. A unix
    /// socket whose queue is full takes no connection.
    const CONNECTIONS: usize = 400;
    const QUEUE: usize = 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 16).unwrap();
    let endpoint = Endpoint::parse(&format!("unix:{}", path.display())).unwrap();
    let (accepted, times) = channel();
    thread::spawn(move || {
        // Those that are not accepted when the run is over never will be.
        while let Ok((connection, _)) = listener.accept() {
            thread::sleep(Duration::from_millis(4));
            if accepted.send(clock::now()).is_err() {
                return;
            }
            thread::spawn(|| serve(connection));
        }
    });
    let pacing = Pacing::Open { rate: 500.0, arrivals: Arrivals::Constant };
    let load = Load {
        connections: CONNECTIONS,
        warmup_max: Some(Duration::from_secs(30)),
        ..load(EngineKind::Epoll, pacing, Limit::Duration(Duration::from_millis(100)))
    };
    let measured = run(&endpoint, &load, client, None, &AtomicBool::new(false), |_| {}).unwrap();
    let before = times.try_iter().filter(|time| *time <= measured.opened).count();
    assert!(before >= CONNECTIONS - QUEUE, "{before} were accepted when the window was opened");
    assert_eq!(measured.tally.failed(), 0, "{:?}", measured.tally);
}
