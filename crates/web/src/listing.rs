//! Listing of a directory, as a page or as JSON.

mod html;
mod json;
mod order;
mod pages;

use std::time::{Duration, UNIX_EPOCH};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sys::beneath::Entry;

pub(crate) use self::{
    order::{Format, View},
    pages::{Answer, Key, Listings, Page, Reader, relative},
};

/// Last second that a date with four digits of the year can name.
const SECONDS_MAX: u64 = 253_402_300_799;
/// Bytes that are escaped in a link to an entry: all but the unreserved ones (RFC 3986, section 2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Contents of a directory.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Normal path, with the slash at its end.
    pub(crate) path: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    /// There are more entries.
    pub(crate) is_truncated: bool,
}

impl Listing {
    /// Returns the names of the directories from the root to this one.
    fn names(&self) -> Vec<&[u8]> {
        self.path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect()
    }

    /// Renders the listing. The entries are in order already.
    pub(crate) fn render(&self, view: View) -> Vec<u8> {
        match view.format {
            Format::Html => html::render(self, view),
            Format::Json => json::render(self),
        }
    }
}

/// Returns the reference to an entry from its directory's own path.
fn href(name: &[u8], is_directory: bool) -> String {
    let mut reference = percent_encode(name, ESCAPED).to_string();
    if is_directory {
        reference.push('/');
    }
    reference
}

/// Returns whole seconds since the epoch; 0 before it.
fn seconds(modified_ns: i64) -> u64 {
    u64::try_from(modified_ns / 1_000_000_000).unwrap_or(0)
}

fn rfc3339(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds.min(SECONDS_MAX))).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_names_every_byte_and_is_harmless_in_a_page() {
        let entry = |name: &[u8], is_directory| Entry {
            name: name.to_vec(),
            is_directory,
            size: 12_345,
            modified_ns: 784_111_777_900_000_000,
        };
        let entries =
            vec![entry(b"a/..\n\"</script>\xff", false), entry(b"d\\", true), entry("\u{e9}".as_bytes(), false)];
        let listing = Listing { path: b"/<x>/".to_vec(), entries, is_truncated: false };
        let json = String::from_utf8(listing.render(View { format: Format::Json, ..View::default() })).unwrap();
        assert!(!json.contains('<'), "{json}");
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let modified = "1994-11-06T08:49:37Z";
        let want = serde_json::json!({
            "path": "/<x>/",
            "is_truncated": false,
            "entries": [
                { "name": "a/..\n\"</script>\u{fffd}", "url": "a%2F..%0A%22%3C%2Fscript%3E%FF", "type": "file", "size": 12_345, "modified": modified },
                { "name": "d\\", "url": "d%5C/", "type": "directory", "modified": modified },
                { "name": "\u{e9}", "url": "%C3%A9", "type": "file", "size": 12_345, "modified": modified },
            ],
        });
        assert_eq!(value, want);
        assert_eq!((rfc3339(u64::MAX), seconds(-1)), ("9999-12-31T23:59:59Z".into(), 0));
    }
}
