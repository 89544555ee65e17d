//! `loadgen replay`: recordings as input.

use std::sync::{Arc, Mutex};

use super::support::{
    Run, loadgen, private_directory,
    socket_server::{Act, Server, http_request, ok, reply},
};

/// A log of four requests within half a second, one of which is answered with an error and one cannot be repeated.
const LOG: &str = r#"{"time":"2026-01-01T00:00:00.000000Z","method":"GET","target":"/a","status":200}
{"time":"2026-01-01T00:00:00.100000Z","method":"GET","target":"/missing","status":404}
{"time":"2026-01-01T00:00:00.200000Z","method":"POST","target":"/form","status":200}
{"time":"2026-01-01T00:00:00.300000Z","method":"GET","target":"/b?c=d","status":200}
{"time":"2026-01-01T00:00:00.500000Z","method":"GET","target":"/a","status":304}
"#;

struct Replayed {
    server: Server,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Replayed {
    /// Starts a server that knows everything but `/missing`, and notes the request lines.
    fn start() -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let server = Server::answering(http_request, move |_, request| {
            let text = String::from_utf8_lossy(request).into_owned();
            let line = text.lines().next().unwrap_or_default().to_owned();
            let act = if line.contains("missing") {
                Act::Say(reply("404 Not Found", "", 4, "none"))
            } else {
                Act::Say(ok(&line))
            };
            seen.lock().expect("not poisoned").push(line);
            act
        });
        Self { server, lines }
    }

    fn run(&self, log: &str, options: &[&str]) -> Run {
        let directory = private_directory();
        let file = directory.path().join("access.log");
        std::fs::write(&file, log).expect("written");
        let options = [options, &[file.to_str().expect("UTF-8")]].concat();
        Run::new("replay", &self.server.url(), &options)
    }

    /// Returns the targets that were asked for since the last time, in the order of their arrival.
    fn targets(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.lines.lock().expect("not poisoned"));
        lines.iter().map(|line| line.split(' ').nth(1).expect("a target").to_owned()).collect()
    }
}

#[test]
fn requests_are_sent_at_their_times_and_verified() {
    let replayed = Replayed::start();
    let run = replayed.run(LOG, &["-c", "4"]);
    run.assert_errors(&[]);
    assert_eq!(replayed.targets(), ["/a", "/missing", "/b?c=d", "/a"]);
    let result = &run.result;
    assert_eq!((result.requests, &result.config["mode"]), (4, &serde_json::json!("open")));
    assert_eq!(result.config["skipped_requests"], 1);
    assert!(
        run.stderr.contains("1 request with a method whose body a log does not have: not replayed"),
        "{}",
        run.stderr
    );
    // The last falls due after half a second, and the window ends with it.
    assert!(result.duration_s >= 0.5, "{}", result.duration_s);
    assert!(result.lag_us.is_some() && result.service_us.is_some());
    let bodies: Vec<_> = result.bodies.iter().map(|body| body.request.as_str()).collect();
    assert_eq!(bodies, ["GET /a", "GET /missing", "GET /b?c=d"]);
}

#[test]
fn threads_share_a_recording_in_its_order() {
    let replayed = Replayed::start();
    let run = replayed.run(LOG, &["-c", "4", "--threads", "2", "--speed", "2x"]);
    run.assert_errors(&[]);
    assert!(run.result.duration_s >= 0.25, "{}", run.result.duration_s);
    let mut targets = replayed.targets();
    targets.sort_unstable();
    assert_eq!(targets, ["/a", "/a", "/b?c=d", "/missing"]);
    // As fast as the server answers, in the order of the recording.
    let run = replayed.run(LOG, &["-c", "1", "--speed", "max", "-n", "3"]);
    run.assert_errors(&[]);
    assert_eq!(
        (replayed.targets(), &run.result.config["mode"]),
        (vec!["/a".to_owned(), "/missing".to_owned(), "/b?c=d".to_owned()], &serde_json::json!("closed"))
    );
}

#[test]
fn another_status_than_the_recorded_one_is_a_failure() {
    let replayed = Replayed::start();
    let changed = LOG
        .replace("\"/missing\",\"status\":404", "\"/missing\",\"status\":200")
        .replace("\"/b?c=d\",\"status\":200", "\"/b?c=d\",\"status\":404");
    let run = replayed.run(&changed, &["-c", "1", "--speed", "10"]);
    run.assert_errors(&[("status", 2)]);
    let details: Vec<_> = run.result.error_details["status"].keys().map(String::as_str).collect();
    assert_eq!(details, ["200 OK", "404 Not Found"]);
}

#[test]
fn a_request_that_is_never_sent_does_not_shift_the_others() {
    // One connection, and a server that is silent for longer than anything may take.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&seen);
    let server = Server::answering(http_request, move |number, request| {
        lines
            .lock()
            .expect("not poisoned")
            .push(String::from_utf8_lossy(request).lines().next().unwrap_or_default().to_owned());
        if number == 0 { Act::FallSilent } else { Act::Say(ok("x")) }
    });
    let line = |ms: u32, target: &str| {
        format!(
            "{{\"time\":\"2026-01-01T00:00:{:02}.{:03}Z\",\"method\":\"GET\",\"target\":\"{target}\",\"status\":200}}\n",
            ms / 1000,
            ms % 1000
        )
    };
    // The second falls due with the first, and when that has timed out it has waited for as long itself. A time has a fraction,
    // or they would be spread over the second.
    let log = [line(0, "/silent"), line(0, "/never-sent"), line(2_001, "/after")].concat();
    let directory = private_directory();
    let file = directory.path().join("access.log");
    std::fs::write(&file, log).expect("written");
    let options = ["-c", "1", "--timeout", "500ms", file.to_str().expect("UTF-8")];
    let run = Run::new("replay", &server.url(), &options);
    run.assert_errors(&[("not_sent", 1), ("timeout", 1)]);
    assert_eq!(*seen.lock().expect("not poisoned"), ["GET /silent HTTP/1.1", "GET /after HTTP/1.1"]);
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let directory = private_directory();
    let file = directory.path().join("access.log");
    std::fs::write(&file, "not a log\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    for (options, why) in [
        (&[][..], "neither an access log"),
        (&["--rate", "5"], "the recording sets the pace"),
        (&["--warmup", "1s"], "the recording sets the pace"),
        (&["--speed", "0"], "neither max nor a factor"),
        (&["--speed", "max", "--pause-max", "1s"], "--pause-max does not go with it"),
    ] {
        let output = loadgen(&[&["replay"], options, &[file, "http://127.0.0.1:1/"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && stderr.contains(why), "{options:?}: {stderr}");
    }
}
