//! Names of workloads: a variant has the name of the one that it is made of, and a mark.

/// Mark between a workload's own name and what is different in a variant of it.
pub(crate) const VARIANT_MARK: char = '@';

/// Returns the name of the workload that this one is a variant of; its own, if it is none.
pub(crate) fn plain(workload: &str) -> &str {
    workload.split(VARIANT_MARK).next().unwrap_or(workload)
}

fn spec(workload: &str) -> Option<&'static servers::Workload> {
    servers::all().iter().find_map(|server| server.workload(plain(workload)))
}

/// True if the workload, or the one that it is a variant of, asks for a web site.
pub(crate) fn asks_for_site(workload: &str) -> bool {
    spec(workload).is_some_and(|spec| spec.web_site)
}

/// True if it comes over TLS.
pub(crate) fn has_tls(workload: &str) -> bool {
    spec(workload).is_some_and(|spec| spec.tls)
}

/// True if it speaks HTTP/2.
pub(crate) fn has_http2(workload: &str) -> bool {
    spec(workload).is_some_and(|spec| spec.http2)
}
