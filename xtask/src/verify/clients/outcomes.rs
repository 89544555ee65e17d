//! Outcomes of tests, as the tools that run them print them.

use serde::Deserialize;

/// Output of a tool.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Format {
    /// `pytest -rA`, without the output of tests
    Pytest,
    /// `go test -json`
    Go,
    /// TAP: reporters of mocha and vitest
    Tap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// Outcome of one test, by its name; a line that stands for several skipped tests counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TestOutcome {
    pub(super) name: String,
    pub(super) outcome: Outcome,
    pub(super) count: usize,
}

impl Format {
    /// Parses the outcomes in what a tool has printed.
    pub(super) fn parse(self, text: &str) -> Vec<TestOutcome> {
        let line = match self {
            Self::Pytest => pytest,
            Self::Go => go,
            Self::Tap => tap,
        };
        text.lines().filter_map(line).collect()
    }
}

fn one(name: &str, outcome: Outcome) -> TestOutcome {
    TestOutcome { name: name.to_owned(), outcome, count: 1 }
}

/// Parses `FAILED FILE::TEST - reason` and `SKIPPED [2] FILE:LINE: reason`.
fn pytest(line: &str) -> Option<TestOutcome> {
    let (word, rest) = line.split_once(' ')?;
    let name = rest.split(" - ").next().unwrap_or(rest);
    match word {
        "PASSED" | "XFAIL" => Some(one(name, Outcome::Passed)),
        "FAILED" | "ERROR" | "XPASS" => name.contains(".py").then(|| one(name, Outcome::Failed)),
        "SKIPPED" => {
            let (count, place) = rest.strip_prefix('[')?.split_once("] ")?;
            Some(TestOutcome { count: count.parse().ok()?, ..one(place, Outcome::Skipped) })
        }
        _ => None,
    }
}

fn go(line: &str) -> Option<TestOutcome> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Event {
        action: String,
        package: String,
        test: Option<String>,
    }
    let event: Event = serde_json::from_str(line).ok()?;
    let package = event.package.rsplit('/').next().unwrap_or_default();
    let outcome = match (&*event.action, &event.test) {
        ("pass", Some(_)) => Outcome::Passed,
        ("skip", Some(_)) => Outcome::Skipped,
        // A package that fails without a test that does was not compiled, or has panicked.
        ("fail" | "build-fail", _) => Outcome::Failed,
        _ => return None,
    };
    Some(one(&format!("{package} {}", event.test.unwrap_or_default()), outcome))
}

/// Parses `not ok 1 NAME`, perhaps with a hyphen before the name and a comment behind it.
fn tap(line: &str) -> Option<TestOutcome> {
    let line = line.trim_start();
    let (is_passed, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (number, rest) = rest.split_once(' ')?;
    number.parse::<usize>().ok()?;
    let (name, comment) = rest.split_once(" # ").unwrap_or((rest, ""));
    let is_skipped = comment.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("skip"));
    let outcome = match (is_skipped, is_passed) {
        (true, _) => Outcome::Skipped,
        (false, true) => Outcome::Passed,
        (false, false) => Outcome::Failed,
    };
    Some(one(name.trim_start_matches("- ").trim_end_matches(" {"), outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(format: Format, text: &str) -> Vec<(String, Outcome, usize)> {
        format.parse(text).into_iter().map(|test| (test.name, test.outcome, test.count)).collect()
    }

    #[test]
    fn outcomes_of_pytest_are_counted() {
        let text = "...s.F\nPASSED tests/a.py::b\nSKIPPED [3] tests/a.py:7: no docker\nFAILED tests/a.py::c[x y] - E: no - never\n\
                    ERROR tests/a.py::d - fixture\nERROR no test at all\n1 failed, 1 passed in 0.2s\n";
        let wanted = [
            ("tests/a.py::b", Outcome::Passed, 1),
            ("tests/a.py:7: no docker", Outcome::Skipped, 3),
            ("tests/a.py::c[x y]", Outcome::Failed, 1),
            ("tests/a.py::d", Outcome::Failed, 1),
        ];
        assert_eq!(outcomes(Format::Pytest, text), wanted.map(|(name, outcome, n)| (name.to_owned(), outcome, n)));
    }

    #[test]
    fn outcomes_of_go_are_counted() {
        let text = "{\"Action\":\"run\",\"Package\":\"g/p\",\"Test\":\"A\"}\n{\"Action\":\"pass\",\"Package\":\"g/p\",\"Test\":\"A\"}\n\
                    {\"Action\":\"skip\",\"Package\":\"g/p\",\"Test\":\"B\"}\n{\"Action\":\"fail\",\"Package\":\"g/p\"}\nnoise\n";
        let wanted = [("p A", Outcome::Passed, 1), ("p B", Outcome::Skipped, 1), ("p ", Outcome::Failed, 1)];
        assert_eq!(outcomes(Format::Go, text), wanted.map(|(name, outcome, n)| (name.to_owned(), outcome, n)));
    }

    #[test]
    fn outcomes_of_tap_are_counted() {
        let text = "1..3\nok 1 locks and unlocks\nnot ok 2 - extends # time=1ms\n  ok 3 - waits # SKIP -\nok, then\n";
        let wanted = [
            ("locks and unlocks", Outcome::Passed, 1),
            ("extends", Outcome::Failed, 1),
            ("waits", Outcome::Skipped, 1),
        ];
        assert_eq!(outcomes(Format::Tap, text), wanted.map(|(name, outcome, n)| (name.to_owned(), outcome, n)));
    }
}
