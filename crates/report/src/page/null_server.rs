//! Words about the null server. It answers with as little as can be, but copies what it sends: for small replies a
//! floor, for large ones not.

use results::{Comparison, Role};

use crate::matrix_view::View;

/// Bodies from here on cost more to copy than to hand over by sendfile or splice.
const LARGE_BYTES: u64 = 16 << 10;

/// Follows the sign, where every comparison has the same.
pub(super) fn head(view: &View<'_>, comparisons: &[&Comparison]) -> &'static str {
    let all = |holds: fn(&Comparison) -> bool| comparisons.iter().all(|comparison| holds(comparison));
    if view.summary.setup.quick || comparisons.is_empty() {
        "Beside the null server"
    } else if all(|comparison| !comparison.ratio.differs) {
        "Not told apart from the null server"
    } else if all(|comparison| comparison.ratio.differs && comparison.ratio.median > 1.0) {
        "Above the null server"
    } else if all(is_below) {
        "Below the null server"
    } else {
        "Beside the null server"
    }
}

fn is_below(comparison: &Comparison) -> bool {
    comparison.ratio.differs && comparison.ratio.median < 1.0
}

/// Why something that serves files costs less than something that does not; nothing where nothing does.
pub(super) fn why_below(view: &View<'_>, comparisons: &[&Comparison]) -> &'static str {
    let mut below = comparisons.iter().filter(|comparison| is_below(comparison)).peekable();
    if below.peek().is_none() {
        return "";
    }
    // What has a body to copy is told its size.
    let is_null_with_body = |id: &str| {
        view.cells().iter().any(|cell| cell.id == id && cell.role == Role::Null && cell.command.contains("--body-size"))
    };
    let is_large = |name: &str| {
        view.workloads().iter().any(|workload| workload.name == name && workload.body_bytes >= LARGE_BYTES)
    };
    if below.all(|comparison| is_null_with_body(&comparison.object) && is_large(&comparison.workload)) {
        " The null server copies its answer from memory, so for large bodies sendfile and splice need less."
    } else {
        " The null server is a simple program, not a lower bound."
    }
}
