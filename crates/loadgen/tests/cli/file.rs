//! `loadgen file` against right servers.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;

use super::support::{
    Run,
    documents::{Documents, framed},
    loadgen,
    socket_server::{Act, Server, framed_request, original_request},
};

const FLAT: &[&str] = &["--layout", "flat"];
const FRAMED: &[&str] = &["--layout", "flat", "--protocol", "framed"];

#[test]
fn a_right_server_of_the_original_protocol_makes_no_errors() {
    let documents = Arc::new(Documents::of(&[0, 1, 10, 1_000, 300_000]));
    let server = documents.serve_original();
    let run = Run::file(&server.address(), documents.path(), &[FLAT, &["-c", "3", "-n", "200"]].concat());
    run.assert_errors(&[]);
    assert_eq!((run.result.ok, run.result.hits, run.result.misses), (200, Some(200), Some(0)));
    assert_eq!((run.result.bytes_out, run.result.reconnects), (200 * 8, 0));
    assert_eq!(server.connections(), 1 + 200, "the probe, and one for each request");
    assert!(run.result.latency_us.min > 0.0);
}

#[test]
fn a_right_server_of_the_framed_protocol_makes_no_errors() {
    let documents = Arc::new(Documents::of(&[0, 1, 10, 1_000, 300_000]));
    let server = documents.serve_framed();
    for pipeline in ["1", "16"] {
        let options = [FRAMED, &["-c", "3", "-n", "200", "-P", pipeline]].concat();
        let run = Run::file(&server.address(), documents.path(), &options);
        run.assert_errors(&[]);
        assert_eq!((run.result.ok, run.result.hits, run.result.misses), (200, Some(200), Some(0)));
        assert_eq!(run.result.bytes_out, 200 * 10);
    }
    assert_eq!(server.connections(), 2 * (1 + 3));
}

#[test]
fn an_expected_miss_is_no_error() {
    let documents = Arc::new(Documents::of(&[100, 200]));
    for (server, options) in [(documents.serve_original(), FLAT), (documents.serve_framed(), FRAMED)] {
        let all = [options, &["-c", "2", "-n", "50", "--miss-ratio", "1"]].concat();
        let run = Run::file(&server.address(), documents.path(), &all);
        run.assert_errors(&[]);
        assert_eq!((run.result.hits, run.result.misses), (Some(0), Some(50)));
        let some = [options, &["-c", "2", "-n", "200", "--miss-ratio", "0.5"]].concat();
        let run = Run::file(&server.address(), documents.path(), &some);
        run.assert_errors(&[]);
        assert!(run.result.hits.is_some_and(|hits| (50..150).contains(&hits)), "{:?}", run.result.hits);
    }
}

#[test]
fn a_known_document_of_one_nul_is_a_hit() {
    let documents = Arc::new(Documents::with([vec![0], vec![0, 0], vec![]]));
    for (server, options) in [(documents.serve_original(), FLAT), (documents.serve_framed(), FRAMED)] {
        let options = [options, &["-c", "1", "-n", "30", "--id-dist", "sequential"]].concat();
        let run = Run::file(&server.address(), documents.path(), &options);
        run.assert_errors(&[]);
        assert_eq!(run.result.hits, Some(30));
    }
}

/// Runs, and returns the ids in the order in which they were asked for.
fn asked(documents: &Arc<Documents>, options: &[&str]) -> Vec<Vec<u8>> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (all, asking) = (Arc::clone(documents), Arc::clone(&asked));
    let server = Server::answering(framed_request, move |_, request| {
        asking.lock().expect("no panic").push(request[2..].to_vec());
        Act::Say(all.framed(&request[2..]))
    });
    Run::file(&server.address(), documents.path(), &[FRAMED, options].concat()).assert_errors(&[]);
    std::mem::take(&mut asked.lock().expect("no panic"))
}

#[test]
fn sequential_asks_for_each_document_in_turn() {
    let documents = Arc::new(Documents::of(&[1, 2, 3, 4]));
    let ids: Vec<_> = documents.bodies.keys().cloned().collect();
    let options = ["-c", "1", "-n", "10", "--id-dist", "sequential"];
    let expected: Vec<_> = ids.iter().cycle().take(10).cloned().collect();
    assert_eq!(asked(&documents, &options), expected);
    // Two threads begin half-way apart, and between them ask for each as often.
    let both = asked(&documents, &["-c", "2", "-n", "8", "--threads", "2", "--id-dist", "sequential"]);
    let counts = ids.iter().map(|id| both.iter().filter(|asked| *asked == id).count());
    assert_eq!(counts.collect::<Vec<_>>(), [2, 2, 2, 2]);
}

#[test]
fn zipf_prefers_few_documents_and_uniform_none() {
    let documents = Arc::new(Documents::of(&[1; 8]));
    let most_often = |law| {
        let asked = asked(&documents, &["-c", "1", "-n", "800", "-P", "8", "--id-dist", law]);
        assert_eq!(asked.len(), 800);
        documents.bodies.keys().map(|id| asked.iter().filter(|asked| *asked == id).count()).max()
    };
    // The seed is fixed: shares of 1/8, and of 1/H(8, 2) = 65 %.
    assert!(most_often("uniform").is_some_and(|count| (100..150).contains(&count)));
    assert!(most_often("zipf:2").is_some_and(|count| (470..570).contains(&count)));
}

#[test]
fn requestors_sleep_between_their_requests() {
    let documents = Arc::new(Documents::of(&[10, 20, 30]));
    for (server, options) in [(documents.serve_original(), FLAT), (documents.serve_framed(), FRAMED)] {
        let knobs = ["--requestors", "3", "--reps", "5", "--sleep-avg", "20", "--sleep-stddev", "0"];
        let run = Run::file(&server.address(), documents.path(), &[options, &knobs, &["--threads", "2"]].concat());
        run.assert_errors(&[]);
        assert_eq!(run.result.ok, 15);
        // Four sleeps of 20 ms lie between five requests; none is needed behind the last.
        assert!(run.result.duration_s >= 0.08, "{}", run.result.duration_s);
        assert_eq!(server.connections(), 1 + if options == FLAT { 15 } else { 3 });
        for (name, value) in
            [("requestors", json!(3)), ("reps", json!(5)), ("sleep_avg_ms", json!(20.0)), ("connections", json!(3))]
        {
            assert_eq!(run.result.config[name], value, "{name}");
        }
    }
}

#[test]
fn any_option_of_the_original_client_implies_its_defaults() {
    let documents = Arc::new(Documents::of(&[10, 20, 30]));
    let server = documents.serve_original();
    let knobs = ["--sleep-avg", "0", "--sleep-stddev", "0"];
    let run = Run::file(&server.address(), documents.path(), &[FLAT, &knobs].concat());
    run.assert_errors(&[]);
    assert_eq!((run.result.ok, server.connections()), (300, 301));
    assert_eq!((&run.result.config["requestors"], &run.result.config["reps"]), (&json!(10), &json!(30)));
}

#[test]
fn every_requestor_has_all_its_turns() {
    // The first connection that asks waits for each answer; the other is done long before.
    let documents = Arc::new(Documents::of(&[10]));
    let (all, asked) = (Arc::clone(&documents), Arc::new(Mutex::new(HashMap::<_, u32>::new())));
    let asking = Arc::clone(&asked);
    let server = Server::answering(framed_request, move |number, request| {
        let thread = std::thread::current().id();
        let mut asked = asking.lock().expect("no panic");
        *asked.entry(thread).or_default() += 1;
        drop(asked);
        if number == 0 {
            std::thread::sleep(Duration::from_millis(100));
        }
        Act::Say(all.framed(&request[2..]))
    });
    let knobs = ["--requestors", "2", "--reps", "7", "--sleep-avg", "1", "--sleep-stddev", "1"];
    Run::file(&server.address(), documents.path(), &[FRAMED, &knobs].concat()).assert_errors(&[]);
    assert_eq!(asked.lock().expect("no panic").values().copied().collect::<Vec<_>>(), [7, 7]);
}

#[test]
fn an_open_loop_connects_for_each_original_request() {
    let documents = Arc::new(Documents::of(&[10, 2_000]));
    let server = documents.serve_original();
    let options = [FLAT, &["-c", "4", "-n", "60", "-R", "1000"]].concat();
    let run = Run::file(&server.address(), documents.path(), &options);
    run.assert_errors(&[]);
    assert_eq!((run.result.ok, server.connections()), (60, 61));
    let (response, service) = (run.result.latency_us, run.result.service_us.expect("an open loop has both"));
    assert!(response.max >= service.max * 0.99, "{response:?} {service:?}");
    let server = documents.serve_framed();
    let run =
        Run::file(&server.address(), documents.path(), &[FRAMED, &["-c", "4", "-n", "60", "-R", "1000"]].concat());
    run.assert_errors(&[]);
    assert_eq!((run.result.ok, server.connections()), (60, 5));
}

#[test]
fn an_open_loop_counts_waiting_for_a_connection() {
    // One connection at a time, and each takes 20 ms: of 10 requests due at once the last waits for 9 others.
    let documents = Arc::new(Documents::of(&[10]));
    let all = Arc::clone(&documents);
    let server = Server::answering(original_request, move |_, id| {
        std::thread::sleep(Duration::from_millis(20));
        Act::SayAndClose(all.bodies[id].clone())
    });
    let options = [FLAT, &["-c", "1", "-n", "10", "-R", "1000000"]].concat();
    let run = Run::file(&server.address(), documents.path(), &options);
    run.assert_errors(&[]);
    assert!(run.result.latency_us.max >= 200_000.0 * 0.999, "{:?}", run.result.latency_us);
    assert!(run.result.service_us.is_some_and(|service| service.min >= 20_000.0 * 0.999));
}

#[test]
fn every_layout_finds_its_documents() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path();
    for (name, body) in
        [("ABCD2345/b.pdf", "zotero"), ("ABCD2345/c.pdf", "other"), ("manifest.tsv", "ID\tABCD2345/c.pdf\n")]
    {
        let file = path.join(name);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        std::fs::write(file, body).expect("a file");
    }
    let expected: [(&str, &[(&str, &str)]); 4] = [
        ("zotero", &[("ABCD2345", "zotero")]),
        ("flat", &[("manifest.tsv", "ID\tABCD2345/c.pdf\n")]),
        (
            "tree",
            &[("ABCD2345/b.pdf", "zotero"), ("ABCD2345/c.pdf", "other"), ("manifest.tsv", "ID\tABCD2345/c.pdf\n")],
        ),
        ("manifest", &[("ID", "other")]),
    ];
    for (layout, documents) in expected {
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let (seeing, bodies) = (Arc::clone(&seen), BTreeMap::from_iter(documents.iter().copied()));
        let bodies: BTreeMap<Vec<u8>, Vec<u8>> =
            bodies.into_iter().map(|(id, body)| (id.as_bytes().to_vec(), body.as_bytes().to_vec())).collect();
        let ids: BTreeSet<_> = bodies.keys().cloned().collect();
        let server = Server::answering(framed_request, move |_, request| {
            seeing.lock().expect("no panic").insert(request[2..].to_vec());
            Act::Say(bodies.get(&request[2..]).map_or_else(|| framed(1, b""), |body| framed(0, body)))
        });
        let options = ["--protocol", "framed", "--layout", layout, "-c", "1", "-n", "12", "--id-dist", "sequential"];
        Run::file(&server.address(), path, &options).assert_errors(&[]);
        assert_eq!(*seen.lock().expect("no panic"), ids, "{layout}");
    }
}

#[test]
fn text_ends_with_the_original_clients_line() {
    let documents = Arc::new(Documents::of(&[10, 20]));
    let server = documents.serve_original();
    let path = documents.path().to_str().expect("text");
    let output = loadgen(&["file", "--layout", "flat", "-c", "1", "-n", "20", &server.address(), path]);
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find(|line| line.starts_with("RTT ")).unwrap_or_else(|| panic!("{text}"));
    let words: Vec<_> = line.split_whitespace().collect();
    let ["RTT", mean, "+/-", stddev, "ms", "Worst", worst, "ms", "Errors", "0", "/", "20", "(0.0%)"] = words[..] else {
        panic!("{line}");
    };
    let [mean, stddev, worst] = [mean, stddev, worst].map(|number| number.parse::<f64>().expect("a number"));
    assert!(mean <= worst && stddev <= worst, "{line}");
}

#[test]
fn ids_unknown_to_the_original_protocol_are_left_out() {
    let documents = Documents::of(&[10, 20]);
    std::fs::write(documents.path().join("small case"), "x").expect("a file");
    let documents = Arc::new(documents);
    let server = documents.serve_original();
    let run = Run::file(&server.address(), documents.path(), &[FLAT, &["-c", "1", "-n", "10"]].concat());
    run.assert_errors(&[]);
    assert_eq!(run.result.config["documents"], json!(2));
    assert!(run.stderr.contains("1 of 3 documents") && run.stderr.contains("`small case`"), "{}", run.stderr);
}

#[test]
fn bad_usage_is_2_and_an_unusable_directory_is_1() {
    let documents = Documents::of(&[10]);
    let server = Arc::new(Documents::of(&[10])).serve_original();
    let (address, path) = (server.address(), documents.path().to_str().expect("text"));
    let empty = tempfile::tempdir().expect("a temporary directory");
    let cases: [(&[&str], i32, &str); 10] = [
        (&[], 2, "CONTENT"),
        (&[path, "--content", path], 2, "cannot be used with"),
        (&[path, "-P", "2"], 2, "--protocol framed"),
        (&[path, "--requestors", "2", "-c", "3"], 2, "cannot be used with"),
        (&[path, "--reps", "2", "-d", "3s"], 2, "cannot be used with"),
        (&[path, "--sleep-avg", "2", "-R", "3"], 2, "cannot be used with"),
        (&[path, "--sleep-stddev=-1"], 2, "--sleep-stddev"),
        (&[path, "--layout", "pile"], 2, "zotero"),
        (&["/does/not/exist"], 1, "/does/not/exist"),
        (&[empty.path().to_str().expect("text"), "--layout", "flat"], 1, "no documents"),
    ];
    for (arguments, code, complaint) in cases {
        let output = loadgen(&[&["file", &address], arguments].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
    }
}
