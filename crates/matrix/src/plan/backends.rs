//! Back ends of a server, as it lists them: `SERVER --list-backends --format json`, the only list of back ends there is.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use results::Connection;
use serde::Deserialize;

/// The dimension of `--preset scaling`, which no server lists.
pub(crate) const THREADS: &str = "threads";
pub(crate) const THREADS_FLAG: &str = "--threads";

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Backends {
    schema: u32,
    pub(crate) server: String,
    pub(crate) dimensions: Vec<Dimension>,
    #[serde(default)]
    pub(crate) invalid: Vec<Invalid>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dimension {
    pub(crate) name: String,
    pub(crate) flag: String,
    pub(crate) default: String,
    pub(crate) choices: Vec<Choice>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Choice {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) unavailable: Option<String>,
    /// Facts about a driver; no other choice has any.
    #[serde(default)]
    pub(crate) facts: Option<Facts>,
}

/// The part of a driver's facts that is used here.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Facts {
    connection: Connection,
    #[serde(default)]
    built_on: Option<String>,
    #[serde(default)]
    waits_in: Option<Wait>,
}

/// System call that a driver's threads sleep in.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Wait {
    Ring,
    RingPoll,
    #[serde(other)]
    Other,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Invalid {
    combination: BTreeMap<String, String>,
    reason: String,
}

/// One choice per dimension, in the order of the dimensions.
#[derive(Clone, Debug)]
pub(crate) struct Combination {
    /// Dimension → choice.
    pub(crate) factors: BTreeMap<String, String>,
    /// The flags that ask for it.
    pub(crate) flags: Vec<String>,
    /// The first dimension's choice, and those of the others that are not the default: what names it among its
    /// server's. Where dimensions have choices of the same name, with the dimension's name: `cache-map=std`.
    pub(crate) label: String,
    pub(crate) description: String,
    /// The dimensions in which it is not the default, but for those in which the others leave no default: no cache has
    /// nothing to evict.
    pub(crate) differs_in: Vec<String>,
    /// Reason that it cannot run here.
    pub(crate) unavailable: Option<String>,
    /// The dimensions whose choices do not go together, here or anywhere.
    pub(crate) conflict: Vec<String>,
    /// Place of a connection while it is served, where a driver was chosen.
    pub(crate) connection: Option<Connection>,
    /// Crate and ring flags of that driver.
    pub(crate) built_on: Option<String>,
}

impl Backends {
    /// Asks the server, and leaves out the dimensions that are `decided` elsewhere.
    pub(crate) fn ask(server: &Path, decided: &[String]) -> Result<Self> {
        let what = || format!("{} --list-backends", server.file_name().unwrap_or_default().to_string_lossy());
        let output = Command::new(server).args(["--list-backends", "--format", "json"]).output().with_context(what)?;
        if !output.status.success() {
            bail!("{}: {}: {}", what(), output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        let mut backends = Self::parse(&output.stdout).with_context(what)?;
        backends.dimensions.retain(|dimension| !decided.contains(&dimension.name));
        Ok(backends)
    }

    /// Adds a dimension: as many threads, and CPUs, as 1, 2, … `most`.
    pub(crate) fn scale(&mut self, most: usize) {
        let choice = |threads: usize| Choice {
            name: threads.to_string(),
            description: if threads == 1 {
                "one thread".to_owned()
            } else {
                format!("{threads} threads on as many CPUs")
            },
            unavailable: None,
            facts: None,
        };
        self.dimensions.push(Dimension {
            name: THREADS.to_owned(),
            flag: THREADS_FLAG.to_owned(),
            default: "1".to_owned(),
            choices: (1..=most).map(choice).collect(),
        });
    }

    fn parse(json: &[u8]) -> Result<Self> {
        let backends: Self = serde_json::from_slice(json).context("unexpected output")?;
        if backends.schema != 1 {
            bail!("schema {} is not known here", backends.schema);
        }
        Ok(backends)
    }

    /// True if one of the choices is a driver whose threads sleep in io_uring_enter(2).
    pub(crate) fn waits_in_ring(&self, factors: &BTreeMap<String, String>) -> bool {
        let chosen = self.dimensions.iter().filter_map(|dimension| {
            let name = factors.get(&dimension.name)?;
            dimension.choices.iter().find(|choice| choice.name == *name)?.facts.as_ref()
        });
        chosen.into_iter().any(|facts| matches!(facts.waits_in, Some(Wait::Ring | Wait::RingPoll)))
    }

    /// Every combination of one choice per dimension, in order.
    pub(crate) fn combinations(&self) -> Vec<Combination> {
        let nothing = Combination {
            factors: BTreeMap::new(),
            flags: Vec::new(),
            label: String::new(),
            description: String::new(),
            differs_in: Vec::new(),
            unavailable: None,
            conflict: Vec::new(),
            connection: None,
            built_on: None,
        };
        let mut combinations = vec![nothing];
        for dimension in &self.dimensions {
            combinations = combinations
                .iter()
                .flat_map(|combination| {
                    let with = |choice| combination.with(dimension, choice, &self.spelled(dimension, choice));
                    dimension.choices.iter().map(with)
                })
                .collect();
        }
        for combination in &mut combinations {
            if let Some(invalid) = self.why_invalid(&combination.factors) {
                combination.unavailable = Some(invalid.reason.clone());
                combination.conflict = invalid.combination.keys().cloned().collect();
            }
            combination.differs_in.retain(|dimension| !self.is_forced(dimension, &combination.factors));
        }
        combinations
    }

    fn spelled(&self, dimension: &Dimension, choice: &Choice) -> String {
        let mut named_alike =
            self.dimensions.iter().flat_map(|other| &other.choices).filter(|it| it.name == choice.name);
        match named_alike.nth(1) {
            // A number says nothing by itself.
            None if dimension.name == THREADS => format!("{}={}", dimension.name, choice.name),
            Some(_) => format!("{}={}", dimension.name, choice.name),
            None => choice.name.clone(),
        }
    }

    fn why_invalid(&self, factors: &BTreeMap<String, String>) -> Option<&Invalid> {
        self.invalid.iter().find(|invalid| invalid.matches(factors))
    }

    /// True if the other choices do not go together with the default of this dimension.
    fn is_forced(&self, dimension: &str, factors: &BTreeMap<String, String>) -> bool {
        let Some(default) = self.dimensions.iter().find(|it| it.name == dimension).map(|it| &it.default) else {
            return false;
        };
        if self.invalid.is_empty() || factors.get(dimension) == Some(default) {
            return false;
        }
        let mut usual = factors.clone();
        usual.insert(dimension.to_owned(), default.clone());
        self.why_invalid(&usual).is_some() && self.why_invalid(factors).is_none()
    }
}

impl Combination {
    fn with(&self, dimension: &Dimension, choice: &Choice, spelled: &str) -> Self {
        let join = |before: &str, separator: &str, more: &str| {
            if before.is_empty() { more.to_owned() } else { format!("{before}{separator}{more}") }
        };
        let mut next = self.clone();
        next.factors.insert(dimension.name.clone(), choice.name.clone());
        next.flags.extend([dimension.flag.clone(), choice.name.clone()]);
        if self.label.is_empty() || choice.name != dimension.default {
            next.label = join(&self.label, "/", spelled);
        }
        next.differs_in.extend((choice.name != dimension.default).then(|| dimension.name.clone()));
        next.description = join(&self.description, "; ", &choice.description);
        if let Some(facts) = &choice.facts {
            next.connection = self.connection.or(Some(facts.connection));
            next.built_on = self.built_on.clone().or_else(|| facts.built_on.clone());
        }
        next.unavailable = self.unavailable.clone().or_else(|| choice.unavailable.clone());
        next
    }
}

impl Invalid {
    fn matches(&self, factors: &BTreeMap<String, String>) -> bool {
        self.combination.iter().all(|(name, choice)| factors.get(name) == Some(choice))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Backends {
        let json = br#"{"schema": 1, "server": "http-server", "dimensions": [{"name": "driver", "flag": "--driver",
            "default": "epoll", "choices": [
              {"name": "blocking", "description": "a thread per connection", "unavailable": null, "facts": {"connection": "thread"}},
              {"name": "pool", "description": "workers", "unavailable": null, "facts": {"connection": "worker"}},
              {"name": "epoll", "description": "one loop", "unavailable": null},
              {"name": "uring", "description": "raw io_uring", "unavailable": "io_uring is disabled"}]}], "invalid": []}"#;
        Backends::parse(json).unwrap()
    }

    /// A file server: without a cache map there is nothing for the default eviction to do.
    pub(crate) fn files() -> Backends {
        let worker = Facts { connection: Connection::Worker, waits_in: None, built_on: None };
        let choice = |name: &str| Choice {
            name: name.to_owned(),
            description: name.to_owned(),
            unavailable: None,
            facts: (name == "pool").then(|| worker.clone()),
        };
        let dimension = |(name, choices): (&str, &[&str])| Dimension {
            name: name.to_owned(),
            flag: format!("--{name}"),
            default: choices[0].to_owned(),
            choices: choices.iter().map(|name| choice(name)).collect(),
        };
        let dimensions: [(&str, &[&str]); 6] = [
            ("driver", &["epoll", "pool", "uring"]),
            ("request-map", &["slab", "std"]),
            ("cache-map", &["hashbrown", "std", "none"]),
            ("eviction", &["lockfree", "mutex", "none"]),
            ("backend", &["fs", "sqlite"]),
            ("layout", &["zotero", "flat"]),
        ];
        let invalid = |pairs: [(&str, &str); 2]| Invalid {
            combination: pairs.map(|(name, choice)| (name.to_owned(), choice.to_owned())).into(),
            reason: "does not go together".to_owned(),
        };
        let invalid = [
            invalid([("cache-map", "none"), ("eviction", "lockfree")]),
            invalid([("backend", "sqlite"), ("layout", "flat")]),
        ];
        let (dimensions, invalid) = (dimensions.map(dimension).to_vec(), invalid.to_vec());
        Backends { schema: 1, server: "fileserver".to_owned(), dimensions, invalid }
    }

    /// A cache with four dimensions of two choices each.
    pub(crate) fn cache() -> Backends {
        let dimension = |(name, choices): (&str, [&str; 2])| Dimension {
            name: name.to_owned(),
            flag: format!("--{name}"),
            default: choices[0].to_owned(),
            choices: choices
                .map(|name| Choice {
                    name: name.to_owned(),
                    description: name.to_owned(),
                    unavailable: None,
                    facts: None,
                })
                .to_vec(),
        };
        let dimensions = [
            ("driver", ["epoll", "uring"]),
            ("store", ["packed", "std"]),
            ("eviction", ["allkeys-s3fifo", "allkeys-lru"]),
            ("compression", ["none", "zstd"]),
        ];
        let dimensions = dimensions.map(dimension).to_vec();
        Backends { schema: 1, server: "kvcache".to_owned(), dimensions, invalid: Vec::new() }
    }

    #[test]
    fn combinations_are_the_product_and_say_what_cannot_run() {
        let mut backends = sample();
        let choice =
            |name: &str| Choice { name: name.into(), description: name.into(), unavailable: None, facts: None };
        backends.dimensions.push(Dimension {
            name: "body".into(),
            flag: "--body".into(),
            default: "file".into(),
            choices: vec![choice("file"), choice("pipe")],
        });
        backends.invalid.push(Invalid {
            combination: [("driver".to_owned(), "pool".to_owned()), ("body".to_owned(), "pipe".to_owned())].into(),
            reason: "no pipes".into(),
        });
        let combinations = backends.combinations();
        assert_eq!(combinations.len(), 8);
        let find = |label: &str| combinations.iter().find(|combination| combination.label == label).unwrap();
        assert_eq!(find("epoll/pipe").flags, ["--driver", "epoll", "--body", "pipe"]);
        assert_eq!(find("epoll/pipe").unavailable, None);
        assert_eq!(find("pool/pipe").unavailable.as_deref(), Some("no pipes"));
        assert_eq!(find("pool").unavailable, None);
        assert_eq!(find("uring").unavailable.as_deref(), Some("io_uring is disabled"));
        assert!(find("epoll").differs_in.is_empty());
        assert_eq!(find("pool").differs_in, ["driver"]);
        assert_eq!(find("uring/pipe").differs_in, ["driver", "body"]);
    }

    #[test]
    fn a_forced_choice_is_no_difference_of_its_own() {
        let combinations = files().combinations();
        assert_eq!(combinations.len(), 3 * 2 * 3 * 3 * 2 * 2);
        let labels: std::collections::BTreeSet<&str> =
            combinations.iter().map(|combination| combination.label.as_str()).collect();
        assert_eq!(labels.len(), combinations.len(), "names are unique though maps are named alike");
        let find = |label: &str| combinations.iter().find(|combination| combination.label == label).unwrap();
        for label in ["epoll/cache-map=none/eviction=none", "epoll/cache-map=none/mutex"] {
            assert!(find(label).conflict.is_empty() && find(label).differs_in == ["cache-map"], "{label}");
        }
        assert_eq!(find("epoll/cache-map=none").conflict, ["cache-map", "eviction"]);
        assert_eq!(find("epoll/request-map=std").differs_in, ["request-map"]);
        assert_eq!(find("epoll/eviction=none").differs_in, ["eviction"]);
        assert_eq!(find("epoll/cache-map=std/eviction=none").differs_in, ["cache-map", "eviction"]);
    }

    #[test]
    fn another_schema_or_garbage_is_an_error() {
        assert!(Backends::parse(br#"{"schema": 2, "server": "x", "dimensions": []}"#).is_err());
        assert!(Backends::parse(b"usage: x").is_err());
    }
}
