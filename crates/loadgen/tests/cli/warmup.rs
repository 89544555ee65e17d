//! `--warmup` and `--max-warmup`. A test knows if the load became steady; the time that takes depends on the machine.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use serde_json::json;

use super::support::{
    Run, loadgen,
    socket_server::{Act, Server, ok},
};

/// Limit of the time of a reply.
const LONGEST: Duration = Duration::from_millis(300);

/// Requests from which on the load has begun: on a busy machine, long after the first one.
const BEGUN: u64 = 40;

/// Starts a server that sleeps before each reply, for as long as `sleep` says of the time since the load has begun.
fn paced(sleep: impl Fn(Duration) -> Duration + Send + Sync + 'static) -> Server {
    let begun = OnceLock::new();
    Server::start(move |number| {
        let since = if number < BEGUN { Duration::ZERO } else { begun.get_or_init(Instant::now).elapsed() };
        std::thread::sleep(sleep(since));
        Act::Say(ok("x"))
    })
}

#[test]
fn a_warm_up_goes_on_until_the_load_is_steady() {
    // Twice as fast every 100 ms, until it is steady: no hiccup of the machine hides that.
    let server = paced(|since| Duration::from_secs_f64((0.096 * 2_f64.powf(-since.as_secs_f64() / 0.1)).max(0.005)));
    let run = Run::http(&server.url(), &["-c", "32", "-d", "600ms", "--max-warmup", "20s", "--timeline"]);
    run.assert_errors(&[]);
    let (warmup_s, timeline) = (run.result.warmup_s.expect("one"), run.result.timeline.as_ref().expect("asked for"));
    assert_eq!(run.result.warmup_steady, Some(true), "{warmup_s} s");
    // The first five windows could have ended it.
    assert!((0.59..20.0).contains(&warmup_s), "{warmup_s}");
    assert!(run.result.latency_us.p50 < 60_000.0, "the slow ones were before: {:?}", run.result.latency_us);

    // What the timeline has of the warm-up is all of it, and ends where the window begins.
    let (first, last) = (timeline.warmup.first().expect("some"), timeline.warmup.last().expect("some"));
    assert!((last.start_s + 0.1).abs() < 1e-9, "{timeline:?}");
    assert!(-first.start_s > warmup_s / 2.0 && -first.start_s <= warmup_s, "{warmup_s}: {timeline:?}");
    assert!(first.p50_us > 2.0 * last.p50_us, "{timeline:?}");
}

#[test]
fn an_unsteady_warm_up_ends_at_its_limit() {
    // Half as fast every 200 ms.
    let server = paced(|since| Duration::from_secs_f64(0.004 * 2_f64.powf(since.as_secs_f64() / 0.2)).min(LONGEST));
    let limits = ["-c", "32", "-d", "600ms", "--warmup", "300ms", "--max-warmup", "850ms"];
    let run = Run::http(&server.url(), &limits);
    run.assert_errors(&[]);
    assert_eq!(run.result.warmup_steady, Some(false));
    assert!(run.result.warmup_s.is_some_and(|warmup_s| warmup_s >= 0.9), "in whole windows: {:?}", run.result.warmup_s);
    assert_eq!((&run.result.config["warmup_s"], &run.result.config["max_warmup_s"]), (&json!(0.3), &json!(0.85)));
}

#[test]
fn every_rate_has_a_warm_up_and_the_whole_their_sum() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let run = Run::http(&server.url(), &["-c", "2", "-R", "500,1000", "-d", "500ms", "--max-warmup", "1s"]);
    run.assert_errors(&[]);
    let of =
        |step: &loadgen::result::Step| (step.result.warmup_s.expect("one"), step.result.warmup_steady.expect("asked"));
    let steps: Vec<_> = run.result.steps.iter().map(of).collect();
    assert!(steps.len() == 2 && steps.iter().all(|(warmup_s, _)| *warmup_s >= 0.5), "{steps:?}");
    let sum: f64 = steps.iter().map(|(warmup_s, _)| warmup_s).sum();
    assert!(run.result.warmup_s.is_some_and(|warmup_s| (warmup_s - sum).abs() < 1e-6), "{:?}", run.result.warmup_s);
    assert_eq!(run.result.warmup_steady, Some(steps.iter().all(|(_, is_steady)| *is_steady)));
}

#[test]
fn a_fixed_warm_up_is_neither_steady_nor_unsteady() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let run = Run::http(&server.url(), &["-c", "2", "-d", "500ms", "--warmup", "200ms"]);
    assert!(run.result.warmup_s.is_some_and(|warmup_s| warmup_s >= 0.2), "{:?}", run.result.warmup_s);
    assert_eq!(run.result.warmup_steady, None);
    let without = Run::http(&server.url(), &["-c", "2", "-n", "5"]);
    assert_eq!((without.result.warmup_s, without.result.warmup_steady), (None, None));
}

#[test]
fn text_and_csv_say_how_the_warm_up_ended() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let said = |format| {
        let output =
            loadgen(&["http", "-c", "2", "-d", "500ms", "--max-warmup", "500ms", "--format", format, &server.url()]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = said("text");
    // Lines break where they are full.
    let text = text.replace('\n', " ");
    assert!(text.contains(" warmed up for 0.") && text.contains("s warm-up, at most 0.5 s of it"), "{text}");
    let table = said("csv");
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (head, row) = (lines.next().expect("a head"), lines.next().expect("a row"));
    let of = |name: &str| head.iter().position(|column| *column == name).map(|column| row[column]);
    assert!(of("warmup_s").is_some_and(|s| s.parse::<f64>().is_ok_and(|s| s >= 0.5)), "{table}");
    assert!(matches!(of("warmup_steady"), Some("true" | "false")), "{table}");
}
