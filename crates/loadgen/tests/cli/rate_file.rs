//! `--rate-file`: a rate that changes.

use super::support::{
    Run, loadgen, private_directory,
    queue_server::{Act as Answer, QueueServer},
    socket_server::{Act, Server, ok},
};

#[test]
fn the_requests_of_all_phases_fall_due_and_no_more() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let directory = private_directory();
    let file = directory.path().join("rates.txt");
    std::fs::write(&file, "200ms 100\n100ms 0\n200ms 100..300\n400ms sine 0..200 200ms\n100ms 1k # spike\n")
        .expect("written");
    let file = file.to_str().expect("UTF-8");
    // 20 + 0 + 40 + 40 + 100; the first of each thread falls due at once.
    for threads in ["1", "3"] {
        let run =
            Run::http(&server.url(), &["-c", "8", "--threads", threads, "--rate-file", file, "--warmup", "100ms"]);
        run.assert_errors(&[]);
        assert_eq!((run.result.requests, run.result.config["duration_s"].as_f64()), (200, Some(1.0)), "{threads}");
        assert!(run.result.service_us.is_some(), "it is an open loop");
        let phases = ["0.2s 100", "0.1s 0", "0.2s 100..300", "0.4s sine 0..200 0.2s", "0.1s 1000"];
        assert_eq!(run.result.config["rate_phases"], serde_json::json!(phases));
    }
    let text = loadgen(&["http", "-c", "2", "--rate-file", file, "--warmup", "0s", &server.url()]);
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    assert!(text.contains("open loop, 0.2s 100, then 0.1s 0, then"), "{text}");
}

#[test]
fn queue_clients_follow_it_too() {
    let server = QueueServer::start(|_, _| Answer::say(b"x"));
    let directory = private_directory();
    let file = directory.path().join("rates.txt");
    std::fs::write(&file, "200ms 100\n100ms 0\n100ms 300\n").expect("written");
    for spawn in ["thread", "process"] {
        let options = ["--clients", "4", "--warmup", "100ms", "--spawn", spawn];
        let run = Run::mq(&server, &[&options[..], &["--rate-file", file.to_str().expect("UTF-8")]].concat());
        run.assert_errors(&[]);
        assert_eq!(run.result.requests, 50, "{spawn}");
    }
}

#[test]
fn a_file_that_is_no_profile_is_refused() {
    let directory = private_directory();
    let file = directory.path().join("rates.txt");
    std::fs::write(&file, "1s 10\n1s often\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    for (options, why) in [
        (&[][..], "line 2: often: not a rate"),
        (&["--ramp", "1s"], "neither with --max-warmup nor with --ramp"),
        (&["-d", "1s"], "cannot be used with"),
        (&["-R", "5"], "cannot be used with"),
    ] {
        let output = loadgen(&[&["http", "--rate-file", file], options, &["http://127.0.0.1:1/"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && stderr.contains(why), "{options:?}: {stderr}");
    }
}
