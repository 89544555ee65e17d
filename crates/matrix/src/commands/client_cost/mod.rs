//! Cost of a request to the client: `loadgen` beside the generators of others, in short interleaved runs against the same server,
//! so that a machine whose pace changes changes it for all. That is the null server, which is faster than any client, and nginx or
//! Redis, which are slower. The null server has no HTTP/2; there it is `http-server`.

mod server;

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use loadgen::result::RunResult;
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};

use self::server::Server;
use crate::workspace;

/// CPU per request of `loadgen`, wrk, shb, h2load, redis-benchmark and memtier_benchmark, against the same server
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Runs of each client; the figures are medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// CPU of the server
    #[arg(long, default_value = "0")]
    server_cpu: usize,
    /// CPU of the clients
    #[arg(long, default_value = "1")]
    client_cpu: usize,
}

/// Seconds that a run of another client takes. Its start and end count (wrk: 9 ms of CPU), those of ours do not.
const PEER_S: u32 = 2;

/// Language of a load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Language {
    Http1,
    Http2,
    Resp,
}

/// One kind of load.
struct Workload {
    name: &'static str,
    language: Language,
    connections: u32,
    /// Requests outstanding on each connection.
    pipeline: u32,
    /// Id of another's server to ask; `None`: one of ours.
    server: Option<&'static str>,
    /// Requests of redis-benchmark, which knows no duration: about [`PEER_S`].
    requests: u64,
    /// Which share of the cost of wrk, h2load or redis-benchmark ours may be at most.
    target: f64,
}

const NGINX: Option<&str> = Some("nginx/sendfile-on");
const REDIS: Option<&str> = Some("redis");
/// Bytes of the file, and workload of the matrix with it.
const FILE: (usize, &str) = (128, "get-128B-c64");
/// Keys of a cache that keeps them, and workload of the matrix with them.
const KEYS: (&str, &str) = ("1000000", "get-P1");

const WORKLOADS: [Workload; 9] = [
    http("http c64", Language::Http1, 1, None),
    http("http c64, nginx", Language::Http1, 1, NGINX),
    http("h2 c64x32", Language::Http2, 32, None),
    get("get P1", 1, None, 200_000, 0.55),
    get("get P1, redis", 1, REDIS, 200_000, 0.55),
    get("get P16", 16, None, 3_000_000, 0.60),
    get("get P16, redis", 16, REDIS, 1_200_000, 0.55),
    get("get P100", 100, None, 8_000_000, 0.60),
    get("get P100, redis", 100, REDIS, 2_000_000, 0.55),
];

const fn http(name: &'static str, language: Language, pipeline: u32, server: Option<&'static str>) -> Workload {
    Workload { name, language, connections: 64, pipeline, server, requests: 0, target: 0.70 }
}

const fn get(name: &'static str, pipeline: u32, server: Option<&'static str>, requests: u64, target: f64) -> Workload {
    Workload { name, language: Language::Resp, connections: 50, pipeline, server, requests, target }
}

/// A client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Client {
    Epoll,
    Uring,
    Wrk,
    Shb,
    H2load,
    RedisBenchmark,
    Memtier,
}

impl Client {
    const ALL: [Self; 7] =
        [Self::Epoll, Self::Uring, Self::Wrk, Self::Shb, Self::H2load, Self::RedisBenchmark, Self::Memtier];

    fn name(self) -> &'static str {
        match self {
            Self::Epoll => "loadgen, epoll",
            Self::Uring => "loadgen, uring",
            Self::Wrk => "wrk",
            Self::Shb => "shb",
            Self::H2load => "h2load",
            Self::RedisBenchmark => "redis-benchmark",
            Self::Memtier => "memtier_benchmark",
        }
    }

    /// True if it can make this load.
    fn makes(self, Workload { language, server, .. }: &Workload) -> bool {
        match self {
            Self::Epoll | Self::Uring => true,
            Self::Wrk => *language == Language::Http1,
            Self::Shb => *language != Language::Resp,
            Self::H2load => *language == Language::Http2,
            Self::RedisBenchmark => *language == Language::Resp,
            // It would ask for keys that a real server does not have.
            Self::Memtier => *language == Language::Resp && server.is_none(),
        }
    }

    /// Somebody else's has to be installed.
    fn is_there(self) -> bool {
        self.is_ours()
            || Command::new(self.name()).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    }
}

impl Client {
    fn is_ours(self) -> bool {
        matches!(self, Self::Epoll | Self::Uring)
    }

    /// The one that the targets are about.
    fn is_measure(self) -> bool {
        matches!(self, Self::Wrk | Self::H2load | Self::RedisBenchmark)
    }
}

/// Outcome of one run.
#[derive(Clone, Copy, Debug)]
struct Cost {
    us_per_request: f64,
    rps: f64,
}

pub fn run(args: &Args) -> Result<std::process::ExitCode> {
    let ours = build()?;
    let clients: Vec<Client> = Client::ALL.into_iter().filter(|client| client.is_there()).collect();
    for absent in Client::ALL.iter().filter(|client| !clients.contains(client)) {
        println!("{} is not installed and left out", absent.name());
    }
    println!(
        "{:<16}{:<18}{:>9}{:>11}{:>8}{:>8}{:>8}",
        "", "client", "µs/req.", "req./s", "epoll's", "uring's", "at most"
    );
    for workload in &WORKLOADS {
        let Some(server) = Server::start(&ours, workload, args)? else {
            println!("{:<16}that server is not installed", workload.name);
            continue;
        };
        let asking: Vec<Client> = clients.iter().copied().filter(|client| client.makes(workload)).collect();
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            let round = asking.iter().map(|&client| measure(client, &ours, workload, &server, args.client_cpu));
            rounds.push(round.collect::<Result<Vec<Cost>>>()?);
        }
        for (index, &client) in asking.iter().enumerate() {
            println!("{}", line(workload, client, index, &rounds));
        }
    }
    println!("medians of {} interleaved runs of the client's CPU time; epoll's and uring's are the", args.rounds);
    println!("medians of their shares of another's within a round. Of loadgen its window counts,");
    println!("of the others the whole process, in a run of {PEER_S} s.");
    Ok(std::process::ExitCode::SUCCESS)
}

/// One client's figures, and which share of its cost our engines, the first two of each round, have.
fn line(workload: &Workload, client: Client, index: usize, rounds: &[Vec<Cost>]) -> String {
    let of = |choose: &dyn Fn(&[Cost]) -> f64| median(rounds.iter().map(|round| choose(round)).collect());
    let [epoll, uring] = [0, 1].map(|engine| {
        let share = of(&|round| round[engine].us_per_request / round[index].us_per_request);
        if client.is_ours() { String::new() } else { format!("{share:.2}") }
    });
    let target = if client.is_measure() { format!("{:.2}", workload.target) } else { String::new() };
    let (cost, rps) = (of(&|round| round[index].us_per_request), of(&|round| round[index].rps));
    let (name, client) = (workload.name, client.name());
    format!("{name:<16}{client:<18}{cost:>9.3}{rps:>11.0}{epoll:>8}{uring:>8}{target:>8}").trim_end().to_owned()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] }
}

/// Builds our programs, and returns the directory that they are in.
fn build() -> Result<PathBuf> {
    let programs = ["build", "--release", "-p", "loadgen", "-p", "http-server"];
    let status = workspace::cargo().args(programs).status().context("cargo build")?;
    if !status.success() {
        bail!("cargo build failed");
    }
    Ok(workspace::metadata()?.target_directory.join("release"))
}

/// CPU time of all children that have ended.
fn children_cpu_us() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    #[expect(clippy::cast_precision_loss, reason = "microseconds of minutes")]
    let microseconds = (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64;
    Ok(microseconds)
}

fn measure(client: Client, ours: &Path, workload: &Workload, server: &Server, cpu: usize) -> Result<Cost> {
    let (address, connections, pipeline) =
        (server.address.clone(), workload.connections.to_string(), workload.pipeline.to_string());
    let port = address.rsplit(':').next().unwrap_or_default();
    let (requests, wrk_time, shb_time) = (workload.requests.to_string(), format!("-d{PEER_S}s"), format!("{PEER_S}s"));
    let (h2load_time, memtier_time) = (format!("-D{PEER_S}"), format!("--test-time={PEER_S}"));
    let url = format!("http://{address}/");
    let loadgen = ours.join("loadgen");
    let loadgen = loadgen.to_str().context("the target directory's name is not UTF-8")?;
    let arguments = match client {
        Client::Epoll | Client::Uring => {
            let engine = if client == Client::Epoll { "epoll" } else { "uring" };
            let (load, outstanding, target) = match workload.language {
                Language::Http1 => (&["http"][..], "--pipeline", &url),
                Language::Http2 => (&["http", "--http2"][..], "--streams", &url),
                Language::Resp if server.keeps_keys() => (&["kv", "--keys", KEYS.0][..], "--pipeline", &address),
                Language::Resp => (&["kv", "--constant-values"][..], "--pipeline", &address),
            };
            let mut arguments = [&[loadgen], load].concat();
            arguments.extend(["--engine", engine, "-t", "1", "-c", &connections, outstanding, &pipeline]);
            arguments.extend(["-d", "700ms", "--warmup", "200ms", "--format", "json", target]);
            arguments
        }
        Client::Wrk => vec!["wrk", "-t1", "-c", &connections, &wrk_time, &url],
        Client::Shb => {
            let mut arguments = vec!["shb", "-t", "1", "-c", &connections, "-z", &shb_time, "--json"];
            if workload.language == Language::Http2 {
                arguments.extend(["--http2", "-p", &pipeline]);
            }
            arguments.push(&url);
            arguments
        }
        Client::H2load => vec!["h2load", "-t1", "-c", &connections, "-m", &pipeline, &h2load_time, &url],
        Client::RedisBenchmark => {
            let mut arguments = vec!["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-t", "get", "-q"];
            arguments.extend(["-r", KEYS.0, "-c", &connections, "-P", &pipeline, "-n", &requests]);
            arguments
        }
        Client::Memtier => {
            let mut arguments = vec!["memtier_benchmark", "-s", "127.0.0.1", "-p", port, "-t", "1", "--ratio=0:1"];
            arguments.extend(["-c", &connections, "--pipeline", &pipeline, &memtier_time, "--hide-histogram"]);
            // Its table has only rates, and a test of a second lasts some percent longer.
            arguments.extend(["--out-file=/dev/null", "--json-out-file=/dev/stdout"]);
            arguments
        }
    };
    let before = children_cpu_us()?;
    let output = Command::new("taskset")
        .args(["-c", &cpu.to_string()])
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {} under taskset", client.name()))?;
    let cpu_us = children_cpu_us()? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("{} failed: {text}{}", client.name(), String::from_utf8_lossy(&output.stderr));
    }
    cost(client, &text, workload, cpu_us).with_context(|| format!("{} said: {text}", client.name()))
}

/// Ours says what it cost in its window; of the others the whole process counts, of which start and end are little.
#[expect(clippy::cast_precision_loss, reason = "counts of a second")]
fn cost(client: Client, text: &str, workload: &Workload, cpu_us: f64) -> Result<Cost> {
    let number_before = |unit: &str| {
        let (before, _) = text.split_once(unit)?;
        before.split_ascii_whitespace().next_back()?.replace(',', "").parse::<f64>().ok()
    };
    match client {
        Client::Epoll | Client::Uring => {
            let result: RunResult = serde_json::from_str(text)?;
            Ok(Cost { us_per_request: result.client_cpu_s * 1e6 / result.ok.max(1) as f64, rps: result.throughput_rps })
        }
        Client::Wrk => {
            let requests = number_before(" requests in").context("no number of requests")?;
            Ok(Cost { us_per_request: cpu_us / requests, rps: requests / f64::from(PEER_S) })
        }
        Client::Shb => {
            let result: serde_json::Value = serde_json::from_str(text)?;
            let requests = &result["requests"];
            let ok = requests["ok"].as_f64().filter(|ok| *ok > 0.0).context("no requests")?;
            if requests["errors"] != 0 {
                bail!("requests failed");
            }
            Ok(Cost { us_per_request: cpu_us / ok, rps: result["requestsPerSec"].as_f64().context("no rate")? })
        }
        Client::H2load => {
            let rps = number_before(" req/s").context("no rate")?;
            let requests = number_before(" succeeded").filter(|count| *count > 0.0).context("no requests")?;
            if number_before(" failed") != Some(0.0) {
                bail!("requests failed");
            }
            Ok(Cost { us_per_request: cpu_us / requests, rps })
        }
        Client::RedisBenchmark => {
            let rps = number_before(" requests per second").context("no rate")?;
            Ok(Cost { us_per_request: cpu_us / workload.requests as f64, rps })
        }
        Client::Memtier => {
            // Its JSON has commas before closing braces, which no parser takes.
            let (_, totals) = text.split_once("\"Totals\":").context("no totals")?;
            let number_behind = |name: &str| {
                let (_, value) = totals.split_once(&format!("\"{name}\":"))?;
                value.split([',', '}', '\n']).next()?.trim().parse::<f64>().ok()
            };
            let requests = number_behind("Count").filter(|count| *count > 0.0).context("no number of requests")?;
            let rps = number_behind("Ops/sec").context("no rate")?;
            Ok(Cost { us_per_request: cpu_us / requests, rps })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(client: Client, text: &str) -> Cost {
        let workload = Workload { requests: 1_000, ..WORKLOADS[0] };
        cost(client, text, &workload, 5_000.0).expect(text)
    }

    /// Output of h2load 1.52.0, without the table of times.
    const H2LOAD_1_52: &str = "\
starting benchmark...
spawning thread #0: 64 total client(s). Timing-based test with 0s of warm-up time and 2s of main duration for measurements.
Warm-up started for thread #0.
Main benchmark duration is over for thread #0. Stopping all clients.

finished in 2.00s, 1250.50 req/s, 206.28KB/s
requests: 2501 total, 2501 started, 2501 done, 2500 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 2500 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 412.56KB (422462) total, 45.91KB (47012) headers (space savings 87.95%), 312.50KB (320000) data
";

    /// Output of memtier_benchmark 2.3.0, without its configuration and the rows of the single commands.
    const MEMTIER_2_3: &str = r#"{
	"run information":{
		"Threads": 1
		,"Connections per thread": 50
		,"Seconds": 1
		,"Format version": 2
		}
	,"ALL STATS":{
		"Runtime":{
			"Start time": 1795299340850
			,"Finish time": 1795299341894
			,"Total duration": 1044
			,"Time unit": "MILLISECONDS"
			,"Interrupted": "false"
			}
		,"Totals":{
			"Count": 37968
			,"Ops/sec": 36373.70
			,"Hits/sec": 36373.70
			,"Misses/sec": 0.00
			,"Connection Errors/sec": 0.00
			,"Connection Errors": 0
			,"Latency": 21.000
			,"Average Latency": 21.000
			,"Accumulated Latency": 834036
			,"Min Latency": 0.904
			,"Max Latency": 138.239
			,"KB/sec": 1914.45
			,"Percentile Latencies":{
				"p50.00": 0.583
				,}
			}
		}
}"#;

    #[test]
    fn what_the_others_print_is_understood() {
        let wrk = of(Client::Wrk, "Running 2s test\n  2500 requests in 2.00s, 3.1MB read\nRequests/sec: 1249.1\n");
        assert!((wrk.us_per_request - 2.0).abs() < 1e-9 && (wrk.rps - 1_250.0).abs() < 1e-9);
        let redis = of(Client::RedisBenchmark, "GET: rps=0.0\rGET: 123456.79 requests per second, p50=0.1 msec\n");
        assert!((redis.us_per_request - 5.0).abs() < 1e-9 && (redis.rps - 123_456.79).abs() < 1e-9);
        let memtier = of(Client::Memtier, MEMTIER_2_3);
        assert!((memtier.us_per_request - 5_000.0 / 37_968.0).abs() < 1e-9 && (memtier.rps - 36_373.7).abs() < 1e-9);
        assert!(cost(Client::Wrk, "nothing", &WORKLOADS[0], 1.0).is_err());
        let h2load = of(Client::H2load, H2LOAD_1_52);
        assert!((h2load.us_per_request - 2.0).abs() < 1e-9 && (h2load.rps - 1_250.5).abs() < 1e-9);
        let report = |errors: u32| format!(r#"{{"requests":{{"ok":2500,"errors":{errors}}},"requestsPerSec":1250.5}}"#);
        let shb = of(Client::Shb, &report(0));
        assert!((shb.us_per_request - 2.0).abs() < 1e-9 && (shb.rps - 1_250.5).abs() < 1e-9);
        assert!(cost(Client::Shb, &report(1), &WORKLOADS[0], 1.0).is_err());
        let failed = H2LOAD_1_52.replace(" 0 failed", " 1 failed");
        assert!(cost(Client::H2load, &failed, &WORKLOADS[1], 1.0).is_err());
    }

    #[test]
    fn a_share_is_of_the_same_round_and_of_each_engine() {
        let round = |pace: f64| [0.6, 0.5, 1.0].map(|cost| Cost { us_per_request: pace * cost, rps: 1.0 }).to_vec();
        let rounds = [round(1.0), round(7.0), round(3.0)];
        let wrk = line(&WORKLOADS[0], Client::Wrk, 2, &rounds);
        assert!(wrk.ends_with("  0.60    0.50    0.70") && wrk.contains("3.000"), "{wrk}");
        let shb = line(&WORKLOADS[0], Client::Shb, 2, &rounds);
        assert!(shb.ends_with("  0.60    0.50"), "{shb}");
        assert!(WORKLOADS.iter().all(|workload| line(workload, Client::Memtier, 2, &rounds).chars().count() <= 80));
        assert!(line(&WORKLOADS[0], Client::Uring, 1, &rounds).trim_end().ends_with('1'));
    }

    #[test]
    fn a_median_is_in_the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}
