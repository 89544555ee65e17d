//! Listing as JSON.

use serde::Serialize;

use super::{Listing, href, rfc3339, seconds};

#[derive(Serialize)]
struct JsonListing<'a> {
    path: String,
    is_truncated: bool,
    entries: Vec<JsonEntry<'a>>,
}

#[derive(Serialize)]
struct JsonEntry<'a> {
    /// Bytes that are not UTF-8 are replaced; `url` has them all.
    name: std::borrow::Cow<'a, str>,
    url: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// Absent for a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    modified: String,
}

/// Renders a listing. No `<` is in it, so it is harmless in a page, too.
pub(super) fn render(listing: &Listing) -> Vec<u8> {
    let entries = listing.entries.iter().map(|entry| JsonEntry {
        name: String::from_utf8_lossy(&entry.name),
        url: href(&entry.name, entry.is_directory),
        kind: if entry.is_directory { "directory" } else { "file" },
        size: (!entry.is_directory).then_some(entry.size),
        modified: rfc3339(seconds(entry.modified_ns)),
    });
    let document = JsonListing {
        path: String::from_utf8_lossy(&listing.path).into_owned(),
        is_truncated: listing.is_truncated,
        entries: entries.collect(),
    };
    // Plain structures and strings: nothing in them can fail to be written.
    let json = serde_json::to_string(&document).unwrap_or_default();
    let mut json = if json.contains('<') { json.replace('<', "\\u003c") } else { json };
    json.push('\n');
    json.into_bytes()
}
