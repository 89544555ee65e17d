use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::{key_distribution::Trace, protocol::Batch as _};

const DIALECTS: [Dialect; 5] = [Dialect::Resp, Dialect::Resp3, Dialect::Us, Dialect::Memcached, Dialect::MemcachedMeta];
const UNIFORM: KeyDistribution = KeyDistribution::Uniform;
const EVERYTHING: ScriptPlan =
    ScriptPlan::Mixed { mix: Mix { get: 3, set: 1, del: 1 }, keys: UNIFORM, miss_ratio: 0.3 };
const STRICT: VerifyRules = VerifyRules { verify: KvVerify::Content, allow_misses: false };

fn space(keys: u32) -> KeySpace {
    KeySpace::new(keys, 16, Values::Letters, 3..=40).expect("it fits")
}

fn script(dialect: Dialect, plan: ScriptPlan, batch: u32, requests: u64) -> Arc<Script> {
    Arc::new(Script::new(space(1_000), dialect, &plan, batch, Some(requests), 1).expect("it fits"))
}

fn client(script: &Arc<Script>, rules: VerifyRules) -> KvClient {
    KvClient::new(Arc::clone(script), rules, 1, 0, 1)
}

/// One request's outcome, and whether its reply was a hit or a miss.
type Outcome = (RequestOutcome, u64, u64);

/// Returns the engine's outcomes on replies to `span` that arrive in pieces; `Err` ends the connection.
fn outcomes(client: &mut KvClient, mut span: Span, pieces: &[&[u8]]) -> Vec<Outcome> {
    let mut conn = client.open();
    let mut outcomes = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        loop {
            let decoded = client.decode(&mut conn, span, input);
            input = &input[decoded.consumed..];
            match decoded.progress {
                Progress::NeedMore => {
                    assert!(input.is_empty(), "NeedMore means that all input was used");
                    break;
                }
                Progress::Done { replies, outcome, .. } => {
                    assert!(replies.count == 1 || outcome.is_ok() && (replies.count < span.left() || input.is_empty()));
                    // Of several it is only known how many were which.
                    outcomes.extend((0..replies.count).map(|n| {
                        (outcome, u64::from(n < replies.hits), u64::from(n >= replies.count - replies.misses))
                    }));
                    if replies.count == span.left() {
                        assert!(input.is_empty() || replies.count == 1);
                        return outcomes;
                    }
                    span = span.without(replies.count);
                }
                Progress::Broken(class) => {
                    outcomes.push((Err(class), 0, 0));
                    return outcomes;
                }
            }
        }
    }
    outcomes
}

fn sums(outcomes: &[Outcome]) -> (usize, u64, u64) {
    let right = outcomes.iter().filter(|(outcome, ..)| outcome.is_ok());
    right.fold((0, 0, 0), |(ok, hits, misses), (_, hit, miss)| (ok + 1, hits + hit, misses + miss))
}

/// The replies of a right server, one by one.
fn right_replies(script: &Script, span: Span) -> Vec<Vec<u8>> {
    let whole = script.replies(span);
    let cut = |n| whole[script.reply_offset(span, n)..script.reply_offset(span, n + 1)].to_vec();
    (0..span.len).map(cut).collect()
}

#[test]
fn decoding_agrees_with_comparing() {
    for dialect in DIALECTS {
        for plan in [
            EVERYTHING,
            ScriptPlan::Workflow { keys: UNIFORM },
            ScriptPlan::Each(Action::Set),
            ScriptPlan::Each(Action::Del),
        ] {
            let script = script(dialect, plan.clone(), 60, 60);
            let mut client = client(&script, STRICT);
            let span = Span { start: 0, len: 60 };
            let mut slow = Replies::default();
            for (position, reply) in (0..).zip(right_replies(&script, span)) {
                let (action, number) = script.requested(position);
                let mut key = Vec::new();
                script.space.key(number, &mut key);
                let (decoded, length) = dialect.decode(action, &key, &reply).expect("a reply").expect("whole");
                assert_eq!(length, reply.len(), "{dialect:?} {action:?}");
                let (replies, outcome) = client.check_reply(action, number, decoded);
                assert_eq!(outcome, Ok(()), "{dialect:?} {action:?} {decoded:?}");
                slow.count += replies.count;
                slow.hits += replies.hits;
                slow.misses += replies.misses;
            }
            assert_eq!(slow, script.tally(span, 60), "{dialect:?} {plan:?}");
            let fast = outcomes(&mut client, span, &[script.replies(span)]);
            assert_eq!(sums(&fast), (60, slow.hits, slow.misses));
        }
    }
}

#[test]
fn a_server_parses_the_requests() {
    let script = script(Dialect::Resp, ScriptPlan::Workflow { keys: KeyDistribution::Sequential }, 3, 3);
    let mut requests = Vec::new();
    script.write_requests(Span { start: 0, len: 3 }, &mut requests);
    let (mut value, mut expected) = (Vec::new(), Vec::new());
    script.space.value(0, &mut value);
    wire::resp::client::command(&mut expected, &[b"SET", b"key:000000000000", &value]);
    wire::resp::client::command(&mut expected, &[b"GET", b"key:000000000000"]);
    wire::resp::client::command(&mut expected, &[b"GET", b"mis:000000000000"]);
    assert_eq!(requests, expected);
}

/// Returns the outcome of each level of verification, from none to content, on a reply to a get.
fn levels(reply: &[u8], allow_misses: bool) -> [Outcome; 4] {
    let script = script(
        Dialect::Resp,
        ScriptPlan::Mixed { mix: Mix { get: 1, set: 0, del: 0 }, keys: UNIFORM, miss_ratio: 0.0 },
        1,
        1,
    );
    [KvVerify::None, KvVerify::Status, KvVerify::Length, KvVerify::Content].map(|verify| {
        let mut client = client(&script, VerifyRules { verify, allow_misses });
        outcomes(&mut client, Span { start: 0, len: 1 }, &[reply])[0]
    })
}

#[test]
fn each_level_of_verification_adds_one_check() {
    let hit = (Ok(()), 1, 0);
    let wrong = |class| (Err(class), 1, 0);
    let (length, content) = (wrong(ErrorClass::Length), wrong(ErrorClass::Content));
    assert_eq!(levels(b"$1\r\nx\r\n", false), [hit, hit, length, length]);
    let script = script(
        Dialect::Resp,
        ScriptPlan::Mixed { mix: Mix { get: 1, set: 0, del: 0 }, keys: UNIFORM, miss_ratio: 0.0 },
        1,
        1,
    );
    let mut other = script.replies(Span { start: 0, len: 1 }).to_vec();
    let last = other.len() - 3;
    other[last] ^= 1;
    assert_eq!(levels(&other, false), [hit, hit, hit, content]);
    let (plain, status, protocol) =
        ((Ok(()), 0, 0), (Err(ErrorClass::Status), 0, 0), (Err(ErrorClass::Protocol), 0, 0));
    assert_eq!(levels(b"-ERR no\r\n", false), [plain, status, status, status]);
    assert_eq!(levels(b"+OK\r\n", false), [plain, protocol, protocol, protocol]);
    let (miss, missed) = ((Ok(()), 0, 1), (Err(ErrorClass::Miss), 0, 1));
    assert_eq!(levels(b"$-1\r\n", false), [miss, missed, missed, missed]);
    assert_eq!(levels(b"$-1\r\n", true), [miss; 4]);
    assert_eq!(levels(b"220 smtp.example\r\n", true), [protocol; 4]);
}

#[test]
fn error_replies_are_quoted() {
    let script = script(Dialect::Memcached, ScriptPlan::Each(Action::Set), 2, 2);
    let mut client = client(&script, STRICT);
    let replies: &[u8] = b"SERVER_ERROR out of memory\r\nERROR\r\n";
    let refused = (Err(ErrorClass::Status), 0, 0);
    assert_eq!(outcomes(&mut client, Span { start: 0, len: 2 }, &[replies]), [refused, refused]);
    // The last of the two; the first was noted before it.
    let mut conn = client.open();
    assert_eq!(client.take_failure_detail(&mut conn), Some(1));
    assert_eq!([0, 1].map(|detail| client.failure_detail(detail)), ["`SERVER_ERROR out of memory`", "`ERROR`"]);
}

#[test]
fn an_end_inside_a_value_is_told_from_one_before_it() {
    for (dialect, in_head, in_value) in [
        (Dialect::Resp, &b"$1"[..], &b"$12\r\nab"[..]),
        (Dialect::Us, b"", b"ab"),
        (Dialect::Memcached, b"VALUE x", b"VALUE x 0 1\r\n"),
        (Dialect::MemcachedMeta, b"VA ", b"VA 12\r\nab"),
    ] {
        let get = ScriptPlan::Mixed { mix: Mix { get: 1, set: 0, del: 0 }, keys: UNIFORM, miss_ratio: 0.0 };
        let script = script(dialect, get, 1, 1);
        for (bytes, class) in [(in_head, ErrorClass::EofEarly), (in_value, ErrorClass::ShortBody)] {
            let (mut client, span) = (client(&script, STRICT), Span { start: 0, len: 1 });
            let mut conn = client.open();
            assert_eq!(client.decode(&mut conn, span, bytes).progress, Progress::NeedMore);
            assert_eq!(client.on_eof(&mut conn, span), EofOutcome::Failed(class), "{dialect:?}");
        }
    }
}

#[test]
fn hello_may_be_torn_or_refused() {
    let welcome = |pieces: &[&[u8]]| {
        let script = script(Dialect::Resp3, EVERYTHING, 1, 1);
        let mut client = client(&script, STRICT);
        let mut conn = client.open();
        let decoded = pieces.iter().map(|piece| client.decode_greeting(&mut conn, piece)).last().expect("a piece");
        (
            decoded.consumed,
            decoded.progress,
            client.take_failure_detail(&mut conn).map(|detail| client.failure_detail(detail)),
        )
    };
    let good: &[u8] = b"%1\r\n+proto\r\n:3\r\n";
    let accepted = |consumed| (consumed, done(consumed, Replies::ONE, Ok(())).progress, None);
    assert_eq!(welcome(&[&[good, b"$-1\r\n"].concat()]), accepted(good.len()));
    assert_eq!(welcome(&[&good[..5], &good[5..]]), accepted(good.len() - 5));
    let refused = welcome(&[b"-NOPROTO sorry\r\n"]);
    assert_eq!(
        (refused.1, refused.2.as_deref()),
        (done(0, Replies::ONE, Err(ErrorClass::Status)).progress, Some("`NOPROTO sorry`"))
    );
    assert_eq!(welcome(&[b"HTTP/1.1 400"]).1, Progress::Broken(ErrorClass::Protocol));
}

#[test]
fn a_connection_loads_its_script_before_it_calls_it() {
    let script = script(Dialect::Resp, ScriptPlan::Scripted { keys: UNIFORM }, 1, 1);
    let mut client = client(&script, STRICT);
    let mut sent = Vec::new();
    client.greet(&mut sent);
    let load = b"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$33\r\nreturn redis.call('GET', KEYS[1])\r\n";
    assert_eq!(sent, load);
    let mut conn = client.open();
    let sha1 = b"d3c21d0c2b9ca22f82737626a27bcaf5d288f99f";
    let loaded = [b"$40\r\n", &sha1[..], b"\r\n"].concat();
    let accepted = done(loaded.len(), Replies::ONE, Ok(())).progress;
    assert_eq!(client.decode_greeting(&mut conn, &loaded).progress, accepted);
    let other = done(0, Replies::ONE, Err(ErrorClass::Protocol)).progress;
    let mut refused = client.open();
    assert_eq!(client.decode_greeting(&mut refused, b"$1\r\nx\r\n").progress, other);
    let (span, mut call, mut key) = (client.next(&mut conn, 1), Vec::new(), Vec::new());
    client.encode(span, &mut call);
    script.space.key(script.requested(span.start).1, &mut key);
    assert_eq!(call, [b"*4\r\n$7\r\nEVALSHA\r\n$40\r\n", &sha1[..], b"\r\n$1\r\n1\r\n$16\r\n", &key, b"\r\n"].concat());
    assert_eq!(outcomes(&mut client, span, &[script.replies(span)]), [(Ok(()), 1, 0)]);
    assert_eq!(outcomes(&mut client, span, &[b"$-1\r\n"]), [(Err(ErrorClass::Miss), 0, 1)]);
    assert_eq!(outcomes(&mut client, span, &[b"-NOSCRIPT No\r\n"]), [(Err(ErrorClass::Status), 0, 0)]);
}

#[test]
fn threads_go_through_the_keys_together_each_once() {
    for threads in [1, 3, 7] {
        let script = script(Dialect::Resp, ScriptPlan::Each(Action::Set), 16, 1_000);
        let mut seen = HashSet::new();
        for thread in 0..threads {
            let mut client = KvClient::new(Arc::clone(&script), STRICT, 1, thread, threads);
            let (mut one, mut other) = (client.open(), client.open());
            let mut left = crate::engine::share(1_000, thread, threads);
            while left > 0 {
                let span = client.next(if left.is_multiple_of(2) { &mut one } else { &mut other }, left.min(16));
                assert!((span.start..span.start + span.len).all(|position| seen.insert(script.requested(position).1)));
                left -= span.left();
            }
        }
        assert_eq!(seen.len(), 1_000);
    }
}

#[test]
fn a_trace_keeps_its_order_over_all_connections() {
    let trace = Trace::from_lines(b"a\nb\na\nc\nd\na\nb").expect("seven keys");
    let gets = ScriptPlan::Mixed {
        mix: Mix { get: 1, set: 0, del: 0 },
        keys: KeyDistribution::Replay(Arc::new(trace)),
        miss_ratio: 0.0,
    };
    let script = script(Dialect::Resp, gets, 3, 100);
    let mut client = client(&script, STRICT);
    let (mut one, mut other) = (client.open(), client.open());
    let mut requested = Vec::new();
    for turn in 0..12 {
        let span = client.next(if turn % 3 == 0 { &mut one } else { &mut other }, 2);
        requested.extend((span.start..span.start + span.len).map(|position| script.requested(position)));
    }
    let expected = [0, 1, 0, 2, 3, 0, 1].map(|key| (Action::Get, key));
    assert!(requested.len() > 14);
    assert_eq!(requested, expected.into_iter().cycle().take(requested.len()).collect::<Vec<_>>());
}

#[test]
fn a_connection_asks_in_order_and_whole_batches_beyond_the_end() {
    let script = script(Dialect::Us, ScriptPlan::Workflow { keys: UNIFORM }, 100, 300);
    let mut client = client(&script, STRICT);
    let (mut conn, mut other) = (client.open(), client.open());
    let mut expected = conn.next;
    assert_eq!(expected % 3, 0, "a workflow begins at its beginning");
    for _ in 0..20 {
        let _ = client.next(&mut other, 70);
        let span = client.next(&mut conn, 100);
        assert_eq!(span, Span { start: expected, len: 100 });
        for position in span.start..span.start + span.len {
            assert_eq!(script.requested(position), script.requested(position % 300));
        }
        assert_eq!(outcomes(&mut client, span, &[script.replies(span)]).len(), 100);
        expected = (expected + 100) % 300;
    }
}

#[test]
fn a_script_that_does_not_fit_is_refused() {
    let build = |keys, value, plan, batch| {
        let space = KeySpace::new(keys, 16, Values::Constant, value..=value).expect("it fits");
        Script::new(space, Dialect::Resp, &plan, batch, None, 1).map(|script| script.positions())
    };
    let gets = |keys| ScriptPlan::Mixed { mix: Mix { get: 1, set: 0, del: 0 }, keys, miss_ratio: 0.0 };
    assert_eq!(build(100_000, 10_000, gets(KeyDistribution::Sequential), 1), Err(ScriptError::SequenceTooLarge));
    assert_eq!(build(10, 1 << 20, gets(UNIFORM), 1_000), Err(ScriptError::BatchTooLarge));
    // Random gets become fewer instead.
    assert!(build(100_000, 10_000, gets(UNIFORM), 10).is_ok_and(|len| (20_000..30_000).contains(&len)));
    assert_eq!(build(u32::MAX, 1 << 20, ScriptPlan::Each(Action::Set), 10), Ok(u32::MAX));
}

/// Damage that a server may do to a reply.
#[derive(Clone, Copy, Debug)]
enum Lie {
    None,
    Byte,
    Longer,
    Absent,
    Error,
}

fn lie(dialect: Dialect, action: Action, reply: &[u8], lie: Lie) -> Vec<u8> {
    let is_value = action == Action::Get;
    match lie {
        Lie::Byte if is_value => {
            let mut reply = reply.to_vec();
            let line_ends = reply.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            reply[line_ends] ^= 1;
            reply
        }
        Lie::Longer if is_value => {
            let mut longer = Vec::new();
            let key = reply.get(6..22).unwrap_or_default();
            dialect.reply(action, key, &[b'y'; 50], &mut longer);
            longer
        }
        Lie::Absent if is_value => {
            let mut absent = Vec::new();
            dialect.reply(Action::GetMissing, b"", b"", &mut absent);
            absent
        }
        Lie::Error => match dialect {
            Dialect::Resp | Dialect::Resp3 => b"-ERR\r\n".to_vec(),
            Dialect::Us => b"ERROR: no\x1f".to_vec(),
            Dialect::Memcached | Dialect::MemcachedMeta => b"SERVER_ERROR no\r\n".to_vec(),
        },
        Lie::None | Lie::Byte | Lie::Longer | Lie::Absent => reply.to_vec(),
    }
}

fn expected_class(action: Action, lie: Lie) -> RequestOutcome {
    match lie {
        Lie::Error => Err(ErrorClass::Status),
        Lie::Byte if action == Action::Get => Err(ErrorClass::Content),
        Lie::Longer if action == Action::Get => Err(ErrorClass::Length),
        Lie::Absent if action == Action::Get => Err(ErrorClass::Miss),
        Lie::None | Lie::Byte | Lie::Longer | Lie::Absent => Ok(()),
    }
}

proptest! {
    #[test]
    fn every_request_gets_its_own_verdict_however_replies_are_torn(
        dialect in prop::sample::select(DIALECTS.to_vec()),
        lies in prop::collection::vec(prop::sample::select(vec![
            Lie::None, Lie::None, Lie::None, Lie::Byte, Lie::Longer, Lie::Absent, Lie::Error,
        ]), 1..30),
        chunk in 1_usize..200,
        start in 0_u32..60,
    ) {
        let script = script(dialect, EVERYTHING, 30, 60);
        let span = Span { start, len: u32::try_from(lies.len()).expect("few") };
        let positions = start..;
        let replies = right_replies(&script, span);
        let told: Vec<u8> = positions.clone().zip(&replies).zip(&lies)
            .flat_map(|((position, reply), &what)| lie(dialect, script.requested(position).0, reply, what)).collect();
        let expected: Vec<_> = positions.zip(&lies)
            .map(|(position, &what)| expected_class(script.requested(position).0, what)).collect();
        let mut client = client(&script, STRICT);
        let torn = outcomes(&mut client, span, &told.chunks(chunk).collect::<Vec<_>>());
        let whole = outcomes(&mut client, span, &[&told]);
        for found in [&torn, &whole] {
            prop_assert_eq!(found.iter().map(|(outcome, ..)| *outcome).collect::<Vec<_>>(), expected.clone());
        }
        prop_assert_eq!(sums(&torn), sums(&whole));
    }
}
