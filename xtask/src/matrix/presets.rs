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

/// Figures from elsewhere for the cells of one workload: (cell, what it is called there, mean ms, worst ms).
#[derive(Debug)]
struct Quoted {
    source: &'static str,
    workload: &'static str,
    rows: &'static [(&'static str, &'static str, f64, f64)],
}

pub(crate) static PRESETS: [Preset; 1] = [Preset {
    name: "seeds",
    about: "the table of fileserver's original, its figures quoted beside ours, and our best combinations below",
    parts: &[Part {
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
                (
                    "fileserver/epoll/request-map=std/cache-map=none/mutex",
                    "epoll, umap, mutex, none, filesystem",
                    0.51,
                    26.26,
                ),
                (
                    "fileserver/epoll/request-map=std/cache-map=std/mutex",
                    "epoll, umap, mutex, umap, filesystem",
                    1.10,
                    46.33,
                ),
                (
                    "fileserver/epoll/request-map=std/cache-map=none/eviction=none",
                    "epoll, umap, none, none, filesystem",
                    0.30,
                    22.25,
                ),
                (
                    "fileserver/epoll/request-map=std/cache-map=std/eviction=none",
                    "epoll, umap, none, umap, filesystem",
                    0.58,
                    23.37,
                ),
            ],
        }),
    }],
}];

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
        let quote = |&(cell, name, mean_ms, worst_ms): &(&str, &str, f64, f64)| Quote {
            cell: cell.to_owned(),
            name: name.to_owned(),
            mean_ms,
            worst_ms,
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
        let figures: Vec<(f64, f64)> = quotes.rows.iter().map(|row| (row.mean_ms, row.worst_ms)).collect();
        assert_eq!(figures, [(0.51, 26.26), (1.10, 46.33), (0.30, 22.25), (0.58, 23.37)]);
    }

    #[test]
    fn a_name_that_is_none_gets_a_hint() {
        assert!(Preset::named("sees").unwrap_err().contains("did you mean `seeds`?"));
    }
}
