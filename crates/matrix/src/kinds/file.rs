//! `fileserver`: documents by id in two protocols, from files and from a database.

mod documents;
mod specs;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::Result;

use self::{
    documents::LAYOUT,
    specs::{FileSpec, SPECS},
};
use super::{
    super::{
        model::{Cell, Role, Workload},
        peers::{Peer, web},
        variants,
    },
    Kind, Target, Timing,
};

const ORIGINAL: &str = "original";
const SQLITE: &str = "sqlite";
const CHECK_CONNECTIONS: u32 = 4;
/// What the generator hashes in a second, once to know the documents and once to check them.
const CHECK_BYTES_PER_S: f64 = 500e6;
const MISS: &str = "--miss-ratio";

pub(super) struct FileServer;

impl FileSpec {
    fn named(name: &str) -> Option<&'static Self> {
        SPECS.iter().find(|spec| spec.spec.name == variants::plain(name))
    }

    fn workload(&self) -> Workload {
        let mut adds = vec!["--protocol".to_owned(), self.protocol.to_owned()];
        adds.extend(self.adds.iter().map(|&word| word.to_owned()));
        Workload {
            body_bytes: if self.is_missing() { 0 } else { self.documents.mean_bytes() },
            documents: Some(self.documents.count),
            repetitions: self.repetitions,
            adds,
            ..self.spec.workload()
        }
    }

    fn is_missing(&self) -> bool {
        self.asks.contains(&MISS)
    }

    /// `loadgen http` can ask for: every document, in turn, without a break.
    fn is_plain(&self) -> bool {
        self.asks.is_empty() && self.repetitions.is_none()
    }

    fn urls(&self, address: &str) -> impl Iterator<Item = String> {
        self.documents.paths().map(move |path| format!("http://{address}/{path}"))
    }

    /// How a server of files over HTTP is asked for the same.
    fn http_arguments(&self, target: &Target<'_>, verify: &[&str]) -> Vec<String> {
        let mut words: Vec<String> = verify.iter().map(|&word| word.to_owned()).collect();
        words.extend((self.protocol == ORIGINAL).then(|| "--no-keep-alive".to_owned()));
        words.extend(self.urls(target.address));
        words
    }

    fn file_arguments(&self, target: &Target<'_>, more: &[&str]) -> Vec<String> {
        let place = match target.role {
            Role::Null => self.documents.null_place(),
            Role::Ours | Role::Control | Role::Peer => self.documents.place(LAYOUT),
        };
        let place = format!("{}/{place}", target.site);
        let mut words: Vec<String> = ["--protocol", self.protocol].map(str::to_owned).to_vec();
        words.extend(more.iter().map(|&word| word.to_owned()));
        words.extend([target.address.to_owned(), place]);
        words
    }
}

impl Kind for FileServer {
    fn server(&self) -> &'static str {
        "fileserver"
    }

    fn load_command(&self, role: Role) -> &'static str {
        match role {
            Role::Peer => "http",
            Role::Ours | Role::Control | Role::Null => "file",
        }
    }

    fn decided(&self) -> &'static [&'static str] {
        &["protocol"]
    }

    fn workloads(&self, _is_quick: bool) -> Vec<Workload> {
        SPECS.iter().map(FileSpec::workload).collect()
    }

    fn is_quick(&self, workload: &str) -> bool {
        FileSpec::named(workload).is_some_and(|spec| spec.spec.is_quick)
    }

    fn is_usual(&self, workload: &str) -> bool {
        FileSpec::named(workload).is_some_and(|spec| spec.repetitions.is_none())
    }

    fn calibration(&self) -> &'static str {
        specs::CALIBRATION
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "Before each visit every document is asked for once and hashed; under load lengths are compared, as hashing would make the generator the limit. \
             Peers serve the same files over HTTP: with a connection for each request beside the original protocol, with keep-alive beside the framed one.",
        )
    }

    fn quick_note(&self) -> &'static str {
        "half of the workloads run"
    }

    fn quick_retry_budget_s(&self) -> f64 {
        135.0
    }

    fn peers(&self) -> &'static [&'static dyn Peer] {
        &web::NGINX
    }

    fn varies(&self, workload: &str, dimension: &str) -> bool {
        FileSpec::named(workload).is_some_and(|spec| spec.varies.contains(&dimension))
    }

    fn pipelines(&self, workload: &str) -> bool {
        FileSpec::named(workload).is_some_and(|spec| spec.protocol == "framed")
    }

    fn answers(&self, role: Role, _server: &str, workload: &Workload) -> bool {
        let Some(spec) = FileSpec::named(&workload.name) else { return false };
        match role {
            Role::Ours | Role::Control => true,
            // It finds every document.
            Role::Null => !spec.is_missing(),
            Role::Peer => spec.is_plain(),
        }
    }

    fn why_not(&self, _cell: &Cell, _workload: &Workload, _is_quick: bool) -> Option<String> {
        None
    }

    fn prepare(&self, cells: &[Cell], workloads: &[Workload], site: &Path, executable: &Path) -> Result<()> {
        let factor = |cell: &'_ Cell, name: &str| cell.factors.get(name).cloned();
        let layouts: BTreeSet<String> = cells.iter().filter_map(|cell| factor(cell, "layout")).collect();
        let layouts: Vec<&str> = layouts.iter().map(String::as_str).collect();
        let needs_database = cells.iter().any(|cell| factor(cell, "backend").is_some_and(|name| name == SQLITE));
        for spec in workloads.iter().filter_map(|workload| FileSpec::named(&workload.name)) {
            spec.documents.write(site, &layouts)?;
            if needs_database {
                spec.documents.import(site, executable)?;
            }
        }
        Ok(())
    }

    fn content_arguments(
        &self,
        factors: &BTreeMap<String, String>,
        workload: Option<&Workload>,
        site: &str,
    ) -> Vec<String> {
        let spec = workload.and_then(|workload| FileSpec::named(&workload.name));
        let is_database = factors.get("backend").is_some_and(|backend| backend == SQLITE);
        let layout = factors.get("layout").map_or(LAYOUT, String::as_str);
        let place = match (spec, is_database) {
            (Some(spec), true) => spec.documents.database(),
            (Some(spec), false) => spec.documents.place(layout),
            (None, true) => "documents/…/documents.db".to_owned(),
            (None, false) => format!("documents/…/{layout}"),
        };
        vec![format!("{site}/{place}")]
    }

    fn null_arguments(&self, bytes: &str, _site: &str) -> Vec<String> {
        ["null", "--protocol", "file", "--listen", "127.0.0.1:0", "--body-size", bytes].map(str::to_owned).to_vec()
    }

    fn listener(&self, _workload: &Workload) -> usize {
        0
    }

    fn load_arguments(&self, target: &Target<'_>) -> Vec<String> {
        let Some(spec) = FileSpec::named(&target.workload.name) else { return Vec::new() };
        let verify = ["--verify", "length"];
        match target.role {
            Role::Peer => spec.http_arguments(target, &verify),
            // It has one document, which no order changes.
            Role::Null => spec.file_arguments(target, &verify),
            Role::Ours | Role::Control => spec.file_arguments(target, &[&verify[..], spec.asks].concat()),
        }
    }

    fn preload_arguments(&self, target: &Target<'_>, timing: &Timing) -> Vec<String> {
        let Some(spec) = FileSpec::named(&target.workload.name) else { return Vec::new() };
        let mut words = vec![self.load_command(target.role).to_owned()];
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        flag("-n", spec.documents.count.to_string());
        flag("-c", CHECK_CONNECTIONS.to_string());
        // One thread goes through the documents without leaving one out.
        flag("-t", "1".to_owned());
        flag("--pin", timing.client_cpus.clone());
        flag("--format", "json".to_owned());
        let verify = ["--verify", "sha256"];
        words.extend(match target.role {
            Role::Peer => spec.http_arguments(target, &[&verify[..], &["--content-dir", target.site]].concat()),
            Role::Ours | Role::Control | Role::Null => {
                spec.file_arguments(target, &[&verify[..], &["--id-dist", "sequential"]].concat())
            }
        });
        words
    }

    fn preload_s(&self, workload: &Workload) -> f64 {
        let bytes = FileSpec::named(&workload.name)
            .map_or(0.0, |spec| spec.documents.mean_bytes() as f64 * f64::from(spec.documents.count));
        2.0 * bytes / CHECK_BYTES_PER_S
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
