//! Cost of a request to the client: `loadgen` beside the generators of others, in short interleaved runs against the null
//! server, so that a machine whose pace changes changes it for all. The null server has no HTTP/2; there it is `http-server`.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use loadgen::result::RunResult;
use nix::{
    sys::{
        resource::{UsageWho, getrusage},
        signal::{Signal, kill},
        time::TimeValLike as _,
    },
    unistd::Pid,
};
use tempfile::TempDir;

use crate::workspace;

/// CPU per request of `loadgen`, wrk, h2load, redis-benchmark and memtier_benchmark, against the same server
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
    /// Requests of redis-benchmark, which knows no duration: about [`PEER_S`].
    requests: u64,
    /// Which share of the other client's cost ours may be at most.
    target: f64,
}

const WORKLOADS: [Workload; 5] = {
    use Language::{Http1, Http2, Resp};
    [
        Workload { name: "http c64", language: Http1, connections: 64, pipeline: 1, requests: 0, target: 0.70 },
        Workload { name: "h2 c64x32", language: Http2, connections: 64, pipeline: 32, requests: 0, target: 0.70 },
        Workload { name: "get P1", language: Resp, connections: 50, pipeline: 1, requests: 200_000, target: 0.55 },
        Workload { name: "get P16", language: Resp, connections: 50, pipeline: 16, requests: 3_000_000, target: 0.60 },
        Workload {
            name: "get P100",
            language: Resp,
            connections: 50,
            pipeline: 100,
            requests: 8_000_000,
            target: 0.60,
        },
    ]
};

/// A client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Client {
    Epoll,
    Uring,
    Wrk,
    H2load,
    RedisBenchmark,
    Memtier,
}

impl Client {
    const ALL: [Self; 6] = [Self::Epoll, Self::Uring, Self::Wrk, Self::H2load, Self::RedisBenchmark, Self::Memtier];

    fn name(self) -> &'static str {
        match self {
            Self::Epoll => "loadgen --engine epoll",
            Self::Uring => "loadgen --engine uring",
            Self::Wrk => "wrk",
            Self::H2load => "h2load",
            Self::RedisBenchmark => "redis-benchmark",
            Self::Memtier => "memtier_benchmark",
        }
    }

    fn speaks(self, language: Language) -> bool {
        match self {
            Self::Epoll | Self::Uring => true,
            Self::Wrk => language == Language::Http1,
            Self::H2load => language == Language::Http2,
            Self::RedisBenchmark | Self::Memtier => language == Language::Resp,
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
    let titles = ["client", "CPU µs/request", "requests/s", "epoll's share", "uring's share"];
    println!("{:<10}{:<24}{:>15}{:>14}{:>18}{:>18}", "", titles[0], titles[1], titles[2], titles[3], titles[4]);
    for workload in &WORKLOADS {
        let server = Server::start(&ours, workload.language, args.server_cpu)?;
        let asking: Vec<Client> = clients.iter().copied().filter(|client| client.speaks(workload.language)).collect();
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            let round = asking.iter().map(|&client| measure(client, &ours, workload, &server, args.client_cpu));
            rounds.push(round.collect::<Result<Vec<Cost>>>()?);
        }
        for (index, &client) in asking.iter().enumerate() {
            println!("{}", line(workload, client, index, &rounds));
        }
    }
    println!("medians of {} interleaved runs; shares are medians of the ratios within a round", args.rounds);
    println!("of loadgen its window counts, of the others the whole process, in a run of {PEER_S} s");
    Ok(std::process::ExitCode::SUCCESS)
}

/// One client's figures, and which share of its cost our engines, the first two of each round, have.
fn line(workload: &Workload, client: Client, index: usize, rounds: &[Vec<Cost>]) -> String {
    let of = |choose: &dyn Fn(&[Cost]) -> f64| median(rounds.iter().map(|round| choose(round)).collect());
    let shares = [0, 1].map(|engine| {
        let share = of(&|round| round[engine].us_per_request / round[index].us_per_request);
        if client.is_ours() {
            String::new()
        } else if client.is_measure() {
            format!("{share:.2} (≤ {:.2})", workload.target)
        } else {
            format!("{share:.2}")
        }
    });
    let (cost, rps) = (of(&|round| round[index].us_per_request), of(&|round| round[index].rps));
    let [epoll, uring] = shares;
    format!("{:<10}{:<24}{cost:>15.3}{rps:>14.0}{epoll:>18}{uring:>18}", workload.name, client.name())
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
    let (port, connections, pipeline) =
        (server.port.as_str(), workload.connections.to_string(), workload.pipeline.to_string());
    let (requests, wrk_time) = (workload.requests.to_string(), format!("-d{PEER_S}s"));
    let (h2load_time, memtier_time) = (format!("-D{PEER_S}"), format!("--test-time={PEER_S}"));
    let url = format!("http://127.0.0.1:{port}/");
    let address = format!("127.0.0.1:{port}");
    let loadgen = ours.join("loadgen");
    let loadgen = loadgen.to_str().context("the target directory's name is not UTF-8")?;
    let arguments = match client {
        Client::Epoll | Client::Uring => {
            let engine = if client == Client::Epoll { "epoll" } else { "uring" };
            let (load, outstanding, target) = match workload.language {
                Language::Http1 => (&["http"][..], "--pipeline", &url),
                Language::Http2 => (&["http", "--http2"][..], "--streams", &url),
                Language::Resp => (&["kv", "--constant-values"][..], "--pipeline", &address),
            };
            let mut arguments = [&[loadgen], load].concat();
            arguments.extend(["--engine", engine, "-t", "1", "-c", &connections, outstanding, &pipeline]);
            arguments.extend(["-d", "700ms", "--warmup", "200ms", "--format", "json", target]);
            arguments
        }
        Client::Wrk => vec!["wrk", "-t1", "-c", &connections, &wrk_time, &url],
        Client::H2load => vec!["h2load", "-t1", "-c", &connections, "-m", &pipeline, &h2load_time, &url],
        Client::RedisBenchmark => {
            let mut arguments = vec!["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-t", "get", "-q"];
            arguments.extend(["-r", "1000000", "-c", &connections, "-P", &pipeline, "-n", &requests]);
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

/// Server on a CPU of its own; it ends when this is dropped.
struct Server {
    child: Child,
    port: String,
    /// Content of a server of files.
    _content: Option<TempDir>,
}

impl Server {
    fn start(ours: &Path, language: Language, cpu: usize) -> Result<Self> {
        let cpu = cpu.to_string();
        let listen = ["--listen", "127.0.0.1:0", "--pin", &cpu];
        let (mut command, content) = match language {
            Language::Http1 | Language::Resp => {
                let mut command = Command::new(ours.join("loadgen"));
                let protocol = if language == Language::Resp { "resp" } else { "http" };
                command.args(["null", "--protocol", protocol]).args(listen);
                (command, None)
            }
            Language::Http2 => {
                let content = tempfile::tempdir().context("temporary directory")?;
                fs::write(content.path().join("index.html"), [b'x'; 128]).context("a file of 128 bytes")?;
                let mut command = Command::new(ours.join("http-server"));
                command.args(["--driver", "epoll", "--threads", "1"]).args(listen).arg(content.path());
                (command, Some(content))
            }
        };
        let child = sys::child::end_with_starter(command.stdout(Stdio::piped())).spawn();
        let mut child = child.context("cannot start the server")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("standard output is piped")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let Some((_, port)) = line.trim().rsplit_once(':') else { bail!("the server did not start") };
        Ok(Self { port: port.to_owned(), child, _content: content })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // It has ended already if this fails.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let _ = self.child.wait();
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
        let failed = H2LOAD_1_52.replace(" 0 failed", " 1 failed");
        assert!(cost(Client::H2load, &failed, &WORKLOADS[1], 1.0).is_err());
    }

    #[test]
    fn a_share_is_of_the_same_round_and_of_each_engine() {
        let round = |pace: f64| [0.6, 0.5, 1.0].map(|cost| Cost { us_per_request: pace * cost, rps: 1.0 }).to_vec();
        let rounds = [round(1.0), round(7.0), round(3.0)];
        let wrk = line(&WORKLOADS[0], Client::Wrk, 2, &rounds);
        assert!(wrk.ends_with("0.60 (≤ 0.70)     0.50 (≤ 0.70)") && wrk.contains("3.000"), "{wrk}");
        assert!(line(&WORKLOADS[0], Client::Uring, 1, &rounds).trim_end().ends_with('1'));
    }

    #[test]
    fn a_median_is_in_the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}
