use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::protocol::RequestOutcome;
use crate::sample::tests::{choosing, draws, one_of};

/// Asks one question, and keeps so much of what comes.
fn client(verify: HttpVerify, expectation: &Expectation, bytes_max: usize) -> HttpClient {
    let question = RequestSpec { request: b"GET".to_vec(), expectation: expectation.clone() };
    HttpClient::with_bytes_max(&[question], verify, 0, bytes_max)
}

/// Returns the outcome of each request, in order, and the outcome of the end of the stream if it came before them.
fn outcomes(mut client: HttpClient, pieces: &[&[u8]], requests: usize) -> Vec<Option<RequestOutcome>> {
    let mut conn = client.open();
    let mut outcomes = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while outcomes.len() < requests && !input.is_empty() {
            let asked = client.next(&mut conn, 1);
            let decoded = client.decode(&mut conn, asked, input);
            input = &input[decoded.consumed..];
            match decoded.progress {
                Progress::NeedMore => {
                    assert!(input.is_empty(), "NeedMore means that all input was used");
                    client.choice.next = asked.0;
                }
                Progress::Done { outcome, .. } => outcomes.push(Some(outcome)),
                Progress::Broken(class) => {
                    outcomes.push(Some(Err(class)));
                    return outcomes;
                }
            }
        }
    }
    // A request whose reply is complete but for the step that says so is not lost.
    if outcomes.len() < requests {
        let asked = client.next(&mut conn, 1);
        match client.on_eof(&mut conn, asked) {
            EofOutcome::Done { outcome, .. } => outcomes.push(Some(outcome)),
            EofOutcome::Failed(class) => outcomes.push(Some(Err(class))),
        }
    }
    outcomes.resize(requests, None);
    outcomes
}

fn checked(stream: &str, requests: usize, verify: HttpVerify) -> Vec<Option<RequestOutcome>> {
    outcomes(client(verify, &Expectation::Nothing, 100), &[stream.as_bytes()], requests)
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
    assert_eq!(checked(&stream, 4, HttpVerify::None), [good, good, good, good]);
    assert_eq!(checked(&stream, 4, HttpVerify::Status), [good, good, good, status]);
    assert_eq!(checked(&stream, 4, HttpVerify::Length), [good, good, length, status]);
    assert_eq!(checked(&stream, 4, HttpVerify::Content), [good, content, length, status]);
}

#[test]
fn a_failed_reply_does_not_become_the_reference() {
    let stream = ["HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops".to_owned(), ok("fine"), ok("fine")].concat();
    let status = Some(Err(ErrorClass::Status));
    assert_eq!(checked(&stream, 3, HttpVerify::Content), [status, Some(Ok(())), Some(Ok(()))]);
}

#[test]
fn an_empty_body_is_a_body() {
    let stream = [ok(""), ok(""), ok("x")].concat();
    let length = Some(Err(ErrorClass::Length));
    assert_eq!(checked(&stream, 3, HttpVerify::Content), [Some(Ok(())), Some(Ok(())), length]);
}

/// Outcomes on replies with these bodies, of which those are chosen.
fn chosen<const N: usize>(bodies: [&str; N], chosen: [bool; N]) -> [RequestOutcome; N] {
    let client = client(HttpVerify::Content, &Expectation::Nothing, 100).with_sampler(choosing(&chosen));
    let found = outcomes(client, &[bodies.map(ok).concat().as_bytes()], N);
    std::array::from_fn(|index| found[index].expect("an outcome"))
}

#[test]
fn unsampled_replies_do_not_stop_the_comparison_of_others() {
    use ErrorClass::{Content, Length};
    let (good, wrong) = (Ok(()), Err(Content));
    assert_eq!(chosen(["right", "right", "wrong"], [false, true, true]), [good, good, wrong]);
    assert_eq!(chosen(["right", "right", "wrong", "wrong"], [false, true, false, true]), [good, good, good, wrong]);
    assert_eq!(chosen(["right", "longer", "right"], [true, false, false]), [good, Err(Length), good]);
    assert_eq!(chosen(["right", "longer", "right"], [false, false, true]), [good, Err(Length), good]);
    // A chosen one of another length leaves nothing behind that right ones would be compared with.
    assert_eq!(
        chosen(["right", "longer", "right", "wrong"], [false, true, true, true]),
        [good, Err(Length), good, wrong]
    );
}

#[test]
fn every_url_is_sampled_however_many_are_asked_in_turn() {
    for urls in 1..=4_u32 {
        let question =
            |url| RequestSpec { request: format!("GET /{url}").into_bytes(), expectation: Expectation::Nothing };
        let questions: Vec<_> = (0..urls).map(question).collect();
        for count in 2..=6 {
            let sampler = Sampler::new(one_of(count), 1, 0);
            let client = HttpClient::new(&questions, HttpVerify::Content, 0).with_sampler(sampler);
            // No two bodies are alike, so every chosen reply but the first of each URL is wrong.
            let stream: String = (1_000..2_000).map(|number| ok(&number.to_string())).collect();
            let found = outcomes(client, &[stream.as_bytes()], 1_000);
            for url in 0..urls as usize {
                let of_url: Vec<_> = found.iter().skip(url).step_by(urls as usize).collect();
                let wrong = of_url.iter().filter(|outcome| ***outcome == Some(Err(ErrorClass::Content))).count();
                let expected = of_url.len() / count as usize;
                assert!((expected / 2..expected * 2).contains(&wrong), "{wrong} of {} by 1/{count}", of_url.len());
            }
        }
    }
}

#[test]
fn threads_compare_what_lies_beyond_the_kept_bytes_as_well() {
    let after = |body: &str| {
        let mut client = client(HttpVerify::Content, &Expectation::Nothing, 4);
        let mut conn = client.open();
        let decoded = client.decode(&mut conn, Single(0), ok(body).as_bytes());
        assert!(matches!(decoded.progress, Progress::Done { outcome: Ok(()), .. }));
        client
    };
    assert_eq!(after("a long body").disagreements(&after("a long body")), 0);
    assert_eq!(after("a long body").disagreements(&after("a long bode")), 1);
}

/// All kinds of replies, and of what is none.
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

/// The stream in one piece, in the pieces between `cuts`, and byte by byte.
fn ways_to_tear<'a>(stream: &'a [u8], cuts: &[prop::sample::Index]) -> [Vec<&'a [u8]>; 3] {
    let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    places.extend([0, stream.len()]);
    places.sort_unstable();
    let torn = places.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
    [vec![stream], torn, stream.chunks(1).collect()]
}

/// The bodies that the model's server may have; all but one are wrong in one way.
const BODIES: [&str; 9] =
    ["hello world", "hello world", "hello world", "hello worle", "jello world", "hello", "jello", "hello world!", ""];
/// Length that is kept of them: nothing, a part, all but a byte, all.
const KEPT: [usize; 7] = [0, 1, 5, 10, 11, 12, 100];

/// Knowledge of the right body beforehand.
fn expectation() -> impl Strategy<Value = Expectation> {
    let body = BODIES[0].as_bytes();
    prop::sample::select(vec![
        Expectation::Nothing,
        Expectation::Nothing,
        Expectation::Digest(Sha256::digest(body).into()),
        Expectation::Body(body.into()),
    ])
}

/// A good reply with a body of [`BODIES`], chunked or not; none is a failure.
fn reply_with(body: Option<&str>, is_chunked: bool) -> String {
    match body {
        None => "HTTP/1.1 404 Not Found\r\nContent-Length: 11\r\n\r\nhello world".to_owned(),
        Some(body) if is_chunked => {
            let chunk = |piece: &[u8]| format!("{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece));
            let chunks: String = body.as_bytes().chunks(4).map(chunk).collect();
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
        }
        Some(body) => ok(body),
    }
}

/// The promise of --verify, reply by reply.
fn promised(replies: &[Option<&str>], expectation: &Expectation, chosen: &[bool]) -> Vec<Option<RequestOutcome>> {
    let given = match expectation {
        Expectation::Body(body) => Some(body.to_vec()),
        Expectation::Nothing | Expectation::Digest(_) | Expectation::Status(_) => None,
    };
    let mut wanted = match expectation {
        Expectation::Digest(digest) => Some(*digest),
        Expectation::Nothing | Expectation::Body(_) | Expectation::Status(_) => None,
    };
    let (mut length, mut known) = (given.as_ref().map(Vec::len), given);
    let check = |(reply, is_chosen): (&Option<&str>, &bool)| {
        let body = reply.ok_or(ErrorClass::Status)?.as_bytes();
        if length.is_some_and(|length| length != body.len()) {
            return Err(ErrorClass::Length);
        }
        if !is_chosen && known.is_some() {
            return Ok(());
        }
        if wanted.is_some_and(|digest| Sha256::digest(body)[..] != digest) {
            return Err(ErrorClass::Content);
        }
        (wanted, length) = (None, Some(body.len()));
        if known.get_or_insert_with(|| body.to_vec()) == body { Ok(()) } else { Err(ErrorClass::Content) }
    };
    replies.iter().zip(chosen).map(check).map(Some).collect()
}

proptest! {
    #[test]
    fn outcomes_do_not_depend_on_tearing(
        replies in prop::collection::vec(reply(), 1..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        verify in prop::sample::select(vec![HttpVerify::None, HttpVerify::Status, HttpVerify::Length, HttpVerify::Content]),
        (count, seed, kept) in (1_u32..4, 0_u64..1_000, prop::sample::select(&KEPT[..])),
    ) {
        let stream = replies.concat().into_bytes();
        let found = ways_to_tear(&stream, &cuts).map(|pieces| {
            let client = client(verify, &Expectation::Nothing, kept);
            outcomes(client.with_sampler(Sampler::new(one_of(count), seed, 0)), &pieces, replies.len())
        });
        prop_assert_eq!(&found[1], &found[0]);
        prop_assert_eq!(&found[2], &found[0]);
    }

    #[test]
    fn verdicts_do_not_depend_on_tearing_or_on_what_is_kept(
        replies in prop::collection::vec((prop::option::weighted(0.9, prop::sample::select(&BODIES[..])), any::<bool>()), 1..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        expectation in expectation(),
        (count, seed) in (1_u32..4, 0_u64..1_000),
    ) {
        let sampler = Sampler::new(one_of(count), seed, 0);
        let stream: String = replies.iter().map(|(body, is_chunked)| reply_with(*body, *is_chunked)).collect();
        let bodies: Vec<_> = replies.iter().map(|(body, _)| *body).collect();
        let promised = promised(&bodies, &expectation, &draws(sampler.clone(), bodies.len()));
        for kept in KEPT {
            for pieces in ways_to_tear(stream.as_bytes(), &cuts) {
                let client = client(HttpVerify::Content, &expectation, kept).with_sampler(sampler.clone());
                prop_assert_eq!(&outcomes(client, &pieces, bodies.len()), &promised, "{} bytes are kept", kept);
            }
        }
    }
}
