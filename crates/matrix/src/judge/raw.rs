//! The lines of `visits.jsonl`, by which every figure can be traced.

use results::{VisitSource, record::Visit};
use sha2::{Digest as _, Sha256};

/// Returns the line of a visit, without its end.
pub(crate) fn line(visit: &Visit) -> serde_json::Result<String> {
    serde_json::to_string(visit)
}

/// Returns the SHA-256 digest in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns where a visit's figures can be looked up.
pub(crate) fn source(visit: &Visit) -> Option<VisitSource> {
    Some(VisitSource { slot: visit.slot, attempt: visit.attempt, sha256: digest(line(visit).ok()?.as_bytes()) })
}
