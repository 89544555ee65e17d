//! Named runs: which servers, which of their back ends, which workloads, and whose figures to quote beside them. What a
//! preset says of one server stands in that server's descriptor.

use results::{Quote, Quotes};
use servers::PresetPart;

use crate::plan::filter::hint;

/// A run by name. What it says, `--servers`, `--filter` and `--workload` would say.
#[derive(Debug)]
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// True if the number of threads is a dimension, from one to as many as there are cores.
    pub(crate) scales: bool,
}

pub(crate) static PRESETS: [Preset; 12] = [
    Preset {
        name: "seeds",
        about: "what the original of each of the five servers printed, quoted beside ours, and our best combinations below",
        scales: false,
    },
    Preset {
        name: "drivers",
        about: "every driver of every server, of mq-server every dispatch, the rest its default, under small requests, closed and open loop",
        scales: false,
    },
    Preset {
        name: "stores",
        about: "where things are kept: kvcache's stores, fileserver's maps and back ends, each alone",
        scales: false,
    },
    Preset {
        name: "strategies",
        about: "zerocopy's strategies over bodies from 128 bytes to 1 MiB, and mq-server's ways of copying",
        scales: false,
    },
    Preset {
        name: "tls",
        about: "what TLS and HTTP/2 cost on every driver of http-server, beside nginx, h2o and Caddy, handshakes included, and what TLS costs on those of kvcache, beside Redis",
        scales: false,
    },
    Preset {
        name: "h2",
        about: "what HTTP/2 costs on every driver of http-server, in the clear and with TLS, beside nginx, h2o and Caddy",
        scales: false,
    },
    Preset {
        name: "runtimes",
        about: "every driver of http-server with 1, 16, 64, 1,000 and 9,000 connections, small, middle and large bodies, pipelined, and in open loops at half and four fifths of the capacity",
        scales: false,
    },
    Preset {
        name: "unbalanced",
        about: "every driver of http-server with two threads, where a tenth of the connections carries nine tenths of the load, beside an even load",
        scales: true,
    },
    Preset {
        name: "idle",
        about: "what every driver of http-server needs for 9,000 connections that hardly ask, and for 1,000 requests/s",
        scales: false,
    },
    Preset {
        name: "threads",
        about: "every driver of http-server with one thread, two, and so on up to the cores of the machine",
        scales: true,
    },
    Preset {
        name: "handshakes",
        about: "a connection for each request on every driver of http-server, in the clear, with a full TLS handshake and with a resumed one",
        scales: false,
    },
    Preset {
        name: "scaling",
        about: "two drivers of every server that has event loops with one thread, two, and so on up to the cores of the machine",
        scales: true,
    },
];

impl Preset {
    /// Returns the preset that the command line names.
    ///
    /// # Errors
    /// There is none of that name.
    pub(crate) fn named(name: &str) -> Result<&'static Self, String> {
        PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
            let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            format!("no such preset; {}", hint(name, &names))
        })
    }

    /// Returns what it says of a server; `None` if it does not measure it.
    pub(crate) fn part(&self, server: &str) -> Option<&'static PresetPart> {
        servers::named(server)?.presets.get(self.name)
    }
}

/// Returns the figures that are quoted beside a preset's.
pub(crate) fn quotes(part: &PresetPart) -> Option<Quotes> {
    let quoted = part.quotes.as_ref()?;
    let rows = quoted.rows.iter().map(|row| Quote {
        cell: row.cell.clone(),
        name: row.name.clone(),
        workload: row.workload.clone(),
        mean_ms: row.mean_ms,
        worst_ms: row.worst_ms,
        total_ms: row.total_ms,
        rate_rps: row.rate_rps,
    });
    Some(Quotes { source: quoted.source.clone(), workload: quoted.workload.clone(), rows: rows.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_name_presets_and_workloads_that_exist() {
        for server in servers::all() {
            for (name, part) in &server.presets {
                Preset::named(name).unwrap();
                if let Some(quoted) = quotes(part) {
                    let under = quoted.rows.iter().filter_map(|row| row.workload.as_ref());
                    let mut under = under.chain([&quoted.workload]);
                    assert!(under.all(|name| part.workloads.contains(name)), "{}", server.name);
                }
            }
        }
    }

    #[test]
    fn the_originals_figures_are_quoted_as_it_printed_them() {
        let quoted = quotes(Preset::named("seeds").unwrap().part("fileserver").unwrap()).unwrap();
        let figures: Vec<(f64, f64)> =
            quoted.rows.iter().map(|row| (row.mean_ms.unwrap(), row.worst_ms.unwrap())).collect();
        assert_eq!(figures, [(0.51, 26.26), (1.10, 46.33), (0.30, 22.25), (0.58, 23.37)]);
        let quoted = quotes(Preset::named("seeds").unwrap().part("zerocopy").unwrap()).unwrap();
        let figures: Vec<(f64, f64)> =
            quoted.rows.iter().map(|row| (row.rate_rps.unwrap(), row.mean_ms.unwrap())).collect();
        assert_eq!(figures, [(2_488.75, 200.904), (2_536.79, 197.1)]);
        let quoted = quotes(Preset::named("seeds").unwrap().part("mq-server").unwrap()).unwrap();
        let figures: Vec<f64> = quoted.rows.iter().map(|row| row.total_ms.unwrap()).collect();
        assert_eq!(figures, [11_043.2, 5_851.8, 5_843.2, 5_891.3]);
        let quoted = quotes(Preset::named("seeds").unwrap().part("kvcache").unwrap()).unwrap();
        let figures: Vec<(&str, &str, f64)> = (quoted.rows.iter())
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
        let quoted = quotes(Preset::named("seeds").unwrap().part("http-server").unwrap()).unwrap();
        let figures: Vec<(&str, Option<f64>, Option<f64>)> =
            quoted.rows.iter().map(|row| (row.cell.as_str(), row.rate_rps, row.mean_ms)).collect();
        let expected = [
            ("http-server/pool", Some(4_601.36), Some(78.96)),
            ("http-server/epoll", Some(33_886.3), Some(71.94)),
            ("http-server/pool", None, None),
        ];
        assert_eq!(figures, expected);
    }

    #[test]
    fn seeds_has_every_original_and_presets_are_described() {
        let seeds = Preset::named("seeds").unwrap();
        let originals = || servers::all().iter().filter(|server| server.presets.contains_key(seeds.name));
        assert_eq!(originals().count(), 5, "a server that has no original has no part");
        for server in originals() {
            let quoted = seeds.part(&server.name).and_then(quotes).unwrap_or_else(|| panic!("{}", server.name));
            assert!(quoted.source.contains("machine"), "{}: whose machine, or that it is not known", server.name);
        }
        for preset in &PRESETS {
            assert!(servers::all().iter().any(|server| server.presets.contains_key(preset.name)), "{}", preset.name);
        }
        let page = std::fs::read_to_string(crate::workspace::root().join("docs/benchmarking.md")).unwrap();
        let help = <crate::Args as clap::CommandFactory>::command().render_long_help().to_string();
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
