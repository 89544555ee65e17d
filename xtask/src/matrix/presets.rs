//! Named runs: which servers, which of their back ends, which workloads, and whose figures to quote beside them.
//!
//! Another preset is another entry of [`PRESETS`].

use super::filter::hint;
use super::model::{Quote, Quotes};

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

    const fn none(cell: &'static str, name: &'static str) -> Self {
        Self { cell, name, mean_ms: None, worst_ms: None, total_ms: None, rate_rps: None }
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
        about: "what the originals of fileserver, zerocopy and mq-server printed, quoted beside ours, and our best combinations below",
        scales: false,
        parts: &[FILES, CACHED, QUEUED],
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
        about: "two drivers of every server with one thread, two, and so on up to the cores of the machine",
        scales: true,
        parts: &[
            Part::new("http-server", "driver=epoll|uring,threads=*", &["get-128B-c64", "pipelined-16"]),
            Part::new("kvcache", "driver=epoll|uring,threads=*", &["get-P16", "set-P16"]),
            Part::new("fileserver", "driver=epoll|uring,threads=*", &["framed-10KB"]),
            Part::new("zerocopy", "driver=epoll|uring,threads=*", &["cached-26KB-c64"]),
        ],
    },
];

const FILES: Part = Part {
    server: "fileserver",
    filter: "driver=epoll,request-map=std,cache-map=std|none,eviction=mutex|none,backend=fs,layout=zotero;\
             driver=epoll|uring,request-map=slab,cache-map=hashbrown|sparse,eviction=lockfree,backend=fs,layout=zotero;\
             driver=epoll|uring,request-map=slab,cache-map=none,eviction=none,backend=fs,layout=zotero",
    workloads: &["original-10x30", "original-mixed"],
    quotes: Some(Quoted {
        source: "The original's own table: round trips of 10 requestors and 30 documents over loopback, on its author's machine, with documents that are not known. \
                 Its averages are too low: it cut each time down to whole milliseconds before it summed them; and it left out connecting and the end of the connection, \
                 which are counted here. Its documents and its machine being others, too, only its order can be compared.",
        workload: "original-10x30",
        rows: &[
            QuotedRow::times(
                "fileserver/epoll/request-map=std/cache-map=none/mutex",
                "epoll, umap, mutex, none, filesystem",
                0.51,
                26.26,
            ),
            QuotedRow::times(
                "fileserver/epoll/request-map=std/cache-map=std/mutex",
                "epoll, umap, mutex, umap, filesystem",
                1.10,
                46.33,
            ),
            QuotedRow::times(
                "fileserver/epoll/request-map=std/cache-map=none/eviction=none",
                "epoll, umap, none, none, filesystem",
                0.30,
                22.25,
            ),
            QuotedRow::times(
                "fileserver/epoll/request-map=std/cache-map=std/eviction=none",
                "epoll, umap, none, umap, filesystem",
                0.58,
                23.37,
            ),
        ],
    }),
};

const CACHED: Part = Part {
    server: "zerocopy",
    filter: "driver=epoll,strategy=sendfile|pipe|vmsplice|auto;driver=uring,strategy=auto|uring",
    workloads: &["cached-26KB-c500", "cached-26KB-c500-close"],
    quotes: Some(Quoted {
        source: "What ab printed for the original, a plugin of the web server Monkey: ab -c500 for a page of 26,510 bytes, a connection for each request, over loopback on its author's \
                 machine, with the plugin off (which is Monkey's sendfile) and on (a page of that size lay in a pipe). A time is that of a request with 500 under way.",
        workload: "cached-26KB-c500-close",
        rows: &[
            QuotedRow::rate("zerocopy/epoll/sendfile", "Monkey 1.3.0, without the cache plugin", 2_488.75, 200.904),
            QuotedRow::rate("zerocopy/epoll/pipe", "Monkey 1.3.0, with the cache plugin", 2_536.79, 197.1),
        ],
    }),
};

const QUEUED: Part = Part {
    server: "mq-server",
    filter: "dispatch=sequential|thread-per-request|handoff|pool,copy=read-write;dispatch=thread-per-request|pool|event,copy=splice|tee",
    workloads: &["large-20x-read", "large-20x-splice"],
    quotes: Some(Quoted {
        source: "What the original printed: how long it took until 20 clients had received and thrown away one file of 1.7 GiB, each answer copied through a buffer of 128 KiB, on its \
                 author's machine (four cores, server and clients on all of them; here each has one). Its pool 1 lost requests that came while all workers were busy. Here the file is as \
                 long, or 256 MiB with --quick; the clients read into a buffer of the same size.",
        workload: "large-20x-read",
        rows: &[
            QuotedRow::total("mq-server/sequential/read-write", "single-threaded", 11_043.2),
            QuotedRow::total("mq-server/thread-per-request/read-write", "multi-threaded (no thread pool)", 5_851.8),
            QuotedRow::total("mq-server/handoff/read-write", "multi-threaded (thread pool 1)", 5_843.2),
            QuotedRow::total("mq-server/pool/read-write", "multi-threaded (thread pool 2)", 5_891.3),
        ],
    }),
};

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
    use super::super::kinds::KINDS;
    use super::*;

    #[test]
    fn presets_name_servers_and_workloads_that_exist_and_quote_under_one_of_them() {
        for preset in &PRESETS {
            assert!(!preset.about.is_empty() && !preset.parts.is_empty());
            for part in preset.parts {
                let kind = KINDS.iter().find(|kind| kind.server() == part.server).expect(part.server);
                let known: Vec<String> = kind.workloads(false).into_iter().map(|workload| workload.name).collect();
                assert!(part.workloads.iter().all(|&name| known.iter().any(|it| it == name)), "{}", preset.name);
                if let Some(quotes) = part.quotes() {
                    assert!(part.workloads.contains(&quotes.workload.as_str()));
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
    }

    #[test]
    fn a_name_that_is_none_gets_a_hint() {
        assert!(Preset::named("sees").unwrap_err().contains("did you mean `seeds`?"));
    }
}
