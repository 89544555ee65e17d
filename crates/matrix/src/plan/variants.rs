//! Workloads with other numbers than their own: `--conns`, `--pipeline`, `--rate`.

use std::{fmt, str::FromStr};

use anyhow::Result;
use clap::Args;
use results::{Arrivals, Workload};

use crate::usage::whole;
use crate::{
    plan::subjects::{Subject, VARIANT_MARK},
    usage,
};

/// Suffix of a rate that is a share of the capacity.
const TIMES: char = 'x';
const CONNECTIONS_MAX: u32 = 1_000_000;
const PIPELINE_MAX: u32 = 10_000;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Variants {
    /// Every workload with so many connections instead of its own, several: each of them; `get-128B-c64@c256`
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "preset",
        value_parser = |text: &str| whole(text, 1..=CONNECTIONS_MAX, "256"))]
    conns: Vec<u32>,
    /// … with so many requests outstanding on each connection; `get-128B-c64@P4`
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "preset",
        value_parser = |text: &str| whole(text, 1..=PIPELINE_MAX, "16"))]
    pipeline: Vec<u32>,
    /// Open loops at this load: a share of the reference's capacity, or requests per second; 0.3x,0.7x or 20000
    /// [default: what the workload says, 0.5x as a rule]
    #[arg(long, value_name = "RATE", value_delimiter = ',', conflicts_with = "preset")]
    rate: Vec<Rate>,
}

/// Load that an open loop offers to every cell.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rate {
    /// Share of what the reference can serve.
    Share(f64),
    PerSecond(f64),
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, kind): (&str, fn(f64) -> Self) = match text.strip_suffix(TIMES) {
            Some(share) => (share, Self::Share),
            None => (text, Self::PerSecond),
        };
        let number = number.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
        number.map(kind).ok_or_else(|| {
            "expected a share of the capacity, such as 0.5x, or requests per second, such as 20000".to_owned()
        })
    }
}

/// As part of a workload's name, which is part of names of files.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => write!(f, "{share}{TIMES}"),
            Self::PerSecond(rate) => write!(f, "R{rate}"),
        }
    }
}

impl Rate {
    fn in_words(self) -> String {
        match self {
            Self::Share(share) => format!("{} % of the reference's capacity", share * 100.0),
            Self::PerSecond(rate) => format!("{rate} requests/s"),
        }
    }

    fn arrivals(self) -> Arrivals {
        match self {
            Self::Share(fraction) => Arrivals::Open { rate_rps: 0.0, fraction, capacity_rps: 0.0 },
            Self::PerSecond(rate_rps) => Arrivals::Open { rate_rps, fraction: 0.0, capacity_rps: 0.0 },
        }
    }
}

impl Variants {
    /// Returns the first of the flags that are given.
    pub(super) fn first_flag(&self) -> Option<&'static str> {
        let given = [
            ("--conns", !self.conns.is_empty()),
            ("--pipeline", !self.pipeline.is_empty()),
            ("--rate", !self.rate.is_empty()),
        ];
        given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }

    /// Every workload with every combination of the numbers; without any, as it is.
    pub(crate) fn of(&self, workloads: Vec<Workload>) -> Vec<Workload> {
        let mut varied: Vec<Workload> = Vec::new();
        for workload in workloads {
            for variant in self.of_one(&workload) {
                if varied.iter().all(|other| other.name != variant.name) {
                    varied.push(variant);
                }
            }
        }
        varied
    }

    /// Describes the load that an open loop offers; its own is `rate`, where it has one, or `fraction` of the capacity.
    pub(crate) fn shares(&self, fraction: f64, rate: Option<f64>) -> String {
        let default = [rate.map_or(Rate::Share(fraction), Rate::PerSecond)];
        let rates = if self.rate.is_empty() { &default } else { &*self.rate };
        rates.iter().map(|rate| rate.in_words()).collect::<Vec<_>>().join(", ")
    }

    fn of_one(&self, workload: &Workload) -> Vec<Workload> {
        let (connections, pipelines) = (or_own(&self.conns), or_own(&self.pipeline));
        let rates = if workload.is_open() { or_own(&self.rate) } else { vec![None] };
        let mut variants = Vec::new();
        for &connections in &connections {
            for &pipeline in &pipelines {
                variants.extend(rates.iter().map(|&rate| variant(workload, connections, pipeline, rate)));
            }
        }
        variants
    }

    /// Refuses numbers that none of the workloads can take.
    pub(crate) fn check<'a>(&self, all: impl Iterator<Item = (&'a Subject, &'a Workload)> + Clone) -> Result<()> {
        if !self.rate.is_empty() && !all.clone().any(|(_, workload)| workload.is_open()) {
            return Err(usage("--rate: none of the workloads that are left is an open loop"));
        }
        let pipelines = self.pipeline.iter().any(|&pipeline| pipeline > 1);
        if pipelines && !all.clone().any(|(subject, workload)| subject.pipelines(&workload.name)) {
            return Err(usage("--pipeline: none of the workloads that are left has several requests on a connection"));
        }
        Ok(())
    }
}

fn or_own<T: Copy>(given: &[T]) -> Vec<Option<T>> {
    if given.is_empty() { vec![None] } else { given.iter().copied().map(Some).collect() }
}

fn variant(own: &Workload, connections: Option<u32>, pipeline: Option<u32>, rate: Option<Rate>) -> Workload {
    let connections = connections.filter(|connections| *connections != own.connections);
    let pipeline = pipeline.filter(|pipeline| *pipeline != own.pipeline);
    let rate =
        rate.filter(|rate| !matches!(own.arrivals, Arrivals::Open { fraction, .. } if *rate == Rate::Share(fraction)));
    let parts: Vec<String> = [
        connections.map(|connections| format!("c{connections}")),
        pipeline.map(|pipeline| format!("P{pipeline}")),
        rate.map(|rate| rate.to_string()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        return own.clone();
    }
    let words: Vec<String> = [
        connections.map(|connections| format!("connections: {connections}")),
        pipeline.map(|pipeline| format!("outstanding on each: {pipeline}")),
        rate.map(|rate| format!("offered load: {}", rate.in_words())),
    ]
    .into_iter()
    .flatten()
    .collect();
    Workload {
        name: parts.iter().fold(own.name.clone(), |name, part| format!("{name}{VARIANT_MARK}{part}")),
        title: format!("{}; here {}", own.title, words.join(", ")),
        short: [format!("{} {}", own.short[0], own.short[1]), parts.join(" ")],
        connections: connections.unwrap_or(own.connections),
        pipeline: pipeline.unwrap_or(own.pipeline),
        arrivals: rate.map_or(own.arrivals, Rate::arrivals),
        ..own.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::subjects::{self, SUBJECTS},
        samples,
    };

    fn variants(conns: &[u32], pipeline: &[u32], rate: &[&str]) -> Variants {
        let rate = rate.iter().map(|text| text.parse().unwrap()).collect();
        Variants { conns: conns.to_vec(), pipeline: pipeline.to_vec(), rate }
    }

    fn timing() -> subjects::Timing {
        let (client_cpus, client_threads) = ("1".into(), 1);
        subjects::Timing { slice_s: 0.5, warmup_s: 0.3, max_warmup_s: None, client_cpus, client_threads }
    }

    fn names(variants: &Variants) -> Vec<String> {
        // A closed loop and an open one.
        variants.of(samples::setup().workloads[..2].to_vec()).into_iter().map(|workload| workload.name).collect()
    }

    #[test]
    fn workloads_are_crossed_only_with_variants_they_can_take() {
        assert_eq!(names(&Variants::default()), ["closed", "open"]);
        let (own, open) = (samples::setup().workloads[0].connections, "open");
        assert_eq!(names(&variants(&[own, 7], &[], &[])), ["closed", "closed@c7", open, "open@c7"]);
        assert_eq!(
            names(&variants(&[], &[], &["0.5x", "0.25x", "9000"])),
            ["closed", open, "open@0.25x", "open@R9000"]
        );
        let crossed = names(&variants(&[7, 8], &[2, 3], &["0.7x"]));
        assert_eq!(crossed.len(), 8);
        assert!(crossed.contains(&"open@c8@P3@0.7x".to_owned()), "{crossed:?}");
        assert_eq!(names(&variants(&[7, 7], &[], &[])).len(), 2, "each once");
        assert!(crossed.iter().all(|name| ["closed", open].contains(&subjects::plain(name))));
        assert!(crossed.iter().all(|name| !name.contains(['/', ' '])), "they are part of names of files");
    }

    #[test]
    fn a_variant_is_another_load_and_nothing_else() {
        let own = &samples::setup().workloads[1];
        let [variant] = &variants(&[7], &[3], &["20000"]).of(vec![own.clone()])[..] else { panic!("one") };
        assert_eq!((variant.connections, variant.pipeline), (7, 3));
        assert_eq!(variant.arrivals, Arrivals::Open { rate_rps: 20_000.0, fraction: 0.0, capacity_rps: 0.0 });
        assert!(
            variant.title.ends_with("; here connections: 7, outstanding on each: 3, offered load: 20000 requests/s")
        );
        let Workload { name, title, short, connections, pipeline, arrivals, .. } = own.clone();
        assert_eq!(Workload { name, title, short, connections, pipeline, arrivals, ..variant.clone() }, *own);
    }

    #[test]
    fn rates_that_are_none_are_refused() {
        for text in ["", "x", "0", "0x", "-1x", "NaN", "inf", "infx", "1e999", "50%", "1 x"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        assert_eq!("0.5x".parse(), Ok(Rate::Share(0.5)));
        assert_eq!("2e4".parse(), Ok(Rate::PerSecond(20_000.0)));
    }

    /// A server says the same of a workload and of its variants.
    #[test]
    fn every_server_knows_the_variants_of_its_workloads() {
        for subject in SUBJECTS.iter() {
            let names: Vec<String> = subject.workloads(false).into_iter().map(|workload| workload.name).collect();
            let own = subjects::select(subject, &names, &timing(), false);
            let other =
                subjects::select_with(subject, &names, &timing(), false, |own| variants(&[3], &[], &[]).of(own));
            assert_eq!(own.len(), other.len());
            for (own, other) in own.iter().zip(&other) {
                assert!(other.name.ends_with("@c3") && other.command.contains(" 3 "), "{}", other.command);
                let words = |workload: &Workload| workload.command.split(' ').count();
                assert_eq!(words(own), words(other), "{}: {}", own.name, other.command);
                assert_eq!(own.preload.is_some(), other.preload.is_some());
                let dimensions = ["driver", "store", "eviction", "strategy", "copy", "dispatch", "cache-map"];
                for dimension in dimensions {
                    assert_eq!(
                        subject.varies(&own.name, dimension),
                        subject.varies(&other.name, dimension),
                        "{}",
                        own.name
                    );
                }
                assert_eq!(subject.pipelines(&own.name), subject.pipelines(&other.name));
                assert_eq!(subject.listener(own), subject.listener(other));
            }
        }
    }

    #[test]
    fn a_chosen_rate_is_offered_and_a_share_is_of_capacity() {
        let (http, names) = (&SUBJECTS[0], ["get-128B-c64-open".to_owned()]);
        let rates = variants(&[], &[], &["20000", "0.25x"]);
        let mut workloads = subjects::select_with(http, &names, &timing(), false, |own| rates.of(own));
        subjects::calibrate(http, &mut workloads, "get-128B-c64", 100_000.0, &timing());
        let offered = [(20_000.0, 0.2), (25_000.0, 0.25)];
        for (workload, (rate_rps, fraction)) in workloads.iter().zip(offered) {
            assert_eq!(workload.arrivals, Arrivals::Open { rate_rps, fraction, capacity_rps: 100_000.0 });
            assert!(workload.command.contains(&format!(" -R {rate_rps} ")), "{}", workload.command);
        }
    }

    #[test]
    fn numbers_that_no_workload_can_take_are_bad_usage() {
        let (http, mq) = (&SUBJECTS[0], &SUBJECTS[4]);
        let workloads = samples::setup().workloads;
        let (closed, open) = (&workloads[0], &workloads[1]);
        let error = |variants: Variants, subject: &Subject, workload| {
            variants.check([(subject, workload)].into_iter()).err().map(|error| error.to_string())
        };
        assert!(error(variants(&[], &[], &["0.3x"]), http, closed).is_some_and(|error| error.starts_with("--rate: ")));
        assert_eq!(error(variants(&[], &[], &["0.3x"]), http, open), None);
        assert!(error(variants(&[], &[4], &[]), mq, closed).is_some_and(|error| error.starts_with("--pipeline: ")));
        assert_eq!(error(variants(&[9], &[1], &[]), mq, closed), None);
    }
}
