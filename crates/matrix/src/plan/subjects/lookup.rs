//! Subjects and workloads by name.

use report::results_pages::KnownWorkload;
use results::Workload;

use super::{SUBJECTS, Subject};

/// Mark between a workload's own name and what is different in a variant of it.
pub(crate) const VARIANT_MARK: char = '@';

/// Returns the name of the workload that this one is a variant of; its own, if it is none.
pub(crate) fn plain(workload: &str) -> &str {
    workload.split(VARIANT_MARK).next().unwrap_or(workload)
}

/// True if the workload, or the one that it is a variant of, asks for a web site.
pub(crate) fn asks_for_site(workload: &str) -> bool {
    servers::all().iter().filter_map(|server| server.workload(plain(workload))).any(|workload| workload.web_site)
}

/// Returns the subject of that name.
pub(crate) fn named(server: &str) -> Option<&'static Subject> {
    SUBJECTS.iter().find(|subject| subject.server() == server)
}

/// Returns the workloads of a server, in their order; none for a name that is none of ours.
pub(crate) fn known_workloads(server: &str) -> Vec<KnownWorkload> {
    let Some(subject) = named(server) else { return Vec::new() };
    let known = |workload: Workload| KnownWorkload {
        is_usual: subject.is_usual(&workload.name),
        is_quick: subject.is_quick(&workload.name),
        name: workload.name,
    };
    subject.workloads(false).into_iter().map(known).collect()
}

/// Returns the names of the servers that can be measured.
pub(crate) fn names() -> Vec<&'static str> {
    SUBJECTS.iter().map(Subject::server).collect()
}
