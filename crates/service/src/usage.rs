//! Bad usage, explained: clap's errors with the name of the variable at fault, and suggestions that are near misses only.

use std::{
    env,
    ffi::{OsStr, OsString},
};

use clap::{
    Arg, Command, Error,
    error::{ContextKind, ContextValue},
};

/// Typing errors that a suggestion may be away from what was typed.
const TYPING_ERRORS_MAX: usize = 2;

/// Completes the error that `arguments` and the environment led to.
pub(crate) fn explain(mut error: Error, command: &Command, arguments: &[OsString]) -> Error {
    let is_set_to = |variable: &OsStr, value: &str| env::var_os(variable).is_some_and(|set| set == value);
    if let Some(variable) = variable_at_fault(&error, command, arguments, is_set_to) {
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
    }
    for (typed, suggested) in
        [(ContextKind::InvalidArg, ContextKind::SuggestedArg), (ContextKind::InvalidValue, ContextKind::SuggestedValue)]
    {
        if !is_near_miss(error.get(typed), error.get(suggested)) {
            error.remove(suggested);
        }
    }
    error
}

/// Returns the variable that the bad value comes from, if no argument gives the flag.
fn variable_at_fault(
    error: &Error,
    command: &Command,
    arguments: &[OsString],
    is_set_to: impl Fn(&OsStr, &str) -> bool,
) -> Option<String> {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else { return None };
    let arg = command.get_arguments().find(|arg| arg.to_string() == *shown)?;
    let variable = arg.get_env().filter(|variable| is_set_to(variable, value))?;
    let is_given = arguments.iter().any(|argument| gives(argument, arg));
    (!is_given).then(|| variable.to_string_lossy().into_owned())
}

fn gives(argument: &OsStr, arg: &Arg) -> bool {
    let argument = argument.to_string_lossy();
    let long = arg.get_long().and_then(|long| argument.strip_prefix("--")?.strip_prefix(long));
    let short = arg.get_short().and_then(|short| argument.strip_prefix('-')?.strip_prefix(short));
    long.is_some_and(|rest| rest.is_empty() || rest.starts_with('=')) || short.is_some()
}

fn is_near_miss(typed: Option<&ContextValue>, suggested: Option<&ContextValue>) -> bool {
    let Some(ContextValue::String(typed)) = typed else { return true };
    let suggested = match suggested {
        Some(ContextValue::String(one)) => std::slice::from_ref(one),
        Some(ContextValue::Strings(several)) => several,
        _ => return true,
    };
    let name = |text: &str| text.trim_start_matches('-').split(['=', ' ']).next().unwrap_or_default().to_lowercase();
    let typed = name(typed);
    // Half of a short word is another word.
    let most = TYPING_ERRORS_MAX.min(typed.chars().count() / 2);
    suggested.iter().any(|suggested| {
        let suggested = name(suggested);
        strsim::damerau_levenshtein(&typed, &suggested) <= most || suggested.starts_with(&typed)
    })
}

#[cfg(test)]
mod tests {
    use clap::value_parser;

    use super::*;

    fn command() -> Command {
        let threads =
            Arg::new("threads").long("threads").short('t').env("SERVER_THREADS").value_parser(value_parser!(u8));
        let log = Arg::new("log").long("log").value_parser(["text", "json"]);
        Command::new("server").args([threads, log])
    }

    fn said(arguments: &[&str]) -> String {
        let arguments: Vec<OsString> = ["server"].iter().chain(arguments).map(Into::into).collect();
        let mut command = command();
        let error = command.try_get_matches_from_mut(&arguments).unwrap_err();
        explain(error, &command, &arguments).to_string()
    }

    #[test]
    fn a_bad_variable_is_called_by_its_name() {
        let fault = |arguments: &[&str], set: &str| {
            let arguments: Vec<OsString> = ["server"].iter().chain(arguments).map(Into::into).collect();
            let mut command = command();
            // As if the value came from the variable: clap reads that of the process alone.
            let error = command.try_get_matches_from_mut(["server", "--threads", "many"]).unwrap_err();
            variable_at_fault(&error, &command, &arguments, |name, value| name == "SERVER_THREADS" && value == set)
        };
        assert_eq!(fault(&[], "many").as_deref(), Some("SERVER_THREADS"));
        assert_eq!(fault(&["--log", "json"], "many").as_deref(), Some("SERVER_THREADS"));
        for given in [&["--threads", "many"][..], &["--threads=many"], &["-t", "many"], &["-tmany"]] {
            assert_eq!(fault(given, "many"), None, "{given:?}");
        }
        assert_eq!(fault(&[], "4"), None);
    }

    #[test]
    fn only_near_misses_are_suggested() {
        assert!(said(&["--thread", "1"]).contains("'--threads'"));
        assert!(said(&["--treads", "1"]).contains("'--threads'"));
        assert!(!said(&["--third", "1"]).contains("similar"));
        assert!(said(&["--log", "jsn"]).contains("'json'"));
        assert!(!said(&["--log", "json-lines"]).contains("similar"));
    }
}
