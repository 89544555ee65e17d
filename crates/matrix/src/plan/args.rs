//! The flags of bench-matrix.

use std::{net::IpAddr, path::PathBuf};

use anyhow::Result;
use clap::Parser;
use results::Remote;
use servers::PresetPart;

use crate::{
    commands::{Command, GateArgs, baseline},
    plan::{
        cpus::CpuList,
        filter::{self, hint},
        pace::PaceRequest,
        peers::{self, Peer},
        presets::Preset,
        subjects::{self, SUBJECTS, Subject},
        variants::Variants,
        warm_up,
    },
    usage,
};

const QUICK: Defaults = Defaults { blocks: 3, slice_s: 0.5, warmup_s: 0.3 };
const FULL: Defaults = Defaults { blocks: 7, slice_s: 1.5, warmup_s: 0.5 };

struct Defaults {
    blocks: u32,
    slice_s: f64,
    warmup_s: f64,
}

#[derive(Clone, Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// A look in about twelve minutes: 3 blocks of 0.5 s slices, a part of the workloads; says how things stand, does not rank
    #[arg(long)]
    pub(crate) quick: bool,
    /// A run by name instead of servers, filter and workloads: `seeds` is what the originals of
    /// http-server, kvcache, fileserver, zerocopy and mq-server printed, beside ours; `drivers`, `stores`, `strategies` vary
    /// that alone; `scaling` is 1, 2, … threads
    #[arg(long, value_name = "NAME", value_parser = Preset::named, conflicts_with_all = ["filter", "workload"])]
    pub(crate) preset: Option<&'static Preset>,
    /// Servers to measure, of a preset those of them that it has [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    servers: Vec<String>,
    /// Cells and workloads to measure: `server=kvcache & (driver=epoll|uring) & !store=std & workload~get*` or `kvcache/epoll/*`;
    /// `,` is and, `;` is or; dimensions that are named are crossed, of the others each varies alone; repeatable: all
    /// must hold
    #[arg(long, value_name = "EXPR")]
    filter: Vec<String>,
    /// Dimensions of which each varies alone, instead of all that there are: `driver,eviction`
    #[arg(long, value_name = "DIMENSIONS", value_delimiter = ',', conflicts_with = "preset")]
    pub(crate) vary: Vec<String>,
    /// Choices of the others meanwhile, where not their default: `store=std`
    #[arg(long, value_name = "DIMENSION=VALUE", value_delimiter = ',', requires = "vary")]
    pub(crate) fix: Vec<String>,
    /// Print what would be measured and how long it takes, and stop
    #[arg(long)]
    pub(crate) list: bool,
    /// Print every visit in the order of the plan, and stop
    #[arg(long, conflicts_with = "list")]
    pub(crate) dry_run: bool,
    /// Directory to write to [default: bench-results/UTC-COMMIT]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Continue an interrupted run: its plan, minus the visits it has
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "quick", "preset", "servers", "filter", "vary", "fix", "list", "dry_run", "out", "blocks", "slice", "warmup", "max_warmup", "seed", "workload", "conns", "pipeline", "rate", "reference",
        "server_cpus", "client_cpus", "server_exec", "server_host", "syscalls", "hist", "against", "profile",
    ])]
    pub(crate) resume: Option<PathBuf>,
    /// Passes over all cells [default: 7, quick: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    blocks: Option<u32>,
    /// Measured time of a visit [default: 1500ms, quick: 500ms]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    slice: Option<f64>,
    /// Time before it that is not measured [default: 500ms, quick: 300ms]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    warmup: Option<f64>,
    /// Until the load is steady it takes longer, at most this; equal to --warmup: a fixed time [default: 4 × --warmup,
    /// quick: --warmup]
    #[arg(long, value_name = "DURATION", value_parser = seconds, conflicts_with = "server_exec")]
    max_warmup: Option<f64>,
    /// Choose blocks and slices so that the run fits, and begin no block that would not: `30m`
    #[arg(long, value_name = "DURATION", value_parser = budget_seconds)]
    pub(crate) time_budget: Option<f64>,
    /// Seed of the visits' order and of the bootstrap [default: the time]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Workloads by name, comma separated [default: all, quick: a part]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    workload: Vec<String>,
    #[command(flatten)]
    pub(crate) variants: Variants,
    /// The cell that ratios are taken against, such as http-server/uring [default: each server's default]
    #[arg(long, value_name = "CELL")]
    pub(crate) reference: Option<String>,
    /// CPUs of the server, as taskset takes them; it runs a thread on each
    #[arg(long, value_name = "LIST", value_parser = CpuList::parse)]
    server_cpus: Option<CpuList>,
    /// Run the servers behind this command, which takes another command and runs it elsewhere with this one's standard
    /// streams: `ssh host`, `ip netns exec ns1`; programs and files must lie at the same paths there
    #[arg(long, value_name = "PREFIX", value_parser = prefix, requires = "server_host")]
    server_exec: Option<Prefix>,
    /// The address on which they listen there
    #[arg(long, value_name = "ADDR", requires = "server_exec")]
    server_host: Option<IpAddr>,
    /// Count system calls per request with strace, in a pass of its own behind the blocks
    #[arg(long, conflicts_with = "server_exec")]
    pub(crate) syscalls: bool,
    /// Keep each visit's latencies in intervals of 100 ms, as HdrHistogram logs in hist/
    #[arg(long)]
    pub(crate) hist: bool,
    /// CPUs of the load generator
    #[arg(long, value_name = "LIST", value_parser = CpuList::parse)]
    client_cpus: Option<CpuList>,
    /// Servers to measure beside, other people's where installed: nginx, lighttpd, redis, memcached, http-server (beside
    /// zerocopy), or none
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "nginx,lighttpd,redis,memcached,http-server"
    )]
    against: Vec<String>,
    /// Cargo profile that the servers and the generator are built with; figures of any but `release` are not judged
    #[arg(long, value_name = "NAME", default_value = "release")]
    pub(crate) profile: String,
    /// Measure what that profile has built before, as it lies there
    #[arg(long)]
    pub(crate) no_build: bool,
    /// Keep the finished run under this name, to compare with
    #[arg(long, value_name = "NAME", value_parser = baseline::check_name)]
    pub(crate) save_baseline: Option<String>,
    /// Compare the finished run with an earlier one
    #[arg(long, value_name = "NAME|DIR")]
    pub(crate) baseline: Option<String>,
    #[command(flatten)]
    pub(crate) gate: GateArgs,
    /// Run although another bench-matrix runs or the machine is busy, or resume although the sources changed
    #[arg(long)]
    pub(crate) force: bool,
}

impl Args {
    fn defaults(&self) -> &'static Defaults {
        if self.quick { &QUICK } else { &FULL }
    }

    /// Blocks and slices as asked for, and what they are otherwise.
    pub(crate) fn pace_request(&self) -> PaceRequest {
        let Defaults { blocks: default_blocks, slice_s: default_slice_s, .. } = *self.defaults();
        PaceRequest { blocks: self.blocks, slice_s: self.slice, default_blocks, default_slice_s }
    }

    pub(crate) fn warmup_s(&self) -> f64 {
        self.warmup.unwrap_or_else(|| self.defaults().warmup_s)
    }

    /// `None` is a fixed time.
    pub(crate) fn max_warmup_s(&self) -> Option<f64> {
        warm_up::longest_s(self.max_warmup, self.warmup_s(), self.quick)
    }

    /// True if somebody asked for a warm-up that ends by itself.
    pub(crate) fn has_max_warmup(&self) -> bool {
        self.max_warmup.is_some() && self.max_warmup_s().is_some()
    }

    pub(crate) fn subjects(&self) -> Result<Vec<&'static Subject>> {
        check_names("--servers", &self.servers, &subjects::names())?;
        let is_in_preset = |server: &str| self.preset.is_none_or(|preset| preset.part(server).is_some());
        if let Some((name, preset)) = self.servers.iter().find(|name| !is_in_preset(name)).zip(self.preset) {
            return Err(usage(format!("--servers `{name}`: the preset `{}` does not measure it", preset.name)));
        }
        let is_named = |server: &str| self.servers.is_empty() || self.servers.iter().any(|name| name == server);
        Ok(SUBJECTS.iter().filter(|subject| is_named(subject.server()) && is_in_preset(subject.server())).collect())
    }

    /// True if the number of threads is a dimension.
    pub(crate) fn is_scaling(&self) -> bool {
        self.preset.is_some_and(|preset| preset.scales)
    }

    /// Returns what the preset says of a server.
    pub(crate) fn part(&self, subject: &Subject) -> Option<&'static PresetPart> {
        self.preset?.part(subject.server())
    }

    /// The filter of a kind, unparsed.
    pub(crate) fn filter(&self, subject: &Subject) -> Option<String> {
        match (self.part(subject), self.filter.as_slice()) {
            (Some(part), _) => Some(part.filter.clone()),
            (None, []) => None,
            (None, [only]) => Some(only.clone()),
            (None, several) => Some(several.iter().map(|text| format!("({text})")).collect::<Vec<_>>().join(" and ")),
        }
    }

    /// The names of the workloads of a kind that were asked for; perhaps none.
    pub(crate) fn workloads(&self, subject: &Subject) -> Vec<String> {
        let names = subject.workloads(self.quick).into_iter().map(|workload| workload.name);
        let is_wanted = |name: &String| match (self.part(subject), self.workload.as_slice()) {
            (Some(part), _) => part.workloads.contains(name),
            (None, []) => subject.is_usual(name) && (!self.quick || subject.is_quick(name)),
            (None, given) => given.contains(name),
        };
        names.filter(is_wanted).collect()
    }

    /// The peers of a kind that were asked for.
    pub(crate) fn peers(&self, subject: &Subject) -> Vec<&'static dyn Peer> {
        let is_named = |peer: &&dyn Peer| self.against.iter().any(|name| name == peer.name());
        subject.peers().iter().copied().filter(is_named).collect()
    }

    /// Refuses names that do not exist.
    pub(crate) fn check(&self) -> Result<()> {
        warm_up::check(self.max_warmup, self.warmup_s())?;
        let subjects = self.subjects()?;
        let workloads: Vec<String> =
            subjects.iter().flat_map(|subject| subject.workloads(self.quick)).map(|workload| workload.name).collect();
        check_names("--workload", &self.workload, &workloads.iter().map(String::as_str).collect::<Vec<_>>())?;
        // Names can only be checked once the servers have been asked; what cannot be read at all is said before that.
        self.filter.iter().try_for_each(|text| filter::parse(text).map(drop))?;
        if self.gate.fail_on_regression.is_some() && self.baseline.is_none() {
            return Err(usage("--fail-on-regression needs a --baseline to compare with"));
        }
        if self.against == ["none"] {
            return Ok(());
        }
        check_names("--against", &self.against, &peers::names())
    }

    /// Returns the place of the servers, if they do not run here.
    pub(crate) fn remote(&self) -> Option<Remote> {
        Some(Remote { prefix: self.server_exec.clone()?.0, host: self.server_host? })
    }

    /// Server on the first core and generator on the second where there are two; `siblings` share a core with the first.
    pub(crate) fn cpus(&self, cores: u32, siblings: &[usize]) -> Result<(CpuList, CpuList)> {
        let server = self.server_cpus.clone().map_or_else(|| CpuList::parse("0"), Ok)?;
        let elsewhere = (1..cores as usize).find(|cpu| !siblings.contains(cpu));
        let default_client = elsewhere.unwrap_or_else(|| usize::from(cores > 1));
        let client = self.client_cpus.clone().map_or_else(|| CpuList::of(&[default_client]), Ok)?;
        // How many there are on another host is not known here; `taskset` will say.
        let here = if self.server_exec.is_some() { &[] } else { server.as_slice() };
        let highest = here.iter().chain(client.as_slice()).max().copied().unwrap_or(0);
        if highest >= cores as usize {
            return Err(usage(format!("CPU {highest}: this machine has {cores}, numbered from 0")));
        }
        Ok((server, client))
    }
}

fn check_names(flag: &str, given: &[String], known: &[&str]) -> Result<()> {
    match given.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(usage(format!("{flag} `{name}`: unknown; {}", hint(name, known)))),
        None => Ok(()),
    }
}

/// The words of `--server-exec`, at least one.
#[derive(Clone, Debug)]
struct Prefix(Vec<String>);

/// Split as a shell splits: `ssh -o 'ProxyCommand nc %h 22' host`.
fn prefix(text: &str) -> Result<Prefix, String> {
    let words = shlex::split(text).filter(|words| !words.is_empty());
    words.map(Prefix).ok_or_else(|| "expected the words of a command, quotes closed".to_owned())
}

/// `500ms`, `1.5s`, `2m`.
fn seconds(text: &str) -> Result<f64, String> {
    duration(text, 3_600.0, "60m")
}

/// `30m`, `8h`.
fn budget_seconds(text: &str) -> Result<f64, String> {
    duration(text, 7.0 * 86_400.0, "168h")
}

fn duration(text: &str, max_s: f64, max: &str) -> Result<f64, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
    let parsed = units.iter().find_map(|(unit, factor)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor));
    match parsed {
        Some(seconds) if (0.001..=max_s).contains(&seconds) => Ok(seconds),
        Some(_) => Err(format!("must be between 1ms and {max}")),
        None => Err("expected a number and a unit, such as 500ms, 1.5s or 30m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::pace::without_budget;

    fn parse(words: &[&str]) -> Args {
        Args::try_parse_from(std::iter::once("bench-matrix").chain(words.iter().copied())).unwrap()
    }

    fn workloads(words: &[&str]) -> Vec<String> {
        let args = parse(words);
        args.check().unwrap();
        args.subjects().unwrap().into_iter().flat_map(|subject| args.workloads(subject)).collect()
    }

    fn peers(words: &[&str]) -> Vec<&'static str> {
        let args = parse(words);
        args.check().unwrap();
        args.subjects().unwrap().into_iter().flat_map(|subject| args.peers(subject)).map(Peer::id).collect()
    }

    #[test]
    fn quick_sets_defaults_and_explicit_flags_win() {
        let args = parse(&["--quick", "--slice", "0.2s"]);
        let pace = |args: &Args| without_budget(args.pace_request());
        assert_eq!((pace(&args).blocks, pace(&args).slice_s, args.warmup_s()), (3, 0.2, 0.3));
        let args = parse(&[]);
        assert_eq!((pace(&args).blocks, pace(&args).slice_s), (7, 1.5));
        let many = "conns-9000".to_owned();
        assert!(!workloads(&["--quick"]).contains(&many) && workloads(&[]).contains(&many));
        assert_eq!(workloads(&["--quick", "--workload", "conns-9000,set-P16"]), ["conns-9000", "set-P16"]);
        assert!(!workloads(&["--servers", "kvcache"]).contains(&many));
    }

    #[test]
    fn names_that_do_not_exist_are_usage_errors_with_a_hint() {
        let message = |words: &[&str]| parse(words).check().unwrap_err().to_string();
        let error = message(&["--workload", "get-128-c64"]);
        assert!(error.contains("did you mean `get-128B-c64`?"), "{error}");
        assert!(message(&["--servers", "http-server", "--workload", "get-P1"]).contains("unknown"));
        let error = message(&["--against", "ngin"]);
        assert!(error.contains("did you mean `nginx`?"), "{error}");
        assert!(message(&["--servers", "mqserver"]).contains("mq-server"));
    }

    #[test]
    fn a_preset_says_servers_filter_and_workloads_and_nobody_else_does() {
        let words = ["--preset", "seeds"];
        let of_the_originals = [
            "original-c10000",
            "original-c1000",
            "original-get",
            "original-get-P100",
            "original-set-P100",
            "original-del-P100",
            "original-workflow-P100",
            "original-mixed",
            "original-10x30",
            "cached-26KB-c500",
            "cached-26KB-c500-close",
            "large-20x-read",
            "large-20x-splice",
        ];
        assert_eq!(workloads(&words), of_the_originals);
        let args = parse(&words);
        let [_, _, files, cached, _] = args.subjects().unwrap()[..] else { panic!("{words:?}") };
        assert!(args.filter(files).unwrap().contains("request-map=std"));
        assert!(args.filter(cached).unwrap().contains("strategy=sendfile"));
        let usual = workloads(&[]);
        for name in ["original-10x30", "original-c10000", "original-get"] {
            assert!(!usual.iter().any(|it| it == name), "{name} takes long and says little");
        }
        for flags in [["--filter", "driver=epoll"], ["--workload", "get-P1"]] {
            let words = ["bench-matrix", "--preset", "seeds"].into_iter().chain(flags);
            assert!(Args::try_parse_from(words).is_err(), "{flags:?}");
        }
    }

    #[test]
    fn a_preset_can_be_limited_to_some_of_its_servers_and_to_no_others() {
        assert_eq!(
            workloads(&["--preset", "seeds", "--servers", "zerocopy"]),
            ["cached-26KB-c500", "cached-26KB-c500-close"]
        );
        let error = parse(&["--preset", "stores", "--servers", "kvcache,http-server"]).check().unwrap_err();
        assert!(error.is::<crate::UsageError>() && error.to_string().contains("`http-server`: the preset `stores`"));
        assert_eq!(parse(&[]).subjects().unwrap().len(), SUBJECTS.len(), "all, where none is named");
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_refused_before_anything_is_built() {
        let error = parse(&["--filter", "driver=epoll", "--filter", "driver="]).check().unwrap_err();
        assert!(error.is::<crate::UsageError>() && error.to_string().contains("expected a value"), "{error}");
    }

    #[test]
    fn every_peer_stands_beside_the_server_it_belongs_to() {
        assert!(peers(&["--against", "none"]).is_empty());
        assert_eq!(peers(&["--against", "lighttpd,redis"]), ["lighttpd", "redis"]);
        assert_eq!(peers(&["--servers", "kvcache"]), ["redis", "memcached"]);
    }

    #[test]
    fn a_resumed_run_keeps_its_plan() {
        let given = [["--blocks", "2"], ["--filter", "driver=epoll"], ["--seed", "1"], ["--max-warmup", "2s"]];
        for flags in [["--quick", "--force"]].into_iter().chain(given) {
            let words = ["bench-matrix", "--resume", "x"].into_iter().chain(flags);
            assert!(Args::try_parse_from(words).is_err(), "{flags:?}");
        }
        assert!(Args::try_parse_from(["bench-matrix", "--resume", "x", "--force"]).is_ok());
    }

    #[test]
    fn cpus_must_exist() {
        assert!(parse(&["--server-cpus", "0-3"]).cpus(2, &[]).is_err());
        let (server, client) = parse(&[]).cpus(2, &[0]).unwrap();
        assert!(!server.shares_with(&client));
        let (server, client) = parse(&[]).cpus(1, &[0]).unwrap();
        assert!(server.shares_with(&client), "one core is shared, and said to be");
        let far = ["--server-exec", "ssh host", "--server-host", "10.0.0.1", "--server-cpus", "0-3"];
        assert_eq!(parse(&far).cpus(2, &[0]).unwrap().0.len(), 4, "another host has CPUs of its own");
    }

    #[test]
    fn the_generator_gets_no_hyperthread_of_the_servers_core_where_there_is_another() {
        let client = |cores, siblings: &[usize]| parse(&[]).cpus(cores, siblings).unwrap().1.text().to_owned();
        assert_eq!((client(4, &[0, 2]), client(4, &[0, 1]), client(2, &[0, 1])), ("1".into(), "2".into(), "1".into()));
    }

    #[test]
    fn a_prefix_is_split_as_a_shell_splits() {
        let words =
            |text: &str| parse(&["--server-exec", text, "--server-host", "::1"]).remote().unwrap().prefix.join("|");
        assert_eq!(words("ssh -p 22 'ho st'"), "ssh|-p|22|ho st");
        assert_eq!(words("ip netns exec ns1"), "ip|netns|exec|ns1");
        assert!(prefix("").is_err() && prefix("ssh 'host").is_err());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(seconds("1500ms"), Ok(1.5));
        assert_eq!(seconds("2m"), Ok(120.0));
        assert_eq!(budget_seconds("2h"), Ok(7_200.0));
        assert!(seconds("2h").is_err());
        assert!(seconds("5").is_err() && seconds("0s").is_err() && seconds("-1s").is_err() && seconds("nans").is_err());
    }
}
