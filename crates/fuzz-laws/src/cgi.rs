use std::time::Duration;

use wire::{
    cgi::{CgiResponse, parse},
    http1::{
        Connection,
        client::{Event, HeadTemplate, ResponseDecoder},
    },
};

/// Output of a CGI program is refused, or becomes one response whose body is the end of the output.
pub fn cgi(output: &[u8]) {
    let Ok(CgiResponse::Document(document)) = parse(output) else { return };
    assert!(output.ends_with(document.body), "the body is what follows the header block");
    let mut response = Vec::new();
    document.push_head(Connection::Implied, Duration::ZERO, &mut response);
    response.extend_from_slice(document.body);
    let (mut decoder, mut template) = (ResponseDecoder::new(), HeadTemplate::new());
    let (mut rest, mut heads, mut body, mut ends) = (&response[..], 0, Vec::new(), 0);
    loop {
        match decoder.next(&mut template, &mut rest).expect("a response that a client understands") {
            Event::Head(_) | Event::NewHead(..) => heads += 1,
            Event::Body(bytes) => body.extend_from_slice(bytes),
            Event::End => ends += 1,
            Event::NeedMore => break,
        }
    }
    assert!((heads, ends, &body[..]) == (1, 1, document.body), "one response with this body");
}
