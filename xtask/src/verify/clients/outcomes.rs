//! Outcomes of tests, as the tools that run them print them.

use serde::Deserialize;

/// Output of a tool.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Format {
    /// `pytest -rA`, without the output of tests
    Pytest,
    /// `unittest` with `-v`, which Django's tests have, too
    Unittest,
    /// `go test -json`
    Go,
    /// Ginkgo's report in the format of JUnit
    Ginkgo,
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
    /// Program that has to be there for it.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Pytest | Self::Unittest => "python3",
            Self::Go | Self::Ginkgo => "go",
            Self::Tap => "npm",
        }
    }

    /// Parses the outcomes in what a tool has printed.
    pub(super) fn parse(self, text: &str) -> Vec<TestOutcome> {
        let line = match self {
            Self::Pytest => pytest,
            Self::Unittest => unittest,
            Self::Go => go,
            Self::Ginkgo => ginkgo,
            Self::Tap => tap,
        };
        let tests = text.lines().filter_map(line).collect();
        if matches!(self, Self::Go) { without_packages_of_failed_tests(tests) } else { tests }
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

/// Parses `test_name (module.Class.test_name) ... ok`; a second line of the name may stand between the two.
fn unittest(line: &str) -> Option<TestOutcome> {
    let (name, word) = line.rsplit_once(" ... ")?;
    let outcome = match word.split(' ').next()? {
        "ok" | "expected" => Outcome::Passed,
        "FAIL" | "ERROR" | "unexpected" => Outcome::Failed,
        "skipped" => Outcome::Skipped,
        _ => return None,
    };
    Some(one(name, outcome))
}

/// Parses `<testcase name="[It] NAME" classname="SUITE" status="passed" time="0.1">`; setups and teardowns count where they fail.
fn ginkgo(line: &str) -> Option<TestOutcome> {
    let attributes = line.trim_start().strip_prefix("<testcase name=\"")?;
    let (name, rest) = attributes.split_once('"')?;
    let (status, _) = rest.split_once("status=\"")?.1.split_once('"')?;
    let is_test = name.starts_with("[It]");
    let outcome = match status {
        "passed" if is_test => Outcome::Passed,
        "skipped" | "pending" if is_test => Outcome::Skipped,
        "passed" | "skipped" | "pending" => return None,
        _ => Outcome::Failed,
    };
    Some(one(name, outcome))
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
        ("fail" | "build-fail", _) => Outcome::Failed,
        _ => return None,
    };
    Some(one(&format!("{package} {}", event.test.unwrap_or_default()), outcome))
}

/// Returns the outcomes without the failures of packages that a failed test explains. A package that fails without one was not compiled, or has panicked.
fn without_packages_of_failed_tests(mut tests: Vec<TestOutcome>) -> Vec<TestOutcome> {
    let failed = tests.iter().filter(|test| test.outcome == Outcome::Failed);
    let failed: Vec<String> = failed.map(|test| test.name.clone()).collect();
    let explains = |name: &String, package: &str| name.len() > package.len() && name.starts_with(package);
    tests.retain(|test| !(test.name.ends_with(' ') && failed.iter().any(|name| explains(name, &test.name))));
    tests
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
    fn outcomes_of_unittest_are_counted() {
        let text = "test_a (cache.tests.T.test_a) ... ok\nSecond line ... FAIL\ntest_c (T.test_c) ... skipped 'no'\nb ... what\n\
                    test_d (T.test_d) ... ERROR\n";
        let wanted = [
            ("test_a (cache.tests.T.test_a)", Outcome::Passed, 1),
            ("Second line", Outcome::Failed, 1),
            ("test_c (T.test_c)", Outcome::Skipped, 1),
            ("test_d (T.test_d)", Outcome::Failed, 1),
        ];
        assert_eq!(outcomes(Format::Unittest, text), wanted.map(|(name, outcome, n)| (name.to_owned(), outcome, n)));
    }

    #[test]
    fn outcomes_of_ginkgo_are_counted() {
        let case =
            |name, status| format!("  <testcase name=\"{name}\" classname=\"s\" status=\"{status}\" time=\"0\">\n");
        let text = [
            case("[BeforeSuite]", "passed"),
            case("[It] Gets", "passed"),
            case("[It] Sets", "panicked"),
            case("[It] Waits", "skipped"),
            case("[AfterSuite]", "failed"),
        ];
        let wanted = [
            ("[It] Gets", Outcome::Passed, 1),
            ("[It] Sets", Outcome::Failed, 1),
            ("[It] Waits", Outcome::Skipped, 1),
            ("[AfterSuite]", Outcome::Failed, 1),
        ];
        assert_eq!(
            outcomes(Format::Ginkgo, &text.concat()),
            wanted.map(|(name, outcome, n)| (name.to_owned(), outcome, n))
        );
    }

    #[test]
    fn outcomes_of_go_are_counted() {
        let text = "{\"Action\":\"run\",\"Package\":\"g/p\",\"Test\":\"A\"}\n{\"Action\":\"pass\",\"Package\":\"g/p\",\"Test\":\"A\"}\n\
                    {\"Action\":\"skip\",\"Package\":\"g/p\",\"Test\":\"B\"}\n{\"Action\":\"fail\",\"Package\":\"g/p\"}\nnoise\n\
                    {\"Action\":\"fail\",\"Package\":\"g/q\",\"Test\":\"C\"}\n{\"Action\":\"fail\",\"Package\":\"g/q\"}\n";
        let wanted = [
            ("p A", Outcome::Passed, 1),
            ("p B", Outcome::Skipped, 1),
            ("p ", Outcome::Failed, 1),
            ("q C", Outcome::Failed, 1),
        ];
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
