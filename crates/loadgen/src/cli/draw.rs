//! Values of options about what is chosen by chance.

use std::fmt;
use std::str::FromStr;

use loadgen::draw::KeyDistribution;

/// `uniform`, `zipf:0.99`, `hot:0.1:0.9` or `sequential`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DistributionArg(pub(super) KeyDistribution);

impl FromStr for DistributionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || {
            "not uniform, sequential, zipf:EXPONENT (like zipf:0.99) or hot:KEYS:REQUESTS (shares, like hot:0.1:0.9)"
                .to_owned()
        };
        Ok(Self(match text {
            "uniform" => KeyDistribution::Uniform,
            "sequential" => KeyDistribution::Sequential,
            _ if text.starts_with("hot:") => {
                let shares = text.strip_prefix("hot:").and_then(|shares| shares.split_once(':'));
                let (keys, requests) = shares.ok_or_else(problem)?;
                let share = |text| ratio(text).ok().filter(|&share| share > 0.0).ok_or_else(problem);
                KeyDistribution::Hot { keys: share(keys)?, requests: share(requests)? }
            }
            _ => {
                let exponent = text.strip_prefix("zipf:").and_then(|exponent| exponent.parse().ok());
                KeyDistribution::Zipf(exponent.filter(|&e: &f64| e > 0.0 && e.is_finite()).ok_or_else(problem)?)
            }
        }))
    }
}

impl fmt::Display for DistributionArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            KeyDistribution::Uniform => f.write_str("uniform"),
            KeyDistribution::Sequential => f.write_str("sequential"),
            KeyDistribution::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            KeyDistribution::Hot { keys, requests } => write!(f, "hot:{keys}:{requests}"),
        }
    }
}

/// A share from 0 to 1.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
    let problem = || "not a share from 0 to 1".to_owned();
    text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio)).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_understood_and_spelled_as_they_were_given() {
        for text in ["uniform", "sequential", "zipf:0.99", "zipf:1", "hot:0.1:0.9"] {
            let value: DistributionArg = text.parse().expect(text);
            assert_eq!(value.to_string(), text);
        }
        assert_eq!(ratio("0.25"), Ok(0.25));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(
            ["zipf", "zipf:0", "zipf:-1", "zipf:inf", "hot", "hot:0.1", "hot:0:1", "hot:0.1:90"]
                .iter()
                .all(|text| text.parse::<DistributionArg>().is_err())
        );
        assert!(["-0.1", "1.1", "NaN", "x"].iter().all(|text| ratio(text).is_err()));
    }
}
