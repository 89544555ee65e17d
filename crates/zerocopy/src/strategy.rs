//! How bodies reach their sockets, and which way is taken for which size.

use std::{fmt, str::FromStr};

use service::{Dimension, UnknownChoice};

service::choices! {
    /// How the body of a file reaches its socket.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Strategy: "strategy", "--strategy", default Sendfile {
        /// sendfile from the open file
        Sendfile = "sendfile",
        /// write from a mapping of the file
        MmapWrite = "mmap-write",
        /// pages of a mapping lent to a pipe by vmsplice, then spliced into the socket
        Vmsplice = "vmsplice",
        /// head and file kept in pipes: tee duplicates the references to their pages, splice sends them
        Pipe = "pipe",
        /// a copy in memory: driver uring registers it and sends it by SEND_ZC, the others by plain writes
        Uring = "uring",
    }
}

impl Strategy {
    pub const COUNT: usize = Self::ALL.len();
}

/// `--strategy`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyChoice {
    /// By the size of the file.
    Auto,
    Always(Strategy),
}

/// What `auto` picks: the first class that a file is not too large for. See docs/zerocopy.md for the figures.
pub const AUTO: &[SizeClass] = &[
    SizeClass { up_to: Some(4 << 10), strategy: Strategy::MmapWrite },
    SizeClass { up_to: Some(128 << 10), strategy: Strategy::Pipe },
    SizeClass { up_to: None, strategy: Strategy::Vmsplice },
];

/// Files of up to so many bytes, or of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    pub up_to: Option<u64>,
    pub strategy: Strategy,
}

impl StrategyChoice {
    const AUTO_NAME: &str = "auto";

    /// What is tried first for a file of this size.
    pub fn for_size(self, bytes: u64) -> Strategy {
        let class = |class: &&SizeClass| class.up_to.is_none_or(|up_to| bytes <= up_to);
        match self {
            Self::Always(strategy) => strategy,
            Self::Auto => AUTO.iter().find(class).map_or(Strategy::Sendfile, |class| class.strategy),
        }
    }

    /// Some file may be served this way.
    pub fn may_use(self, strategy: Strategy) -> bool {
        match self {
            Self::Always(always) => always == strategy,
            Self::Auto => AUTO.iter().any(|class| class.strategy == strategy),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Always(strategy) => strategy.name(),
            Self::Auto => Self::AUTO_NAME,
        }
    }

    /// What `--list-backends` says.
    pub fn dimension() -> Dimension {
        let class = |class: &SizeClass| match class.up_to {
            Some(bytes) => format!("{} up to {} KiB", class.strategy, bytes >> 10),
            None => format!("{} for the rest", class.strategy),
        };
        let classes: Vec<_> = AUTO.iter().map(class).collect();
        let mut dimension = Strategy::dimension();
        dimension.default = Self::AUTO_NAME.to_owned();
        dimension.choices.push(service::Choice {
            name: Self::AUTO_NAME.to_owned(),
            description: format!("by size: {}", classes.join(", ")),
            unavailable: None,
            facts: None,
        });
        dimension
    }
}

impl FromStr for StrategyChoice {
    type Err = UnknownChoice;

    fn from_str(name: &str) -> Result<Self, UnknownChoice> {
        if name == Self::AUTO_NAME {
            return Ok(Self::Auto);
        }
        name.parse().map(Self::Always).map_err(|mut error: UnknownChoice| {
            error.names += ", auto";
            error
        })
    }
}

impl fmt::Display for StrategyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_understood_and_the_unknown_are_told_all() {
        for &strategy in Strategy::ALL {
            assert_eq!(strategy.name().parse(), Ok(StrategyChoice::Always(strategy)));
        }
        assert_eq!("auto".parse(), Ok(StrategyChoice::Auto));
        let error = "splice".parse::<StrategyChoice>().unwrap_err().to_string();
        assert!(error.contains("sendfile") && error.ends_with("uring, auto"), "{error}");
        let names: Vec<_> = StrategyChoice::dimension().choices.into_iter().map(|choice| choice.name).collect();
        assert_eq!(names, ["sendfile", "mmap-write", "vmsplice", "pipe", "uring", "auto"]);
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
