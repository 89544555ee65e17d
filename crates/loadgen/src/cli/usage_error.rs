//! Errors of the command line in our words. The parser's own remain where they say more.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Rephrases an error of the parser: a bad value is one line, and only near misses are suggested. `None` leaves it to the
/// parser, whose errors may be help or a version.
pub(super) fn rephrase(error: &mut clap::Error) -> Option<String> {
    if error.kind() == ErrorKind::ValueValidation {
        return bad_value(error);
    }
    for (said, suggested) in [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ] {
        keep_near_misses(error, said, suggested);
    }
    // No value begins like an option.
    error.remove(ContextKind::Suggested);
    None
}

fn bad_value(error: &clap::Error) -> Option<String> {
    let (option, value) = (text(error, ContextKind::InvalidArg)?, text(error, ContextKind::InvalidValue)?);
    // `--duration <TIME>`, `-c, --connections <N>` or `[CONTENT]`.
    let option = option.split(' ').find(|word| word.starts_with("--")).unwrap_or(option);
    let problem = error.source()?.to_string();
    // Problems of values that the parser lists are in lines of their own.
    let is_sentence = !problem.starts_with("not ") && !problem.starts_with("too ") && !problem.starts_with("a ");
    Some(if is_sentence { format!("{option}: {problem}") } else { format!("{option}: `{value}` is {problem}") })
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    if let ContextValue::String(text) = error.get(kind)? { Some(text) } else { None }
}

/// Removes suggestions that are not within a typing error or two.
fn keep_near_misses(error: &mut clap::Error, said: ContextKind, suggested: ContextKind) {
    let Some(typed) = text(error, said).map(str::to_owned) else { return };
    let all = match error.get(suggested) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(several)) => several.clone(),
        _ => return,
    };
    let near: Vec<_> = all.into_iter().filter(|suggestion| is_near_miss(&typed, suggestion)).collect();
    error.remove(suggested);
    let value = match &near[..] {
        [] => return,
        [one] => ContextValue::String(one.clone()),
        _ => ContextValue::Strings(near),
    };
    error.insert(suggested, value);
}

/// True if few characters make one word of the other: one of up to four characters, two of up to eight, otherwise three.
fn is_near_miss(typed: &str, meant: &str) -> bool {
    let (typed, meant) = (typed.trim_start_matches('-'), meant.trim_start_matches('-'));
    let most = match meant.chars().count() {
        0..=4 => 1,
        5..=8 => 2,
        _ => 3,
    };
    strsim::damerau_levenshtein(typed, meant) <= most
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Returns the first lines of what is said to these arguments.
    fn said(arguments: &[&str]) -> String {
        let words = std::iter::once("loadgen").chain(arguments.iter().copied());
        let mut error = super::super::Cli::command().try_get_matches_from(words).expect_err("bad usage");
        rephrase(&mut error).unwrap_or_else(|| error.to_string())
    }

    #[test]
    fn a_bad_value_is_explained_in_a_line_with_an_example() {
        const URL: &str = "http://127.0.0.1/";
        for (arguments, expected) in [
            (&["http", "-d", "10x", URL][..], "--duration: `10x` is not a duration; try 10s, 500ms or 2m"),
            (&["http", "--timeout", "0", URL], "--timeout: `0` is too short; try 10s or 500ms"),
            (&["http", "-R", "fast", URL], "--rate: `fast` is not a rate in requests per second"),
            (&["http", "-n", "x", URL], "--requests: `x` is not a whole number from 1 to"),
            (&["http", "--seed", "-1", URL], "--seed: `-1` is not a whole number from 0 to"),
            (&["http", "--pin", "x", URL], "--pin: "),
            (&["kv", "--value-size", "big", "h"], "--value-size: `big` is not a size in bytes"),
            (&["kv", "--mix", "get=x", "h"], "--mix: `get=x` is not shares of get, set and del; try get=9,set=1"),
            (&["file", "--sleep-avg", "x", "h", "."], "--sleep-avg: `x` is not a duration of up to an hour; try 100ms"),
            (&["http", "--request-log", "x.txt", URL], "--request-log: the name of a log ends with .csv or .jsonl"),
        ] {
            let said = said(arguments);
            assert!(said.starts_with(expected) && !said.contains('\n'), "{arguments:?}: {said}");
        }
    }

    #[test]
    fn only_near_misses_are_suggested() {
        let tip = |arguments: &[&str]| said(arguments).lines().find(|line| line.contains("tip:")).map(str::to_owned);
        assert_eq!(tip(&["xyz"]), None);
        assert_eq!(tip(&["--foo"]), None);
        assert_eq!(tip(&["http", "--foo", "http://127.0.0.1/"]), None);
        assert_eq!(tip(&["http", "--durable", "http://127.0.0.1/"]), None);
        let one = tip(&["htp"]).expect("a near miss");
        assert!(one.contains("'http'") && !one.contains("'help'"), "{one}");
        let one = tip(&["http", "--conections", "3", "http://127.0.0.1/"]).expect("a near miss");
        assert!(one.contains("'--connections'"), "{one}");
    }
}
