//! The laws of kvcache's protocols.

use wire::{
    Detected, Detector, detect, memcached,
    resp::{self, Args, FastRequest, client::ReplyDecoder},
    us,
};

use crate::tearing::{Progress, Tearing, read_torn};

/// RESP requests have the same meaning in pieces as in one, and the short cut for GET and SET agrees with the parser.
pub fn resp_request(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let limits = match seed >> 6 {
        0 => resp::RequestLimits { bulk_bytes_max: 30, args_max: 5, inline_bytes_max: 20, is_authenticated: true },
        1 => resp::RequestLimits::default().before_authentication(),
        _ => resp::RequestLimits::default(),
    };
    let whole = resp_meaning(stream, Tearing::whole(), &limits);
    assert_eq!(whole, resp_meaning(stream, Tearing::new(seed), &limits), "at once, and torn");
    let mut args = Args::new();
    if let Some((request, consumed)) = resp::parse_fast(stream) {
        let parsed = resp::RequestParser::default().parse(stream, &resp::RequestLimits::default(), &mut args);
        assert_eq!(parsed, Ok(resp::Parsed::Complete { consumed }));
        match request {
            FastRequest::Get { key } => assert!(args[0].eq_ignore_ascii_case(b"get") && args[1..] == [key]),
            FastRequest::Set { key, value } => {
                assert!(args[0].eq_ignore_ascii_case(b"set") && args[1..] == [key, value])
            }
        }
    }
    let mut detector = Detector::default();
    let torn = (0..=stream.len().min(64)).map(|end| detector.detect(&stream[..end]));
    let torn = torn.into_iter().find(|found| *found != Detected::Unknown);
    assert_eq!(detect(&stream[..stream.len().min(64)]), torn.unwrap_or(Detected::Unknown));
}

fn resp_meaning(stream: &[u8], tearing: Tearing, limits: &resp::RequestLimits) -> (Vec<String>, usize) {
    let (mut parser, mut meanings) = (resp::RequestParser::default(), Vec::new());
    let consumed = read_torn(stream, tearing, |input| {
        let mut args = Args::new();
        match parser.parse(input, limits, &mut args) {
            Ok(resp::Parsed::Complete { consumed }) => {
                meanings.push(format!("{args:?}"));
                Progress::Consumed(consumed)
            }
            Ok(resp::Parsed::Quoted { consumed }) => {
                meanings.push(format!("{:?}", parser.quoted()));
                Progress::Consumed(consumed)
            }
            Ok(resp::Parsed::Incomplete { .. }) => Progress::Incomplete,
            Err(error) => {
                meanings.push(error.to_string());
                Progress::End
            }
        }
    });
    (meanings, consumed)
}

/// RESP replies have the same meaning in pieces as in one.
pub fn resp_reply(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let [whole, torn] = [Tearing::whole(), Tearing::new(seed)].map(|tearing| {
        let (mut decoder, mut meanings) = (ReplyDecoder::default(), Vec::new());
        let consumed = read_torn(stream, tearing, |input| match decoder.decode(input) {
            Ok(Some((reply, length))) => {
                meanings.push(format!("{reply:?}"));
                Progress::Consumed(length)
            }
            Ok(None) => Progress::Incomplete,
            Err(error) => {
                meanings.push(error.to_string());
                Progress::End
            }
        });
        (meanings, consumed)
    });
    assert_eq!(whole, torn, "at once, and torn");
}

/// Requests and answers of the text protocol have the same meaning in pieces as in one.
pub fn us(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let limits = us::RequestLimits { request_bytes_max: if seed >> 7 == 0 { 1000 } else { 10 } };
    let [whole, torn] = [Tearing::whole(), Tearing::new(seed)].map(|tearing| {
        let (mut parser, mut meanings) = (us::RequestParser::default(), Vec::new());
        let consumed = read_torn(stream, tearing, |input| match parser.parse(input, &limits) {
            Ok(us::Parsed::Complete { request, consumed }) => {
                meanings.push(format!("{request:?}"));
                Progress::Consumed(consumed)
            }
            Ok(us::Parsed::Incomplete { .. }) => Progress::Incomplete,
            Err(error) => {
                meanings.push(error.to_string());
                Progress::End
            }
        });
        let mut decoder = us::client::ReplyDecoder::default();
        read_torn(stream, tearing, |input| match decoder.decode(input) {
            Some((reply, length)) => {
                meanings.push(format!("{reply:?}"));
                Progress::Consumed(length)
            }
            None => Progress::Incomplete,
        });
        (meanings, consumed)
    });
    assert_eq!(whole, torn, "at once, and torn");
}

/// Requests of memcached have the same meaning in pieces as in one.
pub fn memcached_request(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let limits = match seed >> 7 {
        0 => memcached::Limits::default(),
        _ => memcached::Limits { item_bytes_max: 80, line_bytes_max: 30, keys_line_bytes_max: 50 },
    };
    let [whole, torn] = [Tearing::whole(), Tearing::new(seed)].map(|tearing| {
        let (mut parser, mut meanings) = (memcached::RequestParser::default(), Vec::new());
        let mut out = Vec::new();
        // Skipped bytes have no meaning, in however many pieces they come.
        read_torn(stream, tearing, |input| match parser.parse(input, &limits) {
            Ok(memcached::Parsed::Complete { request, consumed }) => {
                answer(&request, &mut out);
                meanings.push(format!("{request:?}"));
                Progress::Consumed(consumed)
            }
            Ok(memcached::Parsed::Refused { refusal, consumed }) => {
                meanings.push(refusal.to_string());
                Progress::Consumed(consumed)
            }
            Ok(memcached::Parsed::Skipped { consumed }) => Progress::Consumed(consumed),
            Ok(memcached::Parsed::Incomplete { .. }) => Progress::Incomplete,
            Err(error) => {
                meanings.push(error.to_string());
                Progress::End
            }
        });
        (meanings, out)
    });
    assert_eq!(whole, torn, "at once, and torn");
}

/// A client understands whatever a meta request wants returned.
fn answer(request: &memcached::Request<'_>, out: &mut Vec<u8>) {
    let (memcached::Request::MetaGet { key, flags }
    | memcached::Request::MetaDelete { key, flags }
    | memcached::Request::MetaSet { key, flags, .. }
    | memcached::Request::MetaArithmetic { key, flags, .. }) = request
    else {
        return;
    };
    let _ = (flags.expiry(), flags.vivify(), flags.recache(), flags.cas(), flags.client_flags(), flags.delta());
    let start = out.len();
    let item = memcached::reply::Item { length: 1, is_won: true, ..Default::default() };
    memcached::reply::meta_value_header(out, 1, key, flags, memcached::reply::MetaFields::Item(&item));
    out.extend_from_slice(b"x\r\n");
    let decoded = memcached::client::ReplyDecoder::default().decode(&out[start..]);
    match decoded {
        Ok(Some((memcached::client::Reply::MetaValue { value: b"x", .. }, length))) => {
            assert_eq!(length, out.len() - start);
        }
        other => panic!("{other:?}"),
    }
}

/// Replies of memcached have the same meaning in pieces as in one.
pub fn memcached_reply(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let [whole, torn] = [Tearing::whole(), Tearing::new(seed)].map(|tearing| {
        let (mut decoder, mut meanings) = (memcached::client::ReplyDecoder::default(), Vec::new());
        let consumed = read_torn(stream, tearing, |input| match decoder.decode(input) {
            Ok(Some((reply, length))) => {
                meanings.push(format!("{reply:?}"));
                Progress::Consumed(length)
            }
            Ok(None) => Progress::Incomplete,
            Err(error) => {
                meanings.push(error.to_string());
                Progress::End
            }
        });
        (meanings, consumed)
    });
    assert_eq!(whole, torn, "at once, and torn");
}

/// Requests of memcached's binary protocol have the same meaning in pieces as in one, and so have replies; a client
/// understands whatever a request is answered.
pub fn memcached_binary(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let limits = match seed >> 7 {
        0 => memcached::Limits::default(),
        _ => memcached::Limits { item_bytes_max: 80, ..memcached::Limits::default() },
    };
    let [whole, torn] = [Tearing::whole(), Tearing::new(seed)].map(|tearing| {
        let (mut parser, mut meanings) = (memcached::RequestParser::default(), Vec::new());
        read_torn(stream, tearing, |input| match parser.parse(input, &limits) {
            Ok(memcached::Parsed::Complete { request: memcached::Request::Binary(request), consumed }) => {
                understand_answers(&request);
                meanings.push(format!("{request:?}"));
                Progress::Consumed(consumed)
            }
            Ok(memcached::Parsed::Skipped { consumed }) => Progress::Consumed(consumed),
            Ok(memcached::Parsed::Incomplete { .. }) => Progress::Incomplete,
            // Text has a law of its own.
            Ok(memcached::Parsed::Complete { .. } | memcached::Parsed::Refused { .. }) | Err(_) => Progress::End,
        });
        let consumed = read_torn(stream, tearing, |input| match memcached::binary::client::decode(input) {
            Ok(Some((reply, length))) => {
                meanings.push(format!("{reply:?}"));
                Progress::Consumed(length)
            }
            Ok(None) => Progress::Incomplete,
            Err(error) => {
                meanings.push(error.to_string());
                Progress::End
            }
        });
        (meanings, consumed)
    });
    assert_eq!(whole, torn, "at once, and torn");
}

fn understand_answers(request: &memcached::binary::Request<'_>) {
    use memcached::binary::{Status, client, reply};
    let (mut out, key) = (Vec::new(), request.command.single_key().unwrap_or_default());
    reply::value_header(&mut out, request.head, request.cas, 7, key, 5);
    out.extend_from_slice(b"value");
    match client::decode(&out) {
        Ok(Some((read, length))) => {
            assert_eq!((length, read.key, read.value, read.cas), (out.len(), key, b"value".as_slice(), request.cas));
            assert_eq!((read.opcode, read.opaque), (request.head.opcode, request.head.opaque));
        }
        other => panic!("{other:?}"),
    }
    for &status in Status::ALL {
        out.clear();
        reply::error(&mut out, request.head, status);
        assert!(matches!(client::decode(&out), Ok(Some((read, _))) if read.status == status as u16));
    }
}
