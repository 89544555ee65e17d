//! Virtual hosts as a configuration names them, before anything is opened.

use std::collections::HashSet;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use service::HostProblem;

use crate::{HostArgs, HostName};

/// `[[host]]` tables of the configuration file; for a field of a program's flags that is `skip`ped.
#[derive(Clone, Debug, Default)]
pub struct VirtualHosts(pub Vec<HostArgs>);

impl VirtualHosts {
    /// Returns the command whose flags are the keys of a table: the [`service::Program::host_command`].
    pub fn command() -> Command {
        HostArgs::augment_args(Command::new("host"))
    }

    /// Takes over the tables: the [`service::Program::set_hosts`].
    ///
    /// # Errors
    /// A host has no name, or a name that another one has.
    pub fn set(&mut self, tables: &[ArgMatches]) -> Result<(), HostProblem> {
        let mut names: HashSet<HostName> = HashSet::new();
        for (host, matches) in tables.iter().enumerate() {
            let problem = |what: String| HostProblem { host, what };
            let args = HostArgs::from_arg_matches(matches).map_err(|error| problem(error.to_string()))?;
            if args.names.is_empty() {
                return Err(problem("a host needs names, like names = [\"example.org\"]".to_owned()));
            }
            if let Some(name) = args.names.iter().find(|name| !names.insert(HostName::clone(name))) {
                return Err(problem(format!("{name} is named twice")));
            }
            self.0.push(args);
        }
        Ok(())
    }
}
