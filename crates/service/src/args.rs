use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use bytesize::ByteSize;
use clap::{Arg, Args, Command, ValueEnum};
use drivers::{DefaultWorkers, Descriptor, DriverKind, DriverSet, UnknownDriver, driver_named};
use proto::{Admission, ClientConnections, Limits, Network};
use sys::{
    affinity::{self, Cpus},
    listen::{Address, ListenOptions},
};

use crate::{Generated, Sandbox, refusals, values};

/// The flags of every server process, whatever it serves and by whatever means.
#[derive(Args, Clone, Debug)]
pub struct ShellArgs {
    /// Processors to run on, threads dealt out round robin: 0 or 0,2-3
    #[arg(long, value_name = "CPUS")]
    pub pin: Option<Cpus>,

    /// Serve /metrics (Prometheus), /healthz and /readyz over HTTP here; off by default
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<Address>,

    /// Configuration file in TOML: each flag is a key, and the command line goes before it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Check the configuration and what it names, and exit: 0, or 2 with what is wrong
    #[arg(long)]
    pub check_config: bool,

    /// Print the limits of this machine that the server would meet, changing none, and exit: 0, or 1 if one is too low
    #[arg(long)]
    pub check_machine: bool,

    /// Ask the server that serves --metrics on this machine if it is ready, and exit: 0, or 1 if it is not
    #[arg(long)]
    pub check_health: bool,

    /// Print the configuration in use as a file, with the origin of each value, and exit
    #[arg(long)]
    pub print_config: bool,

    /// Print every choice of back end, and exit
    #[arg(long)]
    pub list_backends: bool,

    /// Format of --list-backends
    #[arg(long, value_name = "FORMAT", default_value = "text", requires = "list_backends")]
    pub format: Format,

    /// Print the manual page or the completions of a shell, and exit
    #[arg(long, value_name = "KIND")]
    pub generate: Option<Generated>,

    /// Format of the log on standard error; RUST_LOG filters it
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log: Log,

    /// Become this user once all addresses are bound: for a server that is started as root
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub user: Option<String>,

    /// Give up all files but those that the flags name, all programs, connections to others and signals to them (Landlock),
    /// and all system calls but those of the server (seccomp); debuggers of the same user cannot look in
    #[arg(long, value_name = "CHOICE", default_value = "auto")]
    pub sandbox: Sandbox,

    /// After SIGTERM, SIGINT or SIGQUIT, what is in flight has this long to finish
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration)]
    pub drain_timeout: Duration,
}

/// The flags that the servers on the I/O drivers share.
#[derive(Args, Clone, Debug)]
pub struct ServiceArgs {
    /// Address to listen on: HOST:PORT (port 0 picks a free one) or unix:/PATH; repeatable
    #[arg(long, value_name = "ADDR")]
    pub listen: Vec<Address>,

    /// The I/O driver; --list-backends describes them, `auto` picks one and says which
    #[arg(long, value_name = "NAME", default_value_t = DriverChoice::of(DriverKind::DEFAULT))]
    pub driver: DriverChoice,

    /// Event loops or runtime threads [default: available processors]
    #[arg(long, value_name = "N", value_parser = values::at_least_one)]
    pub threads: Option<usize>,

    #[arg(long, value_name = "N", value_parser = values::at_least_one, help = workers_help::<DriverKind>())]
    pub workers: Option<usize>,

    #[command(flatten)]
    pub shell: ShellArgs,

    /// Connections above this are refused [default: what the limit of open files allows]
    #[arg(long, value_name = "N", value_parser = values::at_least_one)]
    pub max_connections: Option<usize>,

    /// Connections of one client above this are refused; a client is an IPv4 address or an IPv6 network (/64)
    /// [default: no limit]
    #[arg(long, value_name = "N", value_parser = values::at_least_one)]
    pub max_connections_per_client: Option<usize>,

    /// Proxies whose connections begin with a PROXY header (version 1 or 2), which says who the client is: addresses
    /// like 192.0.2.1, networks like 10.0.0.0/8, or unix: for all unix sockets; repeatable
    #[arg(long, value_name = "CIDR")]
    pub proxy_protocol: Vec<Network>,

    /// Connections that wait to be accepted, as listen(2) has it; the kernel cuts it to net.core.somaxconn
    #[arg(long, value_name = "N", default_value_t = ListenOptions::BACKLOG, value_parser = values::backlog)]
    pub backlog: i32,

    /// Permissions of the files of unix sockets, in octal: they decide who may connect
    /// [default: what the umask leaves]
    #[arg(long, value_name = "MODE", value_parser = values::octal_mode)]
    pub socket_mode: Option<u32>,

    /// Send and receive buffer of a TCP connection in the kernel, which doubles it
    /// [default: what the kernel adapts to each connection]
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_bytes)]
    pub socket_buffer: Option<usize>,

    /// An idle connection is closed after this
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::positive_duration)]
    pub idle_timeout: Duration,

    /// A request must have arrived whole after this
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::positive_duration)]
    pub request_timeout: Duration,

    // `curl --limit-rate` may take a hundred seconds' worth at once and then nothing for a hundred seconds.
    /// A peer that takes too little of its answer for this long is cut off; see --min-send-rate
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = values::positive_duration)]
    pub stall_timeout: Duration,

    /// Bytes per second that a peer takes at least, averaged over --stall-timeout, while nothing more can be sent
    #[arg(long, value_name = "RATE", default_value = "500B/s", value_parser = values::rate)]
    pub min_send_rate: ByteSize,

    /// From this age the next reply of a connection is the last; 0: no limit
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::duration)]
    pub max_connection_age: Duration,

    /// The longest request that is buffered
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = values::positive_size)]
    pub max_request_size: ByteSize,

    /// A connection with more unsent output in memory is cut off
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = values::positive_size)]
    pub max_output_buffer: ByteSize,
}

/// Times that a protocol waits for its peer.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Between two requests.
    pub idle: Duration,
    /// From the first byte of a request to its last.
    pub request: Duration,
}

/// `--driver`: the name of a driver that the program has, or `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverChoice(&'static str);

impl DriverChoice {
    /// The choice of a driver that is picked by what the kernel offers.
    pub const AUTO: Self = Self("auto");

    /// Returns the choice of one driver.
    pub fn of(driver: impl DriverSet) -> Self {
        Self(driver.descriptor().name)
    }

    /// Parses the name of a driver of a set.
    ///
    /// # Errors
    /// None has that name.
    pub fn parse<D: DriverSet>(name: &str) -> Result<Self, UnknownDriver> {
        if name == Self::AUTO.0 { Ok(Self::AUTO) } else { driver_named::<D>(name).map(Self::of) }
    }

    /// Returns the driver; `None`: one is to be picked.
    pub(crate) fn named<D: DriverSet>(self) -> Option<D> {
        driver_named(self.0).ok()
    }
}

/// `--format`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// `--log`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Log {
    Text,
    Json,
}

impl ServiceArgs {
    pub fn timeouts(&self) -> Timeouts {
        Timeouts { idle: self.idle_timeout, request: self.request_timeout }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            request_bytes_max: usize::try_from(self.max_request_size.as_u64()).unwrap_or(usize::MAX),
            output_bytes_max: usize::try_from(self.max_output_buffer.as_u64()).unwrap_or(usize::MAX),
            stall_max: self.stall_timeout,
            send_rate_min: self.min_send_rate.as_u64(),
            age_max: Some(self.max_connection_age).filter(|age| !age.is_zero()),
            admission: None,
        }
    }

    /// Returns the rules about who may connect; `None`: everybody.
    pub(crate) fn admission(&self) -> Option<Admission> {
        if self.max_connections_per_client.is_none() && self.proxy_protocol.is_empty() {
            return None;
        }
        let mut admission = Admission::new(self.request_timeout, refusals::report);
        admission.clients = self.max_connections_per_client.map(ClientConnections::new);
        admission.proxies = self.proxy_protocol.clone();
        Some(admission)
    }

    pub(crate) fn listen_options(&self) -> ListenOptions {
        ListenOptions { backlog: self.backlog, buffer_bytes: self.socket_buffer, socket_mode: self.socket_mode }
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(affinity::available)
    }

    pub(crate) fn workers(&self, driver: &Descriptor) -> usize {
        self.workers.or_else(|| driver.default_workers.count()).unwrap_or(1)
    }
}

/// Gives the shared flags the drivers that the program has.
pub(crate) fn with_drivers<D: DriverSet>(command: Command) -> Command {
    let driver = |arg: Arg| arg.value_parser(DriverChoice::parse::<D>).default_value(D::DEFAULT.descriptor().name);
    command.mut_arg("driver", driver).mut_arg("workers", |arg| arg.help(workers_help::<D>()))
}

fn workers_help<D: DriverSet>() -> String {
    let defaults = D::ALL.iter().filter_map(|kind| match kind.descriptor().default_workers {
        DefaultWorkers::None => None,
        DefaultWorkers::Fixed(count) => Some(format!("{count} for {kind}")),
        DefaultWorkers::PerProcessor => Some(format!("available processors for {kind}")),
    });
    let defaults: Vec<_> = defaults.collect();
    let defaults = if defaults.is_empty() { "none has".to_owned() } else { defaults.join(", ") };
    format!(
        "Threads beside the event loops that run the protocol, for the drivers that have such [default: {defaults}]"
    )
}

impl FromStr for DriverChoice {
    type Err = UnknownDriver;

    fn from_str(name: &str) -> Result<Self, UnknownDriver> {
        Self::parse::<DriverKind>(name)
    }
}

impl fmt::Display for DriverChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_can_be_named() {
        for &kind in DriverKind::ALL {
            assert_eq!(kind.name().parse::<DriverChoice>().unwrap(), DriverChoice::of(kind));
        }
        assert_eq!("auto".parse::<DriverChoice>().unwrap(), DriverChoice::AUTO);
        let error = "select".parse::<DriverChoice>().unwrap_err().to_string();
        assert!(error.contains("select") && error.contains("uring"), "{error}");
    }
}
