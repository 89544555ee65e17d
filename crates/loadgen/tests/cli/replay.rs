//! `loadgen replay`: recordings as input.

use std::sync::{Arc, Mutex};

use super::support::{
    Run,
    http2_server::serve,
    loadgen, private_directory,
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
        run.stderr.contains("1 request with a method whose body the recording does not have: not replayed"),
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

/// A log with bodies, of which one is there twice.
const FORMS: &str = r#"{"time":"2026-01-01T00:00:00.000Z","method":"POST","target":"/form","body":"one","content_type":"text/plain","status":200}
{"time":"2026-01-01T00:00:00.050Z","method":"GET","target":"/missing","status":404}
{"time":"2026-01-01T00:00:00.100Z","method":"PUT","target":"/form","body":"three","status":200}
{"time":"2026-01-01T00:00:00.150Z","method":"POST","target":"/form","body":"one","content_type":"text/plain","status":200}
"#;

/// Frames requests that have as much of a body as their heads say.
fn request_and_body(input: &[u8]) -> Option<usize> {
    let head = http_request(input)?;
    let text = String::from_utf8_lossy(&input[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    Some(head + length.unwrap_or(0)).filter(|whole| input.len() >= *whole)
}

#[test]
fn bodies_of_a_recording_are_sent() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&bodies);
    let server = Server::answering(request_and_body, move |_, request| {
        let text = String::from_utf8_lossy(request).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let line = head.lines().next().unwrap_or_default().to_owned();
        seen.lock().expect("not poisoned").push(format!("{} {body}", line.trim_end_matches(" HTTP/1.1")));
        if line.contains("missing") { Act::Say(reply("404 Not Found", "", 4, "none")) } else { Act::Say(ok(body)) }
    });
    let replayed = Replayed { server, lines: Arc::default() };
    let run = replayed.run(FORMS, &["-c", "1"]);
    run.assert_errors(&[]);
    assert_eq!(run.result.config["skipped_requests"], 0);
    let sent = bodies.lock().expect("not poisoned").clone();
    assert_eq!(sent, ["POST /form one", "GET /missing ", "PUT /form three", "POST /form one"]);
}

#[test]
fn a_recording_is_replayed_over_http2_in_its_order() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let paths = Arc::clone(&seen);
    let url = serve(&[], move |_, peer| {
        while let Some((stream, path, body)) = peer.request_and_body() {
            let status = if path.contains("missing") { "404" } else { "200" };
            peer.reply_with(stream, status, &body);
            let body = String::from_utf8_lossy(&body).into_owned();
            paths.lock().expect("not poisoned").push(format!("{path} {body}"));
        }
    });
    let directory = private_directory();
    let file = directory.path().join("access.log");
    std::fs::write(&file, FORMS).expect("written");
    let file = file.to_str().expect("UTF-8");
    let run = Run::new("replay", &url, &["--http2", "--streams", "4", "-c", "1", file]);
    run.assert_errors(&[]);
    let result = &run.result;
    assert_eq!((result.requests, &result.config["http2"], &result.config["streams"]), (4, &true.into(), &4.into()));
    // The last falls due after 150 ms.
    assert!(result.duration_s >= 0.15 && result.lag_us.is_some(), "{}", result.duration_s);
    assert_eq!(*seen.lock().expect("not poisoned"), ["/form one", "/missing ", "/form three", "/form one"]);
    let bodies: Vec<_> = result.bodies.iter().map(|body| body.request.as_str()).collect();
    assert_eq!(bodies, ["POST /form", "GET /missing", "PUT /form"]);
    let refused = loadgen(&["replay", "--http2", "-P", "2", file, &url]);
    assert_eq!(refused.status.code(), Some(2));
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
