//! `--otlp`: the message that a collector gets.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::support::{
    Run, loadgen,
    socket_server::{Act, Server, http_request, ok, reply},
};

/// Frames a request with its body.
fn posted(input: &[u8]) -> Option<usize> {
    let head = http_request(input)?;
    let text = String::from_utf8_lossy(&input[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    (input.len() >= head + length).then_some(head + length)
}

/// Collects the numbers of a metric's data points, by the value of their first attribute.
fn points(metric: &Value) -> Vec<(String, u64)> {
    let points = metric["sum"]["dataPoints"].as_array().expect("an array");
    let point = |point: &Value| {
        let number = point["asInt"].as_str().expect("a text").parse().expect("a number");
        (point["attributes"][0]["value"]["stringValue"].as_str().expect("a text").to_owned(), number)
    };
    points.iter().map(point).collect()
}

#[test]
fn a_collector_gets_the_figures_of_the_result() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let collector = Server::answering(posted, move |_, request| {
        requests.lock().expect("not poisoned").push(request.to_vec());
        Act::SayAndClose(reply("200 OK", "Content-Type: application/json\r\n", 2, "{}"))
    });
    let server = Server::start(|number| match number {
        9 => Act::Say(reply("503 Service Unavailable", "", 1, "x")),
        _ => Act::Say(ok("x")),
    });
    let run = Run::http(&server.url(), &["-c", "1", "-n", "10", "-R", "1000", "--otlp", &collector.url()]);
    run.assert_errors(&[("status", 1)]);
    let requests = seen.lock().expect("not poisoned");
    let [request] = &requests[..] else { panic!("one message: {}", requests.len()) };
    let text = String::from_utf8(request.clone()).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(
        head.starts_with("POST /v1/metrics HTTP/1.1\r\n") && head.contains("Content-Type: application/json"),
        "{head}"
    );
    let message: Value = serde_json::from_str(body).expect("JSON");
    let resource = &message["resourceMetrics"][0];
    let attributes = resource["resource"]["attributes"].as_array().expect("an array");
    let service = attributes.iter().find(|attribute| attribute["key"] == "service.name").expect("it has a name");
    assert_eq!(service["value"]["stringValue"], "loadgen");
    let metrics = resource["scopeMetrics"][0]["metrics"].as_array().expect("an array");
    let metric = |name: &str| metrics.iter().find(|metric| metric["name"] == name).expect(name);
    assert_eq!(points(metric("loadgen.requests")), [("ok".to_owned(), 9), ("status".to_owned(), 1)]);
    let bytes = [("receive".to_owned(), run.result.bytes_in), ("transmit".to_owned(), run.result.bytes_out)];
    assert_eq!(points(metric("loadgen.io")), bytes);
    for name in ["loadgen.response_time", "loadgen.service_time"] {
        let point = &metric(name)["histogram"]["dataPoints"][0];
        let counts = point["bucketCounts"].as_array().expect("an array");
        let sum: u64 =
            counts.iter().map(|count| count.as_str().expect("a text").parse::<u64>().expect("a number")).sum();
        assert_eq!((point["count"].as_str(), sum), (Some("9"), 9), "{name}");
        assert_eq!(counts.len(), point["explicitBounds"].as_array().expect("an array").len() + 1);
        let nanos = |key: &str| point[key].as_str().expect("a text").parse::<u64>().expect("a number");
        assert!(nanos("startTimeUnixNano") < nanos("timeUnixNano"));
    }
}

#[test]
fn a_result_that_is_not_delivered_is_an_error_behind_the_result() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let refusing = Server::answering(posted, |_, _| Act::SayAndClose(reply("400 Bad Request", "", 0, "")));
    for (collector, why) in [(refusing.url(), "status 400"), ("http://127.0.0.1:1".to_owned(), "onnection refused")] {
        let output = loadgen(&["http", "-c", "1", "-n", "5", "--otlp", &collector, &server.url()]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && stderr.contains(why), "{stderr}");
        assert!(!output.stdout.is_empty());
    }
    let output = loadgen(&["http", "--otlp", "https://localhost", &server.url()]);
    assert_eq!(output.status.code(), Some(2));
}
