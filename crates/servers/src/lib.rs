//! Descriptors of the servers: what `bench-matrix`, `fail-the-nth` and `cargo xtask` must know about each.
//!
//! A descriptor is data, `crates/<server>/bench.toml`, and stands next to its server. It is compiled in, so that a program
//! that only asks for names needs no server and no driver. [`all`] is the one list of servers; `docs/adding-a-server.md`
//! says how to add one. What holds for every server of a [`LoadKind`] is code of the programs that read this.
//!
//! This crate reads no file at run time, starts nothing and depends on no other crate of the workspace.

#![forbid(unsafe_code)]

mod descriptor;

use std::sync::LazyLock;

pub use self::descriptor::{
    Arrivals, Documents, FaultRun, Handshakes, LoadKind, PresetPart, Quotes, QuotesRow, Server, Smoke, Workload,
};

/// Descriptor of each server, in the order in which results are shown.
const DESCRIPTORS: &[(&str, &str)] = &[
    ("http-server", include_str!("../../http-server/bench.toml")),
    ("kvcache", include_str!("../../kvcache/bench.toml")),
    ("fileserver", include_str!("../../fileserver/bench.toml")),
    ("zerocopy", include_str!("../../zerocopy/bench.toml")),
    ("mq-server", include_str!("../../mq-server/bench.toml")),
];

/// Load generator, which is packed and built beside the servers.
pub const LOADGEN: &str = "loadgen";

static SERVERS: LazyLock<Vec<Server>> = LazyLock::new(|| {
    let parse = |(name, text): &(&str, &str)| {
        let server = Server::parse(text).unwrap_or_else(|error| panic!("crates/{name}/bench.toml: {error}"));
        assert_eq!(server.name, *name, "crates/{name}/bench.toml: another name");
        server
    };
    DESCRIPTORS.iter().map(parse).collect()
});

/// Returns all servers, in the order in which results are shown.
///
/// # Panics
/// A descriptor is malformed, which this crate's tests find.
pub fn all() -> &'static [Server] {
    &SERVERS
}

/// Returns the server of that name.
pub fn named(name: &str) -> Option<&'static Server> {
    all().iter().find(|server| server.name == name)
}

/// Returns the names of all programs that users run, sorted: the servers and the load generator.
pub fn programs() -> Vec<&'static str> {
    let mut programs: Vec<&str> = all().iter().map(|server| server.name.as_str()).chain([LOADGEN]).collect();
    programs.sort_unstable();
    programs
}

/// Replaces each `{name}` in the words by its value. A word without a placeholder stays as it is.
pub fn expand(words: &[String], values: &[(&str, &str)]) -> Vec<String> {
    let expand = |word: &String| {
        values.iter().fold(word.clone(), |word, (name, value)| word.replace(&format!("{{{name}}}"), value))
    };
    words.iter().map(expand).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LEAST: &str = r#"
        name = "x"
        load = "http"
        arguments = ["{site}"]
        calibration = "small"
        quick-note = "nothing is left out"
        quick-retry-budget-s = 60.0
        [defaults]
        connections = 8
        [[workloads]]
        name = "small"
        title = "a small file"
        short = ["small", "c8"]
        body-bytes = 128
        quick = true
        [[workloads]]
        name = "many"
        title = "a small file, many connections"
        short = ["small", "c900"]
        body-bytes = 128
        connections = 900
        [smoke]
        filters = ["driver=epoll"]
        workloads = ["small"]
        [[faults]]
    "#;

    #[test]
    fn every_descriptor_is_well_formed() {
        assert_eq!(all().len(), DESCRIPTORS.len());
        let names: Vec<&str> = all().iter().flat_map(|server| &server.workloads).map(|it| it.name.as_str()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "workload names are unique over all");
        assert_eq!(programs().len(), DESCRIPTORS.len() + 1);
    }

    #[test]
    fn a_workload_has_the_defaults_it_does_not_override() {
        let server = Server::parse(LEAST).unwrap();
        assert_eq!(server.workloads.iter().map(|it| it.connections).collect::<Vec<_>>(), [8, 900]);
        assert_eq!(server.workload("small").unwrap().varies, None);
        assert!(server.workload("none").is_none());
    }

    #[test]
    fn what_is_unknown_or_missing_is_refused() {
        for (from, to, expected) in [
            ("quick = true", "quik = true", "quik"),
            ("load = \"http\"", "load = \"https\"", "https"),
            ("load = \"http\"", "load = \"kv\"", "protocol"),
            ("load = \"http\"", "load = \"file\"", "documents"),
            ("load = \"http\"", "load = \"mq\"", "sink"),
            ("calibration = \"small\"", "calibration = \"smal\"", "calibration"),
            ("connections = 900", "rate = 100.0", "open loop"),
            ("workloads = [\"small\"]", "workloads = [\"smal\"]", "smoke"),
        ] {
            let error = Server::parse(&LEAST.replace(from, to)).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }

    #[test]
    fn placeholders_are_replaced_wherever_they_stand() {
        let words = ["--root", "{site}/memory", "{x}"].map(str::to_owned);
        assert_eq!(expand(&words, &[("site", "/s")]), ["--root", "/s/memory", "{x}"]);
    }
}
