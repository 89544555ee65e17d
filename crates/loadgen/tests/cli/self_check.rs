//! `--self-check`: the generator's own ceiling.

use super::support::{
    Run,
    documents::Documents,
    null_server::NullServer,
    socket_server::{Act, Server, line_request, resp_request, us_request},
};

#[test]
fn a_self_check_measures_the_ceiling() {
    let server = Server::slow();
    let run = Run::http(&server.url(), &["-c", "2", "-n", "20", "--self-check"]);
    let saturation = &run.result.saturation;
    let ceiling = saturation.ceiling_rps.expect("measured");
    // A request costs more than 10 ns and less than 10 ms.
    assert!((100.0..1e8).contains(&ceiling), "{ceiling}");
    let fraction = saturation.ceiling_fraction.expect("measured");
    assert!((fraction * ceiling / run.result.throughput_rps - 1.0).abs() < 1e-6);
    assert_eq!(saturation.note, "");
    let run = Run::http(&server.url(), &["-c", "2", "-n", "20"]);
    assert_eq!(run.result.saturation.ceiling_rps, None);
    let value = format!("$12\r\n{}\r\n", "x".repeat(12)).into_bytes();
    let server = Server::of(resp_request, move |_| Act::Say(value.clone()));
    let options = ["-c", "2", "-n", "20", "-P", "4", "--constant-values", "--keys", "100", "--self-check"];
    assert!(Run::kv(&server.address(), &options).result.saturation.ceiling_rps.is_some());
}

#[test]
fn every_protocol_that_has_a_null_server_has_a_ceiling() {
    let options = ["-c", "2", "-n", "20", "--self-check"];
    let ceiling = |run: &Run| {
        run.assert_errors(&[]);
        let saturation = &run.result.saturation;
        assert_eq!(saturation.ceiling_unknown, None);
        saturation.ceiling_rps.expect("measured")
    };
    type Framing = fn(&[u8]) -> Option<usize>;
    for (protocol, framing, miss) in [
        ("us", us_request as Framing, &b"(nil)\x1f"[..]),
        ("memcached", line_request, b"END\r\n"),
        ("memcached-meta", line_request, b"EN\r\n"),
        ("resp3", resp_request, b"_\r\n"),
    ] {
        let server = Server::answering(framing, move |_, request| {
            let is_greeting = request.windows(5).any(|window| window == b"HELLO");
            Act::Say(if is_greeting { b"%1\r\n$5\r\nproto\r\n:3\r\n".to_vec() } else { miss.to_vec() })
        });
        let kv = [&options[..], &["--protocol", protocol, "--allow-misses", "--keys", "100", "-P", "5"]].concat();
        assert!((100.0..1e9).contains(&ceiling(&Run::kv(&server.address(), &kv))), "{protocol}");
    }
    let documents = Documents::with([vec![b'x'; 1_000]]);
    let null = NullServer::start("file", "127.0.0.1:0", &["--body-size", "1000"]);
    let file = [&options[..], &["--layout", "flat", "--protocol", "framed"]].concat();
    let kept = ceiling(&Run::file(&null.address, documents.path(), &file));
    // A connection for each request costs more.
    let http = NullServer::start("http", "127.0.0.1:0", &[]);
    let url = format!("http://{}/", http.address);
    let once = ceiling(&Run::http(&url, &[&options[..], &["--no-keep-alive"]].concat()));
    assert!(kept > 100.0 && once > 100.0, "{kept} {once}");
}
