//! Ways of bodies to their sockets, and which one is taken for which size.

use std::fmt;

use clap::{ValueEnum, builder::PossibleValue};
use serde::Serialize;
use service::{Dimension, choice_name};

/// Way of a file's body to its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// sendfile from the open file
    Sendfile,
    /// write from a mapping of the file
    MmapWrite,
    /// vmsplice of the pages of a mapping into a pipe, then splice to the socket
    Vmsplice,
    /// head and file are kept in pipes: tee copies references to their pages, splice sends them
    Pipe,
    /// a copy in memory, sent by SEND_ZC from registered memory with driver uring, by plain writes with the others
    Uring,
}

impl Strategy {
    pub const COUNT: usize = Self::Uring as usize + 1;
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&choice_name(self))
    }
}

/// Choice of `--strategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyChoice {
    /// Strategy by the size of the file.
    Auto,
    Always(Strategy),
}

/// Classes of `auto`: a file is in the first one that it is not too large for. See docs/zerocopy.md for the figures.
pub const AUTO: &[SizeClass] = &[
    SizeClass { up_to: Some(4 << 10), strategy: Strategy::MmapWrite },
    SizeClass { up_to: Some(128 << 10), strategy: Strategy::Pipe },
    SizeClass { up_to: None, strategy: Strategy::Vmsplice },
];

/// Files of up to `up_to` bytes, or of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    pub up_to: Option<u64>,
    pub strategy: Strategy,
}

impl StrategyChoice {
    /// Returns the strategy that is tried first for a file of this size.
    pub fn for_size(self, bytes: u64) -> Strategy {
        let fits = |class: &&SizeClass| class.up_to.is_none_or(|up_to| bytes <= up_to);
        match self {
            Self::Always(strategy) => strategy,
            Self::Auto => AUTO.iter().find(fits).map_or(Strategy::Sendfile, |class| class.strategy),
        }
    }

    /// True if some file may be sent this way.
    pub fn may_use(self, strategy: Strategy) -> bool {
        match self {
            Self::Always(always) => always == strategy,
            Self::Auto => AUTO.iter().any(|class| class.strategy == strategy),
        }
    }

    /// Choices for `--list-backends`.
    pub fn dimension() -> Dimension {
        Dimension::of("strategy", "--strategy", &Self::Auto)
    }
}

impl ValueEnum for StrategyChoice {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Always(Strategy::Sendfile),
            Self::Always(Strategy::MmapWrite),
            Self::Always(Strategy::Vmsplice),
            Self::Always(Strategy::Pipe),
            Self::Always(Strategy::Uring),
            Self::Auto,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Always(strategy) => strategy.to_possible_value(),
            Self::Auto => {
                let class = |class: &SizeClass| match class.up_to {
                    Some(bytes) => format!("{} up to {} KiB", class.strategy, bytes >> 10),
                    None => format!("{} for the rest", class.strategy),
                };
                let classes: Vec<_> = AUTO.iter().map(class).collect();
                Some(PossibleValue::new("auto").help(format!("by size: {}", classes.join(", "))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_can_be_chosen_by_name() {
        let names: Vec<_> = StrategyChoice::dimension().choices.into_iter().map(|choice| choice.name).collect();
        assert_eq!(names, ["sendfile", "mmap-write", "vmsplice", "pipe", "uring", "auto"]);
        assert_eq!(Strategy::value_variants().len(), Strategy::COUNT);
        for &strategy in Strategy::value_variants() {
            let (name, choice) = (strategy.to_string(), StrategyChoice::Always(strategy));
            assert_eq!(StrategyChoice::from_str(&name, false), Ok(choice));
            assert_eq!(serde_json::to_value(strategy).unwrap(), name, "in /cache/stats as on the command line");
        }
        assert!(StrategyChoice::from_str("splice", false).is_err());
    }

    #[test]
    fn every_size_has_a_class_and_classes_ascend() {
        assert_eq!(AUTO.last().unwrap().up_to, None);
        assert!(AUTO.is_sorted_by_key(|class| class.up_to.unwrap_or(u64::MAX)));
        for class in AUTO {
            assert_eq!(StrategyChoice::Auto.for_size(class.up_to.unwrap_or(u64::MAX)), class.strategy);
            assert!(StrategyChoice::Auto.may_use(class.strategy));
        }
        assert_eq!(StrategyChoice::Always(Strategy::Uring).for_size(0), Strategy::Uring);
    }
}
