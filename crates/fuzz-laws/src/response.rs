use wire::http1::client::{DecodeError, Eof, Event, Head, HeadTemplate, ResponseDecoder};

use crate::tearing::Tearing;

/// The meaning of a stream of responses, with the pieces of each body joined.
#[derive(Debug, Default, PartialEq)]
struct Reading {
    responses: Vec<Received>,
    error: Option<DecodeError>,
    eof: Option<Eof>,
}

#[derive(Debug, PartialEq)]
struct Received {
    head: Head,
    body: Vec<u8>,
    is_whole: bool,
}

/// Responses have the same meaning in pieces as in one, on either path of the decoder.
pub fn http1_response(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let whole = read(&[stream], &mut HeadTemplate::new());
    let pieces = Tearing::new(seed).pieces(stream);
    assert_eq!(whole, read(&pieces, &mut HeadTemplate::new()), "at once, and torn");
    // A template from another connection does not change the result.
    let mut learned = HeadTemplate::new();
    read(&[stream], &mut learned);
    assert_eq!(whole, read(&pieces, &mut learned), "at once, and with a template");
}

fn read(pieces: &[&[u8]], template: &mut HeadTemplate) -> Reading {
    let (mut decoder, mut reading) = (ResponseDecoder::new(), Reading::default());
    for piece in pieces {
        let mut input = *piece;
        loop {
            let event = match decoder.next(template, &mut input) {
                Ok(event) => event,
                Err(error) => return Reading { error: Some(error), ..reading },
            };
            let current = reading.responses.last_mut();
            match (event, current) {
                (Event::NeedMore, _) => break,
                (Event::Head(head) | Event::NewHead(head, _), _) => {
                    reading.responses.push(Received { head, body: Vec::new(), is_whole: false });
                }
                (Event::Body(bytes), Some(current)) => current.body.extend_from_slice(bytes),
                (Event::End, Some(current)) => current.is_whole = true,
                (Event::Body(_) | Event::End, None) => panic!("a body without a head"),
            }
        }
        assert!(input.is_empty(), "NeedMore means that all input was used");
    }
    reading.eof = Some(decoder.eof());
    reading
}
