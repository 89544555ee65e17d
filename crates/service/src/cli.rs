//! The command line of a server.

use std::{env, process};

use clap::{Arg, ArgMatches, Command, error::ErrorKind};
use drivers::DriverSet;
use sys::{confinement::Confinement, ktls::Support, listen::Address};

use crate::{
    DescriptorDemand, Dimension, Invalid, KernelTlsUse, Need, ServiceArgs, ShellArgs, TlsArgs, TlsDialect, args,
    backends,
    config::{CommandLine, LoadError, Loaded},
    output,
    sandbox::{CALL_OF_UNIX_ADDRESSES, CALLS_OF_TLS},
    usage,
};

/// Part of the command line that depends on the drivers that a program has.
pub(crate) struct DriverFlags {
    pub(crate) adapt: fn(Command) -> Command,
    pub(crate) dimension: fn() -> Option<Dimension>,
}

impl DriverFlags {
    pub(crate) fn of<D: DriverSet>() -> Self {
        Self { adapt: args::with_drivers::<D>, dimension: || Some(backends::drivers::<D>()) }
    }

    /// Those of a program without drivers.
    pub(crate) fn none() -> Self {
        Self { adapt: |command| command, dimension: || None }
    }
}

/// Exit status of bad usage.
pub(crate) const USAGE: i32 = 2;

/// The command line of a server on the I/O drivers.
pub trait Cli: clap::Parser {
    /// As in `--list-backends`.
    const NAME: &'static str;
    /// Addresses that it listens on when no flag names one.
    const LISTEN: &'static str;

    /// Flags, by their long names, with other defaults than the shared ones: `("idle-timeout", "1day")`.
    const DEFAULTS: &'static [(&'static str, &'static str)] = &[];

    /// Flags, by their long names, with one more environment variable: `("backlog", "CONN_QUEUE_LIMIT")`. It counts
    /// only where the usual one, `NAME_FLAG`, is not set.
    const ENVIRONMENT: &'static [(&'static str, &'static str)] = &[];

    /// Flags, by their long names, with a letter as well: `("driver", 'l')`.
    const LETTERS: &'static [(&'static str, char)] = &[];

    /// System calls of the server beside those that all make and those of its driver: for `--sandbox`.
    const CALLS: &'static [&'static str] = &[];

    /// System calls that some of its flags bring along; [`Cli::keep`] adds them where these are given.
    const CALLS_OF_FLAGS: &'static [&'static str] = &[];

    /// Checks flags that are right each for itself: bad usage, with its reason.
    ///
    /// # Errors
    /// The message says what is wrong and what would not be.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// The flags that all servers share.
    fn service(&self) -> &ServiceArgs;

    /// Dimensions of choice beside the driver.
    fn dimensions() -> Vec<Dimension> {
        Vec::new()
    }

    /// Combinations that do not work, and why not.
    fn invalid() -> Vec<Invalid> {
        Vec::new()
    }

    /// Addresses to listen on instead of [`Cli::LISTEN`] when no `--listen` is given.
    fn default_addresses(&self) -> Vec<String> {
        vec![Self::LISTEN.to_owned()]
    }

    /// Addresses to listen on behind those of `--listen`, for front ends that speak something else;
    /// [`crate::Host::listen_front_ends`] tells the two apart.
    fn more_addresses(&self) -> Vec<Address> {
        Vec::new()
    }

    /// Descriptors that the server would keep beside its connections; [`crate::Host::cache_descriptors`] and
    /// [`crate::Host::scratch_pipes_max`] say what it may.
    fn descriptors(&self) -> DescriptorDemand {
        DescriptorDemand::default()
    }

    /// Adds the files that the server needs beside those of its sockets and certificates: for `--sandbox`.
    fn keep(&self, kept: &mut Confinement) {
        let _ = kept;
    }

    /// Limits of the machine that matter beside those of connections.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// Address of the metrics when no `--metrics` is given; `None`: they are not served.
    fn default_metrics(&self) -> Option<String> {
        None
    }

    /// Flags of TLS addresses, which are behind all others, and what is spoken there; `None`: the server has no TLS. Such a
    /// server is run by [`crate::Host::serve_with_tls`].
    fn tls(&self) -> Option<(&TlsArgs, TlsDialect)> {
        None
    }

    /// See [`Program::host_command`].
    fn host_command() -> Option<Command> {
        None
    }

    /// See [`Program::set_hosts`].
    ///
    /// # Errors
    /// See [`HostProblem`].
    fn set_hosts(&mut self, hosts: &[ArgMatches]) -> Result<(), HostProblem> {
        let _ = hosts;
        Ok(())
    }

    /// See [`Program::check_start`].
    ///
    /// # Errors
    /// The server could not start.
    fn check_start(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Error in a `[[host]]` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProblem {
    /// Number of the table, counted from 0.
    pub host: usize,
    pub what: String,
}

/// Command line of any server process; a [`Cli`] is one as well.
pub trait Program: clap::Parser {
    /// As in `--list-backends`.
    const NAME: &'static str;
    /// See [`Cli::DEFAULTS`].
    const DEFAULTS: &'static [(&'static str, &'static str)] = &[];
    /// See [`Cli::ENVIRONMENT`].
    const ENVIRONMENT: &'static [(&'static str, &'static str)] = &[];
    /// See [`Cli::LETTERS`].
    const LETTERS: &'static [(&'static str, char)] = &[];
    /// See [`Cli::CALLS`].
    const CALLS: &'static [&'static str] = &[];
    /// See [`Cli::CALLS_OF_FLAGS`].
    const CALLS_OF_FLAGS: &'static [&'static str] = &[];

    /// Checks flags that are right each for itself: bad usage, with its reason.
    ///
    /// # Errors
    /// The message says what is wrong and what would not be.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// The flags that all processes share.
    fn shell(&self) -> &ShellArgs;

    /// Dimensions of choice beside the driver.
    fn dimensions() -> Vec<Dimension>;

    /// Combinations that do not work, and why not.
    fn invalid() -> Vec<Invalid> {
        Vec::new()
    }

    /// Returns the files and ports that the server needs, for `--sandbox`.
    fn kept(&self) -> Confinement {
        Confinement::default()
    }

    /// Asks the kernel what a confined process could not.
    fn prepare_for_confinement(&self) {}

    /// Limits of the machine that matter, for `--check-machine`.
    fn all_needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// Address of the metrics when no `--metrics` is given; `None`: they are not served.
    fn default_metrics(&self) -> Option<String> {
        None
    }

    /// Returns the command whose flags are the keys of the configuration file's `[[host]]` tables; `None`: it has none.
    /// Flags that they share with the program are read again at a reload; all others need a restart.
    fn host_command() -> Option<Command> {
        None
    }

    /// Takes over the `[[host]]` tables, each parsed by [`Program::host_command`].
    ///
    /// # Errors
    /// See [`HostProblem`].
    fn set_hosts(&mut self, hosts: &[ArgMatches]) -> Result<(), HostProblem> {
        let _ = hosts;
        Ok(())
    }

    /// Opens and reads all that the start would, and lets it go: for `--check-config`.
    ///
    /// # Errors
    /// The server could not start.
    fn check_start(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

impl<C: Cli> Program for C {
    const NAME: &'static str = <C as Cli>::NAME;
    const DEFAULTS: &'static [(&'static str, &'static str)] = <C as Cli>::DEFAULTS;
    const ENVIRONMENT: &'static [(&'static str, &'static str)] = <C as Cli>::ENVIRONMENT;
    const LETTERS: &'static [(&'static str, char)] = <C as Cli>::LETTERS;
    const CALLS: &'static [&'static str] = <C as Cli>::CALLS;
    const CALLS_OF_FLAGS: &'static [&'static str] = <C as Cli>::CALLS_OF_FLAGS;

    fn check(&self) -> Result<(), String> {
        self.tls().map_or(Ok(()), |(args, _)| args.check())?;
        Cli::check(self)
    }

    fn shell(&self) -> &ShellArgs {
        &self.service().shell
    }

    fn dimensions() -> Vec<Dimension> {
        <C as Cli>::dimensions()
    }

    fn invalid() -> Vec<Invalid> {
        <C as Cli>::invalid()
    }

    fn kept(&self) -> Confinement {
        let (mut kept, service) = (Confinement::default(), self.service());
        let defaults = if service.listen.is_empty() { self.default_addresses() } else { Vec::new() };
        // One that is none is an error of the start.
        let defaults = defaults.iter().filter_map(|address| address.parse().ok());
        let tls = self.tls().map(|(args, _)| args);
        let addresses = defaults.chain(service.listen.clone()).chain(self.more_addresses());
        let addresses = addresses.chain(tls.iter().flat_map(|args| args.tls_listen.clone()));
        addresses.for_each(|address| keep_address(&mut kept, &address));
        if let Some(args) = tls {
            let files = args.tls_cert.iter().chain(&args.tls_key).chain(&args.tls_client_ca);
            files.for_each(|file| kept.read_replaceable(file));
            kept.calls.extend(CALLS_OF_TLS);
        }
        self.keep(&mut kept);
        kept
    }

    fn prepare_for_confinement(&self) {
        if let Some((args, dialect)) = self.tls()
            && !args.tls_listen.is_empty()
            && dialect.kernel != KernelTlsUse::Off
        {
            // The answer is asked for again.
            let _ = Support::probe();
        }
    }

    fn all_needs(&self) -> Vec<Need> {
        let args = self.service();
        let mut needs = vec![Need::of_connections(args.max_connections), Need::of_backlog(args.backlog)];
        needs.extend(self.needs());
        needs
    }

    fn default_metrics(&self) -> Option<String> {
        Cli::default_metrics(self)
    }

    fn host_command() -> Option<Command> {
        <C as Cli>::host_command()
    }

    fn set_hosts(&mut self, hosts: &[ArgMatches]) -> Result<(), HostProblem> {
        Cli::set_hosts(self, hosts)
    }

    fn check_start(&self) -> anyhow::Result<()> {
        if let Some((args, dialect)) = self.tls()
            && let Some(config) = args.load(&dialect, false)?
        {
            config.warnings().iter().for_each(|warning| output::to_stderr(format_args!("warning: {warning}")));
        }
        Cli::check_start(self)
    }
}

/// Allows to bind an address, and to remove the file of a unix socket.
pub(crate) fn keep_address(kept: &mut Confinement, address: &Address) {
    match address {
        Address::Tcp(address) => kept.ports.push(address.port()),
        Address::Unix(path) => {
            kept.write_replaceable(path);
            kept.calls.push(CALL_OF_UNIX_ADDRESSES);
        }
    }
}

/// Parses the command line and the configuration file; every flag also reads an environment variable named after the
/// server and the flag, like `HTTP_SERVER_LISTEN`.
pub(crate) fn parse<C: Program>(flags: &DriverFlags) -> (CommandLine, Loaded<C>) {
    let command = (flags.adapt)(command::<C>(|variable| env::var_os(variable).is_some()));
    let line = CommandLine::new(command, env::args_os().collect());
    match line.load::<C>() {
        Ok(loaded) => (line, loaded),
        Err(LoadError::Usage(error)) => {
            // Only a command that is built can name its arguments.
            let mut command = line.command;
            command.build();
            usage::explain(error, &command, &line.arguments).exit()
        }
        Err(LoadError::Check(why)) => C::command().error(ErrorKind::ArgumentConflict, why).exit(),
        Err(error @ (LoadError::Unreadable(..) | LoadError::Invalid(..))) => {
            error.to_string().lines().for_each(|line| output::to_stderr(format_args!("error: {line}")));
            process::exit(USAGE)
        }
    }
}

/// The command with the defaults of this server and its environment, in which `is_set` says what there is.
pub(crate) fn command<C: Program>(is_set: impl Fn(&str) -> bool) -> Command {
    let prefix = C::NAME.replace('-', "_").to_uppercase();
    let command = C::command();
    let letters = C::LETTERS.iter().map(|(flag, _)| flag);
    for flag in C::DEFAULTS.iter().chain(C::ENVIRONMENT).map(|(flag, _)| flag).chain(letters) {
        debug_assert!(command.get_arguments().any(|arg| arg.get_long() == Some(flag)), "{}: no --{flag}", C::NAME);
    }
    command.mut_args(|arg| {
        let Some(flag) = arg.get_long().map(str::to_owned) else { return arg };
        let arg = match entry(C::DEFAULTS, &flag) {
            Some(default) => arg.default_value(default),
            None => arg,
        };
        let arg = match entry(C::LETTERS, &flag) {
            Some(letter) => arg.short(letter),
            None => arg,
        };
        let usual = format!("{prefix}_{}", flag.replace('-', "_").to_uppercase());
        let other = entry(C::ENVIRONMENT, &flag).filter(|other| !is_set(&usual) && is_set(other));
        with_variable(arg, other.map_or(usual, str::to_owned))
    })
}

fn entry<T: Copy>(table: &[(&'static str, T)], flag: &str) -> Option<T> {
    table.iter().find_map(|&(name, value)| (name == flag).then_some(value))
}

/// A server's own flag may name its variable itself.
fn with_variable(arg: Arg, variable: String) -> Arg {
    if arg.get_env().is_some() { arg } else { arg.env(variable).hide_env(true) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{FromArgMatches, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        service: ServiceArgs,
    }

    impl Cli for Flags {
        const NAME: &'static str = "some-server";
        const LISTEN: &'static str = "127.0.0.1:0";
        const DEFAULTS: &'static [(&'static str, &'static str)] =
            &[("max-request-size", "512MiB"), ("idle-timeout", "1day"), ("max-connections", "9")];
        const ENVIRONMENT: &'static [(&'static str, &'static str)] = &[("backlog", "QUEUE_LIMIT")];
        const LETTERS: &'static [(&'static str, char)] = &[("backlog", 'b')];

        fn service(&self) -> &ServiceArgs {
            &self.service
        }
    }

    fn parse(arguments: &[&str]) -> ServiceArgs {
        let command = command::<Flags>(|_| false);
        let arguments = ["some-server"].iter().chain(arguments);
        Flags::from_arg_matches(&command.try_get_matches_from(arguments).unwrap()).unwrap().service
    }

    #[test]
    fn a_server_has_defaults_of_its_own_and_flags_still_win() {
        let (usual, said) = (parse(&[]), parse(&["--idle-timeout", "3s", "--max-connections", "7"]));
        assert_eq!(usual.max_request_size.as_u64(), 512 << 20);
        assert_eq!((usual.idle_timeout, said.idle_timeout), (Duration::from_hours(24), Duration::from_secs(3)));
        assert_eq!((usual.max_connections, said.max_connections), (Some(9), Some(7)));
        assert_eq!(usual.request_timeout, Duration::from_secs(10));
    }

    #[test]
    fn a_letter_stands_for_its_flag() {
        assert_eq!(parse(&["-b", "17"]).backlog, 17);
    }

    #[test]
    fn help_shows_the_defaults_of_the_server() {
        let help = command::<Flags>(|_| false).render_long_help().to_string();
        assert!(help.contains("[default: 512MiB]") && help.contains("[default: 1day]"), "{help}");
        assert!(!help.contains("[default: 60s]"), "{help}");
    }

    #[test]
    fn the_other_variable_counts_only_without_the_usual_one() {
        let variable = |set: &[&str]| {
            let command = command::<Flags>(|variable| set.contains(&variable));
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some("backlog")).unwrap();
            arg.get_env().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(variable(&[]), "SOME_SERVER_BACKLOG");
        assert_eq!(variable(&["QUEUE_LIMIT"]), "QUEUE_LIMIT");
        assert_eq!(variable(&["QUEUE_LIMIT", "SOME_SERVER_BACKLOG"]), "SOME_SERVER_BACKLOG");
    }
}
