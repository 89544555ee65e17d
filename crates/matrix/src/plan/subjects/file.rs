//! Load kind `file`: documents by id in two protocols, from files and from a database.

mod documents;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::Result;
use results::{Cell, Role, Workload};
use servers::{Server, Workload as Spec};

use self::documents::{Documents, LAYOUT};
use super::{Load, Target, Timing, base, plain, words};

const ORIGINAL: &str = "original";
const SQLITE: &str = "sqlite";
const CHECK_CONNECTIONS: u32 = 4;
/// Bytes that the generator hashes in a second, once to know the documents and once to check them.
const CHECK_BYTES_PER_S: f64 = 500e6;
const MISS: &str = "--miss-ratio";

pub(super) struct File;

fn documents<'a>(server: &'a Server, spec: &Spec) -> Option<Documents<'a>> {
    server.documents_of(spec).map(Documents)
}

fn protocol(spec: &Spec) -> &str {
    spec.protocol.as_deref().unwrap_or_default()
}

fn is_missing(spec: &Spec) -> bool {
    spec.load_arguments.iter().any(|word| word == MISS)
}

/// True if `loadgen http` can ask for the same: every document, in turn, without a break.
fn is_plain(spec: &Spec) -> bool {
    spec.load_arguments.is_empty() && spec.repetitions.is_none()
}

/// Returns the arguments that ask a server of files over HTTP for the same.
fn http_arguments(spec: &Spec, documents: Documents<'_>, target: &Target<'_>, verify: &[&str]) -> Vec<String> {
    let mut words: Vec<String> = verify.iter().map(|&word| word.to_owned()).collect();
    words.extend((protocol(spec) == ORIGINAL).then(|| "--no-keep-alive".to_owned()));
    words.extend(documents.paths().map(|path| format!("http://{}/{path}", target.address)));
    words
}

fn file_arguments(spec: &Spec, documents: Documents<'_>, target: &Target<'_>, more: &[&str]) -> Vec<String> {
    let place = match target.role {
        Role::Null => documents.null_place(),
        Role::Ours | Role::Control | Role::Peer => documents.place(LAYOUT),
    };
    let mut words = words(["--protocol", protocol(spec)]);
    words.extend(more.iter().map(|&word| word.to_owned()));
    words.extend([target.address.to_owned(), format!("{}/{place}", target.site)]);
    words
}

impl Load for File {
    fn command(&self, role: Role) -> &'static str {
        match role {
            Role::Peer => "http",
            Role::Ours | Role::Control | Role::Null => "file",
        }
    }

    fn workload(&self, server: &Server, spec: &Spec, _is_quick: bool) -> Workload {
        let documents = documents(server, spec);
        let mut adds = words(["--protocol", protocol(spec)]);
        adds.extend_from_slice(&spec.server_arguments);
        let mean_bytes = documents.filter(|_| !is_missing(spec)).map_or(0, Documents::mean_bytes);
        let count = documents.map(Documents::count);
        Workload { body_bytes: mean_bytes, documents: count, repetitions: spec.repetitions, adds, ..base(spec) }
    }

    fn pipelines(&self, spec: &Spec) -> bool {
        protocol(spec) != ORIGINAL
    }

    fn answers(&self, role: Role, _server: &str, spec: &Spec) -> bool {
        match role {
            Role::Ours | Role::Control => true,
            // It finds every document.
            Role::Null => !is_missing(spec),
            Role::Peer => is_plain(spec),
        }
    }

    fn prepare(
        &self,
        server: &Server,
        cells: &[Cell],
        workloads: &[Workload],
        site: &Path,
        executable: &Path,
    ) -> Result<()> {
        let factor = |cell: &'_ Cell, name: &str| cell.factors.get(name).cloned();
        let layouts: BTreeSet<String> = cells.iter().filter_map(|cell| factor(cell, "layout")).collect();
        let layouts: Vec<&str> = layouts.iter().map(String::as_str).collect();
        let needs_database = cells.iter().any(|cell| factor(cell, "backend").is_some_and(|name| name == SQLITE));
        let specs = workloads.iter().filter_map(|workload| server.workload(plain(&workload.name)));
        for documents in specs.filter_map(|spec| documents(server, spec)) {
            documents.write(site, &layouts)?;
            if needs_database {
                documents.import(site, executable)?;
            }
        }
        Ok(())
    }

    fn places(
        &self,
        server: &Server,
        factors: &BTreeMap<String, String>,
        spec: Option<&Spec>,
        site: &str,
    ) -> Vec<(&'static str, String)> {
        let is_database = factors.get("backend").is_some_and(|backend| backend == SQLITE);
        let layout = factors.get("layout").map_or(LAYOUT, String::as_str);
        let place = match (spec.and_then(|spec| documents(server, spec)), is_database) {
            (Some(documents), true) => documents.database(),
            (Some(documents), false) => documents.place(layout),
            (None, true) => "documents/…/documents.db".to_owned(),
            (None, false) => format!("documents/…/{layout}"),
        };
        vec![("documents", format!("{site}/{place}"))]
    }

    fn null_arguments(&self, bytes: &str, _site: &str) -> Vec<String> {
        words(["null", "--protocol", "file", "--listen", "127.0.0.1:0", "--body-size", bytes])
    }

    fn load_arguments(&self, server: &Server, spec: &Spec, target: &Target<'_>) -> Vec<String> {
        let Some(documents) = documents(server, spec) else { return Vec::new() };
        let verify = ["--verify", "length"];
        match target.role {
            Role::Peer => http_arguments(spec, documents, target, &verify),
            // It has one document, which no order changes.
            Role::Null => file_arguments(spec, documents, target, &verify),
            Role::Ours | Role::Control => {
                let more = verify.into_iter().chain(spec.load_arguments.iter().map(String::as_str));
                file_arguments(spec, documents, target, &more.collect::<Vec<&str>>())
            }
        }
    }

    fn preload_arguments(&self, server: &Server, spec: &Spec, target: &Target<'_>, timing: &Timing) -> Vec<String> {
        let Some(documents) = documents(server, spec) else { return Vec::new() };
        let mut words = vec![self.command(target.role).to_owned()];
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        flag("-n", documents.count().to_string());
        flag("-c", CHECK_CONNECTIONS.to_string());
        // One thread goes through the documents without leaving one out.
        flag("-t", "1".to_owned());
        flag("--pin", timing.client_cpus.clone());
        flag("--format", "json".to_owned());
        let verify = ["--verify", "sha256"];
        words.extend(match target.role {
            Role::Peer => {
                http_arguments(spec, documents, target, &[&verify[..], &["--content-dir", target.site]].concat())
            }
            Role::Ours | Role::Control | Role::Null => {
                file_arguments(spec, documents, target, &[&verify[..], &["--id-dist", "sequential"]].concat())
            }
        });
        words
    }

    fn preload_s(&self, server: &Server, spec: &Spec, _workload: &Workload) -> f64 {
        let bytes = |documents: Documents<'_>| documents.mean_bytes() as f64 * f64::from(documents.count());
        2.0 * documents(server, spec).map_or(0.0, bytes) / CHECK_BYTES_PER_S
    }
}

#[cfg(test)]
mod tests;
