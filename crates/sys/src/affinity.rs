//! Which processors a thread runs on (sched_setaffinity(2)).

use std::{fmt, io, str::FromStr};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A list of processors, written `0`, `0,2-3`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus(Vec<usize>);

/// Error in a list of processors.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a list of processors like 0 or 0,2-3")]
pub struct CpusError(String);

impl Cpus {
    /// Confines the calling thread, and threads it starts later, to all of these.
    pub fn pin_to_all(&self) -> io::Result<()> {
        pin(self.0.iter().copied())
    }

    /// The processors, in the order given.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = usize> {
        self.0.iter().copied()
    }

    /// Confines the calling thread to the one that is the `index`th thread's turn.
    pub fn pin_to_one(&self, index: usize) -> io::Result<()> {
        match self.0.len() {
            0 => Ok(()),
            count => pin([self.0[index % count]]),
        }
    }
}

fn pin(cpus: impl IntoIterator<Item = usize>) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.into_iter().for_each(|cpu| set.set(cpu));
    if set.count() == 0 {
        return Ok(());
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Returns the number of processors that this thread may run on.
pub fn available() -> usize {
    sched_getaffinity(None).map_or(1, |set| set.count() as usize).max(1)
}

impl FromStr for Cpus {
    type Err = CpusError;

    fn from_str(text: &str) -> Result<Self, CpusError> {
        let error = || CpusError(text.to_owned());
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |s: &str| s.trim().parse().ok().filter(|&cpu: &usize| cpu < CpuSet::MAX_CPU).ok_or_else(error);
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(error());
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_read() {
        assert_eq!("0,2-4".parse::<Cpus>().unwrap(), Cpus(vec![0, 2, 3, 4]));
        for bad in ["", "x", "3-1", "0,", "-1", "99999"] {
            assert!(bad.parse::<Cpus>().is_err(), "{bad:?}");
        }
    }
}
