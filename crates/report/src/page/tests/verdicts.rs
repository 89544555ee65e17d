//! Laws of verdicts and findings: who stands beside whom, in which direction, by how much, and what is not claimed.

use results::{Comparison, Effect, Metric, Ratio, Remote, Role};

use super::{
    super::{costs, cpu_budget, effects, header, latency, overview, verdicts},
    Flag, FlagCount, Outcome, Summary, Topic, Workload, figures_mut,
};
use crate::{matrix_view::MatrixView, sample};

/// Text of some HTML, with plain spaces.
fn plain(html: &str) -> String {
    let parts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    parts.collect::<String>().replace('\u{a0}', " ")
}

fn verdicts(summary: &Summary) -> Vec<String> {
    verdicts::verdicts(&MatrixView::alone(summary)).iter().map(|one| plain(&one.0)).collect()
}

fn verdict(summary: &Summary, beginning: &str) -> String {
    let all = verdicts(summary);
    all.iter().find(|one| one.starts_with(beginning)).unwrap_or_else(|| panic!("{beginning}: {all:?}")).clone()
}

/// A ratio that differs, with bounds a tenth away.
fn ratio(median: f64) -> Ratio {
    Ratio { median, lo: median * 0.9, hi: median * 1.1, differs: true, blocks: 7 }
}

/// The comparisons of one topic, one for each workload in its order, changed.
fn compared(topic: Topic, change: impl Fn(usize, &mut Comparison)) -> Summary {
    let mut summary = sample::summary();
    let (mut seen, mut kept) = (Vec::new(), Vec::new());
    for mut one in summary.comparisons.drain(..).filter(|one| one.topic == Topic::BestOverPeer) {
        if !seen.contains(&one.workload) {
            seen.push(one.workload.clone());
            one.topic = topic;
            change(seen.len() - 1, &mut one);
            kept.push(one);
        }
    }
    summary.comparisons = kept;
    summary
}

/// Top of a page of several servers.
fn run(matrices: &[Summary]) -> String {
    plain(&overview::html(&MatrixView::all(matrices)).0)
}

#[test]
fn of_several_peers_the_strongest_is_named() {
    for (metric, medians, said) in [
        (
            Metric::ServerCpu,
            [0.8, 0.9, 0.7],
            "On get-128B-c64 (noise ±1.3 %) uring costs 10 % less [−19, −1] server CPU per request than nginx, sendfile on.",
        ),
        (
            Metric::Throughput,
            [1.4, 1.2, 1.3],
            "On get-128B-c64 (noise ±1.3 %) uring serves 20 % more [+8, +32] requests per second than nginx, sendfile on.",
        ),
    ] {
        let mut summary = compared(Topic::BestOverPeer, |_, _| {});
        let one = Comparison { metric, ..summary.comparisons[0].clone() };
        let peers = ["lighttpd", "nginx/sendfile-on", "null"].into_iter().zip(medians);
        summary.comparisons = peers
            .map(|(peer, median)| Comparison { object: peer.to_owned(), ratio: ratio(median), ..one.clone() })
            .collect();
        assert!(verdict(&summary, "Beside the best peer").contains(said), "{:?}", verdicts(&summary));
    }
}

#[test]
fn a_head_ranks_only_who_is_ahead_everywhere_in_a_full_run() {
    let cheapest =
        |summary: &Summary| verdicts(summary).iter().any(|one| one.starts_with("uring is the cheapest of ours."));
    let summary = compared(Topic::BestOverReference, |_, one| one.ratio = ratio(0.8));
    assert!(cheapest(&summary));
    let mut quick = summary.clone();
    quick.setup.quick = true;
    let mut mixed = summary.clone();
    mixed.comparisons[4].subject = "http-server/tokio".to_owned();
    let mut unsure = summary;
    unsure.comparisons[4].ratio.differs = false;
    assert!(![quick, mixed, unsure].iter().any(cheapest));
}

#[test]
fn a_subject_is_left_out_only_where_it_was_just_named() {
    let summary = compared(Topic::BestOverPeer, |index, one| {
        one.ratio = ratio([0.8, 2.5, 0.4][index.min(2)]);
        if index == 2 {
            one.subject = "http-server/tokio".to_owned();
        }
    });
    let said = verdict(&summary, "Beside the best peer.");
    let expected = [
        "uring costs 20 % less [−28, −12] server CPU per request than lighttpd.",
        "On get-26KB-c64 (noise ±1.5 %) 2.50 × [2.25, 2.75] that of lighttpd.",
        "On get-1MiB-c16 (noise ±6.2 %) tokio costs 0.40 × [0.36, 0.44] the server CPU per request of lighttpd. 2 more in the matrix.",
    ];
    assert!(expected.iter().all(|words| said.contains(words)), "{said}");
    let reference = compared(Topic::ReferenceOverPeer, |_, _| {});
    assert!(verdict(&reference, "epoll beside the best peer.").contains("On get-128B-c64"));
}

#[test]
fn a_comparison_with_a_flagged_cell_says_so() {
    let mut summary = sample::summary();
    assert!(!verdicts(&summary).iter().any(|one| one.contains("(flagged)")));
    // Of uring under the first workload, which four questions are about.
    figures_mut(&mut summary, 5).flags = vec![FlagCount { flag: Flag::Noisy, visits: 1 }];
    let said = verdict(&summary, "Beside the best peer.");
    assert_eq!(said.matches("than lighttpd (flagged).").count(), 1, "{said}");
}

#[test]
fn unbeaten_needs_rivals_and_workloads_without_misses() {
    let none_cheaper =
        |summary: &Summary| verdicts(summary).into_iter().find(|one| one.contains("none of ours cost less"));
    let mut summary = sample::summary();
    summary.comparisons.clear();
    summary.setup.workloads[1].allows_misses = true;
    let said = none_cheaper(&summary).expect("nobody is cheaper");
    assert!(said.contains("On get-128B-c64, get-1MiB-c16, pipelined-16 and get-128B-c64-open none of"), "{said}");
    let is_other = |cell: &str| {
        summary.setup.cells.iter().any(|it| it.id == cell && it.role == Role::Ours && cell != "http-server/epoll")
    };
    let alone = summary.results.iter().filter(|result| !is_other(&result.cell)).cloned().collect();
    assert_eq!(none_cheaper(&Summary { results: alone, ..summary.clone() }), None, "it has nobody beside it");
}

#[test]
fn trust_names_the_floors_of_cost_and_every_reason_for_doubt() {
    let mut summary = sample::summary();
    summary.noise.iter_mut().for_each(|noise| noise.throughput_floor_percent = 50.0);
    figures_mut(&mut summary, 5).flags = vec![FlagCount { flag: Flag::ClientSaturated, visits: 1 }];
    summary.setup.pinning.shared = true;
    let said = verdict(&summary, "How far to trust this.");
    for words in [
        "differs by ±1.3 % to ±6.2 %, depending",
        " In 1 cell the generator was the limit, not the server.",
        " 2 cells deserve doubt, and are hatched.",
        " Server and generator shared a core: nothing here can be trusted.",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    summary.noise.iter_mut().for_each(|noise| noise.cpu_floor_percent = 100.0);
    assert!(verdict(&summary, "How far").contains("Fewer than three blocks: how far"));
}

/// The sample with the effects of these levels: (level, median, whether it differs).
fn with_effects(levels: &[(&str, f64, bool)]) -> Summary {
    let mut summary = sample::summary();
    let one = summary.effects[0].clone();
    let effect = |&(level, median, differs): &(&str, f64, bool)| Effect {
        level: level.to_owned(),
        cpu: Ratio { differs, ..ratio(median) },
        ..one.clone()
    };
    summary.effects = levels.iter().map(effect).collect();
    summary
}

#[test]
fn the_largest_effect_comes_first_and_noise_is_no_change() {
    let mut summary = with_effects(&[("tokio", 1.5, true), ("uring", 0.4, true), ("pool", 9.0, false)]);
    assert_eq!(
        verdict(&summary, "One choice changed"),
        "One choice changed, all else equal. Server CPU per request: uring instead of epoll 60 % less [−64, −56]; tokio instead \
         of epoll 50 % more [+35, +65]; no difference seen with pool."
    );
    let finding = plain(&effects::finding(&effects::drawable(&summary)));
    assert_eq!(
        finding,
        "The largest change: uring instead of epoll, × 0.40 server CPU per request. No difference seen: pool."
    );
    let first = "The choice that changes most: uring instead of epoll, 60 % less [−64, −56].";
    assert!(run(&[summary.clone(), sample::cache()]).contains(first));
    summary.effects[0].factor = "store".to_owned();
    let said = verdict(&summary, "One choice changed");
    assert!(said.contains("driver uring instead of epoll") && said.contains("store tokio instead of epoll"), "{said}");
    assert!(
        run(&[with_effects(&[("tokio", 1.5, true)]), sample::cache()]).contains("tokio instead of epoll, 50 % more")
    );
}

#[test]
fn findings_name_the_ends_and_leave_the_null_server_out() {
    let mut summary = sample::summary();
    // It would be the cheapest of all by far.
    figures_mut(&mut summary, 45).cpu_ratio = Some(ratio(0.001));
    let view = MatrixView::alone(&summary);
    assert_eq!(
        plain(&costs::finding(&view)),
        "The servers lie furthest apart on pipelined-16 (0.97 to 13.5 × epoll), closest on get-1MiB-c16 (no difference seen)."
    );
    assert_eq!(
        plain(&latency::finding(&view, 4)),
        "At 100,000 requests/s: p99 from 263 µs (uring) to 500 µs (tokio-uring)."
    );
    assert_eq!(
        plain(&cpu_budget::finding(&view, 4)),
        "The null server pays 3.96 µs for the same bytes, epoll 4.40 µs. Kernel share of epoll: 85 %."
    );
}

#[test]
fn the_line_of_the_host_has_every_condition_once() {
    let mut summary = sample::summary();
    summary.setup.pinning.server_cpus = "2-3".to_owned();
    let line = |all: &[Summary]| plain(&header::host_line(&MatrixView::all(all).iter().collect::<Vec<_>>()));
    assert_eq!(
        line(&[summary.clone()]),
        "2 cores, Linux 6.18.0, loopback · server on CPU 2-3, generator on CPU 1 · 385 visits in 7 randomised blocks · in \
         brackets the 95 % interval · “~” means no difference seen"
    );
    let mut other = summary.clone();
    other.setup.remote = Some(Remote { prefix: vec!["ssh".to_owned()], host: "10.0.0.1".parse().unwrap() });
    assert_eq!(
        line(&[summary, other]),
        "2 cores, Linux 6.18.0, loopback or 2 cores, Linux 6.18.0, server at 10.0.0.1 · server on CPU 2-3, generator on CPU 1 · \
         770 visits in 7 randomised blocks · in brackets the 95 % interval · “~” means no difference seen"
    );
}

#[test]
fn a_header_names_the_servers_and_every_warning() {
    let head = |summary: &Summary| plain(&header::html(&MatrixView::alone(summary), &[], &[]).0);
    let mut summary = sample::summary();
    let said = head(&summary);
    for words in [
        "http-server on seven drivers",
        "beside lighttpd, nginx and the null server",
        "every number on this page is made up",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(header::tag(&summary).0, "");
    summary.progress.is_partial = true;
    assert!(plain(&header::tag(&summary).0).contains("unfinished run") && head(&summary).starts_with("Unfinished."));
    let mut many = sample::crossed();
    for result in many.results.iter_mut().filter(|result| result.workload == "get-1MiB-c16") {
        result.outcome = Outcome::NotRun { reason: "too large".to_owned() };
    }
    assert!(
        head(&many).contains("epoll/hashbrown: get-1MiB-c16; ") && head(&many).contains(" and 9 more."),
        "{}",
        head(&many)
    );
}

/// Comparisons of a whole page: nothing is claimed inside the noise, and less is not more.
#[test]
fn the_overview_counts_workloads_by_direction() {
    let beside = |topic, change: &dyn Fn(usize, &mut Comparison)| run(&[compared(topic, change), sample::cache()]);
    let change = |index: usize, one: &mut Comparison| {
        one.ratio = Ratio { differs: index != 4, ..ratio([0.7, 0.9, 1.2, 0.8, 0.1][index]) };
    };
    let said = beside(Topic::BestOverPeer, &change);
    let words = "Its cheapest back end beside the best peer, server CPU per request: less on 3 workloads (10 % to 30 %); more on 1 \
                 workload (20 %); no difference seen on 1 workload.";
    assert!(said.contains(words), "{said}");
    // Beyond a factor of two percentages mislead.
    let said = beside(Topic::BestOverPeer, &|index, one| one.ratio = ratio([0.8, 0.4, 0.7, 0.7, 0.7][index]));
    assert!(said.contains("less on 5 workloads (0.80 × to 0.40 ×)."), "{said}");
    let mut unbeaten = sample::summary();
    unbeaten.comparisons.clear();
    let said = run(&[unbeaten.clone(), sample::cache()]);
    assert!(said.contains("beside epoll, server CPU per request: none of ours cost less on 5 workloads."), "{said}");
    unbeaten.setup.blocks = 2;
    assert!(
        run(&[unbeaten, sample::cache()]).contains("http-server. Fewer than three blocks: no difference is claimed.")
    );
}

#[test]
fn the_overview_says_everything_once() {
    let mut third = sample::quick();
    (third.setup.created_utc, third.setup.command) = ("2019-01-01T00:00:00Z".to_owned(), "another command".to_owned());
    third.setup.server = "http-server".to_owned();
    let all = [sample::summary(), sample::cache(), third, sample::quick()];
    assert_eq!(overview::title(&MatrixView::all(&all)), "http-server and kvcache");
    let said = run(&all);
    assert_eq!(said.matches("Quick, no ranking.").count(), 1, "{said}");
    assert!(
        said.contains("2019-01-01 00:00:00 UTC, cargo xtask bench-matrix --seed 42 --blocks 7, another command"),
        "{said}"
    );
    let html = overview::html(&MatrixView::all(&all[..2])).0;
    for place in [
        "http-server: blocking get-26KB-c64",
        "http-server: nginx, sendfile on get-128B-c64-open",
        "http-server (64 workers): pool: get-1MiB-c16",
    ] {
        assert_eq!(html.matches(&format!("<li>{place}</li>")).count(), 1, "{place}: {html}");
    }
    assert!(plain(&html).contains("4 cells hatched: a flag casts doubt on the figures"), "{}", plain(&html));
    // In the sentence and in the row of links.
    assert_eq!((html.matches("href=\"#top\"").count(), html.matches("href=\"#m2-top\"").count()), (2, 2));
}

#[test]
fn what_was_not_run_stands_by_its_reason_and_workload() {
    let mut summary = sample::summary();
    let workloads: Vec<Workload> = summary.setup.workloads.clone();
    for (index, reason) in [(5, "no ring"), (6, "no ring"), (14, "no room")] {
        summary.results[index].outcome = Outcome::NotRun { reason: reason.to_owned() };
    }
    let missing = header::missing(&MatrixView::alone(&summary));
    let found: Vec<_> = missing.iter().map(|one| (one.reason.as_str(), one.places.join("; "))).collect();
    let uring = format!("uring: {}, {}", workloads[0].name, workloads[1].name);
    let expected = [
        ("no ring", uring),
        ("no room", format!("tokio: {}", workloads[4].name)),
        ("64 workers", "pool: get-1MiB-c16".to_owned()),
    ];
    assert_eq!(found, expected);
}
