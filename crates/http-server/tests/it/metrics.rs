//! The counters, as Prometheus reads them.

use std::sync::Arc;

use http_server::{HttpOptions, HttpServer, RequestMetrics, Site, SiteOptions};
use prometheus_client::{encoding::text::encode, registry::Registry};
use proto::{Now, Outbox, Protocol};

#[test]
fn every_counter_is_there_and_counts() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a"), "a").unwrap();
    let site = Site::open(directory.path(), SiteOptions::default()).unwrap();
    let server = Arc::new(HttpServer::new(site, HttpOptions::default()));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(RequestMetrics(Arc::clone(&server))));
    let now = Now { instant: std::time::Instant::now(), unix: std::time::Duration::from_secs(4_000_000_000) };
    let mut out = Outbox::default();
    let requests: String = ["a", "a", "b"].map(|name| format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n")).concat();
    let step = server.on_input(&mut server.new_connection(), requests.as_bytes(), now, &mut out);
    assert_eq!(step.consumed, requests.len());

    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let bytes = format!("response_bytes_total {}", out.inline().len());
    for line in [
        "responses_total{class=\"2xx\"} 2",
        "responses_total{class=\"4xx\"} 1",
        "responses_total{class=\"5xx\"} 0",
        "cache_hits_total 1",
        "cache_revalidations_total 0",
        "file_opens_total 1",
        &bytes,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}
