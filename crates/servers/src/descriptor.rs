//! The format of `bench.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A server: how it is started, loaded, compared and put under faults.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Server {
    /// Package, program, and name of its matrix.
    pub name: String,
    /// Subcommand of the load generator that asks it.
    pub load: LoadKind,
    /// Arguments that say what it serves, beside those that choose its back end. Placeholders: `{site}`, the directory of
    /// the files; of load kind `file` also `{documents}`; of `mq` also `{queue}`, `{memory}` and `{fifos}`.
    pub arguments: Vec<String>,
    /// Choices of a back end, beside drivers, that keep a worker busy as long as a client is connected: the server then
    /// gets `--workers N` for N connections. Drivers say so themselves.
    #[serde(default)]
    pub worker_per_connection: Vec<String>,
    /// Dimensions that the workload chooses, not the cell: the protocol that is spoken.
    #[serde(default)]
    pub decided_by_workload: Vec<String>,
    /// Cells of other servers beside ours, by id: `nginx/sendfile-on`, or the name of a server of this workspace.
    #[serde(default)]
    pub peers: Vec<String>,
    /// Closed loop whose throughput is the capacity that open loops are a fraction of, unless they name another.
    pub calibration: String,
    /// Sentences about all workloads that are not in their titles.
    pub note: Option<String>,
    /// Differences of a quick run, beside leaving out workloads; part of a sentence.
    pub quick_note: String,
    /// A quick run repeats flagged visits only if all visits are still expected to take no longer than this.
    pub quick_retry_budget_s: f64,
    /// Sets of documents that workloads of load kind `file` name.
    #[serde(default)]
    pub documents: Vec<Documents>,
    /// Workloads, in the order of the report's columns; load sweeps last, as they have no column.
    pub workloads: Vec<Workload>,
    /// Its part of each preset that measures it, by the preset's name.
    #[serde(default)]
    pub presets: BTreeMap<String, PresetPart>,
    pub smoke: Smoke,
    /// Runs under failing system calls.
    pub faults: Vec<FaultRun>,
}

/// Kind of load: a subcommand of the load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// Files by GET.
    Http,
    /// Keys and values.
    Kv,
    /// Documents by id.
    File,
    /// Files by message queue and FIFO.
    Mq,
}

/// So many documents, in sizes that rise evenly from the first to the last.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Documents {
    pub name: String,
    pub count: u32,
    pub first_bytes: u64,
    pub last_bytes: u64,
}

/// Arrival of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// A request follows the reply before.
    #[default]
    Closed,
    /// A fraction of the calibrated capacity, the same for every cell.
    Open,
    /// Rising shares of what the cell itself did in a closed loop.
    LoadSweep,
}

/// Kind of TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handshakes {
    /// New keys.
    Full,
    /// An earlier session goes on.
    Resumed,
}

/// A workload: what is asked, by how many connections. Whatever a server says alike of all its workloads stands in
/// `[defaults]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Workload {
    pub name: String,
    pub title: String,
    /// Two lines of a column's head.
    pub short: [String; 2],
    /// Size of a reply's body or of a value. Of load kind `file` the documents say it.
    #[serde(default)]
    pub body_bytes: u64,
    /// The same in a quick run, where that is another.
    pub quick_body_bytes: Option<u64>,
    pub connections: u32,
    /// Requests outstanding on each connection.
    #[serde(default = "one")]
    pub pipeline: u32,
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Closed loop that finds the capacity for this open one.
    pub calibration: Option<String>,
    /// Fraction of the capacity that is offered; absent: half of it.
    pub fraction: Option<f64>,
    /// Offered load in requests per second, where it is no fraction of the capacity.
    pub rate: Option<f64>,
    /// Peers that are asked, by id; absent: all of the server.
    pub peers: Option<Vec<String>>,
    /// True if the files of a generated web site are asked for in turn, as a browser that decompresses asks for them; of
    /// load kind `http`.
    #[serde(default)]
    pub web_site: bool,
    /// True if a quick run has it.
    #[serde(default)]
    pub quick: bool,
    /// True if a run has it that names no workloads.
    #[serde(default = "yes")]
    pub usual: bool,
    /// True if a quick run asks peers, too.
    #[serde(default = "yes")]
    pub peers_in_quick: bool,
    /// Dimensions whose choices are compared when nobody asked for others; absent: all.
    pub varies: Option<Vec<String>>,
    /// Requests whose answers are hashed before the load; later ones are compared by length.
    pub checks: Option<u32>,
    /// True if each request has a connection of its own.
    #[serde(default)]
    pub connection_per_request: bool,
    /// True if it comes over TLS, with one version, cipher suite and kind of key for all.
    #[serde(default)]
    pub tls: bool,
    /// Kind of TLS handshake that every request needs, where each has a connection of its own.
    pub handshakes: Option<Handshakes>,
    /// True if HTTP/2 is spoken, with as many streams on a connection as `pipeline` says; of load kind `http`.
    #[serde(default)]
    pub http2: bool,
    /// Workload that asks for the same in the clear, or by HTTP/1.1: what this one costs more is shown for each cell.
    pub counterpart: Option<String>,
    /// More arguments of the load generator.
    #[serde(default)]
    pub load_arguments: Vec<String>,
    /// More arguments of the server.
    #[serde(default)]
    pub server_arguments: Vec<String>,
    /// Protocol, as the load generator takes it; of load kinds `kv` and `file`.
    pub protocol: Option<String>,
    /// The same for peers, where that is another.
    pub peer_protocol: Option<String>,
    /// Number of keys; of load kind `kv`, as the following.
    pub keys: Option<u32>,
    /// True if values are JSON documents.
    #[serde(default)]
    pub json_values: bool,
    /// True if every key is asked for once, and then the load is over.
    #[serde(default)]
    pub each_key_once: bool,
    /// True if the server may use only a fraction of the memory that all keys need.
    #[serde(default)]
    pub evicts: bool,
    /// Name of a set of documents; of load kind `file`, as the following.
    pub documents: Option<String>,
    /// Requests of each requestor, which sleeps between them.
    pub repetitions: Option<u32>,
    /// Place of what the clients receive, `read` or `splice`; of load kind `mq`, as the following.
    pub sink: Option<String>,
    /// Requests of each client in a full and in a quick run, instead of a slice of time.
    pub rounds: Option<[u32; 2]>,
}

/// Part of a preset that measures one server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PresetPart {
    /// As `--filter` takes it.
    pub filter: String,
    pub workloads: Vec<String>,
    /// Number of blocks of a full and of a quick run, where a visit takes so long that they are fewer than usual.
    pub blocks: Option<[u32; 2]>,
    pub quotes: Option<Quotes>,
}

/// Figures from elsewhere.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Quotes {
    /// Origin of the figures, and what must be known to read them.
    pub source: String,
    /// Workload of the rows that name none.
    pub workload: String,
    pub rows: Vec<QuotesRow>,
}

/// A quoted figure beside a cell of ours.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct QuotesRow {
    pub cell: String,
    pub name: String,
    pub workload: Option<String>,
    pub mean_ms: Option<f64>,
    pub worst_ms: Option<f64>,
    pub total_ms: Option<f64>,
    pub rate_rps: Option<f64>,
}

/// The cells that `cargo xtask ci` visits.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Smoke {
    /// Products of a filter, as `--filter` takes them, without the server.
    pub filters: Vec<String>,
    pub workloads: Vec<String>,
}

/// A run of `fail-the-nth`, on each driver or each choice of some other dimensions.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FaultRun {
    /// Word behind the back end's name, where a server has several runs.
    pub label: Option<String>,
    #[serde(default)]
    pub server_arguments: Vec<String>,
    #[serde(default)]
    pub load_arguments: Vec<String>,
    /// Number of the address that clients come to, behind those that the server has before it.
    #[serde(default)]
    pub address: usize,
    /// True if the load speaks memcached's binary protocol, which loadgen does not.
    #[serde(default)]
    pub binary: bool,
    /// True if clients come to a TLS address, and there is no other.
    #[serde(default)]
    pub tls: bool,
    /// True if the protocol has but one word, that there is no such document, for everything that goes wrong.
    #[serde(default)]
    pub has_one_refusal: bool,
    /// Dimensions that vary instead of the driver, of a server that has none.
    #[serde(default)]
    pub dimensions: Vec<String>,
    /// Choices of these that make threads while they serve.
    #[serde(default)]
    pub makes_threads: Vec<String>,
    /// Choices of these that write with write(2).
    #[serde(default)]
    pub writes: Vec<String>,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

impl Server {
    /// Parses a descriptor.
    ///
    /// # Errors
    /// It is no TOML, has an unknown field, lacks one that its load kind needs, or names a workload that it has not.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut table: toml::Table = text.parse().map_err(|error| format!("{error}"))?;
        if let (Some(toml::Value::Table(defaults)), Some(toml::Value::Array(workloads))) =
            (table.remove("defaults"), table.get_mut("workloads"))
        {
            for workload in workloads.iter_mut().filter_map(toml::Value::as_table_mut) {
                for (key, value) in &defaults {
                    workload.entry(key).or_insert_with(|| value.clone());
                }
            }
        }
        let server: Self = table.try_into().map_err(|error| format!("{error}"))?;
        server.check().map(|()| server)
    }

    /// Returns the workload of that name.
    pub fn workload(&self, name: &str) -> Option<&Workload> {
        self.workloads.iter().find(|workload| workload.name == name)
    }

    fn check(&self) -> Result<(), String> {
        for workload in &self.workloads {
            let missing = match self.load {
                LoadKind::Http => None,
                LoadKind::Kv if workload.protocol.is_none() => Some("protocol"),
                LoadKind::Kv if workload.keys.is_none() => Some("keys"),
                LoadKind::File if workload.protocol.is_none() && workload.documents.is_some() => Some("protocol"),
                LoadKind::File if self.documents_of(workload).is_none() => Some("documents"),
                LoadKind::Mq if workload.sink.is_none() => Some("sink"),
                LoadKind::Kv | LoadKind::File | LoadKind::Mq => None,
            };
            if let Some(missing) = missing {
                return Err(format!("workload {}: no {missing}", workload.name));
            }
        }
        let is_known = |name: &str| self.workload(name).is_some();
        for workload in &self.workloads {
            let name = &workload.name;
            if workload.handshakes.is_some() && !(workload.tls && workload.connection_per_request) {
                return Err(format!("workload {name}: handshakes are of TLS, with a connection per request"));
            }
            if workload.rate.is_some() && (workload.arrivals != Arrivals::Open || workload.fraction.is_some()) {
                return Err(format!("workload {name}: a rate is of an open loop, instead of a fraction"));
            }
            if workload.http2 && self.load != LoadKind::Http {
                return Err(format!("workload {name}: http2 is of load kind http"));
            }
            if let Some(other) = workload.counterpart.iter().find(|other| !is_known(other)) {
                return Err(format!("workload {name}: no counterpart `{other}`"));
            }
        }
        for name in self.workloads.iter().map(|workload| self.calibration_of(workload)) {
            match self.workload(name) {
                Some(workload) if workload.arrivals == Arrivals::Closed => {}
                _ => return Err(format!("calibration: `{name}` is no closed loop of this server")),
            }
        }
        let named = self.workloads.iter().filter_map(|workload| workload.peers.as_ref()).flatten();
        if let Some(unknown) = named.into_iter().find(|id| !self.peers.contains(id)) {
            return Err(format!("workloads: `{unknown}` is no peer of this server"));
        }
        if let Some(name) = self.smoke.workloads.iter().find(|name| !is_known(name)) {
            return Err(format!("smoke: no workload `{name}`"));
        }
        for (preset, part) in &self.presets {
            if let Some(name) = part.workloads.iter().find(|name| !is_known(name)) {
                return Err(format!("presets.{preset}: no workload `{name}`"));
            }
        }
        Ok(())
    }

    /// Returns the closed loop whose throughput an open one offers a fraction of.
    pub fn calibration_of<'a>(&'a self, workload: &'a Workload) -> &'a str {
        workload.calibration.as_ref().unwrap_or(&self.calibration)
    }

    /// Returns the set of documents that a workload names.
    pub fn documents_of(&self, workload: &Workload) -> Option<&Documents> {
        self.documents.iter().find(|documents| Some(&documents.name) == workload.documents.as_ref())
    }
}
