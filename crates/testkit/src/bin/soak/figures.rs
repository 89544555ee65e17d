//! Memory, descriptors and threads of a process, and the judgement that they have not grown.

use testkit::Process;

/// Growth that says nothing: memory that an allocator keeps, a connection more, a thread that has just been started.
const RESIDENT_SLACK_BYTES: u64 = 5 << 20;
const DESCRIPTORS_SLACK: u64 = 8;
const THREADS_SLACK: u64 = 4;

/// Resources of a process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) resident_bytes: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
}

/// Resources of a process in each part of the time.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<(usize, Figures)>);

impl Figures {
    /// # Errors
    /// The process has ended.
    pub(crate) fn of(process: Process) -> anyhow::Result<Self> {
        let counts = process.resources()?;
        Ok(Self {
            resident_bytes: process.resident_bytes()?,
            descriptors: counts.descriptors as u64,
            threads: counts.threads as u64,
        })
    }
}

impl Samples {
    pub(crate) fn add(&mut self, part: usize, figures: Figures) {
        self.0.push((part, figures));
    }

    /// Returns the medians of the first part and of the last.
    fn ends(&self) -> (Figures, Figures) {
        let parts = || self.0.iter().map(|(part, _)| *part);
        (self.median(parts().min()), self.median(parts().max()))
    }

    fn median(&self, part: Option<usize>) -> Figures {
        let of = |field: fn(&Figures) -> u64| {
            let samples = self.0.iter().filter(|(at, _)| Some(*at) == part);
            let mut values: Vec<_> = samples.map(|(_, figures)| field(figures)).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or(0)
        };
        Figures {
            resident_bytes: of(|it| it.resident_bytes),
            descriptors: of(|it| it.descriptors),
            threads: of(|it| it.threads),
        }
    }

    /// Returns what has grown: in one process from the first part to the last, and in descriptors and threads from one process
    /// after upgrades to another after more.
    pub(crate) fn growth(&self, early: Figures, late: Figures) -> Vec<String> {
        let (first, last) = self.ends();
        let of_upgrades = "from upgrade to upgrade";
        let compared = [
            ("resident bytes", "", first.resident_bytes, last.resident_bytes, RESIDENT_SLACK_BYTES),
            ("descriptors", "", first.descriptors, last.descriptors, DESCRIPTORS_SLACK),
            ("threads", "", first.threads, last.threads, THREADS_SLACK),
            ("descriptors", of_upgrades, early.descriptors, late.descriptors, 2 * DESCRIPTORS_SLACK),
            ("threads", of_upgrades, early.threads, late.threads, 2 * THREADS_SLACK),
        ];
        let grown = compared.iter().filter(|(_, _, before, after, slack)| *after > before + slack);
        grown.map(|(name, when, before, after, _)| format!("{name} {when} {before} to {after}")).collect()
    }

    /// Returns the medians in words.
    pub(crate) fn describe(&self) -> String {
        let (first, last) = self.ends();
        format!(
            "resident {:.1} to {:.1} MiB, descriptors {} to {}, threads {} to {}",
            first.resident_bytes as f64 / f64::from(1 << 20),
            last.resident_bytes as f64 / f64::from(1 << 20),
            first.descriptors,
            last.descriptors,
            first.threads,
            last.threads
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(last: Figures) -> Samples {
        let calm = Figures { resident_bytes: 10 << 20, descriptors: 20, threads: 4 };
        let peak = Figures { descriptors: 900, ..calm };
        let mut samples = Samples::default();
        for (part, figures) in [(1, calm), (1, peak), (1, calm), (3, peak), (5, last), (5, last), (5, peak)] {
            samples.add(part, figures);
        }
        samples
    }

    #[test]
    fn what_has_grown_by_more_than_the_slack_is_named() {
        let early = Figures { resident_bytes: 1, descriptors: 10, threads: 3 };
        let flat = Figures { resident_bytes: 12 << 20, descriptors: 25, threads: 5 };
        assert_eq!(samples(flat).growth(early, early), [""; 0]);
        for (last, grown) in [
            (Figures { resident_bytes: 16 << 20, ..flat }, "resident bytes"),
            (Figures { descriptors: 29, ..flat }, "descriptors"),
            (Figures { threads: 9, ..flat }, "threads"),
        ] {
            let said = samples(last).growth(early, early);
            assert!(said.len() == 1 && said[0].starts_with(grown), "{said:?}");
        }
        let late = Figures { descriptors: 27, ..early };
        assert_eq!(samples(flat).growth(early, late), ["descriptors from upgrade to upgrade 10 to 27"]);
    }
}
