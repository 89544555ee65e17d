//! Lists of CPUs, as taskset writes them.

use std::str::FromStr;

use anyhow::Result;

use crate::usage;

/// `0`, `0,2-3`: which CPUs, never empty.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct CpuList {
    text: String,
    cpus: Vec<usize>,
}

impl CpuList {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
                (Ok(first), Ok(last)) if first <= last && last < 4096 => cpus.extend(first..=last),
                _ => return Err(usage(format!("`{text}`: expected CPUs, such as 0 or 0,2-3"))),
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self { text: text.to_owned(), cpus })
    }

    /// These, at least one.
    pub(crate) fn of(cpus: &[usize]) -> Result<Self> {
        Self::parse(&cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
    }

    /// Which CPUs a server takes first when it gets more and more of them: its own, then those of nobody, at last the
    /// generator's.
    pub(crate) fn growth(server: &Self, client: &Self, cores: usize) -> Vec<usize> {
        let rank = |cpu: &usize| match (server.cpus.contains(cpu), client.cpus.contains(cpu)) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        let mut order: Vec<usize> = (0..cores).collect();
        order.sort_by_key(rank);
        order
    }

    pub(crate) fn as_slice(&self) -> &[usize] {
        &self.cpus
    }

    pub(crate) fn len(&self) -> usize {
        self.cpus.len()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        self.cpus.iter().any(|cpu| other.cpus.contains(cpu))
    }
}

impl FromStr for CpuList {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbers_and_ranges() {
        for (text, cpus) in [("0", &[0][..]), ("0,2-3", &[0, 2, 3]), ("3,1,1-2", &[1, 2, 3])] {
            assert_eq!(CpuList::parse(text).unwrap().as_slice(), cpus);
        }
        for text in ["", "a", "3-1", "0,", "-", "0-99999"] {
            assert!(CpuList::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_growing_server_takes_the_generators_cores_last() {
        let list = |text| CpuList::parse(text).unwrap();
        assert_eq!(CpuList::growth(&list("0"), &list("1"), 2), [0, 1]);
        assert_eq!(CpuList::growth(&list("2"), &list("0"), 4), [2, 1, 3, 0]);
        assert_eq!(CpuList::of(&[2, 1]).unwrap().as_slice(), [1, 2]);
    }

    #[test]
    fn sharing_one_core_is_sharing() {
        let list = |text| CpuList::parse(text).unwrap();
        assert!(list("0-1").shares_with(&list("1")));
        assert!(!list("0,2").shares_with(&list("1,3")));
    }
}
