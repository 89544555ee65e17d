//! Named runs: which servers, which of their back ends, which workloads, and whose figures to quote beside them.
//!
//! Another preset is another entry of [`PRESETS`].

mod seeds;

use super::{
    filter::hint,
    model::{Quote, Quotes},
};

/// A run by name. What it says, `--servers`, `--filter` and `--workload` would say.
#[derive(Debug)]
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The number of threads is a dimension, from one to as many as there are cores.
    pub(crate) scales: bool,
    parts: &'static [Part],
}

/// What a preset wants of one server.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) server: &'static str,
    /// As `--filter` takes it.
    pub(crate) filter: &'static str,
    pub(crate) workloads: &'static [&'static str],
    quotes: Option<Quoted>,
}

/// Figures from elsewhere for the cells of one workload.
#[derive(Debug)]
struct Quoted {
    source: &'static str,
    workload: &'static str,
    rows: &'static [QuotedRow],
}

/// As [`Quote`].
#[derive(Debug)]
struct QuotedRow {
    cell: &'static str,
    name: &'static str,
    /// Where it is not that of all.
    workload: Option<&'static str>,
    mean_ms: Option<f64>,
    worst_ms: Option<f64>,
    total_ms: Option<f64>,
    rate_rps: Option<f64>,
}

impl QuotedRow {
    const fn times(cell: &'static str, name: &'static str, mean_ms: f64, worst_ms: f64) -> Self {
        Self { mean_ms: Some(mean_ms), worst_ms: Some(worst_ms), ..Self::none(cell, name) }
    }

    const fn rate(cell: &'static str, name: &'static str, rate_rps: f64, mean_ms: f64) -> Self {
        Self { mean_ms: Some(mean_ms), rate_rps: Some(rate_rps), ..Self::none(cell, name) }
    }

    const fn total(cell: &'static str, name: &'static str, total_ms: f64) -> Self {
        Self { total_ms: Some(total_ms), ..Self::none(cell, name) }
    }

    const fn throughput(workload: &'static str, cell: &'static str, name: &'static str, rate_rps: f64) -> Self {
        Self { workload: Some(workload), rate_rps: Some(rate_rps), ..Self::none(cell, name) }
    }

    const fn none(cell: &'static str, name: &'static str) -> Self {
        Self { cell, name, workload: None, mean_ms: None, worst_ms: None, total_ms: None, rate_rps: None }
    }
}

impl Part {
    const fn new(server: &'static str, filter: &'static str, workloads: &'static [&'static str]) -> Self {
        Self { server, filter, workloads, quotes: None }
    }
}

pub(crate) static PRESETS: [Preset; 5] = [
    Preset {
        name: "seeds",
        about: "what the original of each of the five servers printed, quoted beside ours, and our best combinations below",
        scales: false,
        parts: &[seeds::SERVED, seeds::STORED, seeds::FILES, seeds::CACHED, seeds::QUEUED],
    },
    Preset {
        name: "drivers",
        about: "every driver of every server, of mq-server every dispatch, the rest its default, under small requests, closed and open loop",
        scales: false,
        parts: &[
            Part::new(
                "http-server",
                "driver=*",
                &["get-128B-c64", "get-128B-c64-open", "get-26KB-c64", "pipelined-16"],
            ),
            Part::new("kvcache", "driver=*", &["get-P1", "get-P1-open", "get-P16", "set-P16"]),
            Part::new(
                "fileserver",
                "driver=*",
                &["original-10KB", "framed-10KB", "framed-10KB-open", "framed-10KB-P16"],
            ),
            Part::new("zerocopy", "driver=*", &["cached-26KB-c64", "cached-26KB-c64-open"]),
            Part::new("mq-server", "dispatch=*", &["small-4KiB", "small-4KiB-open"]),
        ],
    },
    Preset {
        name: "stores",
        about: "where things are kept: kvcache's stores, fileserver's maps and back ends, each alone",
        scales: false,
        parts: &[
            Part::new("kvcache", "store=*", &["get-P16", "get-P100", "set-P16", "set-P100"]),
            Part::new(
                "fileserver",
                "request-map=*;cache-map=*;backend=*",
                &["original-10KB-zipf", "framed-10KB", "framed-10KB-P16"],
            ),
        ],
    },
    Preset {
        name: "strategies",
        about: "zerocopy's strategies over bodies from 128 bytes to 1 MiB, and mq-server's ways of copying",
        scales: false,
        parts: &[
            Part::new(
                "zerocopy",
                "strategy=*",
                &["cached-128B-c64", "cached-4KiB-c64", "cached-26KB-c64", "cached-100KB-c64", "cached-1MiB-c16"],
            ),
            Part::new("mq-server", "copy=*", &["small-4KiB", "files-1MiB"]),
        ],
    },
    Preset {
        name: "scaling",
        about: "two drivers of every server that has event loops with one thread, two, and so on up to the cores of the machine",
        scales: true,
        parts: &[
            Part::new("http-server", "driver=epoll|uring,threads=*", &["get-128B-c64", "pipelined-16"]),
            Part::new("kvcache", "driver=epoll|uring,threads=*", &["get-P16", "set-P16"]),
            Part::new("fileserver", "driver=epoll|uring,threads=*", &["framed-10KB"]),
            Part::new("zerocopy", "driver=epoll|uring,threads=*", &["cached-26KB-c64"]),
        ],
    },
];

impl Preset {
    /// As the command line names it.
    ///
    /// # Errors
    /// There is none of that name.
    pub(crate) fn named(name: &str) -> Result<&'static Self, String> {
        PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
            let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            format!("no such preset; {}", hint(name, &names))
        })
    }

    pub(crate) fn part(&self, server: &str) -> Option<&'static Part> {
        self.parts.iter().find(|part| part.server == server)
    }
}

impl Part {
    pub(crate) fn quotes(&self) -> Option<Quotes> {
        let quoted = self.quotes.as_ref()?;
        let quote = |row: &QuotedRow| Quote {
            cell: row.cell.to_owned(),
            name: row.name.to_owned(),
            workload: row.workload.map(str::to_owned),
            mean_ms: row.mean_ms,
            worst_ms: row.worst_ms,
            total_ms: row.total_ms,
            rate_rps: row.rate_rps,
        };
        Some(Quotes {
            source: quoted.source.to_owned(),
            workload: quoted.workload.to_owned(),
            rows: quoted.rows.iter().map(quote).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::kinds::KINDS, *};

    #[test]
    fn presets_name_servers_and_workloads_that_exist_and_quote_under_one_of_them() {
        for preset in &PRESETS {
            assert!(!preset.about.is_empty() && !preset.parts.is_empty());
            for part in preset.parts {
                let kind = KINDS.iter().find(|kind| kind.server() == part.server).expect(part.server);
                let known: Vec<String> = kind.workloads(false).into_iter().map(|workload| workload.name).collect();
                assert!(part.workloads.iter().all(|&name| known.iter().any(|it| it == name)), "{}", preset.name);
                if let Some(quotes) = part.quotes() {
                    let under = quotes.rows.iter().filter_map(|row| row.workload.as_deref());
                    let mut under = under.chain([quotes.workload.as_str()]);
                    assert!(under.all(|name| part.workloads.contains(&name)), "{}", part.server);
                }
            }
        }
    }

    #[test]
    fn the_originals_figures_are_quoted_as_it_printed_them() {
        let quotes = Preset::named("seeds").unwrap().part("fileserver").unwrap().quotes().unwrap();
        let figures: Vec<(f64, f64)> =
            quotes.rows.iter().map(|row| (row.mean_ms.unwrap(), row.worst_ms.unwrap())).collect();
        assert_eq!(figures, [(0.51, 26.26), (1.10, 46.33), (0.30, 22.25), (0.58, 23.37)]);
        let quotes = Preset::named("seeds").unwrap().part("zerocopy").unwrap().quotes().unwrap();
        let figures: Vec<(f64, f64)> =
            quotes.rows.iter().map(|row| (row.rate_rps.unwrap(), row.mean_ms.unwrap())).collect();
        assert_eq!(figures, [(2_488.75, 200.904), (2_536.79, 197.1)]);
        let quotes = Preset::named("seeds").unwrap().part("mq-server").unwrap().quotes().unwrap();
        let figures: Vec<f64> = quotes.rows.iter().map(|row| row.total_ms.unwrap()).collect();
        assert_eq!(figures, [11_043.2, 5_851.8, 5_843.2, 5_891.3]);
        let quotes = Preset::named("seeds").unwrap().part("kvcache").unwrap().quotes().unwrap();
        let figures: Vec<(&str, &str, f64)> = (quotes.rows.iter())
            .map(|row| (row.workload.as_deref().unwrap(), row.cell.split('/').next().unwrap(), row.rate_rps.unwrap()))
            .collect();
        let expected = [
            ("original-get", "kvcache", 100_000.0),
            ("original-get", "redis", 120_000.0),
            ("original-get-P100", "kvcache", 1_500_000.0),
            ("original-get-P100", "redis", 900_000.0),
            ("original-set-P100", "kvcache", 1_000_000.0),
            ("original-set-P100", "redis", 650_000.0),
            ("original-del-P100", "kvcache", 1_500_000.0),
            ("original-del-P100", "redis", 900_000.0),
            ("original-workflow-P100", "kvcache", 3_000_000.0),
            ("original-workflow-P100", "redis", 1_250_000.0),
        ];
        assert_eq!(figures, expected);
        let quotes = Preset::named("seeds").unwrap().part("http-server").unwrap().quotes().unwrap();
        let figures: Vec<(&str, Option<f64>, Option<f64>)> =
            quotes.rows.iter().map(|row| (row.cell.as_str(), row.rate_rps, row.mean_ms)).collect();
        let expected = [
            ("http-server/pool", Some(4_601.36), Some(78.96)),
            ("http-server/epoll", Some(33_886.3), Some(71.94)),
            ("http-server/pool", None, None),
        ];
        assert_eq!(figures, expected);
    }

    #[test]
    fn seeds_has_the_table_of_each_original_and_the_presets_are_all_described() {
        let seeds = Preset::named("seeds").unwrap();
        for kind in KINDS {
            let part = seeds.part(kind.server()).unwrap_or_else(|| panic!("no part of {}", kind.server()));
            let quotes = part.quotes().unwrap_or_else(|| panic!("no quotes of {}", kind.server()));
            assert!(
                quotes.source.contains("machine"),
                "{}: whose machine it was, or that it is not known",
                part.server
            );
        }
        let page = std::fs::read_to_string(crate::workspace::root().join("docs/benchmarking.md")).unwrap();
        let help = <super::super::Args as clap::CommandFactory>::command().render_long_help().to_string();
        for preset in &PRESETS {
            assert!(page.contains(&format!("| `{}` |", preset.name)), "docs/benchmarking.md: {}", preset.name);
            assert!(help.contains(&format!("`{}`", preset.name)), "--help: {}", preset.name);
        }
    }

    #[test]
    fn a_name_that_is_none_gets_a_hint() {
        assert!(Preset::named("sees").unwrap_err().contains("did you mean `seeds`?"));
    }
}
