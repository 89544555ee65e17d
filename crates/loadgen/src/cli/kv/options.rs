//! Values of options that only caches have.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use loadgen::kv::Mix;

const VALUE_BYTES_MAX: usize = 64 << 20;

/// Bytes of a value: `12`, or `8..1024` for lengths from 8 to 1024.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct SizeArg(pub(super) RangeInclusive<usize>);

impl FromStr for SizeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || format!("not a number of bytes up to {VALUE_BYTES_MAX} or a range like 8..1024");
        let size = |text: &str| text.parse().ok().filter(|&bytes: &usize| bytes <= VALUE_BYTES_MAX).ok_or_else(problem);
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let range = size(low)?..=size(high)?;
        if range.is_empty() { Err(problem()) } else { Ok(Self(range)) }
    }
}

impl fmt::Display for SizeArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (self.0.start(), self.0.end());
        if low == high { write!(f, "{low}") } else { write!(f, "{low}..{high}") }
    }
}

/// Shares of the commands: `get=9,set=1`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct MixArg(pub(super) Mix);

impl FromStr for MixArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const SHARE_MAX: u32 = 1_000_000;
        let problem = || "not shares like get=9,set=1 (of get, set and del)".to_owned();
        let mut mix = Mix { get: 0, set: 0, del: 0 };
        for part in text.split(',') {
            let (name, share) = part.split_once('=').ok_or_else(problem)?;
            let share = share.parse().ok().filter(|&share| share <= SHARE_MAX).ok_or_else(problem)?;
            match name {
                "get" => mix.get = share,
                "set" => mix.set = share,
                "del" => mix.del = share,
                _ => return Err(problem()),
            }
        }
        if mix.get + mix.set + mix.del == 0 { Err(problem()) } else { Ok(Self(mix)) }
    }
}

impl fmt::Display for MixArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = [("get", self.0.get), ("set", self.0.set), ("del", self.0.del)];
        let shares = shares.into_iter().filter(|&(_, share)| share > 0);
        f.write_str(&shares.map(|(name, share)| format!("{name}={share}")).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again<T: FromStr + fmt::Display>(text: &str) -> Option<String> {
        text.parse::<T>().ok().map(|value| value.to_string())
    }

    #[test]
    fn values_are_understood_and_spelled_as_they_were_given() {
        for text in ["0", "12", "8..1024"] {
            assert_eq!(again::<SizeArg>(text).as_deref(), Some(text));
        }
        for text in ["get=9,set=1", "del=1", "get=1,set=2,del=3"] {
            assert_eq!(again::<MixArg>(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(["", "x", "9..8", "1..", "99999999999"].iter().all(|text| again::<SizeArg>(text).is_none()));
        assert!(["", "get", "get=0", "get=1,put=2", "get=-1"].iter().all(|text| again::<MixArg>(text).is_none()));
    }
}
