//! Parts of the generator's command line, and of the servers', that hold for every load kind.

use std::{
    ffi::OsString,
    net::{IpAddr, SocketAddr},
};

use results::{Arrivals, Role, Workload};
use servers::{Handshakes, Workload as Spec};

use crate::{judge::load_sweep, run::site::tls};

/// Fraction of the reference's capacity that an open loop offers to every cell.
pub(crate) const OPEN_FRACTION: f64 = 0.5;
/// Time that a requestor needs for a request if it sleeps after each: the generator's default is 100 ± 50 ms.
const TURN_S: f64 = 0.11;

/// Server that the generator asks, its workload, and the directory of the files that replies are compared with.
pub(crate) struct Target<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) role: Role,
    pub(crate) address: &'a str,
    pub(crate) site: &'a str,
}

/// Time and place of the load; the same for all workloads of a run.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub(crate) slice_s: f64,
    pub(crate) warmup_s: f64,
    /// Until the load is steady, at most so long; `None` is a fixed time.
    pub(crate) max_warmup_s: Option<f64>,
    pub(crate) client_cpus: String,
    pub(crate) client_threads: usize,
}

impl Timing {
    pub(crate) fn longest_warmup_s(&self) -> f64 {
        self.max_warmup_s.unwrap_or(self.warmup_s)
    }
}

/// Rounds a rate to three digits: that is easier to compare between runs.
pub(super) fn rounded(rate_rps: f64) -> f64 {
    let unit = 10f64.powf(rate_rps.max(1.0).log10().floor() - 2.0);
    ((rate_rps / unit).round() * unit).round().max(1.0)
}

/// Makes a workload of what every load kind has. Commands are still missing; an open loop's rate is found by a calibration
/// visit.
pub(super) fn base(spec: &Spec) -> Workload {
    Workload {
        name: spec.name.clone(),
        title: spec.title.clone(),
        short: spec.short.clone(),
        body_bytes: spec.body_bytes,
        keys: None,
        documents: spec.checks,
        repetitions: None,
        allows_misses: false,
        connections: spec.connections,
        pipeline: spec.pipeline,
        arrivals: match spec.arrivals {
            servers::Arrivals::Closed => Arrivals::Closed,
            servers::Arrivals::Open => match spec.rate {
                Some(rate_rps) => Arrivals::Open { rate_rps, fraction: 0.0, capacity_rps: 0.0 },
                None => {
                    let fraction = spec.fraction.unwrap_or(OPEN_FRACTION);
                    Arrivals::Open { rate_rps: 0.0, fraction, capacity_rps: 0.0 }
                }
            },
            servers::Arrivals::LoadSweep => Arrivals::LoadSweep,
        },
        counterpart: spec.counterpart.clone(),
        adds: server_arguments(spec),
        command: String::new(),
        preload: None,
    }
}

/// Returns the arguments that servers of ours get under a workload. Its TLS address is there beside the plain one.
fn server_arguments(spec: &Spec) -> Vec<String> {
    let tls = ["--tls-listen", ANY_PORT, "--tls-cert", tls::CERTIFICATE, "--tls-key", tls::KEY];
    let tls = spec.tls.then_some(tls).into_iter().flatten().map(str::to_owned);
    spec.server_arguments.iter().cloned().chain(tls).collect()
}

/// Returns the generator's arguments for TLS, if it is spoken: the same choices of version, suite and group for every server.
pub(super) fn tls_arguments(spec: &Spec) -> Vec<String> {
    if !spec.tls {
        return Vec::new();
    }
    let agreed = ["--tls-cipher", tls::CIPHER, "--tls-group", tls::GROUP];
    let mut words = words(["--tls-insecure", "--tls-server-name", tls::NAME]);
    words.extend(agreed.map(str::to_owned));
    if spec.handshakes == Some(Handshakes::Full) {
        words.extend(["--tls-resume", "off"].map(str::to_owned));
    }
    words
}

pub(super) fn load_s(workload: &Workload, slice_s: f64, warmup_s: f64) -> f64 {
    match workload.repetitions {
        Some(each) => f64::from(each) * TURN_S,
        None if workload.arrivals == Arrivals::LoadSweep => load_sweep::load_s(slice_s, warmup_s),
        None => slice_s + warmup_s,
    }
}

pub(super) fn amount_arguments(workload: &Workload, timing: &Timing) -> Vec<String> {
    let mut words = Vec::new();
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    flag("-t", timing.client_threads.to_string());
    match workload.repetitions {
        Some(each) => {
            flag("--requestors", workload.connections.to_string());
            flag("--reps", each.to_string());
        }
        None => {
            flag("-c", workload.connections.to_string());
            words.extend(time_arguments(workload, timing));
            // Eleven runs to the limit would take as long as ten visits; a load sweep is not compared.
            if let Some(most_s) = timing.max_warmup_s.filter(|_| workload.arrivals != Arrivals::LoadSweep) {
                words.extend(["--max-warmup".to_owned(), milliseconds(most_s)]);
            }
        }
    }
    words
}

/// Returns the generator's arguments for how many requests a connection has outstanding, in protocols that have no streams.
pub(super) fn outstanding_arguments(outstanding: u32) -> Vec<String> {
    if outstanding > 1 { words(["-P", &outstanding.to_string()]) } else { Vec::new() }
}

/// Returns the generator's arguments for how long, where time is the limit.
pub(super) fn time_arguments(workload: &Workload, timing: &Timing) -> [String; 4] {
    let is_load_sweep = workload.arrivals == Arrivals::LoadSweep;
    let part = |whole_s| milliseconds(if is_load_sweep { load_sweep::part_s(whole_s) } else { whole_s });
    ["-d".to_owned(), part(timing.slice_s), "--warmup".to_owned(), part(timing.warmup_s)]
}

fn milliseconds(seconds: f64) -> String {
    format!("{}ms", (seconds * 1_000.0).round())
}

/// Address at which every server listens that can pick a port: on loopback, and [`listening_at`] another address.
pub(super) const ANY_PORT: &str = "127.0.0.1:0";

/// Replaces [`ANY_PORT`] in a command by a free port of the host on which its servers listen.
pub(crate) fn listening_at(command: Vec<OsString>, host: IpAddr) -> Vec<OsString> {
    let address = OsString::from(SocketAddr::new(host, 0).to_string());
    command.into_iter().map(|word| if word == ANY_PORT { address.clone() } else { word }).collect()
}

/// Returns the arguments without those options and their values.
pub(crate) fn without(arguments: &[String], options: &[&str]) -> Vec<String> {
    let mut words = Vec::new();
    let mut given = arguments.iter();
    while let Some(word) = given.next() {
        if options.contains(&word.as_str()) {
            given.next();
        } else {
            words.push(word.clone());
        }
    }
    words
}

pub(super) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// Returns the beginning of a text, for an error message.
pub(crate) fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 200;
    text.chars().take(CHARACTERS_MAX).collect()
}
