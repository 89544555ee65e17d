//! The laws of fileserver's protocols.

use wire::file::{
    Dialect, FileId, Framed, Original, Request, Status,
    client::{Event, FramedReplies, OriginalAnswer, OriginalReply, write_framed_request, write_original_request},
};

use crate::tearing::{Progress, Tearing, read_torn};

/// Requests of both protocols have the same meaning in pieces as in one, and are encoded as they were parsed. The same
/// holds for replies, of which no byte is lost or invented.
pub fn file(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let tearing = Tearing::new(seed);
    assert_eq!(requests::<Framed>(stream, Tearing::whole()), requests::<Framed>(stream, tearing), "at once, and torn");
    assert_eq!(requests::<Original>(stream, Tearing::whole()), requests::<Original>(stream, tearing));
    assert_eq!(framed_replies(stream, Tearing::whole()), framed_replies(stream, tearing));
    assert_eq!(original_reply(stream, Tearing::whole()), original_reply(stream, tearing));
}

fn requests<D: Dialect>(stream: &[u8], tearing: Tearing) -> (Vec<Request>, usize) {
    let mut requests = Vec::new();
    let mut is_over = false;
    let consumed = read_torn(stream, tearing, |input| {
        if is_over {
            return Progress::End;
        }
        let request = D::request(input);
        let consumed = match &request {
            Request::Incomplete { need } => {
                assert!(*need > 0);
                return Progress::Incomplete;
            }
            Request::Malformed { consumed, fatal } => {
                is_over = *fatal;
                *consumed
            }
            Request::Get { id, consumed } => {
                is_over = !D::IS_PERSISTENT;
                let mut again = Vec::new();
                let ask = if D::IS_PERSISTENT { write_framed_request } else { write_original_request };
                ask(&mut again, id);
                assert_eq!(again, input[..*consumed]);
                assert_eq!(FileId::new(id.as_bytes()).as_ref(), Some(id));
                *consumed
            }
        };
        requests.push(request);
        Progress::Consumed(consumed)
    });
    (requests, consumed)
}

/// Returns statuses and bodies, whole or not, and the state at the end of the stream.
fn framed_replies(stream: &[u8], tearing: Tearing) -> (Vec<(Status, Vec<u8>)>, String) {
    let (mut decoder, mut replies) = (FramedReplies::default(), Vec::<(Status, Vec<u8>)>::new());
    for mut piece in tearing.pieces(stream) {
        loop {
            match decoder.next(&mut piece) {
                Ok(Event::Head { status, .. }) => replies.push((status, Vec::new())),
                Ok(Event::Body(bytes)) => replies.last_mut().expect("a head comes first").1.extend_from_slice(bytes),
                Ok(Event::End) => {
                    let (status, body) = replies.last().expect("a head comes first");
                    assert!(*status == Status::Found || body.is_empty());
                }
                Ok(Event::NeedMore) => break,
                Err(broken) => return (replies, broken.to_string()),
            }
        }
        assert!(piece.is_empty());
    }
    (replies, format!("{:?}", decoder.eof()))
}

fn original_reply(stream: &[u8], tearing: Tearing) -> OriginalAnswer {
    let mut reply = OriginalReply::default();
    tearing.pieces(stream).into_iter().for_each(|piece| reply.feed(piece));
    let answer = reply.answer();
    let expected = match stream {
        [] => OriginalAnswer::Empty,
        [0] => OriginalAnswer::Missing,
        bytes => OriginalAnswer::Bytes(bytes.len() as u64),
    };
    assert_eq!(answer, expected);
    answer
}
