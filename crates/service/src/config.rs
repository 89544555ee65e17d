//! Configuration of a server: its flags, its environment, and behind both a file whose keys are the flags.
//!
//! A value of the file becomes the default of its argument. So flags and variables override it without a rule of their
//! own, the argument's parser judges it, and a new flag is a new key.

mod file;
mod print;
mod reload;

use std::{
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, ArgMatches, Command, builder::Resettable, parser::ValueSource};

pub use self::file::{Entry, File, Position, Problem, Table, parse};
pub(crate) use self::reload::reload;
use crate::{HostProblem, Program};

/// Length of the longest file, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Command line of a server, with which its file can be read again.
#[derive(Clone, Debug)]
pub(crate) struct CommandLine {
    /// Command with its environment, without the file.
    pub(crate) command: Command,
    pub(crate) arguments: Vec<OsString>,
}

/// Configuration that has been read.
#[derive(Debug)]
pub(crate) struct Loaded<P> {
    pub(crate) program: P,
    pub(crate) effective: Effective,
}

/// Every value in use, and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Effective {
    pub(crate) file: Option<PathBuf>,
    pub(crate) top: Vec<Setting>,
    pub(crate) hosts: Vec<Vec<Setting>>,
}

/// Value in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: String,
    /// `None` where there is none, not even a default.
    pub(crate) values: Option<Vec<String>>,
    pub(crate) origin: Origin,
    pub(crate) is_secret: bool,
    pub(crate) is_several: bool,
}

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    Flag,
    Variable(String),
    Line(usize),
}

/// Reason why there is no configuration.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// Error of the command line, or a wish for help.
    Usage(clap::Error),
    Unreadable(PathBuf, io::Error),
    Invalid(PathBuf, Vec<Problem>),
    /// Flags that are right each for itself, and not together.
    Check(String),
}

impl fmt::Display for LoadError {
    /// Writes one line for each problem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(error) => f.write_str(&file::reason(error)),
            Self::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Invalid(path, problems) => {
                for (number, Problem { position, what }) in problems.iter().enumerate() {
                    let end = if number == 0 { "" } else { "\n" };
                    write!(f, "{end}{}:{position}: {what}", path.display())?;
                }
                Ok(())
            }
            Self::Check(why) => f.write_str(why),
        }
    }
}

impl CommandLine {
    /// Makes the command forget the variables that exclude an argument which is given: `DIR` overrides `…_ROOT`.
    pub(crate) fn new(command: Command, arguments: Vec<OsString>) -> Self {
        let line = Self { command, arguments };
        let from = |source| line.ids_from(|from| from == source);
        let (given, variables) = (from(ValueSource::CommandLine), from(ValueSource::EnvVariable));
        let is_overridden = |arg: &Arg| {
            let id = arg.get_id().as_str();
            variables.iter().any(|it| it == id) && given.iter().any(|other| conflict(&line.command, id, other))
        };
        let forget = |arg: Arg| if is_overridden(&arg) { arg.env(Resettable::Reset) } else { arg };
        Self { command: line.command.clone().mut_args(forget), arguments: line.arguments }
    }

    /// Reads the file, if one is named, and puts flags and variables above it.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub(crate) fn load<P: Program>(&self) -> Result<Loaded<P>, LoadError> {
        let Some(path) = self.file() else {
            return self.finish(self.command.clone(), None, None, None);
        };
        let text = read(&path)?;
        let host = P::host_command().map(|host| host.mut_args(|arg| arg.env(Resettable::Reset)));
        let file = parse(&text, &self.command, host.as_ref())
            .map_err(|problems| LoadError::Invalid(path.clone(), problems))?;
        let explicit = self.explicit();
        let wins = |entry: &&Entry| !explicit.iter().any(|other| conflict(&self.command, &entry.id, other));
        let entries: Vec<&Entry> = file.top.entries.iter().filter(wins).collect();
        let command = with_defaults(self.command.clone(), &entries);
        self.finish(command, Some(path), Some(&file), host)
    }

    /// Returns the file that the command line or the environment names.
    fn file(&self) -> Option<PathBuf> {
        let matches = self.command.clone().ignore_errors(true).try_get_matches_from(&self.arguments).ok()?;
        matches.try_get_one::<PathBuf>("config").ok().flatten().cloned()
    }

    /// Returns the ids of the arguments that are given by flags or variables.
    fn explicit(&self) -> Vec<String> {
        self.ids_from(|source| source != ValueSource::DefaultValue)
    }

    fn ids_from(&self, is_wanted: impl Fn(ValueSource) -> bool) -> Vec<String> {
        let Ok(matches) = self.command.clone().ignore_errors(true).try_get_matches_from(&self.arguments) else {
            return Vec::new();
        };
        let is_from = |id: &str| matches.value_source(id).is_some_and(&is_wanted);
        self.command.get_arguments().map(|arg| arg.get_id().to_string()).filter(|id| is_from(id)).collect()
    }

    fn finish<P: Program>(
        &self,
        mut command: Command,
        path: Option<PathBuf>,
        file: Option<&File>,
        host: Option<Command>,
    ) -> Result<Loaded<P>, LoadError> {
        let matches = command.try_get_matches_from_mut(&self.arguments).map_err(LoadError::Usage)?;
        let mut program = P::from_arg_matches(&matches).map_err(LoadError::Usage)?;
        let top = file.map_or(&[][..], |file| &file.top.entries);
        let mut effective =
            Effective { file: path.clone(), top: settings(&self.command, &matches, top), hosts: Vec::new() };
        if let (Some(path), Some(file), Some(host)) = (path, file, host) {
            let invalid = |table: &Table, what: String| {
                LoadError::Invalid(path.clone(), vec![Problem { position: table.position, what }])
            };
            let mut all = Vec::new();
            for table in &file.hosts {
                let inherited = inherited(&matches, &host, &table.entries);
                let entries: Vec<_> = inherited.iter().chain(&table.entries).collect();
                let command = with_defaults(host.clone(), &entries);
                let matches = command.clone().try_get_matches_from([command.get_name()]);
                let matches = matches.map_err(|error| invalid(table, file::reason(&error)))?;
                let own = settings(&host, &matches, &table.entries).into_iter();
                effective.hosts.push(own.filter(|setting| matches!(setting.origin, Origin::Line(_))).collect());
                all.push(matches);
            }
            program.set_hosts(&all).map_err(|HostProblem { host, what }| {
                file.hosts
                    .get(host)
                    .map_or_else(|| LoadError::Check(what.clone()), |table| invalid(table, what.clone()))
            })?;
        }
        program.check().map_err(|why| contradiction(why, &effective, file))?;
        Ok(Loaded { program, effective })
    }
}

impl Effective {
    /// Returns the keys whose values differ, with both values.
    pub(crate) fn changes<'a>(&'a self, other: &'a Self) -> Vec<(&'a Setting, &'a Setting)> {
        self.top.iter().zip(&other.top).filter(|(old, new)| old.values != new.values).collect()
    }

    /// True if the hosts are others, or say something else.
    pub(crate) fn hosts_differ(&self, other: &Self) -> bool {
        let values = |effective: &Self| -> Vec<Vec<_>> {
            let host = |host: &Vec<Setting>| host.iter().map(|it| (it.key.clone(), it.values.clone())).collect();
            effective.hosts.iter().map(host).collect()
        };
        values(self) != values(other)
    }

    /// Writes all values as a file with the same meaning.
    pub(crate) fn to_toml(&self, name: &str) -> String {
        print::print(self, name)
    }
}

impl Setting {
    /// Returns the value as it is written in a file; empty where there is none.
    pub(crate) fn value(&self) -> String {
        print::value(self).unwrap_or_default()
    }
}

/// Returns the error of flags that do not go together, with the place of the first that it names and that comes from the file.
fn contradiction(why: String, effective: &Effective, file: Option<&File>) -> LoadError {
    let is_named = |entry: &&Entry| {
        let words = why.split(|c: char| c != '-' && !c.is_ascii_alphanumeric());
        words.filter_map(|word| word.strip_prefix("--")).any(|flag| flag == entry.key)
    };
    let is_in_use = |entry: &&Entry| {
        let mut settings = effective.top.iter();
        settings.any(|setting| setting.key == entry.key && matches!(setting.origin, Origin::Line(_)))
    };
    let at_fault = file.and_then(|file| {
        let mut of_hosts = file.hosts.iter().flat_map(|host| &host.entries);
        file.top.entries.iter().filter(is_in_use).find(is_named).or_else(|| of_hosts.find(is_named))
    });
    match (at_fault, &effective.file) {
        (Some(entry), Some(path)) => {
            LoadError::Invalid(path.clone(), vec![Problem { position: entry.position, what: why }])
        }
        _ => LoadError::Check(why),
    }
}

fn read(path: &Path) -> Result<String, LoadError> {
    let unreadable = |error| LoadError::Unreadable(path.to_owned(), error);
    let length = fs::metadata(path).map_err(unreadable)?.len();
    if length > FILE_MAX {
        let error = io::Error::other(format!("it has {length} bytes, and {FILE_MAX} are allowed"));
        return Err(unreadable(error));
    }
    let bytes = fs::read(path).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let start = valid.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let column = String::from_utf8_lossy(&valid[start..]).chars().count() + 1;
        let problem = Problem { position: Position { line, column }, what: "not UTF-8".to_owned() };
        LoadError::Invalid(path.to_owned(), vec![problem])
    })
}

/// Gives arguments the values of a file as their defaults.
fn with_defaults(command: Command, entries: &[&Entry]) -> Command {
    entries.iter().fold(command, |command, entry| {
        command.mut_arg(entry.id.clone(), |arg| arg.required(false).default_values(entry.values.clone()))
    })
}

/// Returns the values of the top level that hold for a host, too: those that none of its own excludes.
fn inherited(top: &ArgMatches, host: &Command, own: &[Entry]) -> Vec<Entry> {
    let ids = host.get_arguments().filter(|arg| !is_meta(arg)).map(|arg| arg.get_id().as_str());
    let ids = ids.filter(|id| !own.iter().any(|entry| entry.id == **id || conflict(host, &entry.id, id)));
    let entry = |id: &str| {
        let values = values(top, id)?;
        Some(Entry { id: id.to_owned(), key: id.to_owned(), values, position: Position { line: 0, column: 0 } })
    };
    ids.filter_map(entry).collect()
}

fn values(matches: &ArgMatches, id: &str) -> Option<Vec<String>> {
    let raw = matches.try_get_raw(id).ok()??;
    Some(raw.map(|value| value.to_string_lossy().into_owned()).collect())
}

/// Lists the values in the order of the command, which `mut_arg` does not keep.
fn settings(command: &Command, matches: &ArgMatches, file: &[Entry]) -> Vec<Setting> {
    let arguments = command.get_arguments().filter(|arg| !is_meta(arg));
    let setting = |arg: &Arg| {
        let id = arg.get_id().as_str();
        let entry = file.iter().find(|entry| entry.id == id);
        let values = values(matches, id);
        let origin = match (matches.value_source(id), entry) {
            (Some(ValueSource::CommandLine), _) => Origin::Flag,
            (Some(ValueSource::EnvVariable), _) => {
                Origin::Variable(arg.get_env().unwrap_or_default().to_string_lossy().into_owned())
            }
            // Without a source, an entry has been left out because a flag excludes it.
            (Some(_), Some(entry)) => Origin::Line(entry.position.line),
            (Some(_) | None, _) => Origin::Default,
        };
        let is_secret = arg.is_hide_env_values_set();
        Some(Setting { key: key(arg)?.to_owned(), values, origin, is_secret, is_several: is_several(arg) })
    };
    arguments.filter_map(setting).collect()
}

/// Returns the key of an argument: its long flag, or the id of a positional one.
fn key(arg: &Arg) -> Option<&str> {
    arg.get_long().or_else(|| arg.is_positional().then(|| arg.get_id().as_str()))
}

/// True for arguments that ask the program for something else than to serve.
fn is_meta(arg: &Arg) -> bool {
    let is_question =
        matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version);
    is_question
        || matches!(
            arg.get_long(),
            Some(
                "config"
                    | "check-config"
                    | "check-machine"
                    | "check-health"
                    | "print-config"
                    | "list-backends"
                    | "format"
                    | "generate"
                    | "help"
                    | "version"
            )
        )
}

fn is_several(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append) || arg.get_value_delimiter().is_some()
}

fn conflict(command: &Command, one: &str, other: &str) -> bool {
    let excludes = |one: &str, other: &str| {
        let arg = command.get_arguments().find(|arg| arg.get_id() == one);
        arg.is_some_and(|arg| command.get_arg_conflicts_with(arg).iter().any(|arg| arg.get_id() == other))
    };
    excludes(one, other) || excludes(other, one)
}

#[cfg(test)]
mod tests;
