//! `--connection-requests` and `--connection-age`: connections that the client gives up by itself; `--skew`: connections that carry
//! more than others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use super::support::{
    Run,
    http2_server::serve,
    socket_server::{Act, Server, ok, resp_request},
};

#[test]
fn a_connection_ends_after_its_requests_on_both_engines() {
    for engine in ["epoll", "uring"] {
        for (options, connections) in [
            (&["-c", "1", "-n", "12"][..], 4),
            (&["-c", "1", "-n", "12", "-P", "2"], 4),
            (&["-c", "2", "-n", "12"], 4),
            (&["-c", "1", "-n", "12", "-R", "500"], 4),
            (&["-c", "1", "-n", "10"], 4),
        ] {
            let server = Server::start(|_| Act::Say(ok("x")));
            let options = [options, &["--connection-requests", "3", "--engine", engine]].concat();
            let run = Run::http(&server.url(), &options);
            run.assert_errors(&[]);
            // The probe is one more, and one that is opened at the very end may ask nothing.
            let opened = server.connections() - 1;
            assert!((connections..=connections + 2).contains(&opened), "{engine} {options:?}: {opened}");
            assert_eq!((run.result.reconnects, &run.result.config["connection_requests"]), (0, &serde_json::json!(3)));
        }
    }
}

#[test]
fn some_connections_carry_most_requests() {
    for engine in ["epoll", "uring"] {
        // The server has a thread for each connection.
        let counts = Arc::new(Mutex::new(HashMap::new()));
        let seen = Arc::clone(&counts);
        let server = Server::start(move |_| {
            *seen.lock().expect("not poisoned").entry(thread::current().id()).or_insert(0) += 1;
            Act::Say(ok("x"))
        });
        let options = ["-c", "10", "-n", "400", "-R", "4000", "--skew", "10%:90%", "--engine", engine];
        let run = Run::http(&server.url(), &options);
        run.assert_errors(&[]);
        assert_eq!(run.result.config["skew"], serde_json::json!([0.1, 0.9]));
        let counts: Vec<u32> = counts.lock().expect("not poisoned").values().copied().collect();
        // Evenly each would have forty; where the server is behind, requests find the one connection busy.
        assert!(counts.iter().any(|&count| count > 100), "{engine}: {counts:?}");
    }
}

#[test]
fn a_batch_is_no_longer_than_what_is_left() {
    let server = Server::of(resp_request, |_| Act::Say(b"$-1\r\n".to_vec()));
    let options = ["-c", "1", "-n", "20", "-P", "4", "--connection-requests", "6", "--allow-misses", "--keys", "10"];
    let run = Run::kv(&server.address(), &options);
    run.assert_errors(&[]);
    let opened = server.connections() - 1;
    assert!((4..=5).contains(&opened), "{opened}");
}

#[test]
fn an_old_connection_ends_when_its_requests_are_answered() {
    let server = Server::start(|_| {
        thread::sleep(Duration::from_millis(30));
        Act::Say(ok("x"))
    });
    let run = Run::http(&server.url(), &["-c", "1", "-n", "20", "--connection-age", "100ms"]);
    run.assert_errors(&[]);
    // Twenty replies take 0.6 s or more: an age of 0.1 s, found with the next look, is over twice at least.
    assert!(server.connections() >= 3, "{}", server.connections());
}

#[test]
fn streams_count_as_requests() {
    let connections = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&connections);
    let url = serve(&[], move |_, peer| {
        let mut count = 0;
        while let Some((stream, _)) = peer.request() {
            peer.reply(stream, b"x");
            count += 1;
        }
        seen.lock().expect("not poisoned").push(count);
    });
    for engine in ["epoll", "uring"] {
        let options = ["--http2", "--streams", "4", "-c", "1", "-n", "40", "--connection-requests", "8"];
        let run = Run::http(&url, &[&options[..], &["--engine", engine]].concat());
        run.assert_errors(&[]);
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    // The probe asks nothing, nor may a connection that was opened at the very end.
    while connections.lock().expect("not poisoned").iter().sum::<u32>() < 80 {
        assert!(Instant::now() < deadline, "connections have not ended: {connections:?}");
        thread::sleep(Duration::from_millis(5));
    }
    let connections = connections.lock().expect("not poisoned");
    assert!(connections.iter().all(|count| [0, 8].contains(count)), "{connections:?}");
}
