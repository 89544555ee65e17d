//! Subjects and workloads by name.

use report::results_pages::KnownWorkload;
use results::Workload;

use super::{SUBJECTS, Subject};

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

impl Subject {
    /// Returns the requests per second that an open workload offers, where it is no fraction of the capacity.
    pub(crate) fn rate(&self, workload: &str) -> Option<f64> {
        self.spec(workload).and_then(|spec| spec.rate)
    }
}
