use proptest::prelude::*;

use super::*;

/// The meaning of a stream of bytes, with body pieces joined. It must not depend on how the stream was torn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reading {
    responses: Vec<(Head, Vec<u8>, bool)>,
    error: Option<DecodeError>,
    eof: Option<Eof>,
}

fn read(pieces: &[&[u8]], mut template_of: impl FnMut() -> Option<HeadTemplate>) -> Reading {
    let (mut decoder, mut template) = (ResponseDecoder::new(), HeadTemplate::new());
    let mut reading = Reading::default();
    for piece in pieces {
        let mut input = *piece;
        loop {
            if let Some(fresh) = template_of() {
                template = fresh;
            }
            match decoder.next(&mut template, &mut input) {
                Ok(Event::Head(head) | Event::NewHead(head, _)) => reading.responses.push((head, Vec::new(), false)),
                Ok(Event::Body(piece)) => reading.responses.last_mut().expect("a head").1.extend_from_slice(piece),
                Ok(Event::End) => reading.responses.last_mut().expect("a head").2 = true,
                Ok(Event::NeedMore) => break,
                Err(error) => {
                    reading.error = Some(error);
                    return reading;
                }
            }
        }
        assert!(input.is_empty(), "NeedMore means that all input was used");
    }
    reading.eof = Some(decoder.eof());
    reading
}

fn read_whole(stream: &[u8]) -> Reading {
    read(&[stream], || None)
}

fn only_head(stream: &str) -> Result<Head, DecodeError> {
    let reading = read_whole(stream.as_bytes());
    reading.error.map_or_else(|| Ok(reading.responses[0].0), Err)
}

#[test]
fn framing_follows_rfc_9112() {
    let cases: &[(&str, Result<BodyLength, DecodeError>)] = &[
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Ok(BodyLength::Exact(0))),
        ("HTTP/1.1 200 OK\r\ncontent-length:  7 \r\n\r\n", Ok(BodyLength::Exact(7))),
        ("HTTP/1.1 204 No Content\r\n\r\n", Ok(BodyLength::Exact(0))),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", Ok(BodyLength::Exact(0))),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", Ok(BodyLength::Chunked)),
        ("HTTP/1.1 200 OK\r\n\r\n", Ok(BodyLength::UntilEof)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", Err(DecodeError::Framing)),
        ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", Err(DecodeError::Framing)),
        ("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", Err(DecodeError::Framing)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", Err(DecodeError::Framing)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", Err(DecodeError::Framing)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", Err(DecodeError::Framing)),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Err(DecodeError::Framing)),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", Err(DecodeError::Head)),
        ("HTTP/2.0 200 OK\r\n\r\n", Err(DecodeError::Head)),
        ("HTTP/1.1 999 Odd\r\n\r\n", Err(DecodeError::Head)),
        ("HTTP/1.1 200 OK\nContent-Length: 0\n\n", Err(DecodeError::Head)),
        ("\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Err(DecodeError::Head)),
        ("HTTP/1.1 200 OK\r\nna me: x\r\n\r\n", Err(DecodeError::Head)),
        ("SSH-2.0-OpenSSH\r\n", Err(DecodeError::Head)),
    ];
    for (stream, expected) in cases {
        assert_eq!(only_head(stream).map(|head| head.body), *expected, "{stream:?}");
    }
}

#[test]
fn persistence_follows_version_and_connection() {
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", Persistence::KeepAlive),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n", Persistence::Close),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n", Persistence::Close),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n", Persistence::KeepAlive),
        ("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n", Persistence::Close),
    ];
    for (head, expected) in cases {
        assert_eq!(only_head(&format!("{head}\r\n")).expect("valid").persistence, expected, "{head:?}");
    }
}

#[test]
fn interim_responses_are_skipped() {
    let stream = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let reading = read_whole(stream);
    assert_eq!(reading.responses.len(), 1);
    assert_eq!((reading.responses[0].0.status, &reading.responses[0].1[..]), (200, &b"ok"[..]));
}

#[test]
fn a_chunked_body_is_joined_and_its_malformations_refused() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let good = read_whole(format!("{head}4;a=b\r\nWiki\r\n5\r\npedia\r\n0\r\nTrailer: x\r\n\r\n").as_bytes());
    assert_eq!((good.error, &good.responses[0].1[..], good.responses[0].2), (None, &b"Wikipedia"[..], true));
    for bad in
        ["\r\n", "g\r\n", "4\nWiki", "4\r\nWikiX", "4\r\nWiki\r5", "1234567890abcdef0\r\n", "0\r\n\n", "0\r\nA: b\n"]
    {
        let reading = read_whole(format!("{head}{bad}").as_bytes());
        assert_eq!(reading.error, Some(DecodeError::Chunk), "{bad:?}");
    }
}

#[test]
fn the_end_of_the_stream_is_told_apart() {
    let cases: &[(&str, Eof)] = &[
        ("", Eof::Between),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", Eof::Between),
        ("HTTP/1.1 200", Eof::InHead),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx", Eof::InBody),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", Eof::InBody),
        ("HTTP/1.1 200 OK\r\n\r\nwhatever", Eof::EndsBody),
    ];
    for (stream, expected) in cases {
        assert_eq!(read_whole(stream.as_bytes()).eof, Some(*expected), "{stream:?}");
    }
}

#[test]
fn a_head_without_end_is_refused() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(HEAD_BYTES_MAX));
    assert_eq!(read_whole(long.as_bytes()).error, Some(DecodeError::HeadTooLarge));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(head::HEADERS_MAX + 1));
    assert_eq!(read_whole(many.as_bytes()).error, Some(DecodeError::HeadTooLarge));
}

/// Found by a fuzzer: in one piece, an unfinished line was judged with the finished ones before it; torn, it was not.
#[test]
fn an_invalid_head_is_refused_at_the_same_line_if_torn() {
    let long = "y".repeat(HEAD_BYTES_MAX);
    for (stream, error, eof) in [
        ("HTTP/1.1 200 OK\r\nConte\0nt".to_owned(), None, Some(Eof::InHead)),
        ("HTTP/1.1 200 OK\r\nConte\0nt\r\n".to_owned(), Some(DecodeError::Head), None),
        (format!("HTTP/1.1 200 OK\r\nX\0: y\r\nX: {long}"), Some(DecodeError::Head), None),
        (format!("HTTP/1.1 200 OK\r\nX: {long}"), Some(DecodeError::HeadTooLarge), None),
    ] {
        let whole = read_whole(stream.as_bytes());
        assert_eq!((whole.error, whole.eof), (error, eof), "{:?}", &stream[..40.min(stream.len())]);
        let half: Vec<&[u8]> = stream.as_bytes().chunks(stream.len().div_ceil(2)).collect();
        let single: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!((&read(&half, || None), &read(&single, || None)), (&whole, &whole));
    }
}

#[test]
fn a_template_matches_heads_with_another_date_only() {
    let head = |date: &str, tail: &str| format!("HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: 1\r\n{tail}\r\n");
    let first = head("Sun, 06 Nov 1994 08:49:37 GMT", "");
    let mut template = HeadTemplate::new();
    let (learned, _) = template.learn(first.as_bytes()).expect("valid");
    let mut accepts = |text: &str| template.accept(text.as_bytes());
    assert_eq!(accepts(&first), Some((learned, first.len())));
    assert_eq!(accepts(&head("Sun, 06 Nov 1994 08:49:38 GMT", "")), Some((learned, first.len())));
    assert_eq!(accepts(&first.replace(": 1", ": 2")), None);
    assert_eq!(accepts(&first.replace("200 OK", "200 KO")), None);
    assert_eq!(accepts(&head("Sun, 06 Nov 1994\r\nX: 9:37 GMT", "")), None);
    assert_eq!(accepts(&head("Sun, 06 Nov 1994 08:49:37 GMT", "X: y\r\n")), None);
    assert_eq!(accepts(&first[..first.len() - 1]), None);
}

/// Streams of mostly valid responses that often repeat, so that the template is used.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let date =
        prop::sample::select(vec!["Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT", "yesterday"]);
    let body = prop::sample::select(vec!["", "x", "hello", "a\r\n\r\nb"]);
    let shape = prop::sample::select(vec![0_u8, 0, 0, 0, 0, 1, 2, 3, 4, 5]);
    let response = (date, body, shape).prop_map(|(date, body, shape)| match shape {
        1 => format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
        2 => "HTTP/1.1 100 Continue\r\n\r\n".to_owned(),
        3 => format!("HTTP/1.1 204 No Content\r\nDate: {date}\r\n\r\n"),
        4 => format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()),
        5 => body.to_owned(),
        _ => format!("HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
    });
    prop::collection::vec(response, 0..8).prop_map(|responses| responses.concat().into_bytes())
}

fn tear<'a>(stream: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    places.extend([0, stream.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn decoding_does_not_depend_on_tearing(stream in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let whole = read_whole(&stream);
        prop_assert_eq!(&read(&tear(&stream, &cuts), || None), &whole);
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        prop_assert_eq!(&read(&single, || None), &whole);
    }

    #[test]
    fn a_template_does_not_change_the_result(stream in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
        let pieces = tear(&stream, &cuts);
        prop_assert_eq!(read(&pieces, || None), read(&pieces, || Some(HeadTemplate::new())));
    }

    #[test]
    fn noise_ends_in_an_error_or_an_open_head(stream in prop::collection::vec(any::<u8>(), 0..400), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
        prop_assert_eq!(read(&tear(&stream, &cuts), || None), read_whole(&stream));
    }
}
