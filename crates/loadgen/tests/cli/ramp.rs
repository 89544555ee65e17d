//! `--ramp`: connections and clients begin over some time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use super::support::{
    Run,
    queue_server::{Act as Answer, QueueServer},
    socket_server::{Act, Server, ok},
};

#[test]
fn connections_are_opened_over_the_ramp() {
    let server = Server::start(|_| Act::Say(ok("x")));
    for engine in ["epoll", "uring"] {
        let before = server.accepted().len();
        let options =
            ["-c", "12", "--ramp", "600ms", "-d", "500ms", "--warmup", "0s", "--threads", "2", "--engine", engine];
        let run = Run::http(&server.url(), &options);
        run.assert_errors(&[]);
        // The probe comes first.
        let accepted = server.accepted().split_off(before + 1);
        assert_eq!(accepted.len(), 12, "{engine}");
        // The last of twelve is due after eleven twelfths. One that is late is the machine's doing, one that is early ours.
        let spread = accepted[11].duration_since(accepted[0]);
        assert!(spread >= Duration::from_millis(500), "{engine}: {spread:?}");
        assert_eq!((&run.result.config["ramp_s"], &run.result.config["warmup_s"]), (&0.6.into(), &0.0.into()));
    }
}

#[test]
fn queue_clients_begin_over_the_ramp() {
    for spawn in ["thread", "process"] {
        // The name of a FIFO ends with the number of its client, and that of its request.
        let first_asked = Arc::new(Mutex::new(BTreeMap::<usize, Instant>::new()));
        let seen = Arc::clone(&first_asked);
        let server = QueueServer::start(move |_, request| {
            let name = std::str::from_utf8(request.fifo).expect("text");
            let client = name.rsplit('-').nth(1).and_then(|digits| digits.parse().ok()).expect("its number");
            seen.lock().expect("nobody panics with it").entry(client).or_insert_with(Instant::now);
            Answer::say(b"x")
        });
        let options = ["--clients", "6", "--ramp", "600ms", "-d", "500ms", "--warmup", "0s", "--spawn", spawn];
        let run = Run::mq(&server, &options);
        run.assert_errors(&[]);
        let first_asked: Vec<Instant> = first_asked.lock().expect("nobody panics with it").values().copied().collect();
        assert!(first_asked.len() == 6 && first_asked.is_sorted(), "{spawn}: {first_asked:?}");
        // The last of six is due after five sixths.
        let spread = first_asked[5].duration_since(first_asked[0]);
        assert!(spread >= Duration::from_millis(450), "{spawn}: {spread:?}");
        assert_eq!((&run.result.config["ramp_s"], &run.result.config["warmup_s"]), (&0.6.into(), &0.0.into()));

        let server = QueueServer::start(|_, _| Answer::say(b"x"));
        let options =
            ["--clients", "2", "-R", "200", "--ramp", "600ms", "-d", "500ms", "--warmup", "0s", "--spawn", spawn];
        let run = Run::mq(&server, &options);
        run.assert_errors(&[]);
        // Half of what the full rate would be in the ramp, and then all of it; each client may round.
        let (all, measured) = (server.received(), run.result.requests);
        assert!((158..=162).contains(&all) && (98..=102).contains(&measured), "{spawn}: {all} {measured}");
    }
}
