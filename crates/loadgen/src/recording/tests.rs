use super::*;
use crate::clock::MILLISECOND;

fn parsed(text: &str) -> Recording {
    Recording::parse(text).expect("a recording")
}

/// Times in milliseconds, with methods, targets and statuses.
fn lines(recording: &Recording) -> Vec<String> {
    let line = |request: &RecordedRequest| {
        let status = request.status.map(|status| format!(" {status}")).unwrap_or_default();
        format!("{} {} {}{status}", request.at / MILLISECOND, request.method, request.target)
    };
    recording.requests.iter().map(line).collect()
}

#[test]
fn a_combined_log_is_read_in_the_order_of_its_times() {
    let text = r#"::1 - - [10/Oct/2000:13:55:38 -0700] "GET /c HTTP/1.1" 404 5 "-" "x"
127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?q=%22 HTTP/1.0" 200 2326
127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /b HTTP/1.1" 304 0 "-" "a \"quoted\" agent"

127.0.0.1 - - [10/Oct/2000:13:55:37 -0700] "POST /form HTTP/1.1" 200 5
127.0.0.1 - - [10/Oct/2000:13:55:37 -0700] "\x16\x03" 400 5
127.0.0.1 - - [10/Oct/2000:13:55:37 -0700] "GET /gone HTTP/1.1" 499 0
127.0.0.1 - - [10/Oct/2000:13:55:37 -0700] "OPTIONS * HTTP/1.1" 200 0
"#;
    let recording = parsed(text);
    // Two in a second are half a second apart.
    assert_eq!(lines(&recording), ["0 GET /a?q=%22", "500 GET /b", "2000 GET /c 404"]);
    let skipped: Vec<_> = recording.skipped.into_iter().collect();
    assert_eq!(skipped, [(NOT_ANSWERED, 2), (BODILESS, 1), (NO_TARGET, 1)]);
}

#[test]
fn lines_of_json_are_read_by_the_names_of_several_servers() {
    for text in [
        "{\"time\":\"2026-01-01T00:00:00.250000Z\",\"method\":\"GET\",\"target\":\"/a\",\"status\":200}\n\
         {\"time\":\"2026-01-01T00:00:01.000000Z\",\"method\":\"GET\",\"target\":\"/b\",\"status\":403}",
        "{\"msec\":1767225600.250,\"request\":\"GET /a HTTP/1.1\",\"status\":\"200\"}\n\
         {\"msec\":1767225601.000,\"request\":\"GET /b HTTP/1.1\",\"status\":\"403\"}",
        "{\"ts\":1767225600.25,\"request\":{\"method\":\"GET\",\"uri\":\"/a\"},\"status\":200}\n\
         {\"ts\":1767225601.0,\"request\":{\"method\":\"GET\",\"uri\":\"/b\"},\"status\":403}",
        "{\"time_iso8601\":\"2026-01-01T01:00:00.25+01:00\",\"request_method\":\"GET\",\"request_uri\":\"/a\"}\n\
         {\"timestamp\":1767225601000,\"method\":\"GET\",\"path\":\"/b\",\"status\":403}",
    ] {
        assert_eq!(lines(&parsed(text)), ["0 GET /a", "750 GET /b 403"], "{text}");
    }
}

#[test]
fn a_line_of_json_may_have_the_body_of_its_request() {
    let text = r#"{"time":"2026-01-01T00:00:00Z","request_method":"POST","request_uri":"/a","request_body":"x=1","content_type":"text/plain"}
{"time":"2026-01-01T00:00:00.1Z","request":"PUT /b HTTP/1.1","request_body":"","content_type":""}
{"time":"2026-01-01T00:00:00.2Z","request":"GET /c HTTP/1.1","request_body":"","content_type":"text/plain"}
{"time":"2026-01-01T00:00:00.3Z","request":"POST /d HTTP/1.1"}"#;
    let recording = parsed(text);
    assert_eq!(lines(&recording), ["0 POST /a", "100 PUT /b", "200 GET /c"]);
    let bodies: Vec<_> = recording.requests.iter().map(|it| it.body.as_deref()).collect();
    assert_eq!(bodies, [Some(&b"x=1"[..]), Some(b""), None]);
    let headers: Vec<_> = recording.requests.iter().map(|it| it.headers.join("; ")).collect();
    assert_eq!(headers, ["Content-Type: text/plain", "", ""]);
    assert_eq!(recording.skipped.into_iter().collect::<Vec<_>>(), [(BODILESS, 1)]);
}

#[test]
fn fields_of_an_archives_form_are_its_body() {
    let with = |data: &str| {
        let entry = format!(
            r#"{{"startedDateTime":"2026-01-01T00:00:00Z","request":{{"method":"POST","url":"http://h/f","postData":{data},"bodySize":9}}}}"#
        );
        let recording = Recording::parse(&format!(r#"{{"log":{{"entries":[{entry}]}}}}"#)).ok()?;
        recording.requests[0].body.clone().map(|body| String::from_utf8(body).expect("UTF-8"))
    };
    let form = r#"[{"name":"a b","value":"1&2"},{"name":"ü","value":""}]"#;
    assert_eq!(with(&format!(r#"{{"params":{form}}}"#)).as_deref(), Some("a+b=1%262&%C3%BC="));
    assert_eq!(with(&format!(r#"{{"text":"","params":{form}}}"#)).as_deref(), Some("a+b=1%262&%C3%BC="));
    assert_eq!(with(&format!(r#"{{"text":"as sent","params":{form}}}"#)).as_deref(), Some("as sent"));
    assert_eq!(with(r#"{"params":[{"name":"file","fileName":"x.png"}]}"#), None);
}

#[test]
fn an_archive_has_headers_and_bodies() {
    let text = r#"{"log": {"version": "1.2", "entries": [
        {"startedDateTime": "2026-01-01T00:00:00.000Z", "request": {"method": "GET", "url": "https://example.org/a?b=c",
          "headers": [{"name": ":authority", "value": "example.org"}, {"name": "Host", "value": "example.org"},
                      {"name": "Cookie", "value": "x=1"}, {"name": "If-None-Match", "value": "\"1\""}]},
          "response": {"status": 200}},
        {"startedDateTime": "2026-01-01T00:00:00.100Z", "request": {"method": "POST", "url": "https://example.org/form",
          "headers": [{"name": "Content-Type", "value": "text/plain"}], "postData": {"text": "hello"}, "bodySize": 5},
          "response": {"status": 302}},
        {"startedDateTime": "2026-01-01T00:00:00.200Z", "request": {"method": "GET", "url": "https://cdn.example.net/x"}},
        {"startedDateTime": "2026-01-01T00:00:00.300Z", "request": {"method": "PUT", "url": "https://example.org/y", "bodySize": 9}}
    ]}}"#;
    let recording = parsed(text);
    assert_eq!(lines(&recording), ["0 GET /a?b=c", "100 POST /form 302"]);
    assert_eq!(recording.requests[0].headers, ["Cookie: x=1"]);
    assert_eq!(recording.requests[1].body.as_deref(), Some(&b"hello"[..]));
    assert_eq!(recording.skipped.values().sum::<u64>(), 2);
}

#[test]
fn what_is_no_recording_is_said_so() {
    let problem = |text: &str| Recording::parse(text).expect_err(text).to_string();
    assert!(problem("once upon a time\n").starts_with("it is neither"), "{}", problem("once upon a time\n"));
    assert!(problem("").starts_with("it has no request"), "{}", problem(""));
    assert_eq!(problem("{\"method\":\"GET\"}"), "line 1: it has no time that is known");
    assert!(problem("{\"log\":{\"entries\":[{}]}}").starts_with("it is no HTTP archive"));
    let skipped = "h - - [10/Oct/2000:13:55:37 -0700] \"POST /form HTTP/1.1\" 200 5\n";
    assert!(problem(skipped).contains("1 with a method whose body"), "{}", problem(skipped));
}

#[test]
fn times_are_scaled_and_long_pauses_cut() {
    let at = |second: u64| RecordedRequest {
        at: second * SECOND,
        method: "GET".to_owned(),
        target: "/".to_owned(),
        headers: Vec::new(),
        body: None,
        status: None,
    };
    let recording = Recording { requests: vec![at(0), at(2), at(100), at(101)], skipped: BTreeMap::new() };
    let seconds = |speed, most: Option<u64>| {
        let times = recording.times(speed, most.map(Duration::from_secs));
        times.into_iter().map(|time| time / MILLISECOND).collect::<Vec<_>>()
    };
    assert_eq!(seconds(1.0, None), [0, 2_000, 100_000, 101_000]);
    assert_eq!(seconds(2.0, None), [0, 1_000, 50_000, 50_500]);
    assert_eq!(seconds(0.5, Some(10)), [0, 4_000, 24_000, 26_000]);
}
