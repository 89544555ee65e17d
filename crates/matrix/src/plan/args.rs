//! The flags of bench-matrix as they are typed. [`Task`](super::spec::Task) is what they ask for, checked; nothing else
//! reads them.

use std::{net::IpAddr, path::PathBuf};

use crate::usage::whole;

use clap::{Parser, ValueEnum};

use crate::{
    commands::{Command, GateArgs, baseline},
    plan::{cpus::CpuList, presets::Preset, variants::Variants},
};

#[derive(Clone, Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    /// A first look in five minutes: 3 blocks of 0.3 s slices, two workloads of each server; ranks what turns beside the reference tell
    #[arg(long)]
    pub(super) quick: bool,
    /// A run by name instead of servers, filter and workloads: `seeds` is what the originals of
    /// http-server, kvcache, fileserver, zerocopy and mq-server printed, beside ours; `tls` and `h2` measure what encryption and HTTP/2 cost; `drivers`, `stores`, `strategies` vary
    /// that alone; `scaling` is 1, 2, … threads; `runtimes`, `unbalanced`, `idle`, `threads` and `handshakes` compare the drivers of
    /// http-server
    #[arg(long, value_name = "NAME", value_parser = Preset::named, conflicts_with_all = ["filter", "workload"])]
    pub(super) preset: Option<&'static Preset>,
    /// Servers to measure, of a preset those of them that it has [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) servers: Vec<String>,
    /// Cells and workloads to measure: `server=kvcache & (driver=epoll|uring) & !store=std & workload~get*` or `kvcache/epoll/*`;
    /// `,` is and, `;` is or; dimensions that are named are crossed, of the others each varies alone; repeatable: all
    /// must hold
    #[arg(long, value_name = "EXPR")]
    pub(super) filter: Vec<String>,
    /// Dimensions of which each varies alone, instead of all that there are: `driver,eviction`
    #[arg(long, value_name = "DIMENSIONS", value_delimiter = ',', conflicts_with = "preset")]
    pub(super) vary: Vec<String>,
    /// Choices of the others meanwhile, where not their default: `store=std`
    #[arg(long, value_name = "DIMENSION=VALUE", value_delimiter = ',', requires = "vary")]
    pub(super) fix: Vec<String>,
    /// Print what would be measured and how long it takes, and stop
    #[arg(long)]
    pub(super) list: bool,
    /// Print every visit in the order of the plan, and stop
    #[arg(long, conflicts_with = "list")]
    pub(super) dry_run: bool,
    /// Directory to write to [default: bench-results/UTC-COMMIT]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Continue an interrupted run: its plan, minus the visits it has
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "quick", "preset", "servers", "filter", "vary", "fix", "list", "dry_run", "out", "blocks", "slice", "warmup", "max_warmup", "turns", "seed", "workload", "conns", "pipeline", "rate", "reference",
        "server_cpus", "client_cpus", "server_exec", "server_host", "agents", "syscalls", "witness", "hist", "against", "profile",
    ])]
    pub(super) resume: Option<PathBuf>,
    /// Passes over all cells [default: 7, quick: 3]
    #[arg(long, value_name = "N", value_parser = |text: &str| whole(text, 1..=1_000_u32, "7"))]
    pub(super) blocks: Option<u32>,
    /// Measured time of a visit [default: 1500ms, quick: 300ms]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    pub(super) slice: Option<f64>,
    /// Time before it that is not measured [default: 500ms, quick: 200ms]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    pub(super) warmup: Option<f64>,
    /// Until the load is steady it takes longer, at most this; equal to --warmup: a fixed time [default: 4 × --warmup,
    /// quick: --warmup]
    #[arg(long, value_name = "DURATION", value_parser = seconds, conflicts_with = "server_host")]
    pub(super) max_warmup: Option<f64>,
    /// Pairs of turns in which each visit of a closed loop stands beside a fresh reference, at 40 ms a turn; 0: ratios are those
    /// of visits one after the other [default: 10, quick: 5, another profile than `release`: 0]. Of two builds: pairs of a round,
    /// at 50 ms a turn, at least 1 [default: 12]
    #[arg(long, value_name = "N", value_parser = |text: &str| whole(text, 0..=10_000_u32, "10"))]
    pub(super) turns: Option<u32>,
    /// Choose blocks and slices so that the run fits, and begin no block that would not: `30m`
    #[arg(long, value_name = "DURATION", value_parser = budget_seconds)]
    pub(super) time_budget: Option<f64>,
    /// Seed of the visits' order and of the bootstrap [default: the time]
    #[arg(long, value_name = "N", value_parser = |text: &str| whole(text, 0..=u64::MAX, "42"))]
    pub(super) seed: Option<u64>,
    /// Workloads by name, comma separated [default: all, quick: a part]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) workload: Vec<String>,
    #[command(flatten)]
    pub(super) variants: Variants,
    /// The cell that ratios are taken against, such as http-server/uring [default: each server's default]
    #[arg(long, value_name = "CELL")]
    pub(super) reference: Option<String>,
    /// CPUs of the server, as taskset takes them; it runs a thread on each
    #[arg(long, value_name = "LIST", value_parser = CpuList::parse)]
    pub(super) server_cpus: Option<CpuList>,
    /// Run the servers behind this command, which takes another command and runs it elsewhere with this one's standard
    /// streams: `ssh host`, `ip netns exec ns1`; programs and files must lie at the same paths there
    #[arg(long, value_name = "PREFIX", value_parser = prefix, requires = "server_host")]
    pub(super) server_exec: Option<Prefix>,
    /// The address on which they listen there, or here, where --agent reaches them
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(super) server_host: Option<IpAddr>,
    /// Make the loads by an agent of loadgen behind this command, as `loadgen --agent` does: `ssh client1`, `ip netns exec ns2`;
    /// repeatable: the agents share each load. loadgen must lie at the same path there
    #[arg(long = "agent", value_name = "PREFIX", requires = "server_host")]
    pub(super) agents: Vec<String>,
    /// Count system calls per request with strace, in a pass of its own behind the blocks
    #[arg(long, conflicts_with = "server_host")]
    pub(super) syscalls: bool,
    /// Ask a second witness: `instructions` counts those of our servers per request under valgrind, in a pass of its own behind the
    /// blocks, and says if they agree with CPU time
    #[arg(long, value_name = "WHICH", conflicts_with = "server_host")]
    pub(super) witness: Option<Witness>,
    /// Keep each visit's latencies in intervals of 100 ms, as HdrHistogram logs in hist/
    #[arg(long, conflicts_with = "agents")]
    pub(super) hist: bool,
    /// CPUs of the load generator
    #[arg(long, value_name = "LIST", value_parser = CpuList::parse)]
    pub(super) client_cpus: Option<CpuList>,
    /// Servers to measure beside, other people's where installed: nginx, lighttpd, h2o, caddy, redis, memcached, http-server
    /// (beside zerocopy), or none
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "nginx,lighttpd,h2o,caddy,redis,memcached,http-server"
    )]
    pub(super) against: Vec<String>,
    /// Cargo profile that the servers and the generator are built with; figures of any but `release` are not judged
    #[arg(long, value_name = "NAME", default_value = "release")]
    pub(super) profile: String,
    /// Measure what that profile has built before, as it lies there
    #[arg(long)]
    pub(super) no_build: bool,
    /// Keep the finished run under this name, to compare with
    #[arg(long, value_name = "NAME", value_parser = baseline::check_name)]
    pub(super) save_baseline: Option<String>,
    /// Compare the finished run with an earlier one
    #[arg(long, value_name = "NAME|DIR")]
    pub(super) baseline: Option<String>,
    /// Measure a stranger's program as a row beside ours, under the same verification; with --servers NAME, whose work it does.
    /// `base=PATH` and `change=PATH` are two builds of that server, compared side by side until it is known which costs less
    #[arg(long, value_name = "NAME=PATH", value_parser = program)]
    pub(super) program: Vec<Program>,
    #[command(flatten)]
    pub(super) gate: GateArgs,
    /// Run although another bench-matrix runs or the machine is busy, or resume although the sources changed
    #[arg(long)]
    pub(super) force: bool,
}

/// A program by name.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

fn program(text: &str) -> Result<Program, String> {
    match text.split_once('=') {
        Some((name, path)) if is_name(name) && !path.is_empty() => {
            Ok(Program { name: name.to_owned(), path: PathBuf::from(path) })
        }
        _ => Err("expected NAME=PATH, with a name of lower case letters, digits and hyphens".to_owned()),
    }
}

/// It is the id of a row, which filters know.
fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(is_part)
}

impl Program {
    /// True if it is one of two builds that are compared.
    pub(super) fn is_build(&self) -> bool {
        ["base", "change"].contains(&self.name.as_str())
    }
}

impl Args {
    /// Returns the flag, if one is given, that means nothing where two builds are compared.
    pub(super) fn conflict_with_builds(&self) -> Option<&'static str> {
        let given = [
            ("--preset", self.preset.is_some()),
            ("--filter", !self.filter.is_empty()),
            ("--vary", !self.vary.is_empty()),
            ("--fix", !self.fix.is_empty()),
            ("--seed", self.seed.is_some()),
            ("--list", self.list),
            ("--dry-run", self.dry_run),
            ("--blocks", self.blocks.is_some()),
            ("--slice", self.slice.is_some()),
            ("--warmup", self.warmup.is_some()),
            ("--max-warmup", self.max_warmup.is_some()),
            ("--server-exec", self.server_exec.is_some()),
            ("--server-host", self.server_host.is_some()),
            ("--syscalls", self.syscalls),
            ("--hist", self.hist),
            ("--save-baseline", self.save_baseline.is_some()),
            ("--baseline", self.baseline.is_some()),
        ];
        given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag)).or_else(|| self.variants.first_flag())
    }
}

/// Figure that stands beside CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Witness {
    /// Instructions of the server's program per request, counted under valgrind
    Instructions,
}

/// The words of `--server-exec`, at least one.
#[derive(Clone, Debug)]
pub(super) struct Prefix(pub(super) Vec<String>);

/// Split as a shell splits: `ssh -o 'ProxyCommand nc %h 22' host`.
fn prefix(text: &str) -> Result<Prefix, String> {
    let words = shlex::split(text).filter(|words| !words.is_empty());
    words.map(Prefix).ok_or_else(|| "expected the words of a command, quotes closed".to_owned())
}

/// `500ms`, `1.5s`, `2m`.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    duration(text, 3_600.0, "60m")
}

/// `30m`, `8h`.
fn budget_seconds(text: &str) -> Result<f64, String> {
    duration(text, 7.0 * 86_400.0, "168h")
}

fn duration(text: &str, max_s: f64, max: &str) -> Result<f64, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
    // Without a unit they are seconds, as elsewhere.
    let with_unit =
        units.iter().find_map(|(unit, factor)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor));
    let parsed = with_unit.or_else(|| text.parse().ok());
    match parsed {
        Some(seconds) if (0.001..=max_s).contains(&seconds) => Ok(seconds),
        Some(_) => Err(format!("must be between 1ms and {max}")),
        None => Err("expected a duration, such as 500ms, 1.5s or 30m".to_owned()),
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "expected an IP address, such as 10.0.0.2".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_prefix_is_split_as_a_shell_splits() {
        let words = |text: &str| prefix(text).unwrap().0.join("|");
        assert_eq!(words("ssh -p 22 'ho st'"), "ssh|-p|22|ho st");
        assert_eq!(words("ip netns exec ns1"), "ip|netns|exec|ns1");
        assert!(prefix("").is_err() && prefix("ssh 'host").is_err());
    }

    #[test]
    fn durations_have_units_or_are_seconds() {
        assert_eq!(seconds("1500ms"), Ok(1.5));
        assert_eq!(seconds("2m"), Ok(120.0));
        assert_eq!(budget_seconds("2h"), Ok(7_200.0));
        assert!(seconds("2h").is_err());
        assert_eq!(seconds("5"), Ok(5.0));
        assert!(
            seconds("5x").is_err()
                && seconds("0").is_err()
                && seconds("0s").is_err()
                && seconds("-1s").is_err()
                && seconds("nans").is_err()
        );
    }

    #[test]
    fn numbers_that_are_none_are_explained_with_an_example() {
        assert_eq!(whole("7", 1..=1_000_u32, "7"), Ok(7));
        for text in ["0", "1001", "many", "1.5", ""] {
            assert_eq!(
                whole(text, 1..=1_000_u32, "7").unwrap_err(),
                "expected a whole number from 1 to 1000, such as 7"
            );
        }
        assert!(address("host").unwrap_err().contains("10.0.0.2"));
    }
}
