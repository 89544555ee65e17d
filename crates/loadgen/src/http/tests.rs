use proptest::prelude::*;

use super::*;

/// What became of each request, in order; and how the stream ended if it did so before them.
fn outcomes(pieces: &[&[u8]], requests: usize, verify: Verify, expectation: &Expectation) -> Vec<Option<Verdict>> {
    let question = Question { request: b"GET".to_vec(), expectation: expectation.clone() };
    let mut client = HttpClient::new(&[question], verify, 0);
    let mut conn = client.open();
    let mut outcomes = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while outcomes.len() < requests && !input.is_empty() {
            let decoded = client.decode(&mut conn, Single(0), input);
            input = &input[decoded.consumed..];
            match decoded.progress {
                Progress::NeedMore => assert!(input.is_empty(), "NeedMore means that all input was used"),
                Progress::Done { verdict, .. } => outcomes.push(Some(verdict)),
                Progress::Broken(class) => {
                    outcomes.push(Some(Err(class)));
                    return outcomes;
                }
            }
        }
    }
    // A request whose reply is complete but for the step that says so is not lost.
    if outcomes.len() < requests {
        match client.on_eof(&mut conn, Single(0)) {
            EofOutcome::Done { verdict, .. } => outcomes.push(Some(verdict)),
            EofOutcome::Failed(class) => outcomes.push(Some(Err(class))),
        }
    }
    outcomes.resize(requests, None);
    outcomes
}

fn verdicts(stream: &str, requests: usize, verify: Verify) -> Vec<Option<Verdict>> {
    outcomes(&[stream.as_bytes()], requests, verify, &Expectation::Nothing)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn each_level_of_verification_adds_one_check() {
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\n-".to_owned();
    let stream = [ok("right"), ok("wrong"), ok("longer"), missing].concat();
    let (good, bad) = (Some(Ok(())), |class| Some(Err(class)));
    let (content, length, status) = (bad(ErrorClass::Content), bad(ErrorClass::Length), bad(ErrorClass::Status));
    assert_eq!(verdicts(&stream, 4, Verify::None), [good, good, good, good]);
    assert_eq!(verdicts(&stream, 4, Verify::Status), [good, good, good, status]);
    assert_eq!(verdicts(&stream, 4, Verify::Length), [good, good, length, status]);
    assert_eq!(verdicts(&stream, 4, Verify::Content), [good, content, length, status]);
}

#[test]
fn a_failed_reply_does_not_become_the_reference() {
    let stream = ["HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops".to_owned(), ok("fine"), ok("fine")].concat();
    let status = Some(Err(ErrorClass::Status));
    assert_eq!(verdicts(&stream, 3, Verify::Content), [status, Some(Ok(())), Some(Ok(()))]);
}

#[test]
fn an_empty_body_is_a_body() {
    let stream = [ok(""), ok(""), ok("x")].concat();
    let length = Some(Err(ErrorClass::Length));
    assert_eq!(verdicts(&stream, 3, Verify::Content), [Some(Ok(())), Some(Ok(())), length]);
}

fn reply() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        ok("hello"),
        ok("hello"),
        ok("hello"),
        ok("hullo"),
        ok("longer body"),
        ok(""),
        "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n".to_owned(),
        "HTTP/1.1 100 Continue\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort".to_owned(),
        "babble\r\n".to_owned(),
    ])
}

proptest! {
    #[test]
    fn outcomes_do_not_depend_on_tearing(
        replies in prop::collection::vec(reply(), 1..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        verify in prop::sample::select(vec![Verify::None, Verify::Status, Verify::Length, Verify::Content]),
    ) {
        let stream = replies.concat().into_bytes();
        let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        places.extend([0, stream.len()]);
        places.sort_unstable();
        let torn: Vec<_> = places.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        let single: Vec<_> = stream.chunks(1).collect();
        let whole = outcomes(&[&stream[..]], replies.len(), verify, &Expectation::Nothing);
        prop_assert_eq!(&outcomes(&torn, replies.len(), verify, &Expectation::Nothing), &whole);
        prop_assert_eq!(&outcomes(&single, replies.len(), verify, &Expectation::Nothing), &whole);
    }
}
