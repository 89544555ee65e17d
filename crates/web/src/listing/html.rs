//! Listing as a page: without a script and without anything that is loaded from elsewhere.

use std::sync::LazyLock;

use base64::{Engine, prelude::BASE64_STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use sys::beneath::Entry;

use super::{
    Listing, href,
    order::{Column, Direction, View},
    rfc3339, seconds,
};

const STYLE: &str = include_str!("page.css");

/// Value of `Content-Security-Policy`: this style and the pictures in it, and nothing else.
pub(super) static CONTENT_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// Renders a listing.
pub(super) fn render(listing: &Listing, view: View) -> Vec<u8> {
    let path = shown(&listing.path);
    let names = listing.names();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Index of " (path) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    (breadcrumbs(&names))
                    h1 { @if let Some(last) = names.last() { (shown(last)) } @else { "Index of /" } }
                    p { (summary(listing)) }
                }
                main {
                    (table(listing, view, names.is_empty(), &path))
                    @if listing.entries.is_empty() { p.empty { "This folder is empty." } }
                }
                footer { "Times are in UTC. " a href="?format=json" { "JSON" } }
            }
        }
    };
    page.into_string().into_bytes()
}

fn breadcrumbs(names: &[&[u8]]) -> Markup {
    html! {
        nav aria-label="Breadcrumb" {
            ol {
                @for (depth, name) in [&b"Root"[..]].iter().chain(names).enumerate() {
                    li {
                        @if depth == names.len() { a href="./" aria-current="page" { (shown(name)) } }
                        @else { a href=("../".repeat(names.len() - depth)) { (shown(name)) } }
                    }
                }
            }
        }
    }
}

/// Counts what there is.
fn summary(listing: &Listing) -> String {
    let folders = listing.entries.iter().filter(|entry| entry.is_directory).count();
    let files = listing.entries.len() - folders;
    let bytes = listing.entries.iter().filter(|entry| !entry.is_directory).map(|entry| entry.size).sum();
    let counted = |count, noun| format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" });
    let counts = match (folders as u64, files as u64) {
        (0, 0) => "Empty".to_owned(),
        (folders, 0) => counted(folders, "folder"),
        (0, files) => format!("{}, {}", counted(files, "file"), human_size(bytes)),
        (folders, files) => {
            format!("{}, {}, {}", counted(folders, "folder"), counted(files, "file"), human_size(bytes))
        }
    };
    if listing.is_truncated { format!("{counts}. There are more, which are not shown.") } else { counts }
}

fn table(listing: &Listing, view: View, is_root: bool, path: &str) -> Markup {
    html! {
        table {
            caption { "Contents of " (path) }
            thead { tr { @for column in Column::ALL { (heading(column, view)) } } }
            tbody {
                @if !is_root { tr.u { td { a href="../" { "Parent folder" } } td {} td {} } }
                @for entry in &listing.entries { (row(entry)) }
            }
        }
    }
}

fn heading(column: Column, view: View) -> Markup {
    let title = match column {
        Column::Name => "Name",
        Column::Size => "Size",
        Column::Time => "Modified",
    };
    let is_sorted = column == view.column;
    let direction = match column {
        _ if is_sorted => view.direction.reversed(),
        Column::Name => Direction::Ascending,
        Column::Size | Column::Time => Direction::Descending,
    };
    let sorted = is_sorted.then_some(match view.direction {
        Direction::Ascending => "ascending",
        Direction::Descending => "descending",
    });
    let href = format!("?sort={}&order={}", column.word(), direction.word());
    html! { th scope="col" aria-sort=[sorted] { a href=(href) { (title) } } }
}

fn row(entry: &Entry) -> Markup {
    let name = shown(&entry.name);
    let time = rfc3339(seconds(entry.modified_ns));
    html! {
        tr.d[entry.is_directory] {
            td { a href=(href(&entry.name, entry.is_directory)) { (name) @if entry.is_directory { "/" } } }
            @if entry.is_directory { td { "–" } }
            @else { td title={ (grouped(entry.size)) " bytes" } { (human_size(entry.size)) } }
            td { time datetime=(time) { (&time[..10]) b { " " (&time[11..16]) } } }
        }
    }
}

/// Returns a name as text: bytes that are not UTF-8 are replaced, and control characters are shown as their pictures.
fn shown(name: &[u8]) -> String {
    let picture = |character: char| match character {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        // Marks that would turn the text around them.
        '\u{80}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        other => other,
    };
    String::from_utf8_lossy(name).chars().map(picture).collect()
}

/// Formats a size with three digits in decimal units, as most file managers do.
fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1e3, 0);
    // Not 1000 kB, which is 1.0 MB.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1e3, unit + 1);
    }
    let unit = UNITS[unit];
    if value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// Formats a number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short_and_exact_ones_have_commas() {
        for (bytes, human, exact) in [
            (0, "0 B", "0"),
            (999, "999 B", "999"),
            (1_000, "1.0 kB", "1,000"),
            (9_949, "9.9 kB", "9,949"),
            (9_999, "10 kB", "9,999"),
            (999_499, "999 kB", "999,499"),
            (999_500, "1.0 MB", "999,500"),
            (1_234_567_890, "1.2 GB", "1,234,567,890"),
            (u64::MAX, "18 EB", "18,446,744,073,709,551,615"),
        ] {
            assert_eq!((&*human_size(bytes), &*grouped(bytes)), (human, exact));
        }
    }

    #[test]
    fn names_are_text_and_never_markup() {
        assert_eq!(shown(b"a\nb\x7f\xff\xe2\x80\xae"), "a\u{240a}b\u{2421}\u{fffd}\u{fffd}");
        let hostile = b"\"><script>alert(1)</script>&amp;'\n".to_vec();
        let entries = vec![Entry { name: hostile.clone(), is_directory: true, size: 0, modified_ns: -5 }];
        let path = [b"/", &hostile[..], b"/x/"].concat();
        let page = render(&Listing { path, entries, is_truncated: true }, View::default());
        let page = String::from_utf8(page).unwrap();
        assert!(!page.contains("<script") && !page.contains("&amp;'\n"), "{page}");
        assert!(page.contains("&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;'\u{240a}/</a>"), "{page}");
        assert!(page.contains("href=\"%22%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E%26amp%3B%27%0A/\""), "{page}");
        assert!(page.contains("There are more, which are not shown."));
    }

    #[test]
    fn a_column_is_sorted_the_other_way_by_its_link() {
        let listing = Listing { path: b"/a/".to_vec(), entries: vec![], is_truncated: false };
        let page =
            |query: &str| String::from_utf8(render(&listing, View::new(query.as_bytes(), std::iter::empty()))).unwrap();
        let first = page("");
        assert!(first.contains("aria-sort=\"ascending\"><a href=\"?sort=name&amp;order=desc\">Name"), "{first}");
        assert!(first.contains("<th scope=\"col\"><a href=\"?sort=size&amp;order=desc\">Size"), "{first}");
        let other = page("sort=size&order=desc");
        assert!(other.contains("aria-sort=\"descending\"><a href=\"?sort=size&amp;order=asc\">Size"), "{other}");
        assert!(other.contains("<th scope=\"col\"><a href=\"?sort=name&amp;order=asc\">Name"), "{other}");
        assert!(first.contains("This folder is empty."));
    }
}
