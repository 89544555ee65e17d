//! Statistics and metrics of requests.

use anyhow::{Context, ensure};
use testkit::{
    Client, Server, eventually,
    http::{Http, get_and_close},
};

use crate::setup::{ALL, ONE, Site, bytes, number, of_strategy, stats};

#[test]
fn requests_and_bytes_add_up() {
    ALL.for_each_server(Site::new(&[26_510]).path(), |server, combination| {
        let mut client = Http::connect(server.address())?;
        let whole = client.get("/26510")?;
        for _ in 0..9 {
            ensure!(client.get("/26510")?.body == bytes(26_510), "wrong bytes");
        }
        // The head of a body whose bytes are counted, as it was sent.
        let fields: usize = whole.fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let sent = "HTTP/1.1 200 OK\r\n".len() + fields + 2 + whole.body.len();
        let stats = stats(server)?;
        let strategy = if combination.strategy == "auto" { "pipe" } else { combination.strategy };
        let counted = (of_strategy(&stats, strategy, "requests")?, of_strategy(&stats, strategy, "bytes")?);
        ensure!(counted == (10.0, 10.0 * sent as f64), "{counted:?} instead of 10 times {sent}");
        ensure!(number(&stats, "/requests/bytes")? == counted.1, "{}", stats["requests"]);
        ensure!(number(&stats, "/requests/hit_ratio")? == 0.9, "{}", stats["requests"]);
        let latency = (number(&stats, "/latency_us_total/count")?, number(&stats, "/latency_us_total/max")?);
        ensure!(latency.0 >= 10.0 && latency.1 > 0.0, "{latency:?}");
        let (p50, p99) = (number(&stats, "/latency_us_total/p50")?, number(&stats, "/latency_us_total/p99")?);
        ensure!(p50 > 0.0 && p50 <= p99 && p99 <= latency.1, "{}", stats["latency_us_total"]);
        Ok(())
    });
}

#[test]
fn the_rate_is_seen_and_ends() {
    ONE.for_each_server(Site::new(&[100]).path(), |server, _| {
        let mut client = Http::connect(server.address())?;
        eventually("there is a rate", || {
            for _ in 0..50 {
                client.get("/100")?;
            }
            Ok(number(&stats(server)?, "/requests/served_per_sec")? > 0.0)
        })?;
        eventually("it ends", || Ok(number(&stats(server)?, "/requests/served_per_sec")? == 0.0))
    });
}

#[test]
fn metrics_and_statistics_agree() {
    let site = Site::new(&[26_510]);
    crate::setup::settle();
    ALL.for_each_combination(|combination| {
        let socket = site.path().join(format!("{}-{}.metrics", combination.strategy, combination.driver));
        let mut command = ALL.command(combination, site.path());
        command.args(["--metrics", &format!("unix:{}", socket.display())]);
        let mut server = Server::start_command(command, 1)?;
        let mut client = Http::connect(server.address())?;
        (0..3).try_for_each(|_| client.get("/26510").map(drop))?;
        let metrics = sys::listen::Address::Unix(socket);
        eventually("metrics are served", || Ok(Client::connect(&metrics).is_ok()))?;
        let mut scraper = Client::connect(&metrics)?;
        scraper.send(get_and_close("/metrics").as_bytes())?;
        let text = String::from_utf8(scraper.read_to_end()?).context("metrics")?;
        let strategy = if combination.strategy == "auto" { "pipe" } else { combination.strategy };
        for line in [
            format!("zerocopy_strategy_requests_total{{strategy=\"{strategy}\"}} 3"),
            format!("zerocopy_fallbacks_total{{strategy=\"{strategy}\",reason=\"kernel\"}} 0"),
            "zerocopy_responses_total{class=\"2xx\"} 3".to_owned(),
            "zerocopy_cached_files 1".to_owned(),
            "zerocopy_zombies 0".to_owned(),
            "zerocopy_cache_hits_total 2".to_owned(),
        ] {
            ensure!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        testkit::check_queries("zerocopy", &text)?;
        server.drain()
    });
}
