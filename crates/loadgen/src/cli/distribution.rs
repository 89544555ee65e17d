//! Values of options about choices by chance.

use std::{fmt, str::FromStr, sync::Arc};

use loadgen::key_distribution::{KeyDistribution, Trace};

/// Distribution of keys or documents: `uniform`, `zipf:0.99`, `hot:0.1:0.9`, `sequential` or `replay:FILE`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DistributionArg {
    pub(super) distribution: KeyDistribution,
    /// The text as it was given.
    text: String,
}

impl DistributionArg {
    pub(super) fn uniform() -> Self {
        Self { distribution: KeyDistribution::Uniform, text: "uniform".to_owned() }
    }

    pub(super) fn sequential() -> Self {
        Self { distribution: KeyDistribution::Sequential, text: "sequential".to_owned() }
    }
}

impl FromStr for DistributionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || {
            "not a distribution; try uniform, sequential, zipf:0.99 (the exponent), hot:0.1:0.9 (shares of keys and of \
             requests) or replay:FILE"
                .to_owned()
        };
        let share = |text| ratio(text).ok().filter(|&share| share > 0.0).ok_or_else(problem);
        let distribution = match text.split_once(':') {
            None if text == "uniform" => KeyDistribution::Uniform,
            None if text == "sequential" => KeyDistribution::Sequential,
            Some(("hot", shares)) => {
                let (keys, requests) = shares.split_once(':').ok_or_else(problem)?;
                KeyDistribution::Hot { keys: share(keys)?, requests: share(requests)? }
            }
            Some(("zipf", exponent)) => {
                let exponent = exponent.parse().ok().filter(|&exponent: &f64| exponent > 0.0 && exponent.is_finite());
                KeyDistribution::Zipf(exponent.ok_or_else(problem)?)
            }
            Some(("replay", file)) => KeyDistribution::Replay(Arc::new(trace(file)?)),
            _ => return Err(problem()),
        };
        Ok(Self { distribution, text: text.to_owned() })
    }
}

/// Reads a trace: a key on each line.
fn trace(file: &str) -> Result<Trace, String> {
    let text = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    Trace::from_lines(&text)
        .ok_or_else(|| format!("{file}: a key on each line is needed, and at most 4294967295 of them"))
}

impl fmt::Display for DistributionArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses a share from 0 to 1.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
    let problem = || "not a share from 0 to 1; try 0.1".to_owned();
    text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio)).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_and_shown_as_they_were_given() {
        for text in ["uniform", "sequential", "zipf:0.99", "zipf:1", "hot:0.1:0.9"] {
            let value: DistributionArg = text.parse().expect(text);
            assert_eq!(value.to_string(), text);
        }
        assert_eq!(ratio("0.25"), Ok(0.25));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(
            [
                "zipf",
                "zipf:0",
                "zipf:-1",
                "zipf:inf",
                "hot",
                "hot:0.1",
                "hot:0:1",
                "hot:0.1:90",
                "replay",
                "replay:",
                "uniform:1"
            ]
            .iter()
            .all(|text| text.parse::<DistributionArg>().is_err())
        );
        assert!(["-0.1", "1.1", "NaN", "x"].iter().all(|text| ratio(text).is_err()));
    }
}
