use std::time::Instant;

use wire::{
    hpack::{Decoder, push_field},
    http2::{Event, Limits, PREFACE, ServerConnection},
};

use crate::tearing::{Progress, Tearing, read_torn};

/// A connection takes the same frames, and says the same, however they are torn, and keeps to its limits.
pub fn http2(data: &[u8]) {
    let Some((&seed, frames)) = data.split_first() else { return };
    // Little would get beyond a greeting that has to be found first.
    let stream = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0][..], frames].concat();
    assert_eq!(converse(&stream, Tearing::whole()), converse(&stream, Tearing::new(seed)), "at once, and torn");
}

/// Returns what was handed on, what was said, and the bytes taken.
fn converse(stream: &[u8], tearing: Tearing) -> (Vec<String>, Vec<u8>, usize) {
    let limits = Limits { streams_max: 3, block_bytes_max: 500, head_bytes_max: 600, ..Limits::default() };
    let (mut connection, mut events, mut out) = (ServerConnection::new(limits), Vec::new(), Vec::new());
    let (now, mut open) = (Instant::now(), 0_usize);
    let taken = read_torn(stream, tearing, |input| {
        let received = match connection.receive(input, now, &mut out) {
            Ok(received) => received,
            Err(code) => {
                events.push(format!("{code:?}"));
                return Progress::End;
            }
        };
        let (taken, event) = (received.taken, format!("{:?}", received.event));
        match received.event {
            Event::Request { stream, .. } => {
                let mut head = Vec::new();
                connection.head().push_http1(false, &mut head);
                assert!(head.ends_with(b"\r\n\r\n") || connection.head().is_too_large);
                open += 1;
                // Every other one is answered.
                if stream % 4 == 1 {
                    connection.push_response(stream, b"\x88", 10, &mut out);
                }
            }
            Event::Cancelled { .. } => open -= 1,
            Event::Body { .. } | Event::None => {}
        }
        if event != "None" {
            events.push(event);
        }
        while let Some((stream, length)) = connection.next() {
            assert!(length > 0);
            if connection.push_data(stream, length, &mut out) {
                out.resize(out.len() + length, b'x');
                connection.finish(stream, &mut out);
                open -= 1;
            } else {
                out.resize(out.len() + length, b'x');
            }
        }
        assert!(open <= 3, "more streams than are allowed");
        if taken == 0 { Progress::Incomplete } else { Progress::Consumed(taken) }
    });
    (events, out, taken)
}

/// Header blocks are refused, or are fields that are the same once they have been encoded and decoded again. The first byte of
/// each block is its length.
pub fn hpack(mut data: &[u8]) {
    let (mut decoder, mut again) = (Decoder::default(), Decoder::default());
    while let Some((&length, rest)) = data.split_first() {
        let (block, behind) = rest.split_at(rest.len().min(length.into()));
        data = behind;
        let (mut fields, mut encoded, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
        if decoder.decode(block, |field| fields.push((field.name.to_vec(), field.value.to_vec()))).is_err() {
            return;
        }
        fields.iter().for_each(|(name, value)| push_field(name, value, &mut encoded));
        let outcome = again.decode(&encoded, |field| decoded.push((field.name.to_vec(), field.value.to_vec())));
        assert!(outcome.is_ok() && fields == decoded, "{fields:?} is {decoded:?}");
    }
}
