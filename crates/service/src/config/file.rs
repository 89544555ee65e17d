//! Configuration file: TOML whose keys are the flags of a command.

use std::{error::Error as _, fmt, ops::Range};

use clap::{
    Arg, ArgAction, Command,
    builder::Resettable,
    error::{ContextKind, ContextValue, ErrorKind},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{conflict, is_meta, is_several};

/// Name of the array of tables, one for each virtual host.
const HOST: &str = "host";
/// Keys whose list cannot be empty: the default would be used, which nobody has asked for.
const NEVER_EMPTY: [&str; 1] = ["listen"];
/// Typing errors that a suggestion may be away from what was written.
const TYPING_ERRORS_MAX: usize = 2;

/// Place in a file, counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// Error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub position: Position,
    pub what: String,
}

/// Key of a file with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Id of the argument in its command.
    pub id: String,
    pub key: String,
    pub values: Vec<String>,
    pub position: Position,
}

/// Keys of the top level, or of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub entries: Vec<Entry>,
    pub position: Position,
}

/// Contents of a file, each value accepted by its argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub top: Table,
    pub hosts: Vec<Table>,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Parses a file whose keys are the long flags of `command`, or the ids of its positional arguments, and those of its
/// `[[host]]` tables the flags of `host`.
///
/// # Errors
/// All that is wrong with it, in order.
pub fn parse(text: &str, command: &Command, host: Option<&Command>) -> Result<File, Vec<Problem>> {
    let lines = Lines(text);
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let problem = |error: &toml::de::Error| Problem {
            position: lines.position(error.span().map_or(0, |span| span.start)),
            what: error.message().replace('\n', ", "),
        };
        return Err(errors.iter().map(problem).collect());
    }
    let mut problems = Vec::new();
    let mut hosts = Vec::new();
    let mut top = Vec::new();
    for (key, value) in root.into_inner() {
        match (key.get_ref().as_ref(), host) {
            (HOST, Some(host)) => hosts = self::hosts(&key, value, host, lines, &mut problems),
            _ => top.push((key, value)),
        }
    }
    let top = Reader::new(command, lines, host.is_some()).table(top, lines.position(0), &mut problems);
    problems.sort_by_key(|problem| (problem.position.line, problem.position.column));
    if problems.is_empty() { Ok(File { top, hosts }) } else { Err(problems) }
}

fn hosts(
    key: &Spanned<toml::de::DeString<'_>>,
    value: Spanned<DeValue<'_>>,
    command: &Command,
    lines: Lines<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Table> {
    let wrong = |span: Range<usize>| Problem {
        position: lines.position(span.start),
        what: "a host is a table of its own: [[host]]".to_owned(),
    };
    let DeValue::Array(tables) = value.into_inner() else {
        problems.push(wrong(key.span()));
        return Vec::new();
    };
    let mut hosts = Vec::new();
    for table in tables {
        let span = table.span();
        let DeValue::Table(table) = table.into_inner() else {
            problems.push(wrong(span));
            continue;
        };
        let position = lines.position(span.start);
        let entries = table.into_iter().collect();
        hosts.push(Reader::new(command, lines, false).table(entries, position, problems));
    }
    hosts
}

/// Text of a file, to tell lines from offsets.
#[derive(Clone, Copy)]
struct Lines<'a>(&'a str);

impl Lines<'_> {
    fn position(self, offset: usize) -> Position {
        let before = self.0.get(..offset).unwrap_or(self.0);
        let line = before.rsplit('\n').next().unwrap_or_default();
        Position { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
    }
}

/// Reader of tables whose keys are the arguments of one command.
struct Reader<'a> {
    command: &'a Command,
    /// The same without its environment, and with nothing required: it judges one value at a time.
    judge: Command,
    lines: Lines<'a>,
    has_hosts: bool,
}

impl<'a> Reader<'a> {
    fn new(command: &'a Command, lines: Lines<'a>, has_hosts: bool) -> Self {
        let judge = command.clone().mut_args(|arg| arg.env(Resettable::Reset).required(false));
        Self { command, judge, lines, has_hosts }
    }

    fn table(
        &self,
        pairs: Vec<(Spanned<toml::de::DeString<'_>>, Spanned<DeValue<'_>>)>,
        position: Position,
        problems: &mut Vec<Problem>,
    ) -> Table {
        let mut entries: Vec<Entry> = Vec::new();
        let mut pairs = pairs;
        pairs.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in &pairs {
            let at = self.lines.position(key.span().start);
            let read = self.argument(key.get_ref()).map_err(|what| (at, what)).and_then(|arg| {
                let values = self
                    .values(arg, value)
                    .map_err(|(span, what)| (self.lines.position(span.start), format!("{}: {what}", key.get_ref())))?;
                if let Some(other) =
                    entries.iter().find(|other| conflict(self.command, arg.get_id().as_str(), &other.id))
                {
                    let what =
                        format!("{} does not go with {} of line {}", key.get_ref(), other.key, other.position.line);
                    return Err((at, what));
                }
                Ok((arg, values))
            });
            match read {
                Ok((arg, values)) => entries.push(Entry {
                    id: arg.get_id().to_string(),
                    key: key.get_ref().to_string(),
                    values,
                    position: at,
                }),
                Err((position, what)) => problems.push(Problem { position, what }),
            }
        }
        Table { entries, position }
    }

    fn argument(&self, key: &str) -> Result<&'a Arg, String> {
        let Some(arg) = self.command.get_arguments().find(|arg| super::key(arg) == Some(key)) else {
            return Err(self.unknown(key));
        };
        if is_meta(arg) {
            return Err(format!("{key} is for the command line only"));
        }
        Ok(arg)
    }

    fn unknown(&self, key: &str) -> String {
        let known = self.command.get_arguments().filter(|arg| !is_meta(arg)).filter_map(super::key);
        let known = known.chain(self.has_hosts.then_some(HOST));
        let near = known
            .map(|known| (strsim::damerau_levenshtein(key, known), known))
            .filter(|&(errors, _)| errors <= TYPING_ERRORS_MAX.min(key.chars().count() / 2))
            .min();
        let hint = near.map_or_else(String::new, |(_, known)| format!("; did you mean {known}?"));
        format!("unknown key {key:?}{hint}")
    }

    fn values(&self, arg: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, (Range<usize>, String)> {
        let values = if let DeValue::Array(values) = value.get_ref() {
            if !is_several(arg) {
                return Err((value.span(), "takes one value, not a list".to_owned()));
            }
            if values.is_empty() && super::key(arg).is_some_and(|key| NEVER_EMPTY.contains(&key)) {
                return Err((value.span(), "takes at least one value; without the key, it is the default".to_owned()));
            }
            values.iter().map(|value| Ok((value.span(), scalar(arg, value)?))).collect::<Result<Vec<_>, _>>()?
        } else {
            vec![(value.span(), scalar(arg, value)?)]
        };
        for (span, value) in &values {
            self.judge(arg, value).map_err(|what| (span.clone(), what))?;
        }
        Ok(values.into_iter().map(|(_, value)| value).collect())
    }

    /// Has the argument's own parser judge a value.
    fn judge(&self, arg: &Arg, value: &str) -> Result<(), String> {
        if !arg.get_action().takes_values() {
            return Ok(());
        }
        let name = self.judge.get_name().to_owned();
        let arguments = match arg.get_long() {
            Some(long) => vec![name, format!("--{long}={value}")],
            None => vec![name, "--".to_owned(), value.to_owned()],
        };
        match self.judge.clone().try_get_matches_from(arguments) {
            Err(error) if is_about_value(error.kind()) => Err(reason(&error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn scalar(arg: &Arg, value: &Spanned<DeValue<'_>>) -> Result<String, (Range<usize>, String)> {
    let wrong = |what: &str| Err((value.span(), what.to_owned()));
    let is_switch = !arg.get_action().takes_values();
    match value.get_ref() {
        DeValue::Boolean(value) => Ok(truth(arg, *value).to_owned()),
        _ if is_switch => wrong("takes true or false"),
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Ok(number.to_string()),
            Err(_) => wrong("the number is too large"),
        },
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Datetime(_) => wrong("takes no date"),
        DeValue::Array(_) => wrong("takes no list within a list"),
        DeValue::Table(_) => wrong("takes no table"),
    }
}

/// Returns the spelling of a truth value, which is `on` or `off` for flags that have these.
fn truth(arg: &Arg, value: bool) -> &'static str {
    let names = || arg.get_value_names().into_iter().flatten();
    let has = |name: &str| {
        names().any(|names| names.split('|').any(|other| other == name))
            || arg.get_possible_values().iter().any(|possible| possible.matches(name, false))
    };
    match (value, matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) && has("on") && has("off")) {
        (true, true) => "on",
        (false, true) => "off",
        (true, false) => "true",
        (false, false) => "false",
    }
}

fn is_about_value(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::InvalidUtf8 | ErrorKind::WrongNumberOfValues
    )
}

/// Returns the reason in clap's error, in one line and without the flag.
pub(super) fn reason(error: &clap::Error) -> String {
    if let Some(source) = error.source() {
        return source.to_string().replace('\n', " ");
    }
    if let Some(ContextValue::Strings(valid)) = error.get(ContextKind::ValidValue)
        && !valid.is_empty()
    {
        let value = match error.get(ContextKind::InvalidValue) {
            Some(ContextValue::String(value)) if !value.is_empty() => format!("{value:?}"),
            _ => return format!("takes one of {}", valid.join(", ")),
        };
        return format!("{value} is not one of {}", valid.join(", "));
    }
    if error.kind() == ErrorKind::InvalidValue {
        return "must not be empty".to_owned();
    }
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
