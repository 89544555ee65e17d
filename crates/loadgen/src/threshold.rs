//! Limits for the figures of a result, by which a run fails: `p99>5ms`.
//!
//! A figure has the name that it has in the JSON result, and the schema of that result says which there are. So a limit for a figure
//! that does not exist is refused before the run, and one whose figure a run did not produce is not taken for kept.

use std::{fmt, str::FromStr};

use serde_json::Value;

use crate::{
    result::{self, RunResult},
    units::{self, TimeUnit},
};

/// Name of the share of failed requests, which the result has only as counts.
const FAILED: &str = "failed";

/// Short names of figures, as other tools have them.
const SHORT_NAMES: &[(&str, &str)] = &[
    ("min", "latency_us.min"),
    ("p50", "latency_us.p50"),
    ("p75", "latency_us.p75"),
    ("p90", "latency_us.p90"),
    ("p99", "latency_us.p99"),
    ("p99.9", "latency_us.p999"),
    ("p99.99", "latency_us.p9999"),
    ("p99.999", "latency_us.p99999"),
    ("p999", "latency_us.p999"),
    ("p9999", "latency_us.p9999"),
    ("p99999", "latency_us.p99999"),
    ("max", "latency_us.max"),
    ("mean", "latency_us.mean"),
    ("stddev", "latency_us.stddev"),
    ("throughput", "throughput_rps"),
    ("rps", "throughput_rps"),
];

/// Condition under which a run fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    figure: Figure,
    relation: Relation,
    limit: Limit,
}

/// Figure of a result.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    /// Names from the result down to the figure; empty for the share of failed requests.
    path: Vec<String>,
    unit: Unit,
    /// True for a count by name, which the result leaves out if it is 0.
    is_count_by_name: bool,
}

/// Unit of a figure in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Microseconds,
    Seconds,
    PerSecond,
    Bytes,
    Percent,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// In the unit of the figure.
    Value(f64),
    /// As a multiple of the same figure of the result that others are compared with.
    Ratio(f64),
}

impl Threshold {
    /// True if it is about a change from one result to another.
    #[must_use]
    pub fn is_ratio(&self) -> bool {
        matches!(self.limit, Limit::Ratio(_))
    }

    /// True if it limits failed requests, so that some of them may be no reason to fail.
    #[must_use]
    pub fn limits_failures(&self) -> bool {
        self.figure.path.first().is_none_or(|name| name == "errors")
    }

    /// Says why a result fails; `None` if it does not. A figure that the result does not have is a reason. `base` is what a ratio is to.
    #[must_use]
    pub fn violation(&self, result: &RunResult, base: Option<&RunResult>) -> Option<String> {
        let Some(value) = self.figure.read(result) else {
            return Some(format!("{}: the result has no such figure", self.text));
        };
        match (self.limit, base) {
            (Limit::Value(limit), _) => {
                let is_so = self.relation.holds(value, limit);
                is_so.then(|| format!("{}: it is {}", self.text, self.figure.unit.spell(value)))
            }
            (Limit::Ratio(_), None) => Some(format!("{}: there is nothing to compare it with", self.text)),
            (Limit::Ratio(limit), Some(base)) => {
                let Some(before) = self.figure.read(base).filter(|before| *before > 0.0) else {
                    return Some(format!("{}: the first result has no such figure", self.text));
                };
                let (ratio, unit) = (value / before, self.figure.unit);
                let spelt = || format!("{} instead of {}", unit.spell(value), unit.spell(before));
                self.relation.holds(ratio, limit).then(|| format!("{}: it is {ratio:.3}x, {}", self.text, spelt()))
            }
        }
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || format!("`{text}` is no condition; try p99>5ms, failed>1% or throughput_rps<20k");
        let at = text.find(['<', '>']).ok_or_else(problem)?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let (relation, limit) = Relation::parse(rest).ok_or_else(problem)?;
        let figure = Figure::parse(name)?;
        let limit = figure.unit.parse(limit.trim()).map_err(|why| format!("`{text}`: {why}"))?;
        Ok(Self { text: text.trim().to_owned(), figure, relation, limit })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Relation {
    /// Returns the relation that the text begins with, and the rest.
    fn parse(text: &str) -> Option<(Self, &str)> {
        let all = [(">=", Self::AtLeast), ("<=", Self::AtMost), (">", Self::Above), ("<", Self::Below)];
        all.into_iter().find_map(|(sign, relation)| Some((relation, text.strip_prefix(sign)?)))
    }

    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Above => value > limit,
            Self::AtLeast => value >= limit,
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
        }
    }
}

impl Figure {
    fn parse(name: &str) -> Result<Self, String> {
        if name == FAILED {
            return Ok(Self { path: Vec::new(), unit: Unit::Percent, is_count_by_name: false });
        }
        let short = SHORT_NAMES.iter().find(|(short, _)| *short == name);
        let full = short.map_or(name, |(_, full)| full);
        let path: Vec<String> = full.split('.').map(str::to_owned).collect();
        let problem = || {
            format!("`{name}` is no figure of a result; try p99, failed, throughput_rps, errors.timeout or lag_us.p99")
        };
        let is_count_by_name = find_in_schema(&path).ok_or_else(problem)?;
        Ok(Self { unit: Unit::of(&path), path, is_count_by_name })
    }

    #[expect(clippy::cast_precision_loss, reason = "compared with a limit of a few digits")]
    fn read(&self, result: &RunResult) -> Option<f64> {
        if self.path.is_empty() {
            let failed = result.requests - result.ok;
            return (result.requests > 0).then(|| 100.0 * failed as f64 / result.requests as f64);
        }
        let result = serde_json::to_value(result).ok()?;
        let step = |value: Option<Value>, name: &String| match value? {
            Value::Object(mut members) => members.remove(name),
            Value::Array(mut items) => name.parse().ok().filter(|at| *at < items.len()).map(|at| items.swap_remove(at)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        let found = self.path.iter().fold(Some(result), step).and_then(|value| value.as_f64());
        found.or_else(|| self.is_count_by_name.then_some(0.0))
    }
}

/// Looks the path of a figure up in the schema of results. Returns `None` if there is no such number, and true if it is a count by
/// name.
fn find_in_schema(path: &[String]) -> Option<bool> {
    let schema = result::schema();
    let root = schema.as_value();
    // Settings are no figures.
    if path.first().is_some_and(|name| name == "config") {
        return None;
    }
    let (mut at, mut is_count_by_name) = (root, false);
    for name in path {
        at = resolve(root, at);
        if let Some(items) = at.get("items") {
            name.parse::<usize>().ok()?;
            at = items;
            continue;
        }
        let known = at.get("properties").and_then(|properties| properties.get(name));
        let is_named = || {
            let names = at.get("propertyNames").and_then(|names| names.get("enum")).and_then(Value::as_array);
            names.is_none_or(|names| names.iter().any(|known| known == name))
        };
        is_count_by_name = known.is_none();
        at = match known {
            Some(property) => property,
            None => at.get("additionalProperties").filter(|other| other.is_object() && is_named())?,
        };
    }
    let is_number = |name: &Value| name == "number" || name == "integer";
    let is_figure = match resolve(root, at).get("type") {
        Some(Value::Array(names)) => names.iter().any(is_number),
        name => name.is_some_and(is_number),
    };
    is_figure.then_some(is_count_by_name)
}

/// Follows references, and chooses what is not null.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference =
        schema.get("$ref").and_then(Value::as_str).and_then(|name| root.pointer(name.trim_start_matches('#')));
    let choices = schema.get("anyOf").and_then(Value::as_array);
    let choice = choices.and_then(|all| all.iter().find(|choice| choice.get("type") != Some(&"null".into())));
    match reference.or(choice) {
        Some(inner) => resolve(root, inner),
        None => schema,
    }
}

impl Unit {
    /// Returns the unit of a figure: its name ends with it, or that of the figures that it belongs to.
    fn of(path: &[String]) -> Self {
        let ends_with = |ending: &str| path.iter().rev().take(2).any(|name| name.ends_with(ending));
        let last = path.last().map_or("", String::as_str);
        match () {
            () if last.ends_with("_rps") || last == "rate" => Self::PerSecond,
            () if last.contains("bytes") => Self::Bytes,
            () if ends_with("_us") || last.ends_with("_us_max") => Self::Microseconds,
            () if last.ends_with("_s") => Self::Seconds,
            () => Self::None,
        }
    }

    fn parse(self, text: &str) -> Result<Limit, String> {
        let at = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+' | '_')).unwrap_or(text.len());
        let (digits, suffix) = (text[..at].replace('_', ""), text[at..].trim());
        let number: f64 = digits.parse().map_err(|_| format!("`{text}` is no number"))?;
        if suffix == "x" {
            return Ok(Limit::Ratio(number));
        }
        let factor = self.factor(suffix).ok_or_else(|| {
            let expected = self.suffixes();
            format!("`{text}` has to be {expected}, or a multiple such as 1.1x (report --compare)")
        })?;
        Ok(Limit::Value(number * factor))
    }

    fn factor(self, suffix: &str) -> Option<f64> {
        let in_us = |suffix| match suffix {
            "ns" => Some(1e-3),
            "us" | "µs" => Some(1.0),
            "ms" => Some(1e3),
            "s" => Some(1e6),
            "min" => Some(6e7),
            _ => None,
        };
        match (self, suffix) {
            (Self::Microseconds, suffix) => in_us(suffix),
            (Self::Seconds, suffix) => in_us(suffix).map(|us| us / 1e6),
            (Self::Percent, "%") | (_, "") => Some(1.0),
            (Self::PerSecond, suffix) => match suffix.strip_suffix("/s").unwrap_or(suffix) {
                "" => Some(1.0),
                "k" | "K" => Some(1e3),
                "M" => Some(1e6),
                _ => None,
            },
            (Self::Bytes, suffix) => match suffix {
                "B" => Some(1.0),
                "kB" => Some(1e3),
                "MB" => Some(1e6),
                "GB" => Some(1e9),
                "KiB" => Some(f64::from(1_u32 << 10)),
                "MiB" => Some(f64::from(1_u32 << 20)),
                "GiB" => Some(f64::from(1_u32 << 30)),
                _ => None,
            },
            (Self::None, "%") => Some(1e-2),
            (Self::Percent | Self::None, _) => None,
        }
    }

    /// Describes what a limit looks like.
    fn suffixes(self) -> &'static str {
        match self {
            Self::Microseconds | Self::Seconds => "a time with its unit (5ms; ns, us, ms, s, min)",
            Self::PerSecond => "a rate (20000, 20k, 2M)",
            Self::Bytes => "a number of bytes (1000, 64KiB, 2MB)",
            Self::Percent => "a share in percent (1%)",
            Self::None => "a number (0.8, 80%)",
        }
    }

    fn spell(self, value: f64) -> String {
        match self {
            Self::Microseconds => TimeUnit::of(value).spell(value),
            Self::Seconds => TimeUnit::of(value * 1e6).spell(value * 1e6),
            Self::PerSecond => format!("{}/s", units::rate(value)),
            Self::Bytes => format!("{value} bytes"),
            Self::Percent => format!("{value:.3} %"),
            Self::None => value.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Latency, Step, samples::nothing};

    fn sample() -> RunResult {
        let mut result = nothing();
        (result.requests, result.ok, result.throughput_rps) = (1_000, 990, 990.0);
        result.errors.insert("timeout".to_owned(), 10);
        result.latency_us = Latency { p99: 5_200.0, p999: 9_000.0, ..Latency::default() };
        result.bytes_in = 65_536;
        result.steps =
            vec![Step { rate: 5.0, share: None, is_served: true, note: String::new(), result: result.clone() }];
        result
    }

    /// Judges a result by one condition.
    fn judge(condition: &str, result: &RunResult, base: Option<&RunResult>) -> Option<String> {
        condition.parse::<Threshold>().expect(condition).violation(result, base)
    }

    #[test]
    fn conditions_hold_or_not_in_every_unit() {
        let result = sample();
        let held = [
            "p99>5ms",
            "p99 >= 5200us",
            "latency_us.p99>5000000ns",
            "p99.9>8.9ms",
            "p999>=9ms",
            "failed>0.9%",
            "throughput_rps<1k",
            "rps<=990",
            "errors.timeout>9",
            "bytes_in>=64KiB",
            "steps.0.result.latency_us.p99>5ms",
            "saturation.client_cpu_fraction>=50%",
            "client_cpu_s>=500ms",
            "errors.reset<1",
        ];
        held.iter().for_each(|condition| assert!(judge(condition, &result, None).is_some(), "{condition}"));
        let not = [
            "p99>6ms",
            "p99<=5.1ms",
            "failed>1%",
            "throughput<0.5k",
            "errors.timeout>10",
            "errors.reset>0",
            "bytes_in>66kB",
            "client_cpu_s>0.6s",
            "saturation.client_cpu_fraction>0.8",
        ];
        not.iter().for_each(|condition| assert_eq!(judge(condition, &result, None), None, "{condition}"));
    }

    #[test]
    fn a_figure_that_is_missing_does_not_pass() {
        for condition in ["lag_us.p99>1ms", "server.rss_bytes>1GiB", "steps.7.rate<1", "p99>1.1x"] {
            assert!(judge(condition, &sample(), None).is_some(), "{condition}");
        }
        for condition in ["p99>5ms", "p99<5ms", "failed>1%"] {
            assert!(judge(condition, &nothing(), None).is_some(), "{condition}");
        }
    }

    #[test]
    fn a_ratio_is_to_the_same_figure_of_the_base() {
        let (base, result) =
            (sample(), RunResult { latency_us: Latency { p99: 5_800.0, ..Latency::default() }, ..sample() });
        assert_eq!(judge("p99>1.2x", &result, Some(&base)), None);
        let why = judge("p99>1.1x", &result, Some(&base)).expect("it holds");
        assert_eq!(why, "p99>1.1x: it is 1.115x, 5.800 ms instead of 5.200 ms");
        assert!(judge("lag_us.p99>1.1x", &result, Some(&base)).is_some(), "there is none");
    }

    #[test]
    fn names_and_units_are_checked_before_the_run() {
        let refused = [
            "p99",
            "p98>5ms",
            "p99>5",
            "p99>5%",
            "p99>",
            "p99>fast",
            "=5",
            "config.rate>5",
            "errors.nonsense>0",
            "kind>1",
            "latency_us>5ms",
            "failed>1ms",
            "throughput_rps<5ms",
            "steps.one.rate>1",
            "bytes_in>5s",
            "",
            ">5ms",
        ];
        for condition in refused {
            let problem = condition.parse::<Threshold>().expect_err(condition);
            assert!(problem.contains('`'), "{problem}");
        }
    }

    #[test]
    fn it_is_known_which_conditions_are_about_failures() {
        let limits = |text: &str| text.parse::<Threshold>().expect(text).limits_failures();
        assert!(limits("failed>1%") && limits("errors.timeout>5") && !limits("p99>5ms"));
    }
}
