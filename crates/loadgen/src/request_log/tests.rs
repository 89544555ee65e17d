use super::*;
use crate::{
    error::ErrorClass,
    http::{Expectation, HttpClient, HttpVerify, RequestSpec},
    protocol::ClientProtocol as _,
};

const OPENED: Nanos = 10_000;

fn client() -> HttpClient {
    let question = |path: &str| RequestSpec {
        request: format!("GET {path} HTTP/1.1\r\n\r\n").into_bytes(),
        expectation: Expectation::Nothing,
    };
    HttpClient::new(&[question("/a"), question("/b,c")], HttpVerify::None, 0)
}

fn event(finished: Nanos, latency: Nanos, outcome: RequestOutcome) -> Event {
    Event {
        due: None,
        sent: Some(finished - latency),
        first_byte: None,
        finished,
        connection: Some(1),
        operation: Some(1),
        outcome,
        bytes: 3,
    }
}

/// Makes the log of threads that saw these events, each (finished, latency, outcome).
fn log(size: usize, seed: u64, threads: &[Vec<(Nanos, Nanos, RequestOutcome)>]) -> RequestLog {
    let mut builder = LogBuilder::new(size);
    for (thread, events) in threads.iter().enumerate() {
        builder.add(thread, kept(size, seed, thread, events));
    }
    builder.read(OPENED, &client())
}

fn kept(size: usize, seed: u64, thread: usize, events: &[(Nanos, Nanos, RequestOutcome)]) -> KeptRequests {
    let mut recorder = Recorder::new(size, seed, thread);
    events.iter().for_each(|&(finished, latency, outcome)| recorder.add(event(finished, latency, outcome)));
    recorder.close()
}

/// Each thread has ten connections.
impl LogNames for HttpClient {
    fn connection(&self, thread: usize, slot: usize) -> u64 {
        (10 * thread + slot) as u64
    }

    fn operation(&self, _: usize, operation: u32) -> Arc<str> {
        self.operation_name(operation).into()
    }
}

fn finished(log: &RequestLog, reason: Reason) -> Vec<i64> {
    log.records.iter().filter(|record| record.reasons.has(reason)).map(|record| record.finished).collect()
}

/// Makes the events of two threads whose requests take turns. Each tenth one fails, and the later ones are the quicker.
fn two_threads(count: u64) -> Vec<Vec<(Nanos, Nanos, RequestOutcome)>> {
    let outcome = |n: u64| if n % 10 == 3 { Err(ErrorClass::Reset) } else { Ok(()) };
    let events =
        |thread: u64| (0..count).filter(move |n| n % 2 == thread).map(move |n| (OPENED + n, count - n, outcome(n)));
    vec![events(0).collect(), events(1).collect()]
}

#[test]
fn a_large_log_has_every_request_once() {
    for count in [0, 1, 99, 100] {
        let log = log(100, 1, &two_threads(count));
        let all: Vec<_> = (0..count.cast_signed()).collect();
        assert_eq!((log.seen, finished(&log, Reason::Sample)), (count, all.clone()));
        assert_eq!(log.records.iter().map(|record| record.finished).collect::<Vec<_>>(), all);
    }
}

#[test]
fn the_last_slowest_and_failed_of_all_threads_are_kept() {
    let log = log(40, 1, &two_threads(1_000));
    assert_eq!(log.seen, 1_000);
    assert_eq!(finished(&log, Reason::Sample).len(), 40);
    assert_eq!(finished(&log, Reason::Last), [996, 997, 998, 999]);
    assert_eq!(finished(&log, Reason::Failed), [963, 973, 983, 993]);
    // The first were the slowest, and the fourth had failed.
    assert_eq!(finished(&log, Reason::Slowest), [0, 1, 2, 4]);
    assert!(log.records.iter().all(|record| record.reasons != Reasons::default()));
}

#[test]
fn the_sample_follows_the_seed_and_favours_no_thread() {
    let threads = two_threads(2_000);
    assert_eq!(log(200, 1, &threads), log(200, 1, &threads));
    assert_ne!(log(200, 1, &threads), log(200, 2, &threads));
    // A thread with a quarter of the requests has a quarter of the samples: 50 of 200 in each of 50 runs, with a deviation
    // of 6 in one and of 41 in all.
    let uneven: Vec<Vec<_>> =
        [(0..500), (500..2_000)].into_iter().map(|range| range.map(|n| (OPENED + n, 1, Ok(()))).collect()).collect();
    let of_first = |seed| finished(&log(200, seed, &uneven), Reason::Sample).iter().filter(|&&n| n < 500).count();
    let found: usize = (0..50).map(of_first).sum();
    assert!((2_300..2_700).contains(&found), "{found}");
}

#[test]
fn slowest_of_an_open_loop_counts_from_the_schedule() {
    let mut recorder = Recorder::new(10, 1, 0);
    // Sent ever later, due ever earlier: what waited longest is the last.
    for n in 0..20 {
        recorder.add(Event { due: Some(OPENED - 10 * n), ..event(OPENED + n, 20 - n, Ok(())) });
    }
    let mut builder = LogBuilder::new(10);
    builder.add(0, recorder.close());
    assert_eq!(finished(&builder.read(OPENED, &client()), Reason::Slowest), [19]);
}

/// Pieces come as from processes: one after the other or by turns, in any order.
#[test]
fn the_log_does_not_depend_on_the_order_of_arrival() {
    // Ten requests each end at the same time, and as many took equally long.
    let tied = |thread: &Vec<(Nanos, Nanos, RequestOutcome)>| {
        thread.iter().map(|&(finished, latency, outcome)| (OPENED + finished / 20, latency / 20, outcome)).collect()
    };
    let threads: Vec<Vec<_>> = two_threads(1_000).iter().map(tied).collect();
    for (size, most) in [(40, 7), (40, 1), (400, 64), (1_000, 10_000)] {
        let whole = log(size, 1, &threads);
        let mut pieces = Vec::new();
        for (thread, events) in threads.iter().enumerate() {
            for piece in kept(size, 1, thread, events).pieces(most) {
                let text = serde_json::to_string(&piece).expect("JSON");
                let held: usize = piece.lists.iter().map(Vec::len).sum();
                assert!((1..=most).contains(&held), "{held}");
                pieces.push((thread, text));
            }
        }
        fastrand::Rng::with_seed(9).shuffle(&mut pieces);
        let mut builder = LogBuilder::new(size);
        for (thread, text) in pieces {
            builder.add(thread, serde_json::from_str(&text).expect("JSON"));
            assert!(builder.lists[0].len() <= 2 * size && builder.lists[1].len() <= size.div_ceil(5));
        }
        assert_eq!(builder.read(OPENED, &client()), whole, "{size} in pieces of {most}");
    }
    assert_eq!(
        KeptRequests { seen: 3, ..KeptRequests::default() }.pieces(5).map(|piece| piece.seen).collect::<Vec<_>>(),
        [3]
    );
}

#[test]
fn both_formats_say_the_same() {
    let mut threads = two_threads(4);
    threads[1].insert(0, (OPENED - 1, 5, Ok(())));
    let log = log(10, 1, &threads);
    let written = |format| {
        let mut bytes = Vec::new();
        log.write(format, &mut bytes).expect("memory takes everything");
        String::from_utf8(bytes).expect("UTF-8")
    };
    let csv = written(LogFormat::Csv);
    let rows: Vec<_> = csv.lines().collect();
    assert_eq!(
        rows[0],
        "scheduled_ns,sent_ns,first_byte_ns,finished_ns,connection,operation,outcome,bytes,in_sample,in_last,in_slowest,in_failed"
    );
    assert_eq!(rows[1], ",-6,,-1,11,\"GET /b,c\",ok,3,true,false,true,false");
    assert_eq!(rows[5], ",2,,3,11,\"GET /b,c\",reset,3,true,true,false,true");
    let json: Vec<serde_json::Value> =
        written(LogFormat::JsonLines).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((json.len(), rows.len()), (5, 6));
    assert_eq!(json[4]["outcome"], "reset");
    assert!(json[0]["scheduled_ns"].is_null() && json[0]["in_slowest"] == true && json[0]["finished_ns"] == -1);
}
