//! `--metrics`: a small web server of its own, for Prometheus and for health checks.

use std::{fmt, io, sync::Arc, thread, time::Duration};

use anyhow::{Context, anyhow};
use drivers::{Config, DriverKind, Listeners, ScratchPipes, Shutdown, Statistics};
use parking_lot::Mutex;
pub use prometheus_client::registry::Registry;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};
use proto::{Admission, Flow, Limits, Now, Outbox, Peer, Protocol, Step};
use sys::listen::{Address, ListenOptions, Listener, ListenerHandle};
use wire::http1::{Connection, HeadLimits, HeadParser, Method, Part, PreparedResponse, Request, Status, Target};

use crate::output;

/// Scrapers are few.
const CONNECTIONS_MAX: usize = 64;
/// Time that a scraper may keep its connection between two scrapes, and take over a request.
const PATIENCE: Duration = Duration::from_secs(90);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bound socket of the metrics server, which nobody is served on yet.
pub(crate) struct BoundMetrics(Listeners);

impl BoundMetrics {
    pub(crate) fn bind(address: &Address, inherited: &mut Vec<Listener>) -> anyhow::Result<Self> {
        let options = ListenOptions::default();
        let listeners = Listeners::take_or_bind(std::slice::from_ref(address), 1, options, inherited);
        let failed =
            |(address, why): (Address, io::Error)| anyhow!(why).context(format!("metrics: cannot listen on {address}"));
        listeners.map(Self).map_err(failed)
    }

    pub(crate) fn handles(&self) -> Vec<ListenerHandle> {
        self.0.handles()
    }
}

/// A running metrics server; it stops when this is dropped.
pub(crate) struct Metrics {
    shutdown: Shutdown,
    thread: Option<thread::JoinHandle<()>>,
}

impl Metrics {
    /// Serves from here on, and says so on standard output.
    pub(crate) fn start(
        BoundMetrics(listeners): BoundMetrics,
        registry: Registry,
        server: Shutdown,
    ) -> anyhow::Result<Self> {
        let bound = listeners.addresses()[0].clone();
        let shutdown = Shutdown::default();
        let (protocol, stop) = (MetricsPage { registry: Mutex::new(registry), server }, shutdown.clone());
        let serve = move || {
            if let Err(error) = DriverKind::AUXILIARY.serve(Arc::new(protocol), listeners, &config(), &stop) {
                tracing::error!("metrics are no longer served: {error}");
            }
        };
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(serve).context("cannot start a thread")?;
        match &bound {
            Address::Tcp(address) => output::announce(format_args!("metrics on http://{address}/metrics")),
            Address::Unix(_) => output::announce(format_args!("metrics on {bound}")),
        }
        Ok(Self { shutdown, thread: Some(thread) })
    }
}

fn config() -> Config {
    Config {
        threads: 1,
        workers: 1,
        connections_max: CONNECTIONS_MAX,
        limits: Limits::default(),
        pin: None,
        statistics: Statistics::default(),
        scratch_pipes: ScratchPipes::default(),
        registered: None,
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.shutdown.drain();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic there has been reported by the thread itself.
        }
    }
}

/// Writes a counter of a [`Collector`].
pub fn total(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let counter = ConstCounter::new(value);
    counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)
}

/// Writes a gauge of a [`Collector`].
pub fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: i64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}

/// Counters of a driver's threads.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) statistics: Statistics,
    pub(crate) admission: Option<&'static Admission>,
    /// Connections that are served at a time, where others wait for them to have had their turn.
    pub(crate) served_max: Option<usize>,
}

impl Collector for Connections {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.statistics.counts();
        let as_gauge = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let waiting = self.served_max.map_or(0, |max| counts.open().saturating_sub(max as u64));
        let encoder = &mut encoder;
        total(encoder, "connections_accepted", "Connections accepted", counts.accepted)?;
        total(encoder, "connections_refused", "Connections refused", counts.refused)?;
        if let Some(admission) = self.admission {
            if let Some(clients) = &admission.clients {
                let help = "Connections refused because their client had too many";
                total(encoder, "connections_refused_by_client_limit", help, clients.refused())?;
            }
            if !admission.proxies.is_empty() {
                let help = "Connections of proxies closed for want of a PROXY header";
                total(encoder, "proxy_headers_refused", help, admission.headers_refused())?;
            }
        }
        gauge(encoder, "connections_open", "Connections open now", as_gauge(counts.open()))?;
        gauge(encoder, "connections_waiting", "Open connections that wait for a worker", as_gauge(waiting))?;
        total(encoder, "received_bytes", "Bytes received", counts.bytes_in)?;
        total(encoder, "sent_bytes", "Bytes sent", counts.bytes_out)
    }
}

/// The protocol of the metrics server.
struct MetricsPage {
    registry: Mutex<Registry>,
    /// Shutdown of the server that is watched.
    server: Shutdown,
}

impl MetricsPage {
    fn answer(&self, request: &Request<'_>) -> PreparedResponse {
        let Target::Path { path, .. } = request.target else { return text_page(Status::NotFound, "not found\n") };
        match (request.method, path) {
            (Method::Get | Method::Head, b"/metrics") => self.metrics(),
            (Method::Get | Method::Head, b"/healthz") => text_page(Status::Ok, "alive\n"),
            (Method::Get | Method::Head, b"/readyz") if self.server.is_draining() => {
                text_page(Status::ServiceUnavailable, "draining\n")
            }
            (Method::Get | Method::Head, b"/readyz") => text_page(Status::Ok, "ready\n"),
            (Method::Get | Method::Head, _) => text_page(Status::NotFound, "not found\n"),
            _ => PreparedResponse::builder(Status::MethodNotAllowed)
                .field("Allow", "GET, HEAD")
                .field("Content-Length", "0")
                .body(b""),
        }
    }

    fn metrics(&self) -> PreparedResponse {
        let mut body = String::new();
        let registry = self.registry.lock();
        match text::encode(&mut body, &registry) {
            Ok(()) => page(Status::Ok, OPEN_METRICS, &body),
            Err(_) => text_page(Status::InternalError, "the metrics cannot be written\n"),
        }
    }
}

fn text_page(status: Status, body: &str) -> PreparedResponse {
    page(status, "text/plain; charset=utf-8", body)
}

fn page(status: Status, media_type: &str, body: &str) -> PreparedResponse {
    let length = body.len().to_string();
    let draft = PreparedResponse::builder(status).field("Content-Type", media_type).field("Cache-Control", "no-store");
    draft.field("Content-Length", length).body(body.as_bytes())
}

impl Protocol for MetricsPage {
    type Conn = HeadParser;

    fn open(&self, _: Peer<'_>, _: Now) -> HeadParser {
        HeadParser::default()
    }

    fn on_input(&self, head: &mut HeadParser, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        let mut consumed = 0;
        while !out.is_full() {
            match head.parse(&input[consumed..], &HeadLimits::default()) {
                Ok(Some(request)) => {
                    consumed += request.head_len;
                    let connection = if request.should_keep_alive { Connection::Implied } else { Connection::Close };
                    let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
                    self.answer(&request).push(part, connection, now.unix, out.inline());
                    if !request.should_keep_alive {
                        return Step { flow: Flow::Linger, ..Step::open(consumed) };
                    }
                }
                Ok(None) => break,
                Err(refusal) => {
                    let page = text_page(refusal.status(), "bad request\n");
                    page.push(Part::Whole, Connection::Close, now.unix, out.inline());
                    return Step { flow: Flow::Linger, ..Step::open(consumed) };
                }
            }
        }
        Step::open(consumed)
    }

    fn deadline(&self, _: &HeadParser, quiet_since: std::time::Instant) -> Option<std::time::Instant> {
        Some(quiet_since + PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
    };

    use super::*;

    fn get(address: &Address, path: &str) -> String {
        let mut stream = TcpStream::connect(address.to_string()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    /// Counters are served as Prometheus reads them, and readiness ends with the drain.
    #[test]
    fn metrics_and_readiness_are_served() {
        let (server, mut registry) = (Shutdown::default(), Registry::default());
        registry.register_collector(Box::new(Connections {
            statistics: Statistics::default(),
            admission: None,
            served_max: None,
        }));
        let protocol = MetricsPage { registry: Mutex::new(registry), server: server.clone() };
        let listeners = Listeners::bind(&["127.0.0.1:0".parse().unwrap()], 1).unwrap();
        let (address, shutdown) = (listeners.addresses()[0].clone(), Shutdown::default());
        thread::scope(|scope| {
            let stop = shutdown.clone();
            scope.spawn(move || DriverKind::AUXILIARY.serve(Arc::new(protocol), listeners, &config(), &stop).unwrap());
            let metrics = get(&address, "/metrics");
            assert!(metrics.starts_with("HTTP/1.1 200 OK"), "{metrics}");
            assert!(metrics.contains("\nconnections_accepted_total 0\n") && metrics.ends_with("# EOF\n"), "{metrics}");
            assert!(get(&address, "/healthz").ends_with("\r\n\r\nalive\n"));
            assert!(get(&address, "/readyz").starts_with("HTTP/1.1 200 "));
            assert!(get(&address, "/other").starts_with("HTTP/1.1 404 "));
            server.drain();
            assert!(get(&address, "/readyz").starts_with("HTTP/1.1 503 "));
            assert!(get(&address, "/healthz").starts_with("HTTP/1.1 200 "));
            shutdown.drain();
        });
    }
}
